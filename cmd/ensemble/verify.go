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
		Short: "Verify published products against analyses",
		Long: "Verify published products against analyses: scores of mean and spread, of the\n" +
			"spread relative to the full ensemble, and of the raw ensemble, climatology and\n" +
			"EMOS for comparison. The answer has the main scores in sentences and one table,\n" +
			"with --all every score. Under mpirun or srun, initialisations are distributed\n" +
			"over the ranks; the scores are the same. --join combines the saved sums of\n" +
			"several months into scores of all. --rolling verifies products as their\n" +
			"analyses arrive, and raises alarms (exit code 1; docs/verification.md).",
		Example: "  ensemble verify --forecast products/*/*.nc --analysis an/*.nc\n" +
			"  ensemble verify --forecast products/*/*.nc --analysis an/*.nc \\\n" +
			"    --members fc/*.grib2 --run-dir runs/a --out scores\n" +
			"  ensemble verify --forecast products/*/*.nc --analysis an/*.nc \\\n" +
			"    --scores default,brier,reliability --event \"2t>273.15\" --region europe\n" +
			"  ensemble verify --forecast products/*/*.nc --analysis an/*.nc \\\n" +
			"    --members fc/*.grib2 --fields scores.nc\n" +
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

// verifyFlags are the flags of `ensemble verify`.
type verifyFlags struct {
	app                               *app
	cmd                               *cobra.Command
	o                                 verify.Options
	rolling                           verify.RollingOptions
	forecast, analysis, members, join *[]string
	bands                             []string
	radius                            string
	resamples                         uint
	all                               bool
	layout                            func() (config.MemberLayout, error)
	naming                            func() (config.Naming, error)
	regrid                            func() (task.Interpolation, error)
}

func (v *verifyFlags) bind() {
	f, a := v.cmd.Flags(), v.app
	v.forecast = a.filesFlag(f, "forecast", "product `FILE`s of predict, or their directories")
	v.analysis = a.filesFlag(f, "analysis", "analysis `FILE`s, or their directory")
	v.members = a.filesFlag(f, "members", "`FILE`s of the full ensemble of the same initialisations, or their directory")
	f.StringVar(&v.o.RunDir, "run-dir", "", "run `DIR` of the model, for its baselines")
	f.StringVarP(&v.o.Out, "out", "o", "", "`DIR` for scores.json, scores.csv and tables in Parquet")
	f.StringSliceVar(&v.o.Selection.Scores, "scores", nil, "`LIST` of score IDs, or default, or all (docs/verification.md)")
	f.StringArrayVar(&v.o.Selection.Events, "event", nil, "`EVENT` above a threshold that is scored, such as \"t2m>273.15\" or \"t850>7 degC\" (repeatable)")
	f.StringArrayVar(&v.o.Selection.Regions, "region", nil, "additional `REGION`, by name or NAME=SOUTH:NORTH:WEST:EAST (repeatable)")
	f.StringVar(&v.radius, "radius", "", "radius of discs for the fractions skill score of --event, a `DISTANCE` such as 50km")
	f.BoolVar(&v.o.Selection.Seasons, "seasons", false, "also compute scores of each season")
	f.StringVar(&v.o.By, "by", "", "also compute the reduction in CRPS in each `PERIOD`: year, season or month, and its trend")
	f.StringVar(&v.o.Selection.Weights, "weights", scoring.WeightsByArea, "weights of grid points: area, or `none` as in the published tables of ENS-10")
	f.StringVar(&v.o.Climate, "climate", "", "`FILE` with climate quantiles (default: that of --run-dir)")
	f.StringVar(&v.o.Sums, "sums", "", "`FILE` for the sums of these initialisations, for --join")
	f.StringVar(&v.o.Fields, "fields", "", "NetCDF `FILE` for scores at each point, with significance of skill")
	v.join = a.filesFlag(f, "join", "`FILE`s of sums to combine, or directories of *.sums")
	f.StringVar(&v.rolling.Dir, "rolling", "", "`DIR` of earlier results: scores, history and alarms")
	f.IntVar(&v.rolling.Window, "window", 30, "number of latest initialisations that --rolling verifies together")
	f.StringArrayVar(&v.bands, "band", nil, "`RANGE` without alarm: spread_skill=0.8:1.25, bias=0.25, slope=0.1, convexity=0.3, skill=0 (repeatable)")
	f.StringVar(&v.rolling.Against, "compare-with", "", "--rolling `DIR` of another model; writes a verdict on this model")
	sparseFlag(f, &v.o.Sparse)
	v.layout, v.naming, v.regrid = layoutFlags(f), namingFlags(f), regridFlag(f)
	f.BoolVar(&v.all, "all", false, "print all scores as tables, not only the main ones")
	f.UintVar(&v.resamples, "resamples", 2000, "number of block bootstrap resamples for confidence intervals")
}

func (v *verifyFlags) run(ctx context.Context, _ []string) (result, error) {
	o, f := v.o, v.cmd.Flags()
	o.Bootstrap.Resamples, o.Command = int(v.resamples), "ensemble "+strings.Join(v.app.args, " ")
	if f.Changed("radius") {
		r, err := config.ParseDistance(v.radius)
		if err != nil || !(r > 0) {
			return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is not a radius", v.radius), At: "--radius " + v.radius, Fix: "give a positive number with its unit, as in --radius 50km"}
		}
		o.Selection.Radius = float64(r)
	}
	if len(*v.join) > 0 {
		return v.joinSums(verify.JoinOptions{Out: o.Out, Sums: o.Sums, Bootstrap: o.Bootstrap, By: o.By})
	}
	if err := requireFlags(v.cmd, "forecast", "analysis"); err != nil {
		return result{}, err
	}
	var err error
	var n config.Naming
	if o.Layout, n, err = readBoth(v.layout, v.naming); err != nil {
		return result{}, err
	}
	o.Naming = n.Stated()
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
	if f.Changed("window") || f.Changed("band") || f.Changed("compare-with") {
		return result{}, &exit.Error{Code: exit.Usage, What: "--window, --band and --compare-with require --rolling", At: v.cmd.CommandPath(), Fix: "give --rolling DIR, or leave them out"}
	}
	r, err := verify.Run(ctx, o)
	if err != nil {
		return result{}, err
	}
	return v.result(r), nil
}

// verifyRolling verifies the products whose analyses have arrived since the last call.
//
// Errors: exit 1 while there are alarms.
func verifyRolling(ctx context.Context, cmd *cobra.Command, o verify.RollingOptions, bands []string) (result, error) {
	if o.Out != "" || o.Sums != "" || o.Fields != "" || o.By != "" {
		return result{}, &exit.Error{Code: exit.Usage, What: "--out, --sums, --fields and --by cannot be used with --rolling", At: cmd.CommandPath(), Why: "scores and sums are written to its directory", Fix: "leave them out"}
	}
	if fewest := o.Bootstrap.MinDates(); o.Window < fewest { // no alarm could be raised, and existing ones would end
		return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("window of %s is too short", humanise.Count(o.Window, "initialisation")), At: "--window", Why: "confidence intervals need more", Fix: fmt.Sprintf("give %d or more", fewest)}
	}
	for _, b := range bands {
		if err := o.Bands.Set(b); err != nil {
			return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid range %q", b), At: "--band", Why: err.Error(), Fix: "write it as spread_skill=0.8:1.25 or bias=0.25", Err: err}
		}
	}
	r, err := verify.Rolling(ctx, o)
	if err != nil {
		return result{}, err
	}
	answer := result{data: r, outputs: r.Outputs, warnings: r.Warnings}
	if n := len(r.Alarms.Alarms); n > 0 {
		return answer, &exit.Error{Code: exit.No, What: humanise.Count(n, "alarm"), At: o.Dir, Why: r.Alarms.Alarms[0].Text, Fix: "see its scores and history; retrain the model, or use a fallback forecast (docs/verification.md)"}
	}
	return answer, nil
}

// result is the result with the scores.
func (v *verifyFlags) result(r *verify.Result) result {
	r.All = v.all
	return result{data: r.Scores, shown: r, outputs: r.Outputs, warnings: r.Warnings}
}

// joinSums combines files of sums, which record their own settings.
//
// Errors: exit 64 for flags that apply only to a new verification.
func (v *verifyFlags) joinSums(o verify.JoinOptions) (result, error) {
	cmd := v.cmd
	var given []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"join", "out", "sums", "by", "resamples", "json", "all"}, f.Name) && cmd.LocalFlags().Lookup(f.Name) != nil && cmd.InheritedFlags().Lookup(f.Name) == nil {
			given = append(given, "--"+f.Name)
		}
	})
	if len(given) > 0 {
		return result{}, &exit.Error{Code: exit.Usage, What: "flags cannot be used with --join", At: strings.Join(given, ", "), Why: "the settings are those of the files of sums",
			Fix: "leave these flags out, or verify again"}
	}
	var err error
	if o.Files, err = verify.SumsFiles("--join", *v.join); err != nil {
		return result{}, err
	}
	r, err := verify.JoinSums(o)
	if err != nil {
		return result{}, err
	}
	return v.result(r), nil
}
