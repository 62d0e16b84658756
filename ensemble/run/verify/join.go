package verify

import (
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// SumsFiles is input.Files for partial sums; of a folder it lists the files that end with .sums.
//
// Errors: those of fio.List.
func SumsFiles(key string, names []string) ([]string, error) {
	l := fio.Listing{Suffix: SumsEnding}
	files, _, err := l.List(key, names)
	return files, err
}

// JoinOptions select the partial sums that make one verification.
type JoinOptions struct {
	Files     []string // written by Run with Options.Sums
	Out       string   // as Options.Out
	Sums      string   // file for the joined sums; empty: none
	Bootstrap significance.Bootstrap
	By        string // as Options.By
}

// JoinSums computes the scores of all dates of several verifications, with the bits of a single run over all
// of them.
//
// Reads: files of partial sums.
// Writes: as [Run].
// Errors: exit 65 for other files, for sums whose targets, grids, scores, baselines or members differ, and
// for an initialisation in several files; 66 for missing files; 73 and 74 for the output.
func JoinSums(o JoinOptions) (*Result, error) {
	all, trained, warnings, err := scoring.JoinFiles(o.Files, o.Bootstrap)
	if err != nil {
		return nil, err
	}
	res := &Result{Warnings: warnings, by: o.By}
	if err := publishScores(o.Out, all, trained, o.Bootstrap, res); err != nil {
		return res, err
	}
	return res, res.publishSums(o.Sums, all, trained)
}
