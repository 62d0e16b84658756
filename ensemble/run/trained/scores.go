package trained

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/table"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Results of verification in a directory: all scores as JSON, as a table, and as a table by initialisation.
const (
	ScoresFile  = "scores.json"
	ScoresTable = "scores.parquet"
	DatesTable  = "dates.parquet"
)

// WriteScores writes results as JSON and as Parquet tables.
//
// Errors: exit 73 and 74.
func WriteScores(dir string, r *score.Result) error {
	if err := jsonfile.Write(filepath.Join(dir, ScoresFile), r); err != nil {
		return err
	}
	if err := table.Write(filepath.Join(dir, DatesTable), slices.Concat(r.Dates, r.RegionDates)); err != nil {
		return err
	}
	return table.Write(filepath.Join(dir, ScoresTable), r.Scores)
}

// ReadScores reads the results that a training or a verification left in a directory.
//
// Errors: exit 66 if there are none; 65 if they cannot be read.
func ReadScores(dir string) (*score.Result, error) {
	path := filepath.Join(dir, ScoresFile)
	text, err := filesystem.ReadFile(path)
	if err != nil {
		return nil, &exit.Error{Code: exit.NotYet, What: "no scores", At: path, Why: err.Error(), Fix: "finish the training, or run `ensemble verify --out DIR`", Err: err}
	}
	var r score.Result
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "the scores cannot be read", At: path, Why: err.Error(), Fix: "compute them again with `ensemble verify`", Err: err}
	}
	return &r, nil
}

// ReadDates reads the scores by initialisation that a training or a verification left in a directory, of the whole area and
// of regions.
//
// Errors: exit 66 if there are none; 65 if they cannot be read.
func ReadDates(ctx context.Context, dir string) (whole, regions []score.DateScore, err error) {
	all, err := table.Read[score.DateScore](ctx, filepath.Join(dir, DatesTable))
	for _, d := range all {
		if d.Region == score.Everywhere {
			whole = append(whole, d)
		} else {
			regions = append(regions, d)
		}
	}
	return whole, regions, err
}

// Outputs lists the files of a finished run for its manifest.
func Outputs(dir *rundir.Dir, scored bool) ([]string, error) {
	entries, err := filesystem.ReadDir(dir.File("model"))
	if err != nil {
		return nil, exit.CreateError(dir.File("model"), err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, "model/"+e.Name())
	}
	if scored {
		out = append(out, ScoresFile, ScoresTable, DatesTable)
	}
	return out, nil
}
