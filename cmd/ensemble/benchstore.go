package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func benchStore(a *app) *cobra.Command {
	var o samples.StoreBenchOptions
	cmd := &cobra.Command{
		Use:   "store DIR",
		Short: "Measure reading speed of a sample store",
		Long: "Measure reading of a sample store in the random order of training, with cold\n" +
			"caches, and the sequential rate of the disk (whole shards with direct I/O), in\n" +
			"alternation. It prints the measured time, the time that the loader simulator\n" +
			"predicts, and the peak memory of the process. The store is read twice.",
		Example: "  ensemble bench store store\n" +
			"  ensemble bench store store --inits 100 --prefetch 8 --direct-io --json",
		Annotations: annotations("docs/training.md", exit.BadData, exit.NotYet, exit.IO, exit.SaveAndStop),
		Args:        exactlyOneArg,
	}
	f := cmd.Flags()
	starts := f.Uint("inits", 0, "number of initialisations to read; 0: all")
	prefetch := f.Uint("prefetch", 0, "initialisations read ahead, as data.prefetch; 0: its default")
	f.BoolVar(&o.Direct, "direct-io", false, "bypass the page cache with direct I/O")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the random order")
	cmd.RunE = a.runJob(func(ctx context.Context, args []string) (result, error) {
		o.Dir, o.Inits, o.Prefetch = args[0], int(*starts), int(*prefetch)
		var err error
		o.Progress = a.progress
		r, err := samples.StoreBench(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r}, nil
	})
	return cmd
}
