package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/run/bench/read"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func benchRead(a *app) *cobra.Command {
	var o read.Options
	cmd := &cobra.Command{
		Use:   "read FILE...",
		Short: "Measure reading speed of files, or a whole prediction",
		Long: "Measure how fast each GRIB or NetCDF file or Zarr store is opened and all of its\n" +
			"fields are read, with the file in the page cache and the decoding processes\n" +
			"running, and the memory of its catalogue.\n\n" +
			"--run-dir measures a whole prediction from these files instead, from process\n" +
			"start to written files: its time, and the memory of all its processes.",
		Example: "  ensemble bench read forecast.grib2\n" +
			"  ensemble bench read --open-only --rounds 3 fc/*.grib2 --json\n" +
			"  ensemble bench read --run-dir runs/a --threads 2 forecast.grib2",
		Annotations: annotations("docs/performance.md, ensemble bench store", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        atLeastOneArg,
	}
	f := cmd.Flags()
	rounds := f.Uint("rounds", 7, "measured repetitions; at most 3 for predictions")
	f.BoolVar(&o.OpenOnly, "open-only", false, "open files without reading values")
	f.StringVar(&o.RunDir, "run-dir", "", "measure predictions with the model of this run `DIR`")
	f.StringVarP(&o.Out, "out", "o", "", "with --run-dir, keep the products in this `DIR`")
	threads := threadsFlag(f)
	cmd.RunE = a.runJob(func(ctx context.Context, files []string) (result, error) {
		program, err := os.Executable()
		if err != nil {
			return result{}, err
		}
		o.Files, o.Rounds, o.Threads, o.Program = files, int(*rounds), int(*threads), []string{program}
		o.Progress = a.progress
		r, err := read.Run(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r}, nil
	})
	return cmd
}
