package train

import (
	"context"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
)

// setNetworks stores the trained weights in a model, by stage, without those of pre-trainings.
func setNetworks(m *model.Model, trainings []setup.NetworkTraining, finished []model.Weights) {
	m.Networks, m.Spreads = nil, nil
	for i, w := range finished {
		if trainings[i].Phase == setup.Pretraining {
			continue
		}
		switch trainings[i].Stage {
		case network.BiasStage:
			m.Bias = w // the last bias network is that of all years
		case network.SpreadStage:
			m.Spreads = append(m.Spreads, w)
		default:
			m.Networks = append(m.Networks, w)
		}
	}
}

// corrections are the outputs of bias-stage networks, added to the ensemble means around which the sigma
// stage learns. They are computed from data and finished networks, and are not part of checkpoints.
//
// Shape: train and validation [sample][variable][level][point] of this rank's slab.
// Unit: error scale.
type corrections struct {
	net        *network.Network // bias-stage network, batch of one
	train      [][]float32
	validation [][]float32
	epoch      int // epoch whose member draws train uses; -1 before the first
	loaded     int // index of the finished network whose weights net has; -1 before the first
}

// fill copies the corrections of a batch's samples into it.
func (c *corrections) fill(b *task.Batch, samples []int) {
	for i, s := range samples {
		copy(b.Corrected[i*len(c.train[s]):], c.train[s])
	}
}

// prepareCorrections prepares the corrections of the current network; o are options for inference.
func (t *trainer) prepareCorrections(o engine.Options) error {
	o.Store = engine.NewStore()
	net, err := t.model.Spec.ForStage(network.BiasStage).Compile(&t.model.Task, t.model.Grid, 1, t.seed(), false, o, t.ranks)
	if err != nil {
		return t.nameMemoryKeys(err)
	}
	t.current.corrections = &corrections{net: net, epoch: -1, loaded: -1}
	return nil
}

// updateCorrections updates the corrections for the current epoch. Each training sample gets the correction of the
// network that was trained without its block of years, so the sigma stage learns from out-of-sample errors.
// All ranks call it.
//
// Errors: stopRequest, with the state of training unchanged.
func (t *trainer) updateCorrections(ctx context.Context) error {
	c := t.current.corrections
	drawn := t.sampling == randomMembers || t.local.MinMembers > 0
	if c.epoch == t.pos.Epoch || c.epoch >= 0 && !drawn {
		return nil
	}
	if c.validation == nil {
		if err := t.updateValidationCorrections(ctx); err != nil {
			return err
		}
	}
	c.train = c.train[:0]
	err := t.data.Train.Each(ctx, t.ranks, func(i int, fc *ensemble.Forecast, _ []*ensemble.Analysis) error {
		if _, err := t.stop(nil); err != nil {
			return stopRequest{err}
		}
		used, err := t.members(fc, 0, t.seed(), uint64(t.pos.Epoch), uint64(i))
		if err != nil {
			return err
		}
		shift, err := t.correction(ctx, t.inputs.foldOf[i], fc, used)
		c.train = append(c.train, shift)
		return err
	})
	if err != nil {
		return err
	}
	c.epoch = t.pos.Epoch
	return nil
}

// updateValidationCorrections computes the corrections of the validation samples with the network of all years.
func (t *trainer) updateValidationCorrections(ctx context.Context) error {
	c, allYears := t.current.corrections, len(t.trainings)-1-2*t.base.Networks
	return t.data.Validation.Each(ctx, t.ranks, func(_ int, fc *ensemble.Forecast, _ []*ensemble.Analysis) error {
		used, err := task.MemberPositions(fc, t.local.UsedMembers)
		if err != nil {
			return err
		}
		shift, err := t.correction(ctx, allYears, fc, used)
		c.validation = append(c.validation, shift)
		return err
	})
}

// correction returns the output of a finished bias-stage network for one sample.
func (t *trainer) correction(ctx context.Context, which int, fc *ensemble.Forecast, used []int) ([]float32, error) {
	c := t.current.corrections
	if c.loaded != which {
		if err := model.Fill(c.net.Plan.Store(), t.finished[which]); err != nil {
			return nil, err
		}
		c.loaded = which
	}
	net := c.net
	if err := t.local.FillInput(&net.Batch, 0, fc, used); err != nil {
		return nil, err
	}
	net.Load(&net.Batch)
	if err := net.Plan.Run(ctx, evalStep); err != nil {
		return nil, err
	}
	return append([]float32(nil), net.Output(network.OutShift)...), nil
}
