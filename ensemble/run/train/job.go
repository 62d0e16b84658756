package train

import (
	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// job is what stays the same in a run. prepare fills it.
type job struct {
	base     config.Training // of all networks, with Networks
	turns    []setup.Turn    // networks in the order of their training
	sampling string          // of members: "fixed" or "random"
	prune    config.Prune
	removal  *removal     // of channels; nil for none
	model    *model.Model // gets its networks when all are trained
	local    *task.Task   // of this rank's slab
	data     *samples.Data
	ranks    *team.Team // nil for one rank alone
	dir      *rundir.Dir
	hash     string                 // of the configuration
	stop     func(read error) error // nil until somebody wants to save and stop, or cannot read
	kernels  kernels
}

// kernels are what is known of the kernels of the plans.
type kernels struct {
	timings setup.Timings
	table   *tune.Table // of timings; nil keeps none
	// choices are the kernels in use that decide bits. A checkpoint keeps them, so
	// that a resumed run, and later networks, compute in the same way.
	choices map[string]string
}

// inputs are what networks learn from beside the samples. prepare fills it.
type inputs struct {
	references *crossFit    // baselines of the training samples, on this rank's slab; nil for none
	fits       *crossFit    // the same of all points, where this rank leads
	foldOf     []int        // of each training sample, the block of years; nil without stages
	teacher    *teacher     // nil for none
	start      startWeights // of every network
}

// samplesOf is how many samples a turn learns from.
func (j *job) samplesOf(turn setup.Turn) int {
	if turn.Starts != nil {
		return len(turn.Starts)
	}
	return len(j.data.Train.Inits)
}

// batchesOf is how many batches of batch_size samples an epoch of a turn has.
func (j *job) batchesOf(turn setup.Turn) int {
	return (j.samplesOf(turn) + j.base.BatchSize - 1) / j.base.BatchSize
}

// steps is how many steps of the optimiser, of accumulate batches each, have those
// batches. The last step of an epoch may have fewer.
func (j *job) steps(batches int) int {
	return (batches + j.base.Accumulate - 1) / j.base.Accumulate
}

// allSteps are those of some of the turns if none stops early.
func (j *job) allSteps(turns []setup.Turn) (n int) {
	for _, turn := range turns {
		n += turn.Config.Epochs * j.steps(j.batchesOf(turn))
	}
	return n
}

// inferring gives the options of plans that predict with the trained model.
func (j *job) inferring() engine.Options {
	o := network.Options(j.base.Threads, j.base.Device)
	o.Timings = j.kernels.table
	return o
}

// namedMemory makes an error about too little memory name what the process needs.
func (j *job) namedMemory(err error) error {
	parts := j.ranks.Most() * j.plansOfMembers()
	return setup.NamedMemory(err, setup.TrainMemory.Of(parts), setup.TrainWorkspace.Of(parts))
}
