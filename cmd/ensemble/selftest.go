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
		Short: "Try whether this installation works on this machine",
		Long: "Try whether this installation works on this machine, in about a minute and\n" +
			"without network: kernels against a reference in float64, GRIB and NetCDF written\n" +
			"and read, file locks and replacement of files under --out, and a whole job in\n" +
			"miniature (train, predict, verify) against recorded scores. Ends with 1 if\n" +
			"something is wrong, and with 69 if something needed is missing.",
		Example: "  ensemble self-test\n" +
			"  ensemble self-test --out /scratch/products --json",
		Annotations: annotations("ensemble doctor, ensemble demo", exit.No, exit.NoDevice, exit.CannotWrite, exit.SaveAndStop),
		Args:        noArgs,
	}
	f := cmd.Flags()
	reporter := a.progressFlag(f)
	threads := threadsFlag(f)
	f.StringVarP(&o.Dir, "out", "o", ".", "try the file system of this `DIR`; nothing stays there")
	cmd.RunE = a.runJob(func(ctx context.Context, _ []string) (result, error) {
		var err error
		if o.Progress, err = reporter(); err != nil {
			return result{}, err
		}
		defer o.Progress.Close()
		o.Threads = int(*threads)
		r, err := selftest.Run(ctx, o)
		if r == nil {
			return result{}, err
		}
		return result{data: r}, err
	})
	return cmd
}
