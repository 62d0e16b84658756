package train

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/io/loader"
)

// trainer trains the networks of a model one after the other. Everything that
// decides what comes next is in position, the store and the optimiser, and all
// of it is in a checkpoint; so a resumed run takes the very same steps.
type trainer struct {
	job
	inputs    auxiliaryInputs
	current   *currentNetwork // the present network; nil before it begins and after the last
	pos       position
	finished  []model.Weights // of the networks that were trained before the present one
	observers observers
}

// position is where training stands, as a checkpoint keeps it.
type position struct {
	Network int     `json:"network"` // finished networks
	Epoch   int     `json:"epoch"`   // finished epochs of the present one
	Batch   int     `json:"batch"`   // finished batches of the present epoch, those of whole steps
	Step    uint64  `json:"step"`    // finished steps of all networks
	LossSum float64 `json:"loss_sum"`
	// BestLoss is the lowest validation loss of the present network, at BestEpoch.
	BestLoss  float64            `json:"best_loss"`
	BestEpoch int                `json:"best_epoch"`
	Plateau   optim.PlateauState `json:"plateau"`
	// LossScale is that of the present network, in float16.
	LossScale optim.LossScale `json:"loss_scale,omitzero"`
	// Kept are the channels that are left of the present network, and Removed is the step behind that
	// at which some were last looked for.
	Kept    []channels.Kept `json:"kept,omitempty"`
	Removed int             `json:"removed,omitempty"`
	// Pruned is where pruning by masks stands; nil if nothing is pruned so.
	Pruned *pruningPosition `json:"pruned,omitempty"`
}

// noBest stands for a best loss that there is not yet; JSON has no infinity.
const noBest = math.MaxFloat64

// training is the training of the present network.
func (t *trainer) training() setup.NetworkTraining { return t.trainings[t.pos.Network] }

// epochBatches is how many batches of batch_size samples an epoch of the present network has.
func (t *trainer) epochBatches() int { return t.batchCount(t.training()) }

// networkSteps are the steps of the present network that are finished.
func (t *trainer) networkSteps() int {
	return t.pos.Epoch*t.stepCount(t.epochBatches()) + t.stepCount(t.pos.Batch)
}

func (t *trainer) seed() uint64 { return setup.SeedOf(t.base, t.pos.Network) }

// schedule says which samples this rank reads when for the present network.
func (t *trainer) schedule() (loader.Schedule, int) {
	return t.data.Schedule(t.current.cfg, t.pos.Network, t.training().Samples)
}

// order is the samples of the present epoch in the order of their reading.
func (t *trainer) order() []int {
	turn := t.training()
	order := loader.Order(t.seed(), uint64(t.pos.Epoch), t.sampleCount(turn))
	for i, k := range order {
		if turn.Samples != nil {
			order[i] = turn.Samples[k]
		}
	}
	return order
}
