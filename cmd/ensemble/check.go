package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/check"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func checkCommand(a *app) *cobra.Command {
	var expect string
	var sparse bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Look for all faults of an ensemble's files at once",
		Long: "Look for all faults of an ensemble's files at once, in what they hold and in\n" +
			"every value: damage, missing members and leads, mixed cycles, duplicates, grids,\n" +
			"units, values that cannot be, copies. What train and predict refuse is a fault\n" +
			"and ends with 1, what they warn about a warning. docs/data.md lists all.\n" +
			"With -c the files must meet the demands of a training; without files they are\n" +
			"the training's own, with its analyses.",
		Example: "  ensemble check forecast.grib2\n" +
			"  ensemble check fc/*.grib2 --expect members=50+control,steps=0:48:24\n" +
			"  ensemble check fc/*.grib2 --expect variables=t,gh,levels=850hPa,500hPa --json\n" +
			"  ensemble check -c train.yaml",
		Annotations: annotations("docs/data.md, ensemble inspect", exit.No, exit.BadData, exit.NotYet, exit.NoDevice, exit.IO, exit.SaveAndStop),
	}
	f := cmd.Flags()
	src := configFlags(cmd)
	sparseFlag(f, &sparse)
	layout := layoutFlags(f)
	f.StringVar(&expect, "expect", "", "what every start must hold: members, steps, variables, levels, as `LIST`")
	cmd.RunE = a.runJob(func(ctx context.Context, files []string) (result, error) {
		o := check.Options{}
		o.Input.Sparse = sparse
		l, err := layout()
		if err != nil {
			return result{}, err
		}
		o.Input.Members = input.LayoutOf(l)
		switch {
		case len(src.Files) > 0 && expect != "":
			return result{}, &exit.Error{Code: exit.Usage, What: "--config and --expect exclude each other", At: cmd.CommandPath(), Fix: "state the expectation in one of them"}
		case len(src.Files) > 0:
			if o.Config, err = config.LoadTrain(*src); err != nil {
				return result{}, err
			}
		case len(files) == 0:
			return result{}, atLeastOneArg(cmd, files)
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
