package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/compress"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

func quantiseCommand(a *app) *cobra.Command {
	o := compress.QuantiseOptions{Version: version.String(), Warn: a.warn}
	cmd := &cobra.Command{
		Use:   "quantise -c FILE --run-dir DIR",
		Short: "Convert a trained model to int8",
		Long: "Convert a trained model to int8: calibrate the scales of convolutions on\n" +
			"training data, and compare f32, bf16_products, int8 and, for networks pruned by\n" +
			"blocks, int8 without the blocks of zeros: bytes of weights, time of a forecast,\n" +
			"scores on the validation data, and the fraction of the skill score that is\n" +
			"retained. The result is a run directory for predict and verify.",
		Example: "  ensemble quantise -c quantise.yaml --run-dir runs/int8\n" +
			"  ensemble quantise -c quantise.yaml --run-dir int8 --set input_layers=false",
		Annotations: annotations("ensemble config explain --schema quantise, ensemble predict", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO),
		Args:        noArgs,
	}
	src := configFlagsOf(cmd, config.QuantiseSchema)
	overwrite := overwriteFlag(cmd.Flags())
	threads := threadsFlag(cmd.Flags())
	cmd.Flags().StringVar(&o.RunDir, "run-dir", "", "`DIR` of the int8 model")
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
		o.Progress, o.Timings = a.progress, setup.UserTimings(a.log)
		r, err := compress.Quantise(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r, outputs: r.Outputs, warnings: r.Warnings, logged: true}, nil
	})
	return cmd
}
