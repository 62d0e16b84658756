package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/doctor"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func doctorCommand(a *app) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Report hardware and libraries, and what missing ones would enable",
		Example: "  ensemble doctor\n" +
			"  ensemble doctor --json\n" +
			"  ensemble doctor --run-dir /scratch/runs",
		Annotations: annotations("docs/ARCHITECTURE.md", exit.SaveAndStop),
		Args:        noArgs,
		RunE: a.runJob(func(ctx context.Context, _ []string) (result, error) {
			r, err := doctor.Examine(ctx, dir)
			if err != nil {
				return result{}, err
			}
			return result{data: r}, nil
		}),
	}
	cmd.Flags().StringVar(&dir, "run-dir", ".", "`DIR` on the file system to examine")
	return cmd
}
