package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/compress"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

func quantiseCommand(a *app) *cobra.Command {
	o := compress.QuantiseOptions{Version: version.String(), Warn: a.warn}
	cmd := &cobra.Command{
		Use:   "quantise -c FILE --run-dir DIR",
		Short: "Have the networks of a finished training predict in int8",
		Long: "Find on training dates the scales with which convolutions multiply codes of\n" +
			"eight bits, and compare predictions with them and without: bytes of weights,\n" +
			"time of a forecast, scores on the validation starts, gains that are kept. The\n" +
			"run directory is that of a training, and serves predict and verify.",
		Example: "  ensemble quantise -c quantise.yaml --run-dir runs/int8\n" +
			"  ensemble quantise -c quantise.yaml --run-dir runs/int8 --set input=false",
		Annotations: annotations("ensemble config explain --of quantise, ensemble predict", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO),
		Args:        noArgs,
	}
	src := configFlagsOf(cmd, config.QuantiseSchema)
	reporter := a.progressFlag(cmd.Flags())
	overwrite := overwriteFlag(cmd.Flags())
	threads := threadsFlag(cmd.Flags())
	cmd.Flags().StringVar(&o.RunDir, "run-dir", "", "`DIR` of the quantised networks")
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
		if o.Config, err = config.LoadQuantise(*src); err != nil {
			return result{}, err
		}
		if o.Progress, err = reporter(); err != nil {
			return result{}, err
		}
		defer o.Progress.Close()
		r, err := compress.Quantise(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r, outputs: r.Outputs, warnings: r.Warnings, logged: true}, nil
	})
	return cmd
}
