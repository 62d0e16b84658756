package train

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/io/loader"
)

// trainer trains the networks of a model one after the other. The position, the parameter store and the
// optimiser determine the next step completely, and a checkpoint contains all three. A resumed run therefore
// repeats the steps of an uninterrupted one bit by bit.
type trainer struct {
	job
	groups    *team.SampleGroups // groups that take steps by themselves; nil without train.exchange
	inputs    auxiliaryInputs
	current   *currentNetwork // the network in training; nil between networks
	pos       position        // position in the training
	finished  []model.Weights // weights of the networks trained before
	observers observers
	saves     saves
	// stop combines Options.Stop and read errors of all ranks, and saves.isDue of rank 0; a nil error continues.
	stop      func(read error) (due bool, err error)
	sizeTimes sizeTimes
	warn      func(string) // receives warnings at once, on rank 0; nil drops them

	warnedOfDate   bool  // of a validation sample that determines the loss
	warnedOfGroups []int // that leave out most steps
}

// position is the progress of a training, as a checkpoint stores it in JSON.
type position struct {
	Network int     `json:"network"`  // finished networks
	Epoch   int     `json:"epoch"`    // finished epochs of the current network
	Batch   int     `json:"batch"`    // finished batches of the current epoch, whole optimiser steps only
	Step    uint64  `json:"step"`     // finished optimiser steps of all networks
	LossSum float64 `json:"loss_sum"` // sum of the losses of the samples of the current epoch
	// BestLoss is the lowest validation loss of the current network, reached after BestEpoch epochs.
	BestLoss  float64            `json:"best_loss"`
	BestEpoch int                `json:"best_epoch"`
	Plateau   optim.PlateauState `json:"plateau"` // state of the plateau schedule
	// LossScale is the loss scale of the current network in float16; zero in other precisions.
	LossScale optim.LossScale `json:"loss_scale,omitzero"`
	// Kept are the channels that remain in the current network; nil: all.
	Kept []channels.Kept `json:"kept,omitempty"`
	// Removed is one more than the last step that examined channels for removal; 0: none yet.
	Removed int `json:"removed,omitempty"`
	// Noise has the squared gradient norms of the current epoch, if steps accumulate batches.
	Noise optim.GradientNoise `json:"noise,omitzero"`
	// Curvature is the schedule of Kronecker factors; zero for other optimisers than kfac.
	Curvature curvaturePosition `json:"curvature,omitzero"`
	// Pruned is the state of pruning by masks; nil if no mask is used.
	Pruned *pruningPosition `json:"pruned,omitempty"`
	ranksPosition
}

// ranksPosition is the part of a position that depends on how ranks share the steps.
type ranksPosition struct {
	// Sparse is the state of sparse sums of gradients, besides residuals; nil if sums are dense.
	Sparse *sparsePosition `json:"sparse,omitempty"`
	// Cuts are those of the pipeline's stages, as in pipeline.Division; nil without a pipeline.
	Cuts []int `json:"pipeline_cuts,omitempty"`
}

// noBest replaces infinity as the initial lowest loss, as JSON has no infinity.
const noBest = math.MaxFloat64

// training is the definition of the current network's training.
func (t *trainer) training() setup.NetworkTraining { return t.trainings[t.pos.Network] }

// epochBatches is the number of batches per epoch of the current network.
func (t *trainer) epochBatches() int { return t.batchCount(t.training()) }

// samplesIn is the number of samples in the first batches of an epoch, the last of which may have fewer.
func (t *trainer) samplesIn(batches int) int {
	return min(batches*t.base.BatchSize, t.sampleCount(t.training()))
}

// networkSteps is the number of finished optimiser steps of the current network.
func (t *trainer) networkSteps() int {
	return t.pos.Epoch*t.stepCount(t.epochBatches()) + t.stepCount(t.pos.Batch)
}

// seed is the seed of the current network.
func (t *trainer) seed() uint64 { return setup.SeedOf(t.base, t.pos.Network) }

// schedule returns the order in which the ranks read samples for the current network, and the index of this
// reader.
func (t *trainer) schedule() (loader.Schedule, int) {
	return t.data.Schedule(t.current.cfg, t.pos.Network, t.training().Samples)
}

// order lists the samples of the current epoch in reading order.
func (t *trainer) order() []int {
	training := t.training()
	order := loader.Order(t.seed(), uint64(t.pos.Epoch), t.sampleCount(training))
	for i, k := range order {
		if training.Samples != nil {
			order[i] = training.Samples[k]
		}
	}
	return order
}
