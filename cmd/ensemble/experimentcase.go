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
		Short: "Compare forecasts of one event with raw members",
		Long: "Compare forecasts of one event with raw members: in a box, along a storm track,\n" +
			"or where the extreme forecast index is largest. It computes the CRPSS relative\n" +
			"to all raw members, and draws maps of the CRPS of all raw members, of the\n" +
			"members used, of the network, and of the difference. The result is case.json, a\n" +
			"table and an HTML page.",
		Example: "  ensemble experiment case --forecast products/*/*.nc --analysis an/*.nc \\\n" +
			"    --members fc/*.grib2 --run-dir runs/a --out winston --track winston.csv\n" +
			"  ensemble experiment case --forecast products/*/*.nc --analysis an/*.nc \\\n" +
			"    --members fc/*.grib2 --run-dir runs/a --out fiji --init 2016-02-19 \\\n" +
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

// caseFlags are the flags of `ensemble experiment case`.
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
	c.forecast = a.filesFlag(f, "forecast", "product `FILE`s of predict, or their directories")
	c.analysis = a.filesFlag(f, "analysis", "analysis `FILE`s, or their directory")
	c.members = a.filesFlag(f, "members", "`FILE`s of the full ensemble of the same initialisations, or their directory")
	f.StringVar(&o.Verify.RunDir, "run-dir", "", "run `DIR` of the model, for its members and climate")
	f.StringVarP(&o.Dir, "out", "o", "", "`DIR` of the results")
	f.StringVar(&o.Box, "box", "", "`REGION` by name, or NAME=SOUTH:NORTH:WEST:EAST in degrees")
	f.StringVar(&o.Track, "track", "", "CSV `FILE` with columns time,lat,lon,radius_km")
	f.Float64Var(&o.EFIRadius, "largest-efi", 0, "radius in `KM` of the disc with the largest mean index, over all initialisations")
	f.StringSliceVar(&o.Inits, "init", nil, "`LIST` of initialisations, such as 2016-02-19 (default: all)")
	f.StringSliceVar(&o.Variables, "variable", nil, "`LIST` of variables, such as 2t or t850 (default: all)")
	f.IntVar(&o.Maps, "maps", casestudy.DefaultMaps, "`NUMBER` of initialisations a target that are drawn as maps")
	f.StringVar(&o.Verify.Climate, "climate", "", "`FILE` with climate quantiles (default: that of --run-dir)")
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
