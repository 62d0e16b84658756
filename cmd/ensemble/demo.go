package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	rundemo "github.com/ensemble-weather/ensemble/ensemble/run/demo"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

func demoCommand(a *app) *cobra.Command {
	o := rundemo.Options{Version: version.String(), Warn: a.warn, Stop: func() error { return a.flag.Err() }}
	var formats []string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole workflow on synthetic data, offline",
		Long: "Run the whole workflow on synthetic data: generate, train, predict, verify,\n" +
			"report. The data are an imperfect twin experiment with a chaotic atmosphere,\n" +
			"whose forecast model has other physics than its nature run. Finished steps are\n" +
			"not repeated.",
		Example: "  ensemble demo\n" +
			"  ensemble demo --out /scratch/demo --format grib2,netcdf\n" +
			"  ensemble demo --data-only",
		Annotations: annotations("ensemble inspect, ensemble train", exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	f := cmd.Flags()
	threads := threadsFlag(f)
	f.StringVarP(&o.Root, "out", "o", "runs", "`DIR` for data, run directory and products")
	f.StringSliceVar(&formats, "format", []string{"grib2"}, "file formats of the ensembles: grib2, netcdf or both")
	known := setChoices(f, "format", "grib2", "netcdf")
	f.Uint64Var(&o.Data.Seed, "seed", 0, "seed of all random numbers of the data")
	f.BoolVar(&o.DataOnly, "data-only", false, "generate the data only")
	f.StringArrayVar(&o.Set, "set", nil, "override one `key=value` of the training configuration")
	completeKeys(cmd, config.TrainSchema)
	cmd.RunE = a.runJob(func(ctx context.Context, _ []string) (result, error) {
		if err := checkChoice("--format", formats, known...); err != nil {
			return result{}, err
		}
		if slices.Contains(formats, "grib2") {
			o.Formats |= demo.GRIB2
		}
		if slices.Contains(formats, "netcdf") {
			o.Formats |= demo.NetCDF
		}
		var err error
		o.Progress = a.progress
		o.Threads, o.Command = int(*threads), "ensemble "+strings.Join(a.args, " ")
		r, err := rundemo.Run(ctx, o)
		if err != nil {
			return result{}, err
		}
		ans := result{logged: true, shown: r, data: map[string]any{"data_dir": r.DataDir, "run_dir": r.RunDir, "product_dir": r.ProductDir, "config": r.Config}}
		if r.Report != "" {
			ans.outputs = []string{r.Report}
		}
		return ans, nil
	})
	return cmd
}
