package main

import (
	"bytes"
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/run"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

func inspectCommand(a *app) *cobra.Command {
	var stats bool
	cmd := &cobra.Command{
		Use:   "inspect FILE...",
		Short: "List what GRIB and NetCDF files or a sample store hold",
		Long: "List what GRIB and NetCDF files hold: variables, units, levels, members, leads,\n" +
			"starts, grids, with holes, and what could not be used and why; or what the\n" +
			"folder of a sample store holds.",
		Example: "  ensemble inspect forecast.grib2\n" +
			"  ensemble inspect --stats fc/*.grib2 an/*.nc\n" +
			"  ensemble inspect --json forecast.grib2\n" +
			"  ensemble inspect store",
		Annotations: notes("ensemble help train", exit.BadData, exit.NotYet, exit.NoDevice, exit.IO, exit.SaveAndStop),
		Args:        someArgs,
		RunE: a.do(func(ctx context.Context, files []string) (result, error) {
			var b bytes.Buffer // so that a full disk behind standard output is told from a fault in the files
			err := run.Inspect(ctx, run.InspectOptions{Files: files, Stats: stats, JSON: a.json, Version: version.Version}, &b)
			if _, perr := b.WriteTo(a.stdout); err == nil {
				err = exit.Create("standard output", perr)
			}
			return result{printed: true}, err
		}),
	}
	cmd.Flags().BoolVar(&stats, "stats", false, "also read all values: minimum, mean, maximum, missing; checksums")
	return cmd
}
