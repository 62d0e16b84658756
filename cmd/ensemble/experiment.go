package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/experiment"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

func experimentCommand(a *app) *cobra.Command {
	return group(a, &cobra.Command{
		Use:   "experiment",
		Short: "Repeat experiments, compare variants, study one event",
		Example: "  ensemble experiment run experiments/demo\n" +
			"  ensemble experiment members -c train.yaml --run-dir runs/members\n" +
			"  ensemble experiment ablation -c train.yaml --run-dir runs/ablation",
		Annotations: annotations("ensemble help experiment members"),
	}, slices.Concat([]*cobra.Command{experimentRun(a), experimentReproduce(a), experimentList(a), experimentCompare(a)}, experimentStudies(a),
		[]*cobra.Command{experimentEfficiency(a), experimentCase(a)})...)
}

// studies are the commands that train variants of a configuration.
var studies = []struct{ name, short, long, example string }{
	{experiment.Members, "Train on few members, on more, and on all",
		"Train a configuration on 2 members, on 3, and so on to all of them, and compare\n" +
			"what each network scores with the raw ensemble of all members: how many members\n" +
			"a forecast is worth. Each has a run directory of its own; those that are done\n" +
			"are not trained again. The folder gets experiment.json, a table and a page.",
		"  ensemble experiment run experiments/demo\n" +
			"  ensemble experiment members -c train.yaml --run-dir runs/members \\\n" +
			"    --members 2,5,10"},
	{experiment.Ablation, "Train with parts of a configuration left out",
		"Train a configuration as it is, and with one part of it changed at a time:\n" +
			"leads, levels, standardisation, location, season, loss; or variants by name.\n" +
			"Gains over the first one are paired by start. Each has a run directory of its\n" +
			"own; those that are done are not trained again.",
		"  ensemble experiment ablation -c train.yaml --run-dir runs/ablation\n" +
			"  ensemble experiment ablation -c train.yaml --run-dir runs/width \\\n" +
			"    --variant base16 --variant \"base32 model.base=32\""},
	{experiment.Networks, "Train the network baselines of ENS-10 beside a configuration",
		"Train a configuration as it is, and with a network by point, by patch and in two\n" +
			"dimensions in place of its own, at their published sizes. Gains over it are\n" +
			"paired by start. Each has a run directory of its own; those that are done are\n" +
			"not trained again.",
		"  ensemble experiment kinds -c train.yaml --run-dir runs/kinds --seeds 3"},
}

// experimentStudies makes a command of each study. Others are compared with the variant of all members, or
// with the first one.
func experimentStudies(a *app) (all []*cobra.Command) {
	for _, s := range studies {
		cmd := &cobra.Command{Use: s.name + " -c FILE --run-dir DIR", Short: s.short, Long: s.long, Example: s.example, Args: noArgs,
			Annotations: annotations("ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop)}
		var members []int
		var variants []string
		switch s.name {
		case experiment.Members:
			cmd.Flags().IntSliceVar(&members, "members", nil, "numbers of `MEMBERS` to train on (default 2 to all)")
		case experiment.Ablation:
			cmd.Flags().StringArrayVar(&variants, "variant", nil, "`NAME` of a variant and what it changes, as key=value; the first is compared with")
		}
		bindStudy(a, cmd, func(o *experiment.StudyOptions) (err error) {
			for _, text := range variants {
				v, err := experiment.ParseVariant(text)
				if err != nil {
					return err
				}
				o.Variants = append(o.Variants, v)
			}
			if o.Variants == nil {
				if o.Variants, err = experiment.Variants(s.name, o.Config, members); err != nil {
					return err
				}
			}
			o.Reference = o.Variants[0].Name
			if s.name == experiment.Members {
				o.Reference = o.Variants[len(o.Variants)-1].Name
			}
			return nil
		})
		all = append(all, cmd)
	}
	return all
}

// bindStudy lets a command run the variants that choose finds.
func bindStudy(a *app, cmd *cobra.Command, choose func(*experiment.StudyOptions) error) {
	o := experiment.StudyOptions{Version: version.String(), Warn: a.warn, Stop: func() error { return a.flag.Err() }}
	src := configFlags(cmd)
	reporter := a.progressFlag(cmd.Flags())
	threads := threadsFlag(cmd.Flags())
	cmd.Flags().StringVar(&o.Dir, "run-dir", "", "`DIR` of the experiment")
	cmd.Flags().IntVar(&o.Seeds, "seeds", 1, "`NUMBER` of trainings of each variant, from train.seed on; scores are their mean")
	cmd.RunE = a.runJob(func(ctx context.Context, _ []string) (result, error) {
		if err := requireFlags(cmd, "run-dir"); err != nil {
			return result{}, err
		}
		if o.Seeds < 1 {
			return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%d seeds", o.Seeds), At: "--seeds", Fix: "give 1 or more"}
		}
		if *threads > 0 {
			src.Set = append(src.Set, fmt.Sprintf("train.threads=%d", *threads))
		}
		o.Config = *src
		if err := choose(&o); err != nil {
			return result{}, err
		}
		var err error
		if o.Progress, err = reporter(); err != nil {
			return result{}, err
		}
		defer o.Progress.Close()
		o.Timings = setup.UserTimings(a.log)
		e, err := experiment.RunStudy(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: e, outputs: e.Outputs()}, nil
	})
}
