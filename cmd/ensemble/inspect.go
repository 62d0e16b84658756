package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/check"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func inspectCommand(a *app) *cobra.Command {
	var o check.InspectOptions
	var layout func() (config.MemberLayout, error)
	var naming func() (config.Naming, error)
	cmd := &cobra.Command{
		Use:   "inspect FILE...",
		Short: "List the contents of data files",
		Long: "List the contents of data files (GRIB, NetCDF, Zarr) or of a sample store:\n" +
			"variables, units, levels, members, leads, initialisations, grids, gaps, and\n" +
			"fields that cannot be used with the reason. A directory expands to the input\n" +
			"files in it; ignored files are listed.",
		Example: "  ensemble inspect forecast.grib2\n" +
			"  ensemble inspect --stats fc/*.grib2 an/*.nc\n" +
			"  ensemble inspect fc\n" +
			"  ensemble inspect --json forecast.grib2\n" +
			"  ensemble inspect store",
		Annotations: annotations("ensemble help train", exit.BadData, exit.NotYet, exit.NoDevice, exit.IO, exit.SaveAndStop),
		Args:        atLeastOneArg,
		RunE: a.runJob(func(ctx context.Context, files []string) (result, error) {
			l, n, err := readBoth(layout, naming)
			if err != nil {
				return result{}, err
			}
			o.Files, o.Input.Members, o.Input.Naming = files, input.LayoutOf(l), n.Stated()
			i, err := check.Inspect(ctx, o)
			return result{data: i.Data, shown: i, warnings: i.Warnings, logged: true}, err
		}),
	}
	sparseFlag(cmd.Flags(), &o.Input.Sparse)
	layout, naming = layoutFlags(cmd.Flags()), namingFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.Stats, "stats", false, "read all values and print minimum, mean, maximum, missing values and checksums")
	return cmd
}
