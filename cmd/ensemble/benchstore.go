package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// benchStore adds --store and its flags; measure is what they ask for, and given whether they do.
func benchStore(f *pflag.FlagSet, reporter func() (*progress.Reporter, error)) (given func() (bool, error), measure func(context.Context) (result, error)) {
	var o samples.StoreBenchOptions
	f.StringVar(&o.Dir, "store", "", "measure how fast the sample store in `DIR` is read here")
	starts := f.Uint("starts", 0, "with --store, read the first so many starts only; 0 means all")
	prefetch := f.Uint("prefetch", 0, "with --store, starts that are read ahead, as data.prefetch; 0 means its default")
	f.BoolVar(&o.Direct, "direct", false, "with --store, read past the page cache, as data.direct")
	f.Uint64Var(&o.Seed, "seed", 1, "with --store, of the order")
	given = func() (bool, error) {
		for _, name := range []string{"starts", "prefetch", "direct", "seed"} {
			if o.Dir == "" && f.Changed(name) {
				return false, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("--%s without --store", name), At: "the command line", Fix: "name the folder of a store with --store"}
			}
		}
		return o.Dir != "", nil
	}
	return given, func(ctx context.Context) (result, error) {
		o.Starts, o.Prefetch = int(*starts), int(*prefetch)
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
	}
}
