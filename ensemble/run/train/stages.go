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

// setNetworks gives a model its networks.
func setNetworks(m *model.Model, turns []setup.NetworkTraining, finished []model.Weights) {
	m.Networks, m.Spreads = nil, nil
	for i, w := range finished {
		switch turns[i].Stage {
		case network.BiasStage:
			m.Bias = w // the last one is that of all years
		case network.SpreadStage:
			m.Spreads = append(m.Spreads, w)
		default:
			m.Networks = append(m.Networks, w)
		}
	}
}

// corrections are what networks of the first stage add to the means of the members, around
// which the third learns. They follow from the data and the networks that are finished, and
// are in no checkpoint.
//
// Shape: train and validation [start][variable][level][point] of this rank's slab, in units
// of the error scale.
type corrections struct {
	net        *network.Network // of the first stage, one start
	train      [][]float32
	validation [][]float32
	epoch      int // whose draws of members train is of; -1 before the first
	loaded     int // finished network whose weights net has; -1 before the first
}

// fill gives the samples of a batch the corrections of their starts.
func (c *corrections) fill(b *task.Batch, starts []int) {
	for i, s := range starts {
		copy(b.Corrected[i*len(c.train[s]):], c.train[s])
	}
}

// prepareCorrections prepares the corrections of the present network; o are the options of plans
// that infer.
func (t *trainer) prepareCorrections(o engine.Options) error {
	o.Store = engine.NewStore()
	net, err := t.model.Spec.ForStage(network.BiasStage).Compile(&t.model.Task, t.model.Grid, 1, t.seed(), false, o, t.ranks)
	if err != nil {
		return t.nameMemoryKeys(err)
	}
	t.current.corrections = &corrections{net: net, epoch: -1, loaded: -1}
	return nil
}

// updateCorrections brings the corrections up to the present epoch. Each training start has that of the
// network which did not see its block of years, so the third stage learns from errors out of
// sample. All ranks do.
//
// Errors: stopped, with the state of training as it was.
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
		if err := t.stop(nil); err != nil {
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

// updateValidationCorrections finds the corrections of the validation samples, by the network of all years.
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

// correction is the output of a finished network of the first stage for one sample.
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
