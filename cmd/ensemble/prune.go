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
		Short: "Prune a trained network and fine-tune it",
		Long: "Prune channels or weights of a trained network in rounds, with fine-tuning on\n" +
			"the same data after each, or at once (prune.method: obs, or epochs: 0), and\n" +
			"compare both networks: size, FLOPs, time of a forecast, scores on the validation\n" +
			"data. The result is a run directory for predict, verify and model export.",
		Example: "  ensemble prune -c prune.yaml --run-dir runs/small\n" +
			"  ensemble prune -c prune.yaml --run-dir runs/small --set prune.target=0.9\n" +
			"  ensemble prune -c prune.yaml --run-dir runs/small --resume auto",
		Annotations: annotations("ensemble config explain --schema prune, ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}, config.PruneSchema, "the pruned network", config.LoadPrune, compress.Prune)
}
