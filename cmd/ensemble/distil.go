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
		Short: "Train a student network with teacher networks",
		Long: "Train a student network (knowledge distillation) on the data of finished runs\n" +
			"and on the distributions that their networks predict, and compare all: size,\n" +
			"FLOPs, time of a forecast, scores on the validation data. The result is a run\n" +
			"directory for predict, verify, prune and model export.",
		Example: "  ensemble distil -c distil.yaml --run-dir runs/student\n" +
			"  ensemble distil -c distil.yaml --run-dir runs/student --set model.base=4\n" +
			"  ensemble distil -c distil.yaml --run-dir runs/student --resume auto",
		Annotations: annotations("ensemble config explain --schema distil, ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}, config.DistilSchema, "the student", config.LoadDistil, compress.Distil)
}
