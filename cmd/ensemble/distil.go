package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

func distilCommand(a *app) *cobra.Command {
	o := run.DistilOptions{Version: version.Version, Warn: a.warn, Stop: func() error { return a.flag.Err() }}
	cmd := &cobra.Command{
		Use:   "distil -c FILE --run-dir DIR",
		Short: "Train a small network with finished ones as its teacher",
		Long: "Train a network on the data of finished trainings and on the distributions that\n" +
			"these predict, and compare all: size, operations, time of a forecast, scores on\n" +
			"the validation starts. The run directory is that of a training, and serves\n" +
			"predict, verify, prune and model export.",
		Example: "  ensemble distil -c distil.yaml --run-dir runs/student\n" +
			"  ensemble distil -c distil.yaml --run-dir runs/student --set model.base=4\n" +
			"  ensemble distil -c distil.yaml --run-dir runs/student --resume auto",
		Annotations: notes("ensemble config explain --of distil, ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	src := configFlagsOf(cmd, config.DistilSchema)
	reporter := a.progressFlag(cmd.Flags())
	overwrite := overwriteFlag(cmd.Flags())
	threads := threadsFlag(cmd.Flags())
	cmd.Flags().StringVar(&o.RunDir, "run-dir", "", "`DIR` of the student")
	cmd.Flags().StringVar(&o.Resume, "resume", "", "go on with a run: auto, or the number of a `STEP`")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) (result, error) {
		err := required(cmd, "run-dir")
		if err != nil {
			return result{}, err
		}
		policy, err := overwrite()
		if err != nil {
			return result{}, err
		}
		o.Overwrite, o.Threads = policy == "always", int(*threads)
		if o.Config, err = config.LoadDistil(*src); err != nil {
			return result{}, err
		}
		if o.Progress, err = reporter(); err != nil {
			return result{}, err
		}
		defer o.Progress.Close()
		o.Timings = run.UserTimings(a.log)
		r, err := run.Distil(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r.Table, outputs: r.Outputs, warnings: r.Warnings, told: true, text: func(w io.Writer) error { return r.Table.Fprint(w) }}, nil
	})
	return cmd
}
