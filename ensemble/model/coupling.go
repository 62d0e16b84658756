package model

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// couplingFile is the file in a model folder with the results of the coupling test of the training.
const couplingFile = "coupling.json"

// SaveCoupling writes the results of the coupling test. Without rows it writes no file.
//
// Errors: exit 73 or 74.
func SaveCoupling(dir string, rows []score.Coupling) error {
	if len(rows) == 0 {
		return nil
	}
	return jsonfile.Write(filepath.Join(dir, couplingFile), rows)
}

// loadCoupling is the inverse of SaveCoupling. Without the file the result is nil.
//
// Errors: exit 66 or 74 if the file cannot be read, exit 65 if it is damaged.
func loadCoupling(dir string) (rows []score.Coupling, err error) {
	path := filepath.Join(dir, couplingFile)
	text, err := filesystem.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, exit.ReadError(path, err)
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, damagedError(dir)(couplingFile + ": " + err.Error())
	}
	return rows, nil
}
