package trained

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/nearest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// ReadFinished reads the manifest of a finished run.
//
// Errors: exit 66 if the run is not there, or not finished.
func ReadFinished(runDir string) (*rundir.Manifest, error) {
	m, err := rundir.ReadManifest(runDir)
	if !errors.Is(err, os.ErrNotExist) {
		return m, err
	}
	if _, err := os.Stat(runDir); errors.Is(err, os.ErrNotExist) {
		return nil, MissingRunError(runDir, err)
	}
	return nil, &exit.Error{Code: exit.NotYet, What: "the run is not finished", At: filepath.Join(runDir, "manifest.json"),
		Why: "without a manifest the model may be incomplete", Fix: "finish the training: ensemble train … --run-dir " + runDir + " --resume auto", Err: err}
}

// MissingRunError says that a run directory is not there, and which one was probably meant: beside it, here, or in the folder runs.
func MissingRunError(dir string, err error) error {
	fix := "correct the path"
	there := slices.Concat(CompleteDirectories(filepath.Dir(dir)+string(filepath.Separator)), CompleteDirectories(""))
	names := make([]string, len(there))
	for i, d := range there {
		names[i] = filepath.Base(d)
	}
	if near := nearest.Find(filepath.Base(dir), names); near != "" {
		fix = "give " + there[slices.Index(names, near)] + " if that was meant"
	}
	return &exit.Error{Code: exit.NotYet, What: "no such run directory", At: dir, Fix: fix + ", or train first: ensemble train -c FILE --run-dir " + dir, Err: err}
}

// ModelChecksum is one checksum for all files of a model.
func ModelChecksum(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", &exit.Error{Code: exit.NotYet, What: "no trained model", At: dir, Why: err.Error(), Fix: "train first: ensemble train -c FILE --run-dir DIR", Err: err}
	}
	var files []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	sums, err := manifest.Sum(files...)
	if err != nil {
		return "", err
	}
	return "sha256:" + manifest.Identity("", "", sums), nil
}

// FinishedTraining is the number of training starts of a run.
//
// Errors: 66 for what has not ended, 64 for runs of other commands.
func FinishedTraining(dir string) (record *rundir.Manifest, starts int, err error) {
	if record, err = ReadFinished(dir); err != nil {
		return nil, 0, err
	}
	n, ok := record.Details["starts_train"].(float64)
	if record.Command != "train" || !ok {
		return nil, 0, &exit.Error{Code: exit.Usage, What: "it is no training", At: dir, Why: fmt.Sprintf("it was made by %q", record.Command), Fix: "name the folder of a finished training"}
	}
	return record, int(n), nil
}

// EffectiveConfigFile is the configuration of the training in a run directory.
const EffectiveConfigFile = "config.effective.yaml"

// ReferenceDir is the folder in the root of the products in which predict leaves
// the baselines that verification sets beside the network.
const ReferenceDir = "reference"
