package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

func verifyCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify --forecast FILE... --analysis FILE... | --join FILE...",
		Short: "Score published means and spreads against analyses",
		Long: "Score published means and spreads against analyses, and their spreads against\n" +
			"the full ensemble's, beside the raw ensemble, climatology and EMOS. Under mpirun\n" +
			"or srun the ranks deal the starts out among themselves, with the same scores.\n" +
			"Sums that are saved month by month are joined to the scores of all months.\n" +
			"--rolling judges products as their analyses arrive, with alarms, and ends with 1\n" +
			"while there are any (docs/verification.md).",
		Example: "  ensemble verify --forecast products/*/*.nc --analysis an/*.nc\n" +
			"  ensemble verify --forecast products/*/*.nc --analysis an/*.nc \\\n" +
			"    --members fc/*.grib2 --run-dir runs/a --out scores\n" +
			"  ensemble verify --forecast products/*/*.nc --analysis an/*.nc \\\n" +
			"    --scores default,brier,reliability --above 2t=273.15 --region europe\n" +
			"  ensemble verify --join sums/2024-01.sums sums/2024-02.sums --out scores\n" +
			"  ensemble verify --rolling rolling --forecast \"products/*/*.nc\" \\\n" +
			"    --analysis \"an/*.nc\" --members \"fc/*.grib2\" --run-dir models/t850\n" +
			"  ensemble verify --forecast products/*/*.nc --analysis an/*.nc --json",
		Annotations: annotations("ensemble predict, ensemble report", exit.No, exit.BadData, exit.NotYet, exit.NoDevice, exit.RankLost, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	v := verifyFlags{app: a, cmd: cmd, rolling: verify.RollingOptions{Bands: verify.DefaultBands}}
	v.bind()
	cmd.RunE = a.runJob(v.run)
	return cmd
}

// verifyFlags are the flags of a verification.
type verifyFlags struct {
	app                               *app
	cmd                               *cobra.Command
	o                                 verify.Options
	rolling                           verify.RollingOptions
	forecast, analysis, members, join *[]string
	bands                             []string
	resamples                         uint
	layout                            func() (config.MemberLayout, error)
	regrid                            func() (task.Interpolation, error)
}

func (v *verifyFlags) bind() {
	f, a := v.cmd.Flags(), v.app
	v.forecast = a.filesFlag(f, "forecast", "`FILE`s that predict wrote, or their folders")
	v.analysis = a.filesFlag(f, "analysis", "`FILE`s of the analyses, or their folder")
	v.members = a.filesFlag(f, "members", "`FILE`s of the full ensemble of the same starts, or their folder")
	f.StringVar(&v.o.RunDir, "run-dir", "", "`DIR` of the training, for its baselines")
	f.StringVarP(&v.o.Out, "out", "o", "", "`DIR` for scores.json, scores.csv and tables in Parquet")
	f.StringSliceVar(&v.o.Selection.Scores, "scores", nil, "`IDS` of scores, default or all (docs/verification.md)")
	f.StringArrayVar(&v.o.Selection.Thresholds, "above", nil, "thresholds of events, `VARIABLE=VALUE,VALUE`")
	f.StringArrayVar(&v.o.Selection.Regions, "region", nil, "`NAME`, or NAME=SOUTH:NORTH:WEST:EAST, scored too")
	f.BoolVar(&v.o.Selection.Seasons, "seasons", false, "score the seasons by themselves too")
	f.StringVar(&v.o.Selection.Weights, "weights", scoring.WeightsByArea, "of points: area, or `none`, as published tables of ENS-10")
	f.StringVar(&v.o.Climate, "climate", "", "`FILE` of a climate's quantiles (default: that of --run-dir)")
	f.StringVar(&v.o.Sums, "sums", "", "`FILE` for the sums of these starts, to be joined")
	v.join = a.filesFlag(f, "join", "`FILE`s of sums to be joined, or folders of *.sums")
	f.StringVar(&v.rolling.Dir, "rolling", "", "`DIR` of what was judged before, its newest scores and alarms")
	f.IntVar(&v.rolling.Window, "window", 30, "newest starts that --rolling judges together")
	f.StringArrayVar(&v.bands, "band", nil, "without alarm: spread_skill=0.8:1.25, bias=0.25, tilt=0.1, bend=0.3, skill=0")
	f.StringVar(&v.rolling.Against, "against", "", "`DIR` of --rolling of another model: gives a verdict on this one")
	sparseFlag(f, &v.o.Sparse)
	v.layout, v.regrid = layoutFlags(f), regridFlag(f)
	f.UintVar(&v.resamples, "resamples", 2000, "draws of the block bootstrap behind the intervals")
}

func (v *verifyFlags) run(ctx context.Context, _ []string) (result, error) {
	o, f := v.o, v.cmd.Flags()
	o.Bootstrap.Resamples = int(v.resamples)
	if len(*v.join) > 0 {
		return joinSums(v.cmd, verify.JoinOptions{Out: o.Out, Sums: o.Sums, Bootstrap: o.Bootstrap}, *v.join)
	}
	if err := requireFlags(v.cmd, "forecast", "analysis"); err != nil {
		return result{}, err
	}
	var err error
	if o.Layout, err = v.layout(); err != nil {
		return result{}, err
	}
	for _, list := range []struct {
		flag string
		in   []string
		to   *[]string
	}{{"--forecast", *v.forecast, &o.Forecast}, {"--analysis", *v.analysis, &o.Analysis}, {"--members", *v.members, &o.Members}} {
		if *list.to, err = v.app.expandFiles(list.flag, list.in); err != nil {
			return result{}, err
		}
	}
	if o.Regrid, err = v.regrid(); err != nil {
		return result{}, err
	}
	if v.rolling.Dir != "" {
		rolling := v.rolling
		rolling.Options = o
		return verifyRolling(ctx, v.cmd, rolling, v.bands)
	}
	if f.Changed("window") || f.Changed("band") || f.Changed("against") {
		return result{}, &exit.Error{Code: exit.Usage, What: "--window, --band and --against belong to --rolling", At: v.cmd.CommandPath(), Fix: "give --rolling DIR, or leave them out"}
	}
	r, err := verify.Run(ctx, o)
	if err != nil {
		return result{}, err
	}
	return verifyResult(r), nil
}

// verifyRolling judges what has come since the last call.
//
// Errors: exit 1 while there are alarms.
func verifyRolling(ctx context.Context, cmd *cobra.Command, o verify.RollingOptions, bands []string) (result, error) {
	if o.Out != "" || o.Sums != "" {
		return result{}, &exit.Error{Code: exit.Usage, What: "--out and --sums do not go with --rolling", At: cmd.CommandPath(), Why: "scores and sums lie in its folder", Fix: "leave them out"}
	}
	if fewest := o.Bootstrap.MinDates(); o.Window < fewest { // nothing would ever be said, and alarms that there are would go
		return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a window of %s", humanise.Count(o.Window, "start")), At: "--window", Why: "so few starts have no intervals", Fix: fmt.Sprintf("give %d or more", fewest)}
	}
	for _, b := range bands {
		if err := o.Bands.Set(b); err != nil {
			return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is no band", b), At: "--band", Why: err.Error(), Fix: "write it as spread_skill=0.8:1.25 or bias=0.25", Err: err}
		}
	}
	r, err := verify.Rolling(ctx, o)
	if err != nil {
		return result{}, err
	}
	answer := result{data: r, outputs: r.Outputs, warnings: r.Warnings}
	if n := len(r.Alarms.Alarms); n > 0 {
		return answer, &exit.Error{Code: exit.No, What: humanise.Count(n, "alarm"), At: o.Dir, Why: r.Alarms.Alarms[0].Text, Fix: "look at scores and history there; train again, or let predictions fall back: docs/verification.md"}
	}
	return answer, nil
}

// verifyResult is the answer with the scores.
func verifyResult(r *verify.Result) result {
	return result{data: r.Scores, shown: r, outputs: r.Outputs, warnings: r.Warnings}
}

// joinSums joins files of sums, which say by themselves what they are of.
//
// Errors: exit 64 for flags that only a new verification has.
func joinSums(cmd *cobra.Command, o verify.JoinOptions, names []string) (result, error) {
	var given []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"join", "out", "sums", "resamples", "json"}, f.Name) && cmd.LocalFlags().Lookup(f.Name) != nil && cmd.InheritedFlags().Lookup(f.Name) == nil {
			given = append(given, "--"+f.Name)
		}
	})
	if len(given) > 0 {
		return result{}, &exit.Error{Code: exit.Usage, What: "sums are joined as they are", At: strings.Join(given, ", "), Why: "the files say what was scored, and how",
			Fix: "leave these flags out beside --join, or verify again"}
	}
	var err error
	if o.Files, err = verify.SumsFiles("--join", names); err != nil {
		return result{}, err
	}
	r, err := verify.JoinSums(o)
	if err != nil {
		return result{}, err
	}
	return verifyResult(r), nil
}
