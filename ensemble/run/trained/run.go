package trained

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/nearest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// ReadFinished reads the manifest of a finished run.
//
// Errors: exit 66 if the run does not exist or is not finished; 65 for a damaged manifest.
func ReadFinished(runDir string) (*rundir.Manifest, error) {
	m, err := rundir.ReadManifest(runDir)
	if !errors.Is(err, os.ErrNotExist) {
		return m, err
	}
	if _, err := filesystem.Stat(runDir); errors.Is(err, os.ErrNotExist) {
		return nil, MissingRunError(runDir, err)
	}
	if at, err := rundir.Locate(runDir); err != nil || at != runDir {
		return nil, cmp.Or(err, rundir.ReplacedError(runDir, at))
	}
	return nil, &exit.Error{Code: exit.NotYet, What: "the run is not finished", At: filepath.Join(runDir, "manifest.json"),
		Why: "without a manifest the model may be incomplete", Fix: "finish the training: ensemble train … --run-dir " + runDir + " --resume auto", Err: err}
}

// MissingRunError returns the error for a run directory that does not exist. It suggests a similar name beside it, in
// the working directory, or in the folder runs.
func MissingRunError(dir string, err error) error {
	fix := "train first: `ensemble train -c train.yaml --run-dir " + dir + "`, or correct the path"
	there := slices.Concat(CompleteDirectories(filepath.Dir(dir)+string(filepath.Separator)), CompleteDirectories(""))
	names := make([]string, len(there))
	for i, d := range there {
		names[i] = filepath.Base(d)
	}
	if near := nearest.Find(filepath.Base(dir), names); near != "" {
		fix = "did you mean `" + there[slices.Index(names, near)] + "`?"
	}
	return &exit.Error{Code: exit.NotYet, What: "no such run directory", At: dir, Fix: fix, Err: err}
}

// ModelChecksum returns one checksum for all files of a model, "sha256:…".
//
// Errors: exit 66 without a model.
func ModelChecksum(dir string) (string, error) {
	entries, err := filesystem.ReadDir(dir)
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

// FinishedTraining returns the manifest of a finished training and its number of training samples.
//
// Errors: exit 66 if it is not finished; 64 for runs of other commands.
func FinishedTraining(dir string) (record *rundir.Manifest, samples int, err error) {
	if record, err = ReadFinished(dir); err != nil {
		return nil, 0, err
	}
	n, ok := record.Details["inits_train"].(float64)
	if record.Command != "train" || !ok {
		return nil, 0, &exit.Error{Code: exit.Usage, What: "the run is not a training", At: dir, Why: fmt.Sprintf("it was made by `ensemble %s`", record.Command), Fix: "give the directory of a finished training"}
	}
	return record, int(n), nil
}

// EffectiveConfigFile is the resolved configuration in a run directory.
const EffectiveConfigFile = "config.effective.yaml"

// ReferenceDir is the folder, in the root of products, with the model's baselines. predict writes it;
// verification reads it.
const ReferenceDir = "reference"
