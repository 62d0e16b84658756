package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func reportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "report DIR",
		Short: "Write an HTML report of a run",
		Long: "Write an HTML report of a run with maps, scores and loss curves. It is one\n" +
			"self-contained file; the maps are also written as PNG.",
		Example:     "  ensemble report runs/a\n  ensemble report runs/demo --json",
		Annotations: annotations("ensemble verify", exit.BadData, exit.NotYet, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        exactlyOneArg, ValidArgsFunction: completeRunDirs,
		RunE: a.runJob(func(_ context.Context, args []string) (result, error) {
			defer a.progress.Start("write report", 0).Done()
			path, err := reports.Write(reports.Options{Dir: args[0]})
			if err != nil {
				return result{}, err
			}
			return result{outputs: []string{path}, text: func(w io.Writer) error {
				_, err := fmt.Fprintln(w, path)
				return err
			}}, nil
		}),
	}
}
