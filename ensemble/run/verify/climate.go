package verify

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// findClimate loads the climate of a verification: the named file, or the one of the training; nil if there
// is none.
func findClimate(o Options, grid *ensemble.Grid) (*task.Climate, error) {
	path := o.Climate
	if path == "" && o.RunDir != "" {
		path = filepath.Join(o.RunDir, "model", task.ClimateFile)
		if _, err := filesystem.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	if path == "" {
		return nil, nil
	}
	c, err := task.LoadClimate(path)
	if err != nil {
		return nil, err
	}
	return c, train.CheckClimateGrid(c, grid, path)
}
