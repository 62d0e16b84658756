package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/check"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func checkCommand(a *app) *cobra.Command {
	var expect string
	var sparse bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Check ensemble files and report all faults",
		Long: "Check ensemble files and report all faults, in metadata and in every value:\n" +
			"damage, missing members and leads, mixed initialisations, duplicates, grids,\n" +
			"units, impossible values, identical members. Whatever train and predict refuse\n" +
			"is a fault (exit code 1); other findings are warnings. docs/data.md lists all.\n" +
			"With -c the files must meet the requirements of a training; without files,\n" +
			"those of the training and its analyses are checked.",
		Example: "  ensemble check forecast.grib2\n" +
			"  ensemble check fc/*.grib2 --expect members=50+control,steps=0:48:24\n" +
			"  ensemble check fc/*.grib2 --expect variables=t,gh,levels=850hPa,500hPa --json\n" +
			"  ensemble check -c train.yaml",
		Annotations: annotations("docs/data.md, ensemble inspect", exit.No, exit.BadData, exit.NotYet, exit.NoDevice, exit.IO, exit.SaveAndStop),
	}
	f := cmd.Flags()
	src := configFlags(cmd)
	sparseFlag(f, &sparse)
	layout, naming := layoutFlags(f), namingFlags(f)
	f.StringVar(&expect, "expect", "", "`LIST` of members, steps, variables and levels that every initialisation must have")
	cmd.RunE = a.runJob(func(ctx context.Context, files []string) (result, error) {
		o := check.Options{}
		o.Input.Sparse = sparse
		l, n, err := readBoth(layout, naming)
		if err != nil {
			return result{}, err
		}
		o.Input.Members, o.Input.Naming = input.LayoutOf(l), n.Stated()
		switch {
		case len(src.Files) > 0 && expect != "":
			return result{}, &exit.Error{Code: exit.Usage, What: "--config and --expect are mutually exclusive", At: cmd.CommandPath(), Fix: "give one of the two"}
		case len(src.Files) > 0:
			if o.Config, err = config.LoadTrain(*src); err != nil {
				return result{}, err
			}
		case len(files) == 0:
			return result{}, &exit.Error{Code: exit.Usage, What: "missing files", At: cmd.CommandPath(), Fix: "give FILE..., or -c train.yaml (or -c RUN_DIR/" + trained.EffectiveConfigFile + ") for the files of a training; usage: " + cmd.UseLine()}
		case expect != "":
			if o.Expect, err = check.ParseExpectation(expect); err != nil {
				return result{}, err
			}
		}
		o.Files = files
		r, err := check.Run(ctx, o)
		if r == nil {
			return result{}, err
		}
		res := result{data: r, logged: true}
		for _, w := range r.Warnings {
			res.warnings = append(res.warnings, w.What)
		}
		return res, err
	})
	return cmd
}
