package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/experiment"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func experimentRecord(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "record DIR",
		Short: "Run an experiment and write its results into experiment.yaml",
		Long: "Run the experiment of DIR/experiment.yaml with at least three seeds, and write\n" +
			"its results there: checksums of the data if none are listed, and expected scores\n" +
			"with tolerances of two standard deviations over the seeds. Listed scores get new\n" +
			"values. record.json is of the experiment with these expectations. DIR may be the\n" +
			"results of ensemble experiment members, ablation or networks.",
		Example: "  ensemble experiment record my/experiment --data /data/mine\n" +
			"  ensemble experiment bundle runs/experiments/mine --licence LICENSE \\\n" +
			"    --author \"Doe, Jane\" --out mine.zip",
		Annotations: annotations("ensemble experiment run, docs/experiments.md", exit.No, exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        exactlyOne("the directory of an experiment"),
	}
	options := experimentFlags(a, cmd, "NAME", "experiment")
	cmd.RunE = a.runJob(func(ctx context.Context, args []string) (result, error) {
		o, err := options()
		if err != nil {
			return result{}, err
		}
		if o.Experiment, err = experimentfile.LoadDraft(args[0]); err != nil {
			return result{}, err
		}
		switch {
		case o.Dir != "":
		case experiment.IsStudy(args[0]): // its trainings are there
			o.Dir = args[0]
		default:
			o.Dir = filepath.Join(experimentsDir, o.Experiment.Name)
		}
		r, err := experiment.Expect(ctx, o)
		if err != nil {
			return result{}, err
		}
		if !r.Passed() {
			err = &exit.Error{Code: exit.No, What: "experiment " + o.Experiment.Name + " failed a check", At: r.Path, Fix: "see the table: remove what the network does not reach, or correct its bounds"}
		}
		return result{data: r.Record, shown: r, outputs: append(r.Outputs(), o.Experiment.Path), logged: true}, err
	})
	return cmd
}
