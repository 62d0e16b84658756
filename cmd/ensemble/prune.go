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

func pruneCommand(a *app) *cobra.Command {
	o := run.PruneOptions{Version: version.Version, Warn: a.warn, Stop: func() error { return a.flag.Err() }}
	cmd := &cobra.Command{
		Use:   "prune -c FILE --run-dir DIR",
		Short: "Make the network of a finished training smaller",
		Long: "Remove channels or weights of a trained network in rounds, with training on the\n" +
			"same data between them, and compare both networks: size, operations, time of a\n" +
			"forecast, scores on the validation starts. The run directory is that of a\n" +
			"training, and serves predict, verify and model export.",
		Example: "  ensemble prune -c prune.yaml --run-dir runs/small\n" +
			"  ensemble prune -c prune.yaml --run-dir runs/small --set prune.target=0.9\n" +
			"  ensemble prune -c prune.yaml --run-dir runs/small --resume auto",
		Annotations: notes("ensemble config explain --of prune, ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	src := configFlagsOf(cmd, config.PruneSchema)
	reporter := a.progressFlag(cmd.Flags())
	overwrite := overwriteFlag(cmd.Flags())
	threads := threadsFlag(cmd.Flags())
	cmd.Flags().StringVar(&o.RunDir, "run-dir", "", "`DIR` of the smaller network")
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
		if o.Config, err = config.LoadPrune(*src); err != nil {
			return result{}, err
		}
		if o.Progress, err = reporter(); err != nil {
			return result{}, err
		}
		defer o.Progress.Close()
		o.Timings = run.UserTimings(a.log)
		r, err := run.Prune(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r.Table, outputs: r.Outputs, warnings: r.Warnings, told: true, text: func(w io.Writer) error { return r.Table.Fprint(w) }}, nil
	})
	return cmd
}
