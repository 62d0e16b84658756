package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/casestudy"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

func experimentCase(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "case --forecast FILE... --out DIR",
		Short: "Study one event: CRPS of the network and the raw members there",
		Long: "Compare published forecasts with the raw members in a box, along the track of a\n" +
			"storm, or where the extreme forecast index is largest: the relative gain in CRPS\n" +
			"over all raw members there, and maps of the CRPS of all and of few raw members,\n" +
			"of the network, and of what the network changes. The folder gets case.json, a\n" +
			"table and a page.",
		Example: "  ensemble experiment case --forecast products/*/*.nc --analysis an/*.nc \\\n" +
			"    --members fc/*.grib2 --run-dir runs/a --out winston --track winston.csv\n" +
			"  ensemble experiment case --forecast products/*/*.nc --analysis an/*.nc \\\n" +
			"    --members fc/*.grib2 --run-dir runs/a --out fiji --start 2016-02-19 \\\n" +
			"    --box fiji=-28:-8:160:190 --variable gh\n" +
			"  ensemble experiment case --forecast products/*/*.nc --analysis an/*.nc \\\n" +
			"    --members fc/*.grib2 --run-dir runs/a --out extreme --largest-efi 2000",
		Annotations: annotations("ensemble predict, ensemble verify", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO),
		Args:        noArgs,
	}
	c := caseFlags{app: a, cmd: cmd, o: casestudy.Options{Version: version.String()}}
	c.bind()
	cmd.RunE = a.runJob(c.run)
	return cmd
}

// caseFlags are the flags of a case study.
type caseFlags struct {
	app                         *app
	cmd                         *cobra.Command
	o                           casestudy.Options
	forecast, analysis, members *[]string
	layout                      func() (config.MemberLayout, error)
	regrid                      func() (task.Interpolation, error)
}

func (c *caseFlags) bind() {
	a, f, o := c.app, c.cmd.Flags(), &c.o
	c.forecast = a.filesFlag(f, "forecast", "`FILE`s that predict wrote, or their folders")
	c.analysis = a.filesFlag(f, "analysis", "`FILE`s of the analyses, or their folder")
	c.members = a.filesFlag(f, "members", "`FILE`s of the full ensemble of the same starts, or their folder")
	f.StringVar(&o.Verify.RunDir, "run-dir", "", "`DIR` of the training, for its members and climate")
	f.StringVarP(&o.Dir, "out", "o", "", "`DIR` of the study")
	f.StringVar(&o.Box, "box", "", "`NAME`, or NAME=SOUTH:NORTH:WEST:EAST")
	f.StringVar(&o.Track, "track", "", "`FILE` of time,lat,lon,radius_km")
	f.Float64Var(&o.EFIRadius, "largest-efi", 0, "`KM` of the disc where the mean index is largest, of all starts")
	f.StringSliceVar(&o.Inits, "start", nil, "`STARTS` to study, as 2016-02-19 (default: all)")
	f.StringSliceVar(&o.Variables, "variable", nil, "`NAMES` of variables (default: all)")
	f.IntVar(&o.Maps, "maps", casestudy.DefaultMaps, "`STARTS` of each target that have maps, the first ones")
	f.StringVar(&o.Verify.Climate, "climate", "", "`FILE` of a climate's quantiles (default: that of --run-dir)")
	sparseFlag(f, &o.Verify.Sparse)
	c.layout, c.regrid = layoutFlags(f), regridFlag(f)
}

func (c *caseFlags) run(ctx context.Context, _ []string) (result, error) {
	if err := requireFlags(c.cmd, "forecast", "analysis", "members", "out"); err != nil {
		return result{}, err
	}
	o := c.o
	var err error
	if o.Verify.Layout, err = c.layout(); err != nil {
		return result{}, err
	}
	for _, list := range []struct {
		flag string
		in   []string
		to   *[]string
	}{{"--forecast", *c.forecast, &o.Verify.Forecast}, {"--analysis", *c.analysis, &o.Verify.Analysis}, {"--members", *c.members, &o.Verify.Members}} {
		if *list.to, err = c.app.expandFiles(list.flag, list.in); err != nil {
			return result{}, err
		}
	}
	if o.Verify.Regrid, err = c.regrid(); err != nil {
		return result{}, err
	}
	r, err := casestudy.Run(ctx, o)
	if err != nil {
		return result{}, err
	}
	return result{data: r, outputs: r.Outputs(), warnings: r.Warnings}, nil
}
