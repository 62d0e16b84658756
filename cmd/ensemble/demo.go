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
		Short: "Make data, train, predict, verify and report, all offline",
		Long: "Run the main job on data that the program makes itself: a chaotic atmosphere,\n" +
			"whose forecast model has other physics than its truth. What is finished\n" +
			"already is not done again.",
		Example: "  ensemble demo\n" +
			"  ensemble demo --out /scratch/demo --format grib2,netcdf\n" +
			"  ensemble demo --data-only",
		Annotations: annotations("ensemble inspect, ensemble train", exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	f := cmd.Flags()
	reporter := a.progressFlag(f)
	threads := threadsFlag(f)
	f.StringVarP(&o.Root, "out", "o", "runs", "`DIR` for data, run and products")
	f.StringSliceVar(&formats, "format", []string{"grib2"}, "of the generated ensembles: grib2, netcdf or both")
	known := setChoices(f, "format", "grib2", "netcdf")
	f.Uint64Var(&o.Data.Seed, "seed", 0, "start of all random numbers of the generated data")
	f.BoolVar(&o.DataOnly, "data-only", false, "generate the data and stop")
	f.StringArrayVar(&o.Set, "set", nil, "override one `key=value` of the training")
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
		if o.Progress, err = reporter(); err != nil {
			return result{}, err
		}
		defer o.Progress.Close()
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
