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
	base      config.Training         // of all networks, with Networks
	trainings []setup.NetworkTraining // networks in the order of their training
	sampling  string                  // of members: "fixed" or "random"
	prune     config.Prune
	removal   *channelRemoval // of channels; nil for none
	model     *model.Model    // gets its networks when all are trained
	local     *task.Task      // of this rank's slab
	data      *samples.Data
	ranks     *team.Team // nil for one rank alone
	dir       *rundir.Dir
	hash      string                 // of the configuration
	stop      func(read error) error // nil until somebody wants to save and stop, or cannot read
	kernels   kernels
}

// kernels are what is known of the kernels of the plans.
type kernels struct {
	timings setup.Timings
	table   *tune.Table // of timings; nil keeps none
	// choices are the kernels in use that decide bits. A checkpoint keeps them, so
	// that a resumed run, and later networks, compute in the same way.
	choices map[string]string
}

// auxiliaryInputs are what networks learn from beside the samples. prepare fills it.
type auxiliaryInputs struct {
	references *crossFit         // baselines of the training samples, on this rank's slab; nil for none
	globalFits *crossFit         // the same of all points, where this rank leads
	foldOf     []int             // of each training sample, the block of years; nil without stages
	teacher    *teacher          // nil for none
	pretrained pretrainedWeights // of every network
}

// sampleCount is how many samples a turn learns from.
func (j *job) sampleCount(turn setup.NetworkTraining) int {
	if turn.Samples != nil {
		return len(turn.Samples)
	}
	return len(j.data.Train.Inits)
}

// batchCount is how many batches of batch_size samples an epoch of a turn has.
func (j *job) batchCount(turn setup.NetworkTraining) int {
	return (j.sampleCount(turn) + j.base.BatchSize - 1) / j.base.BatchSize
}

// stepCount is how many steps of the optimiser, of accumulate batches each, have those
// batches. The last step of an epoch may have fewer.
func (j *job) stepCount(batches int) int {
	return (batches + j.base.Accumulate - 1) / j.base.Accumulate
}

// totalSteps are those of some of the turns if none stops early.
func (j *job) totalSteps(turns []setup.NetworkTraining) (n int) {
	for _, turn := range turns {
		n += turn.Config.Epochs * j.stepCount(j.batchCount(turn))
	}
	return n
}

// inferenceOptions gives the options of plans that predict with the trained model.
func (j *job) inferenceOptions() engine.Options {
	o := network.Options(j.base.Threads, j.base.Device)
	o.Timings = j.kernels.table
	return o
}

// nameMemoryKeys makes an error about too little memory name what the process needs.
func (j *job) nameMemoryKeys(err error) error {
	parts := j.ranks.MaxRanksPerProcess() * j.planCount()
	return setup.NameMemoryLimit(err, setup.TrainMemory.ForParts(parts), setup.TrainWorkspace.ForParts(parts))
}
