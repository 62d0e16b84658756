package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/run"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func verifyCommand(a *app) *cobra.Command {
	o := run.VerifyOptions{}
	cmd := &cobra.Command{
		Use:   "verify --forecast FILE... --analysis FILE...",
		Short: "Score published means and spreads against analyses",
		Long: "Score published means and spreads against analyses, and their spreads against\n" +
			"the full ensemble's, beside the raw ensemble, climatology and EMOS. Under mpirun\n" +
			"or srun the ranks deal the starts out among themselves, with the same scores.",
		Example: "  ensemble verify --forecast products/*/*.nc --analysis an/*.nc\n" +
			"  ensemble verify --forecast products/*/*.nc --analysis an/*.nc \\\n" +
			"    --members fc/*.grib2 --run-dir runs/a --out scores\n" +
			"  ensemble verify --forecast products/*/*.nc --analysis an/*.nc \\\n" +
			"    --scores default,brier,reliability --above 2t=273.15 --region europe\n" +
			"  ensemble verify --forecast products/*/*.nc --analysis an/*.nc --json",
		Annotations: notes("ensemble predict, ensemble report", exit.BadData, exit.NotYet, exit.NoDevice, exit.RankLost, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	f := cmd.Flags()
	forecast := a.filesFlag(f, "forecast", "`FILE`s that predict wrote")
	analysis := a.filesFlag(f, "analysis", "`FILE`s of the analyses")
	members := a.filesFlag(f, "members", "`FILE`s of the full ensemble of the same starts")
	f.StringVar(&o.RunDir, "run-dir", "", "`DIR` of the training, for its baselines")
	f.StringVarP(&o.Out, "out", "o", "", "`DIR` for scores.json, scores.csv and tables in Parquet")
	f.StringSliceVar(&o.Choice.Scores, "scores", nil, "`IDS` of scores, default or all (docs/scores.md)")
	f.StringArrayVar(&o.Choice.Above, "above", nil, "thresholds of events, `VARIABLE=VALUE,VALUE`")
	f.StringArrayVar(&o.Choice.Regions, "region", nil, "`NAME`, or NAME=SOUTH:NORTH:WEST:EAST, scored too")
	f.BoolVar(&o.Choice.Seasons, "seasons", false, "score the seasons by themselves too")
	sparseFlag(f, &o.Sparse)
	layout := layoutFlags(f)
	regrid := regridFlag(f)
	resamples := f.Uint("resamples", 2000, "draws of the block bootstrap behind the intervals")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) (result, error) {
		if err := required(cmd, "forecast", "analysis"); err != nil {
			return result{}, err
		}
		var err error
		if o.Layout, err = layout(); err != nil {
			return result{}, err
		}
		for _, list := range []struct {
			flag string
			in   []string
			to   *[]string
		}{{"--forecast", *forecast, &o.Forecast}, {"--analysis", *analysis, &o.Analysis}, {"--members", *members, &o.Members}} {
			if *list.to, err = expand(list.flag, list.in); err != nil {
				return result{}, err
			}
		}
		if o.Regrid, err = regrid(); err != nil {
			return result{}, err
		}
		o.Bootstrap.Resamples = int(*resamples)
		r, err := run.Verify(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r.Scores, outputs: r.Outputs, warnings: r.Warnings, text: r.Scores.Fprint}, nil
	})
	return cmd
}
