package train

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/quality"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// trainingRun is an open run directory with the files that the training reads.
type trainingRun struct {
	ranks    *team.Team     // nil for a single rank
	clock    *quality.Clock // MLPerf log; nil for none
	started  time.Time      // UTC
	files    trainingFiles
	inputs   []manifest.File // all files with checksums
	identity string          // hash of program version, configuration and inputs
	dir      *rundir.Dir
	state    rundir.State
	compared *team.Comparison // what the ranks compared; nil for a single rank
}

// trainingFiles are the paths of the files that a training reads.
type trainingFiles struct {
	forecasts, analyses []string
	auxiliary           []string // auxiliary fields, pretrained weights, teachers
}

// openTrainingRun opens the run directory of a training. Its identity is a hash of the program version, the
// configuration and the checksums of all input files, and must agree on all ranks.
//
// Errors: exit 65 and 66 for the files; 64, 65 and 69 if ranks disagree; 73 if the directory is in use, holds another
// run or cannot be written.
func openTrainingRun(ctx context.Context, o Options, ranks *team.Team, timed *quality.Clock) (*trainingRun, error) {
	r := &trainingRun{ranks: ranks, clock: timed, started: time.Now().UTC()}
	var err error
	c := o.Config
	if r.files.forecasts, r.files.analyses, err = samples.TrainingFiles(c); err != nil {
		return nil, err
	}
	if r.compared, err = setup.CompareRanks(ranks, o.Version, true, c.Train.Train.Threads, team.Settings("the configuration", c.Identity(), string(c.YAML()))); err != nil {
		return nil, err
	}
	if r.files.auxiliary, err = auxiliaryFiles(c); err != nil {
		return nil, err
	}
	if err := checkRunDirWritable(ranks, o.RunDir); err != nil {
		return nil, err
	}
	if r.inputs, err = ranks.ChecksumFiles(ctx, slices.Concat(r.files.forecasts, r.files.analyses, r.files.auxiliary)); err != nil {
		return nil, err
	}
	r.identity = manifest.Identity(o.Version, c.Identity(), r.inputs)
	if r.dir, r.state, err = openRunDir(ranks, o, r.identity); err != nil {
		return nil, err
	}
	return r, nil
}

// auxiliaryFiles lists the files that a training reads besides forecasts and analyses.
func auxiliaryFiles(c *config.TrainConfig) ([]string, error) {
	files, err := input.ConfigFiles("data.auxiliary.files", c.Data.Auxiliary.Files)
	if err != nil {
		return nil, err
	}
	if c.Model.Pretrained != "" {
		files = append(files, string(c.Model.Pretrained))
	}
	if dir := c.Model.ChannelsFrom; dir != "" {
		files = append(files, filepath.Join(string(dir), "model", model.File))
	}
	if dir := c.Train.Train.Exchange.Replay; dir != "" {
		files = append(files, filepath.Join(string(dir), rundir.EventsFile))
	}
	teachers, err := teacherFiles(c)
	return append(files, teachers...), err
}

// checkRunDirWritable reports a run directory that cannot be written before any input is read.
func checkRunDirWritable(t *team.Team, dir string) error {
	var err error
	if t.IsRoot() {
		err = rundir.CheckWritable(dir)
	}
	return t.AgreeOnError(err)
}

// openRunDir opens the run directory on rank 0; other ranks get a read-only view.
func openRunDir(t *team.Team, o Options, identity string) (*rundir.Dir, rundir.State, error) {
	var dir *rundir.Dir
	state := rundir.Fresh
	if t.IsRoot() {
		var err error
		if dir, state, err = rundir.Open(o.RunDir, rundir.Options{Identity: identity, Resume: o.Resume != "", Overwrite: o.Overwrite,
			Continue: "; a finished training is not resumed: to train its weights further, set another --run-dir and --set model.pretrained=" + filepath.Join(o.RunDir, "model", fmt.Sprintf(model.WeightsFormat, 0))}); err != nil {
			return nil, state, err
		}
	}
	s, err := t.BroadcastInt(int64(state))
	if err != nil && dir != nil {
		err = errors.Join(err, dir.Close())
	}
	if dir == nil {
		dir = rundir.View(o.RunDir)
	}
	return dir, rundir.State(s), err
}
