package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/run/compress"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func experimentEfficiency(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "efficiency DIR...",
		Short: "Compare networks by skill, size and speed",
		Long: "Compare networks by skill, size and speed: parameters, nonzero parameters,\n" +
			"bytes, FLOPs, time of a forecast (networks timed in alternation), CRPS and CRPSS\n" +
			"on the validation data of the first run, and CRPSS per million nonzero\n" +
			"parameters. All runs must have the same data.",
		Example:     "  ensemble experiment efficiency runs/dense runs/half runs/fifth",
		Annotations: annotations("ensemble prune", exit.BadData, exit.NotYet, exit.IO),
		Args:        atLeastOneArg,
	}
	threads := threadsFlag(cmd.Flags())
	cmd.RunE = a.runJob(func(ctx context.Context, dirs []string) (result, error) {
		t, err := compress.CompareEfficiency(ctx, dirs, int(*threads), setup.UserTimings(a.log))
		if err != nil {
			return result{}, err
		}
		return result{data: t}, nil
	})
	return cmd
}
