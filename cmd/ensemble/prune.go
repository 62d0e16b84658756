package main

import (
	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/compress"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func pruneCommand(a *app) *cobra.Command {
	return retrainCommand(a, &cobra.Command{
		Use:   "prune -c FILE --run-dir DIR",
		Short: "Make the network of a finished training smaller",
		Long: "Remove channels or weights of a trained network in rounds, with training on the\n" +
			"same data between them, and compare both networks: size, operations, time of a\n" +
			"forecast, scores on the validation starts. The run directory is that of a\n" +
			"training, and serves predict, verify and model export.",
		Example: "  ensemble prune -c prune.yaml --run-dir runs/small\n" +
			"  ensemble prune -c prune.yaml --run-dir runs/small --set prune.target=0.9\n" +
			"  ensemble prune -c prune.yaml --run-dir runs/small --resume auto",
		Annotations: annotations("ensemble config explain --of prune, ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}, config.PruneSchema, "the smaller network", config.LoadPrune, compress.Prune)
}
