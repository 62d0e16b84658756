package verify

import (
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// SumsFiles is Files for sums, of which a folder has those that end with .sums.
//
// Errors: those of fio.List.
func SumsFiles(key string, names []string) ([]string, error) {
	l := fio.Listing{Suffix: SumsEnding}
	files, _, err := l.List(key, names)
	return files, err
}

// JoinOptions say which sums make one verification.
type JoinOptions struct {
	Files     []string // that Run left, Options.Sums
	Out       string   // as Options.Out
	Sums      string   // file for the sums of all of them; empty: none
	Bootstrap score.Bootstrap
}

// JoinSums makes the scores of all dates of several verifications, with the bits of one run
// over all of them.
//
// Errors: exit 65 for files that are no sums, or sums of other targets' grids, scores, baselines
// or members than another file has, or of a start that another file has too; 66 for files that
// cannot be read.
func JoinSums(o JoinOptions) (*Result, error) {
	all, trained, warnings, err := scoring.JoinFiles(o.Files, o.Bootstrap)
	if err != nil {
		return nil, err
	}
	res := &Result{Warnings: warnings}
	if err := publishScores(o.Out, all, trained, res); err != nil || o.Sums == "" {
		return res, err
	}
	res.Outputs = append(res.Outputs, o.Sums)
	return res, scoring.SaveSums(o.Sums, all, trained)
}
