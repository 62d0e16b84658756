package run

import (
	"context"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// turn is the training of one network.
type turn struct {
	stage  model.Stage
	name   string          // of what it learns and from which starts; empty without stages
	starts []int           // of the training, ascending; nil for all
	cfg    config.Training // of this network
}

// called names a turn in messages.
func (j turn) called(number int) string {
	if j.name == "" {
		return fmt.Sprintf("network %d", number+1)
	}
	return fmt.Sprintf("network %d (%s)", number+1, j.name)
}

// values say in events which network they are of.
func (j turn) values(number int) []rundir.Value {
	v := []rundir.Value{{Name: "network", Value: float64(number)}}
	if j.name != "" {
		v = append(v, rundir.Value{Name: "stage", Value: j.name})
	}
	return v
}

// turnsOf lists the networks of a training in their order: those of the first stage that do not
// see one block of years each, that of all years, and for each network that is averaged its
// second and third stage. foldOf is the block of each start; nil without stages.
//
// Errors: those of ensemble.Folds.
func turnsOf(s model.Spec, c config.Training, inits []ensemble.Init, target ensemble.Lead) (turns []turn, foldOf []int, err error) {
	if !s.Staged() {
		for range c.Networks {
			turns = append(turns, turn{cfg: c})
		}
		return turns, nil, nil
	}
	folds, err := ensemble.Folds(inits, s.Bias.Folds, target)
	if err != nil {
		return nil, nil, err
	}
	foldOf = make([]int, len(inits))
	for f, fold := range folds {
		from, to := inits[fold.Out[0]].Time.Year(), inits[fold.Out[len(fold.Out)-1]].Time.Year()
		name := fmt.Sprintf("bias without %d", from)
		if to > from {
			name += fmt.Sprintf(" to %d", to)
		}
		turns = append(turns, turn{model.BiasStage, name, fold.In, c.Of(c.Stages.Bias)})
		for _, i := range fold.Out {
			foldOf[i] = f
		}
	}
	turns = append(turns, turn{model.BiasStage, "bias", nil, c.Of(c.Stages.Bias)})
	for range c.Networks {
		turns = append(turns, turn{model.SpreadStage, "spread", nil, c.Of(c.Stages.Spread.Stage)}, turn{model.SigmaStage, "sigma", nil, c.Of(c.Stages.Sigma)})
	}
	return turns, foldOf, nil
}

// takeNetworks gives a model its networks.
func takeNetworks(m *model.Model, turns []turn, finished []model.Weights) {
	m.Networks, m.Spreads = nil, nil
	for i, w := range finished {
		switch turns[i].stage {
		case model.BiasStage:
			m.Bias = w // the last one is that of all years
		case model.SpreadStage:
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
	net        *model.Network // of the first stage, one start
	train      [][]float32
	validation [][]float32
	epoch      int // whose draws of members train is of; -1 before the first
}

// into gives the samples of a batch the corrections of their starts.
func (c *corrections) into(b *model.Batch, starts []int) {
	for i, s := range starts {
		copy(b.Corrected[i*len(c.train[s]):], c.train[s])
	}
}

// correctable prepares the corrections of the present network; o are the options of plans
// that infer.
func (t *trainer) correctable(o engine.Options) error {
	o.Store = engine.NewStore()
	net, err := t.model.Spec.Of(model.BiasStage).Compile(&t.model.Task, t.model.Grid, 1, t.seed(), false, o, t.ranks)
	if err != nil {
		return t.namedMemory(err)
	}
	t.corrections = &corrections{net: net, epoch: -1}
	return nil
}

// correct brings the corrections up to the present epoch. Each training start has that of the
// network which did not see its block of years, so the third stage learns from errors out of
// sample. All ranks do.
//
// Errors: stopped, with the state of training as it was.
func (t *trainer) correct(ctx context.Context) error {
	c := t.corrections
	drawn := t.sampling == randomMembers || t.local.Least > 0
	if c.epoch == t.at.Epoch || c.epoch >= 0 && !drawn {
		return nil
	}
	blocks := len(t.turns) - 1 - 2*t.base.Networks
	with := func(present *int, network int) error {
		if *present == network {
			return nil
		}
		*present = network
		return model.Fill(c.net.Plan.Store(), t.finished[network])
	}
	present := -1
	if c.validation == nil {
		if err := with(&present, blocks); err != nil {
			return err
		}
		err := t.data.validation.each(ctx, t.ranks, func(_ int, fc *ensemble.Forecast, _ []*ensemble.Analysis) error {
			used, err := model.Positions(fc, t.local.Used)
			if err != nil {
				return err
			}
			shift, err := t.correction(ctx, fc, used)
			c.validation = append(c.validation, shift)
			return err
		})
		if err != nil {
			return err
		}
	}
	c.train = c.train[:0]
	err := t.data.train.each(ctx, t.ranks, func(i int, fc *ensemble.Forecast, _ []*ensemble.Analysis) error {
		if err := t.stop(nil); err != nil {
			return stopped{err}
		}
		if err := with(&present, t.foldOf[i]); err != nil {
			return err
		}
		used, err := t.members(fc, 0, t.seed(), uint64(t.at.Epoch), uint64(i))
		if err != nil {
			return err
		}
		shift, err := t.correction(ctx, fc, used)
		c.train = append(c.train, shift)
		return err
	})
	if err != nil {
		return err
	}
	c.epoch = t.at.Epoch
	return nil
}

// correction is the output of the network of corrections for one start.
func (t *trainer) correction(ctx context.Context, fc *ensemble.Forecast, used []int) ([]float32, error) {
	net := t.corrections.net
	if err := t.local.Input(&net.Batch, 0, fc, used); err != nil {
		return nil, err
	}
	net.Load(&net.Batch)
	if err := net.Plan.Run(ctx, evalStep); err != nil {
		return nil, err
	}
	return append([]float32(nil), net.Output(model.OutShift)...), nil
}
