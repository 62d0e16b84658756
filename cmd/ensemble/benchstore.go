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
		Short: "Measure how fast a sample store is read here",
		Long: "Measure the reading of a sample store in the random order of a training, from a\n" +
			"cold disk and with nothing kept in memory, beside the disk's own rate: whole\n" +
			"shards, read forward in large blocks past the page cache, in turns with the\n" +
			"other. The time is printed beside the one that the simulator of the loader\n" +
			"predicts, and the peak memory of the process. It is read twice.",
		Example: "  ensemble bench store store\n" +
			"  ensemble bench store store --starts 100 --prefetch 8 --direct --json",
		Annotations: annotations("docs/training.md", exit.BadData, exit.NotYet, exit.IO, exit.SaveAndStop),
		Args:        exactlyOneArg,
	}
	f := cmd.Flags()
	starts := f.Uint("starts", 0, "read the first so many starts only; 0 means all")
	prefetch := f.Uint("prefetch", 0, "starts that are read ahead, as data.prefetch; 0 means its default")
	f.BoolVar(&o.Direct, "direct", false, "read past the page cache, as data.direct")
	f.Uint64Var(&o.Seed, "seed", 1, "of the order")
	reporter := a.progressFlag(f)
	cmd.RunE = a.runJob(func(ctx context.Context, args []string) (result, error) {
		o.Dir, o.Inits, o.Prefetch = args[0], int(*starts), int(*prefetch)
		var err error
		if o.Progress, err = reporter(); err != nil {
			return result{}, err
		}
		defer o.Progress.Close()
		r, err := samples.StoreBench(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r}, nil
	})
	return cmd
}
