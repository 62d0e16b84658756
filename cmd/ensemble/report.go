package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func reportCommand(a *app) *cobra.Command {
	var runDir string
	cmd := &cobra.Command{
		Use:   "report DIR | --run-dir DIR",
		Short: "Write an HTML report of a run",
		Long: "Write an HTML report of a run with maps, scores and loss curves. It is one\n" +
			"self-contained file; the maps are also written as PNG.",
		Example:     "  ensemble report runs/a\n  ensemble report runs/demo --json",
		Annotations: annotations("ensemble verify", exit.BadData, exit.NotYet, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        atMostOneArg, ValidArgsFunction: completeRunDirs,
		RunE: a.runJob(func(_ context.Context, args []string) (result, error) {
			if (len(args) == 0) == (runDir == "") {
				return result{}, &exit.Error{Code: exit.Usage, What: "one run directory is needed", At: "ensemble report", Fix: "give the directory of `ensemble train --run-dir`, as in `ensemble report runs/a` or `ensemble report --run-dir runs/a`"}
			}
			defer a.progress.Start("write report", 0).Done()
			path, err := reports.Write(reports.Options{Dir: cmp.Or(runDir, strings.Join(args, ""))})
			if err != nil {
				return result{}, err
			}
			return result{outputs: []string{path}, text: func(w io.Writer) error {
				_, err := fmt.Fprintln(w, path)
				return err
			}}, nil
		}),
	}
	cmd.Flags().StringVar(&runDir, "run-dir", "", "run `DIR`")
	return cmd
}
