package compress

import (
	"context"
	"errors"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/engine/prune/obs"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// surgery prunes a network by method obs, layer by layer in the order of execution.
type surgery struct {
	job     config.PruneJob
	model   *model.Model  // the dense network
	weights *engine.Store // those of the pruned network
	samples samples.Examples
	options engine.Options
}

// prune removes from every layer as many weights as keep has zeros, and adapts the weights of all layers behind the first
// that loses some, such that their results are those of the dense network as far as possible.
//
// Errors: exit 64 for too little damping; exit 65 without samples; those of reading them.
func (s *surgery) prune(ctx context.Context, layers []prune.Layer, keep []bool, p *progress.Reporter) error {
	order, err := calibrationOrder(s.samples, s.job.Calibration.Inits)
	if err != nil {
		return err
	}
	task := p.Start("calibrate", int64(len(layers)))
	defer task.Done()
	changed := false
	for i, l := range layers {
		task.Set(int64(i), l.Name)
		of, removed := keep[l.Offset:l.Offset+l.Size()], 0
		for _, k := range of {
			if !k {
				removed++
			}
		}
		if changed = changed || removed > 0; !changed {
			continue
		}
		if err := s.pruneLayer(ctx, l, of, removed, order); err != nil {
			return err
		}
	}
	return nil
}

// pruneLayer removes weights of one layer: blocks whose removal costs least. Layers without a Hessian, such as transposed
// convolutions, lose those that keep does not keep.
//
// Errors: exit 64 for too little damping; those of reading the samples.
func (s *surgery) pruneLayer(ctx context.Context, l prune.Layer, keep []bool, removed int, order []int) error {
	c := &obs.Calibration{Filter: l.Param, MaxSide: s.job.Calibration.MaxSide}
	if !l.Transposed {
		if err := s.calibrate(ctx, c, order); err != nil {
			return err
		}
	}
	w := s.weights.Params()[l.Offset : l.Offset+l.Size()]
	bias, _, _ := s.weights.Get(c.Bias())
	o := s.job.Prune.Block
	p, err := c.Problem(w, bias, o.Out, o.In, s.job.Calibration.Damping)
	if p == nil && err == nil {
		for i, k := range keep {
			if !k {
				w[i] = 0
			}
		}
		return nil
	}
	if err == nil {
		p.KeepColumns = l.ReadsInput
		_, err = p.Remove(removed)
	}
	if err != nil {
		return &exit.Error{Code: exit.Usage, What: "the blocks of " + l.Name + " cannot be removed by their Hessian", At: "calibration.damping", Why: err.Error(), Fix: "set a larger calibration.damping", Err: err}
	}
	c.Write(p, w, bias)
	return nil
}

// calibrate runs the dense and the pruned network on training samples, in turn.
//
// Errors: those of compiling, of reading and of the runs.
func (s *surgery) calibrate(ctx context.Context, c *obs.Calibration, order []int) (err error) {
	m, dense, o := s.model, s.model.Networks, s.options
	o.Passes = c.Passes()
	m.Networks = []model.Weights{dense[0], model.CopyWeights(s.weights)} // blocks that are zero in both may be skipped
	defer func() {
		m.Networks, err = dense, errors.Join(err, m.Close())
	}()
	if err := m.Open(o); err != nil {
		return err
	}
	next := s.samples.Stream(ctx, order)
	defer next.Close()
	for range order {
		fc, _, err := next.NextForecast()
		if err != nil {
			return err
		}
		if _, err := m.Prepare(fc, m.Task.UsedMembers); err != nil {
			return err
		}
		plan := m.Network.Plan
		for i, w := range m.Networks {
			if i == 1 {
				c.KeepResults(plan)
				c.SetTarget(plan)
			}
			if err := model.Fill(plan.Store(), w); err != nil {
				return err
			}
			m.Network.Load(&m.Network.Batch)
			if err := plan.Run(ctx, 0); err != nil {
				return err
			}
		}
		c.Observe(plan)
	}
	return nil
}
