package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/experiment"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

func experimentSweep(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sweep -c FILE --run-dir DIR --key KEY=VALUES",
		Short: "Search the best settings on the validation dates",
		Long: "Train with all combinations of values of some keys, or with random ones, and\n" +
			"compare the networks by CRPS on the validation dates. The trials have no test\n" +
			"dates. --final trains the best one with them; test-looks.jsonl counts how often\n" +
			"that was done. Finished trainings are not repeated.",
		Example: "  ensemble experiment sweep -c train.yaml --run-dir runs/sweep \\\n" +
			"    --key model.base=8,16 --key model.dropout=0,0.1\n" +
			"  ensemble experiment sweep -c train.yaml --run-dir runs/sweep --trials 20 \\\n" +
			"    --key train.learning_rate=0.0003..0.01 --seeds 2 --final",
		Annotations: annotations("ensemble experiment ablation, docs/experiments.md", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	o := experiment.SweepOptions{Version: version.String(), Warn: a.warn, Stop: func() error { return a.flag.Err() }}
	src := configFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.Dir, "run-dir", "", "`DIR` of the results")
	keys := f.StringArray("key", nil, "`KEY=VALUE,VALUE` or KEY=LOW..HIGH to try (repeatable)")
	f.IntVar(&o.Trials, "trials", 0, "`NUMBER` of random trials; 0: all combinations")
	f.Uint64Var(&o.Seed, "random-seed", 1, "`SEED` of the random trials")
	f.IntVar(&o.Seeds, "seeds", 1, "`NUMBER` of trainings a trial, with seeds from train.seed on; scores are averaged")
	f.BoolVar(&o.Final, "final", false, "score the best trial on the test dates, and log that")
	cmd.RunE = a.runJob(func(ctx context.Context, _ []string) (result, error) {
		if err := requireFlags(cmd, "run-dir", "key"); err != nil {
			return result{}, err
		}
		o.Keys = nil
		for _, text := range *keys {
			k, err := experiment.ParseSweepKey(text)
			if err != nil {
				return result{}, err
			}
			o.Keys = append(o.Keys, k)
		}
		o.Config, o.Progress, o.Timings = *src, a.progress, setup.UserTimings(a.log)
		s, err := experiment.RunSweep(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: s, outputs: s.Outputs()}, nil
	})
	return cmd
}
