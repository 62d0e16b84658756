package compress

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// derivation states how the model of a finished training becomes another one without training.
type derivation struct {
	from, to  string // run directories
	overwrite bool
	threads   int // 0: as in the training
	version   string
	config    string // hash of the job's configuration
}

// derivedRun is a run directory in the making whose model is derived from a finished training.
type derivedRun struct {
	derivation
	record   *rundir.Manifest // of the training
	training *config.TrainConfig
	dir      *rundir.Dir
	identity string
	began    time.Time
}

// beginDerived opens the run directory. The caller closes it.
//
// Errors: exit 64 and 66 for a run that is not a finished training; 73 for the output.
func beginDerived(d derivation) (*derivedRun, error) {
	r := &derivedRun{derivation: d, began: time.Now().UTC()}
	var err error
	if r.record, _, err = trained.FinishedTraining(d.from); err != nil {
		return nil, err
	}
	if r.training, err = config.LoadTrain(config.Sources{Files: []string{filepath.Join(d.from, trained.EffectiveConfigFile)}}); err != nil {
		return nil, err
	}
	if d.threads > 0 {
		r.training.Train.Train.Threads = d.threads
	}
	sum, err := trained.ModelChecksum(filepath.Join(d.from, "model"))
	if err != nil {
		return nil, err
	}
	r.identity = manifest.Identity(d.version, d.config+sum, r.record.Inputs)
	r.dir, _, err = rundir.Open(d.to, rundir.Options{Identity: r.identity, Overwrite: d.overwrite})
	return r, err
}

// readData reads the data of the training.
func (r *derivedRun) readData(ctx context.Context) (*samples.Data, error) {
	return readSamples(ctx, r.training)
}

// copyFiles copies the files of the training's model, with the description of m.
func (r *derivedRun) copyFiles(m *model.Model) error {
	files := []string{trained.EffectiveConfigFile}
	err := filepath.WalkDir(filepath.Join(r.from, "model"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != model.File {
			name, _ := filepath.Rel(r.from, path)
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		return exit.ReadError(r.from, err)
	}
	return r.dir.Publish(func() error { return r.copyNamed(files, m) })
}

// copyNamed copies files of the training, and writes the description of m.
func (r *derivedRun) copyNamed(files []string, m *model.Model) error {
	for _, name := range files {
		b, err := filesystem.ReadFile(filepath.Join(r.from, name))
		if err != nil {
			return exit.ReadError(filepath.Join(r.from, name), err)
		}
		to := r.dir.File(name)
		if err := errors.Join(filesystem.MkdirAll(filepath.Dir(to), 0o755), atomicfile.WriteFile(to, b)); err != nil {
			return exit.CreateError(to, err)
		}
	}
	return m.SaveDescription(r.dir.File("model"))
}

// finish writes the manifest and returns the paths of all files. extra names one beside those of a training.
func (r *derivedRun) finish(extra string) (outputs []string, err error) {
	made, err := trained.Outputs(r.dir, false)
	if err != nil {
		return nil, err
	}
	made = append(made, extra, trained.EffectiveConfigFile)
	for _, name := range made {
		outputs = append(outputs, r.dir.File(name))
	}
	own := *r.record
	own.Version, own.Start, own.End, own.Identity = r.version, r.began, time.Now().UTC(), r.identity
	if own.ModelChecksum, err = trained.ModelChecksum(r.dir.File("model")); err != nil {
		return nil, err
	}
	return outputs, r.dir.WriteManifest(own, made)
}
