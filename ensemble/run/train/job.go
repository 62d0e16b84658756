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

// job holds what is constant during a run. newJob fills it.
type job struct {
	base      config.Training         // settings of all networks, with Networks
	trainings []setup.NetworkTraining // one for each network, in order
	draws
	prune        config.Prune     // pruning by masks
	calibrations config.Calibrate // after the training
	removal      *channelRemoval  // removal of channels; nil for none
	model        *model.Model     // receives its networks after the last is trained
	local        *task.Task       // task on this rank's slab
	data         *samples.Data
	ranks        *team.Team // nil for a single rank
	dir          *rundir.Dir
	hash         string // checksum of the configuration
	// resumeIdentity is the checksum of the part of the configuration that resuming cannot change.
	resumeIdentity string
	kernels        kernels
}

// draws are what steps draw at random, besides the order of samples and dropout.
type draws struct {
	sampling string       // of members: "fixed" or "random"
	sizes    *setup.Sizes // of fields; nil: whole fields
}

// kernels are the measured times of kernels and the choices made from them.
type kernels struct {
	timings setup.Timings
	table   *tune.Table // measured times; nil keeps none
	// choices lists the kernels in use whose choice changes bits. A checkpoint stores it, so that later networks
	// and resumed runs use the same kernels.
	choices map[string]string
}

// auxiliaryInputs are the inputs of training besides the samples. prepare fills it.
type auxiliaryInputs struct {
	references *crossFit         // cross-fitted baselines on this rank's slab; nil without model.reference
	globalFits *crossFit         // the same on all points, on rank 0
	foldOf     []int             // for each training sample its block of years; nil without stages
	teacher    *teacher          // nil without distillation
	pretrained pretrainedWeights // initial weights of every network
}

// sampleCount is the number of samples that a network is trained on.
func (j *job) sampleCount(n setup.NetworkTraining) int {
	if n.Samples != nil {
		return len(n.Samples)
	}
	return len(j.data.Train.Inits)
}

// batchCount is the number of batches of batch_size samples per epoch; the last one may be padded.
func (j *job) batchCount(n setup.NetworkTraining) int {
	return (j.sampleCount(n) + j.base.BatchSize - 1) / j.base.BatchSize
}

// stepCount is the number of optimiser steps for batches, each of accumulate batches. The last step of an
// epoch may have fewer.
func (j *job) stepCount(batches int) int {
	return (batches + j.base.Accumulate - 1) / j.base.Accumulate
}

// totalSteps is the number of optimiser steps of several networks if none stops early.
func (j *job) totalSteps(trainings []setup.NetworkTraining) (n int) {
	for _, t := range trainings {
		n += t.Config.Epochs * j.stepCount(j.batchCount(t))
	}
	return n
}

// inferenceOptions returns the engine options for predictions with the trained model.
func (j *job) inferenceOptions() engine.Options {
	o := network.Options(j.base.Threads, j.base.Device)
	o.Timings, o.Log = j.kernels.table, j.kernels.timings.Log
	return o
}

// nameMemoryKeys adds the keys of the memory limits, and the least values that suffice, to an error about
// memory.
func (j *job) nameMemoryKeys(err error) error {
	n := j.ranks.MaxRanksPerProcess() * j.memoryShares()
	return setup.NameMemoryLimit(err, setup.TrainMemory.ForRanks(n), setup.TrainWorkspace.ForRanks(n))
}
