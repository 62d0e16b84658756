package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/experiment"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func experimentBundle(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle DIR --licence FILE --author NAME --out FILE",
		Short: "Archive the results of an experiment for publication",
		Long: "Archive the results of an experiment for a repository that assigns a DOI:\n" +
			"record, configurations, scores, figures, licence, CITATION.cff and digests.\n" +
			"Refused are records that failed, of a program with uncommitted changes, or whose\n" +
			"files have changed. The same results give the same bytes.",
		Example: "  ensemble experiment bundle runs/experiments/gcm --licence LICENSE \\\n" +
			"    --licence-id CC-BY-4.0 --author \"Doe, Jane\" --out gcm.zip",
		Annotations: annotations("ensemble experiment run, docs/experiments.md", exit.BadData, exit.NotYet, exit.CannotWrite, exit.IO),
		Args:        exactlyOne("the directory of results of an experiment"),
	}
	var o experiment.BundleOptions
	f := cmd.Flags()
	f.StringVarP(&o.Out, "out", "o", "", "archive to write, a zip `FILE`")
	f.StringVar(&o.Licence, "licence", "", "`FILE` with the licence of the results")
	f.StringVar(&o.LicenceID, "licence-id", "", "SPDX `IDENTIFIER` of the licence, for CITATION.cff")
	f.StringArrayVar(&o.Authors, "author", nil, "author, \"`FAMILY, GIVEN`\" (repeatable)")
	cmd.RunE = a.runJob(func(_ context.Context, args []string) (result, error) {
		if err := requireFlags(cmd, "out"); err != nil {
			return result{}, err
		}
		o.Results = args[0]
		b, err := experiment.WriteBundle(o)
		if err != nil {
			return result{}, err
		}
		return result{data: b, outputs: []string{b.Path}}, nil
	})
	return cmd
}
