package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/selftest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func selfTestCommand(a *app) *cobra.Command {
	var o selftest.Options
	cmd := &cobra.Command{
		Use:   "self-test",
		Short: "Test whether this installation works",
		Long: "Test whether this installation works, in about a minute and offline: kernels\n" +
			"against float64 reference kernels, writing and reading of GRIB and NetCDF, file\n" +
			"locks and atomic replacement of files under --out, and a small job (train,\n" +
			"predict, verify) with expected scores. Exit code 1: a test failed; 69: a\n" +
			"required library is missing.",
		Example: "  ensemble self-test\n" +
			"  ensemble self-test --out /scratch/products --json",
		Annotations: annotations("ensemble doctor, ensemble demo", exit.No, exit.NoDevice, exit.CannotWrite, exit.SaveAndStop),
		Args:        noArgs,
	}
	f := cmd.Flags()
	threads := threadsFlag(f)
	f.StringVarP(&o.Dir, "out", "o", ".", "test the file system of this `DIR`; test files are removed")
	cmd.RunE = a.runJob(func(ctx context.Context, _ []string) (result, error) {
		var err error
		o.Progress = a.progress
		o.Threads = int(*threads)
		r, err := selftest.Run(ctx, o)
		if r == nil {
			return result{}, err
		}
		return result{data: r}, err
	})
	return cmd
}
