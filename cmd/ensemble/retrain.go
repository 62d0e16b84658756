package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/compress"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// retrainCommand completes a command that trains a network from finished runs and compares the
// networks (prune, distil): it adds the flags and RunE. whose names the new network in the help of
// --run-dir.
func retrainCommand[C any](a *app, cmd *cobra.Command, schema *config.Schema, whose string,
	load func(config.Sources) (C, error), work func(context.Context, C, compress.RetrainOptions) (*compress.RetrainResult, error)) *cobra.Command {
	o := compress.RetrainOptions{Version: version.String(), Warn: a.warn, Stop: func() error { return a.flag.Err() }}
	src := configFlagsOf(cmd, schema)
	overwrite := overwriteFlag(cmd.Flags())
	threads := threadsFlag(cmd.Flags())
	cmd.Flags().StringVar(&o.RunDir, "run-dir", "", "`DIR` of "+whose)
	cmd.Flags().StringVar(&o.Resume, "resume", "", "resume the run from its last checkpoint (auto) or from this `STEP`")
	cmd.RunE = a.runJob(func(ctx context.Context, _ []string) (result, error) {
		err := requireFlags(cmd, "run-dir")
		if err != nil {
			return result{}, err
		}
		policy, err := overwrite()
		if err != nil {
			return result{}, err
		}
		o.Overwrite, o.Threads = policy == "always", int(*threads)
		job, err := load(*src)
		if err != nil {
			return result{}, err
		}
		o.Progress = a.progress
		o.Timings = setup.UserTimings(a.log)
		r, err := work(ctx, job, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r.Table, outputs: r.Outputs, warnings: r.Warnings, logged: true}, nil
	})
	return cmd
}
