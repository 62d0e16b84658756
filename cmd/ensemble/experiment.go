package main

import (
	"context"
	"fmt"
	"io"

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
		Annotations: notes("ensemble help experiment members"),
	}, experimentRun(a), experimentReproduce(a), experimentList(a), experimentCompare(a), experimentMembers(a), experimentAblation(a), experimentKinds(a), experimentEfficiency(a), experimentCase(a))
}

func experimentMembers(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "members -c FILE --run-dir DIR",
		Short: "Train on few members, on more, and on all",
		Long: "Train a configuration on 2 members, on 3, and so on to all of them, and compare\n" +
			"what each network scores with the raw ensemble of all members: how many members\n" +
			"a forecast is worth. Each has a run directory of its own; those that are done\n" +
			"are not trained again. The folder gets experiment.json, a table and a page.",
		Example: "  ensemble experiment run experiments/demo\n" +
			"  ensemble experiment members -c train.yaml --run-dir runs/members \\\n" +
			"    --members 2,5,10",
		Annotations: notes("ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	counts := cmd.Flags().IntSlice("members", nil, "numbers of `MEMBERS` to train on (default 2 to all)")
	runExperiment(a, cmd, func(o *experiment.VaryOptions) (err error) {
		if o.Variants, err = experiment.MemberVariants(o.Config, *counts); err == nil {
			o.Against = o.Variants[len(o.Variants)-1].Name
		}
		return err
	})
	return cmd
}

func experimentAblation(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ablation -c FILE --run-dir DIR",
		Short: "Train with parts of a configuration left out",
		Long: "Train a configuration as it is, and with one part of it changed at a time:\n" +
			"leads, levels, standardisation, location, season, loss; or variants by name.\n" +
			"Gains over the first one are paired by start. Each has a run directory of its\n" +
			"own; those that are done are not trained again.",
		Example: "  ensemble experiment ablation -c train.yaml --run-dir runs/ablation\n" +
			"  ensemble experiment ablation -c train.yaml --run-dir runs/width \\\n" +
			"    --variant base16 --variant \"base32 model.base=32\"",
		Annotations: notes("ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	variants := cmd.Flags().StringArray("variant", nil, "`NAME` of a variant and what it changes, as key=value; the first is compared with")
	runExperiment(a, cmd, func(o *experiment.VaryOptions) (err error) {
		for _, text := range *variants {
			v, err := experiment.ParseVariant(text)
			if err != nil {
				return err
			}
			o.Variants = append(o.Variants, v)
		}
		if o.Variants == nil {
			if o.Variants, err = experiment.AblationVariants(o.Config); err != nil {
				return err
			}
		}
		o.Against = o.Variants[0].Name
		return nil
	})
	return cmd
}

func experimentKinds(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kinds -c FILE --run-dir DIR",
		Short: "Train the network baselines of ENS-10 beside a configuration",
		Long: "Train a configuration as it is, and with a network by point, by patch and in two\n" +
			"dimensions in place of its own, at their published sizes. Gains over it are\n" +
			"paired by start. Each has a run directory of its own; those that are done are\n" +
			"not trained again.",
		Example:     "  ensemble experiment kinds -c train.yaml --run-dir runs/kinds --seeds 3",
		Annotations: notes("ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	runExperiment(a, cmd, func(o *experiment.VaryOptions) (err error) {
		if o.Variants, err = experiment.KindVariants(o.Config); err == nil {
			o.Against = o.Variants[0].Name
		}
		return err
	})
	return cmd
}

// runExperiment lets a command run the variants that choose finds.
func runExperiment(a *app, cmd *cobra.Command, choose func(*experiment.VaryOptions) error) {
	o := experiment.VaryOptions{Version: version.String(), Warn: a.warn, Stop: func() error { return a.flag.Err() }}
	src := configFlags(cmd)
	reporter := a.progressFlag(cmd.Flags())
	threads := threadsFlag(cmd.Flags())
	cmd.Flags().StringVar(&o.Dir, "run-dir", "", "`DIR` of the experiment")
	cmd.Flags().IntVar(&o.Seeds, "seeds", 1, "`NUMBER` of trainings of each variant, from train.seed on; scores are their mean")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) (result, error) {
		if err := required(cmd, "run-dir"); err != nil {
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
		e, err := experiment.Vary(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: e, outputs: e.Outputs(), text: func(w io.Writer) error {
			if err := e.Fprint(w); err != nil {
				return err
			}
			return printLines(w, e.Outputs())
		}}, nil
	})
}
