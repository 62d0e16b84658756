package main

import (
	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/compress"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func distilCommand(a *app) *cobra.Command {
	return retrainCommand(a, &cobra.Command{
		Use:   "distil -c FILE --run-dir DIR",
		Short: "Train a small network with finished ones as its teacher",
		Long: "Train a network on the data of finished trainings and on the distributions that\n" +
			"these predict, and compare all: size, operations, time of a forecast, scores on\n" +
			"the validation starts. The run directory is that of a training, and serves\n" +
			"predict, verify, prune and model export.",
		Example: "  ensemble distil -c distil.yaml --run-dir runs/student\n" +
			"  ensemble distil -c distil.yaml --run-dir runs/student --set model.base=4\n" +
			"  ensemble distil -c distil.yaml --run-dir runs/student --resume auto",
		Annotations: annotations("ensemble config explain --of distil, ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}, config.DistilSchema, "the student", config.LoadDistil, compress.Distil)
}
