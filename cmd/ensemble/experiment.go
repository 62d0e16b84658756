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
		Short: "Run, reproduce and compare experiments",
		Example: "  ensemble experiment run experiments/demo\n" +
			"  ensemble experiment members -c train.yaml --run-dir runs/members\n" +
			"  ensemble experiment ablation -c train.yaml --run-dir runs/ablation",
		Annotations: annotations("ensemble help experiment members"),
	}, slices.Concat([]*cobra.Command{experimentRun(a), experimentReproduce(a), experimentRecord(a), experimentBundle(a), experimentList(a), experimentCompare(a)}, experimentStudies(a),
		[]*cobra.Command{experimentSweep(a), experimentEfficiency(a), experimentCase(a)})...)
}

// studies lists the commands that train variants of a configuration.
var studies = []struct{ name, short, long, example string }{
	{experiment.Members, "Train with different numbers of members",
		"Train with different numbers of members, 2 to all, and compare the scores of\n" +
			"each network with those of the raw ensemble of all members. Each variant has its\n" +
			"own run directory; finished runs are not repeated. The result is\n" +
			"experiment.json, a table, an HTML page, and record.json, which ensemble\n" +
			"experiment reproduce repeats.",
		"  ensemble experiment run experiments/demo\n" +
			"  ensemble experiment members -c train.yaml --run-dir runs/members \\\n" +
			"    --members 2,5,10"},
	{experiment.Ablation, "Train ablations of a configuration",
		"Train ablations of a configuration: the configuration itself, then variants with\n" +
			"one change each (leads, levels, standardisation, location, season, loss), or\n" +
			"the variants given. Skill scores relative to the first variant are paired by\n" +
			"initialisation. Each variant has its own run directory; finished runs are not\n" +
			"repeated. ensemble experiment reproduce repeats record.json.",
		"  ensemble experiment ablation -c train.yaml --run-dir runs/ablation\n" +
			"  ensemble experiment ablation -c train.yaml --run-dir runs/width \\\n" +
			"    --variant base16 --variant \"base32 model.base=32\""},
	{experiment.Networks, "Train the network baselines of ENS-10",
		"Train the network baselines of ENS-10 at their published sizes (pointwise, by\n" +
			"patches, two-dimensional), and the configuration itself. Skill scores relative\n" +
			"to the configuration are paired by initialisation. Each variant has its own run\n" +
			"directory; finished runs are not repeated. ensemble experiment reproduce repeats\n" +
			"record.json.",
		"  ensemble experiment networks -c train.yaml --run-dir runs/networks --seeds 3"},
}

// experimentStudies returns one command for each study. The reference of the comparison is the
// variant with all members in the study of members, else the first variant.
func experimentStudies(a *app) (all []*cobra.Command) {
	for _, s := range studies {
		cmd := &cobra.Command{Use: s.name + " -c FILE --run-dir DIR", Short: s.short, Long: s.long, Example: s.example, Args: noArgs,
			Annotations: annotations("ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop)}
		var members []int
		var variants []string
		switch s.name {
		case experiment.Members:
			cmd.Flags().IntSliceVar(&members, "members", nil, "`LIST` of numbers of members to train with (default: 2 to all)")
		case experiment.Ablation:
			cmd.Flags().StringArrayVar(&variants, "variant", nil, "`NAME` and changed key=value pairs of a variant (repeatable); the first is the reference")
		}
		bindStudy(a, cmd, func(o *experiment.StudyOptions) (err error) {
			o.Title = s.short
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

// bindStudy binds the flags of a study to cmd and lets it run the variants that choose
// returns.
func bindStudy(a *app, cmd *cobra.Command, choose func(*experiment.StudyOptions) error) {
	o := experiment.StudyOptions{Version: version.String(), Warn: a.warn, Stop: func() error { return a.flag.Err() }}
	src := configFlags(cmd)
	threads := threadsFlag(cmd.Flags())
	cmd.Flags().StringVar(&o.Dir, "run-dir", "", "`DIR` of the results")
	cmd.Flags().IntVar(&o.Seeds, "seeds", 1, "`NUMBER` of trainings a variant, with seeds from train.seed on; scores are averaged")
	cmd.RunE = a.runJob(func(ctx context.Context, _ []string) (result, error) {
		if err := requireFlags(cmd, "run-dir"); err != nil {
			return result{}, err
		}
		if o.Seeds < 1 {
			return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid value %d for --seeds", o.Seeds), At: "--seeds", Fix: "give 1 or more"}
		}
		if *threads > 0 {
			src.Set = append(src.Set, fmt.Sprintf("train.threads=%d", *threads))
		}
		o.Config = *src
		if err := choose(&o); err != nil {
			return result{}, err
		}
		var err error
		o.Progress = a.progress
		o.Timings = setup.UserTimings(a.log)
		e, err := experiment.RunStudy(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: e, outputs: e.Outputs()}, nil
	})
}
