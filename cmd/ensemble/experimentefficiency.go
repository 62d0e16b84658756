package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/run/compress"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func experimentEfficiency(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "efficiency DIR...",
		Short: "Compare finished trainings: skill against size and time",
		Long: "Compare the networks of finished trainings on the same data, dense and pruned:\n" +
			"parameters, those that are not 0, bytes, operations, time of a forecast (all in\n" +
			"turn), CRPS and gains on the validation starts of the first, and skill for each\n" +
			"million of parameters that are not 0.",
		Example:     "  ensemble experiment efficiency runs/dense runs/half runs/fifth",
		Annotations: annotations("ensemble prune", exit.BadData, exit.NotYet, exit.IO),
		Args:        atLeastOneArg,
	}
	threads := threadsFlag(cmd.Flags())
	cmd.RunE = a.runJob(func(ctx context.Context, dirs []string) (result, error) {
		t, err := compress.CompareEfficiency(ctx, dirs, int(*threads))
		if err != nil {
			return result{}, err
		}
		return result{data: t}, nil
	})
	return cmd
}
