package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/run/draft"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func initCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init FILE...",
		Short: "Write the configuration of a first training from data files",
		Long: "Print the configuration of a first training for forecasts and analyses in the\n" +
			"files: variables, levels, leads, members, grid, and periods of training,\n" +
			"validation and test, as found in them. No values are read. Comments name what\n" +
			"else is in the files.",
		Example: "  ensemble init fc an > train.yaml\n" +
			"  ensemble init forecasts.nc analyses.nc > train.yaml\n" +
			"  ensemble init --target 2t --target tp fc an > train.yaml\n" +
			"  ensemble init --filename-pattern 'gep([0-9]+)' gefs an > train.yaml",
		Annotations: annotations("ensemble inspect, ensemble check, docs/data.md", exit.BadData, exit.NotYet, exit.NoDevice, exit.IO, exit.SaveAndStop),
		Args:        atLeastOneArg,
	}
	var o draft.Options
	cmd.Flags().StringSliceVar(&o.Targets, "target", nil, "`VARIABLE`s to predict, such as 2t, t850 or t@850hPa (repeatable; default: the first that offices ask for)")
	sparseFlag(cmd.Flags(), &o.Input.Sparse)
	layout, naming := layoutFlags(cmd.Flags()), namingFlags(cmd.Flags())
	cmd.RunE = a.runJob(func(ctx context.Context, files []string) (result, error) {
		l, n, err := readBoth(layout, naming)
		if err != nil {
			return result{}, err
		}
		o.Files, o.Input.Members, o.Input.Naming = files, input.LayoutOf(l), n.Stated()
		d, err := draft.Run(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: map[string]string{"config": string(d.Config)}, warnings: d.Warnings, text: func(w io.Writer) error {
			_, err := w.Write(d.Config)
			return err
		}}, nil
	})
	return cmd
}
