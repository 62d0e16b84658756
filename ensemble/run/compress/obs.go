package compress

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/engine/prune/obs"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// surgery prunes a network by method obs.
type surgery struct {
	job     config.PruneJob
	model   *model.Model  // the dense network
	weights *engine.Store // those of the pruned network
	samples samples.Examples
	options engine.Options
	order   []int                  // of the calibration samples
	blocks  map[string][]obs.Block // to be removed, by filter
}

// prune chooses blocks of the dense network, as many weights as mask removes, and removes them layer by layer in the order of
// execution. Layers behind the first that loses some are adapted, such that their results are those of the dense network
// as far as possible. Filters without a Hessian, such as those of transposed convolutions, lose what mask removes.
//
// Errors: exit 64 for too little damping; exit 65 without samples; those of reading them.
func (s *surgery) prune(ctx context.Context, g *graph.Graph, layers []prune.Layer, mask *prune.Pruner, p *progress.Reporter) (err error) {
	if s.order, err = calibrationOrder(s.samples, s.job.Calibration.Inits); err != nil {
		return err
	}
	task := p.Start("calibrate", int64(2*len(layers)))
	defer task.Done()
	if err := s.choose(ctx, g, layers, mask, task); err != nil {
		return err
	}
	changed := false
	for i, l := range layers {
		task.Set(int64(len(layers)+i), l.Name)
		keep := mask.Mask()[l.Offset : l.Offset+l.Size()]
		if changed = changed || slices.Contains(keep, false) || len(s.blocks[l.Param]) > 0; !changed {
			continue
		}
		if err := s.pruneLayer(ctx, l, keep); err != nil {
			return err
		}
	}
	return nil
}

// choose sets the blocks to remove: those whose removal from the dense network costs least, by the importance of the layer's outputs.
// With scope global layers compete, with others each loses as many weights as mask removes.
//
// Errors: as prune.
func (s *surgery) choose(ctx context.Context, g *graph.Graph, layers []prune.Layer, mask *prune.Pruner, task *progress.Task) error {
	importance := obs.NewImportance(channels.Find(g))
	global := s.job.Prune.EffectiveScope() == config.GlobalScope
	s.blocks = map[string][]obs.Block{}
	var removals [][]obs.Removal
	var filters []string
	budget := 0
	for i, l := range slices.Backward(layers) {
		task.Set(int64(len(layers)-1-i), l.Name)
		rows := importance.Rows(l)
		importance.Add(l, s.layerWeights(l))
		removed := 0
		for _, keep := range mask.Mask()[l.Offset : l.Offset+l.Size()] {
			if !keep {
				removed++
			}
		}
		if !slices.ContainsFunc(mask.Layers(), func(k prune.Layer) bool { return k.Param == l.Param }) {
			continue
		}
		c := s.newCalibration(l)
		c.OnlyInputs = true
		p, err := s.problem(ctx, c, l)
		if p == nil && err == nil {
			continue
		}
		budget += removed
		if global {
			removed = l.Size() - 1 // all blocks but the last
		}
		var list []obs.Removal
		if err == nil {
			p.RowWeights = rows
			list, err = p.Remove(removed)
		}
		if err != nil {
			return dampingError(l, err)
		}
		removals, filters = append(removals, list), append(filters, l.Param)
	}
	if !global {
		budget = math.MaxInt
	}
	for i, n := range obs.Allocate(removals, budget) {
		for _, r := range removals[i][:n] {
			s.blocks[filters[i]] = append(s.blocks[filters[i]], r.Block)
		}
	}
	return nil
}

// refinements is the number of passes over the samples that fit the results of a layer behind its activation. They converge
// like a geometric series.
const refinements = 3

// pruneLayer removes the chosen blocks of a layer and adapts its other weights.
//
// Errors: as prune.
func (s *surgery) pruneLayer(ctx context.Context, l prune.Layer, keep []bool) error {
	c := s.newCalibration(l)
	for range 1 + refinements {
		p, err := s.problem(ctx, c, l)
		if p == nil && err == nil {
			for i, w := 0, s.layerWeights(l); i < len(w); i++ {
				if !keep[i] {
					w[i] = 0
				}
			}
			return nil
		}
		if err == nil {
			err = p.Fit(s.blocks[l.Param])
		}
		if err != nil {
			return dampingError(l, err)
		}
		bias, _, _ := s.weights.Get(c.Bias())
		c.Write(p, s.layerWeights(l), bias)
		c.Refine()
	}
	return nil
}

// dampingError is the error of a Hessian that rounding makes singular; other errors pass.
func dampingError(l prune.Layer, err error) error {
	if !errors.Is(err, obs.ErrSingular) {
		return err
	}
	return &exit.Error{Code: exit.Usage, What: "the blocks of " + l.Name + " cannot be removed by their Hessian", At: "calibration.damping", Why: err.Error(), Fix: "set a larger calibration.damping", Err: err}
}

// layerWeights are the present weights of a layer.
func (s *surgery) layerWeights(l prune.Layer) []float32 {
	return s.weights.Params()[l.Offset : l.Offset+l.Size()]
}

// newCalibration is an empty calibration of a layer.
func (s *surgery) newCalibration(l prune.Layer) *obs.Calibration {
	return &obs.Calibration{Filter: l.Param, MaxSide: s.job.Calibration.MaxSide}
}

// problem calibrates a layer and returns its problem; nil if it has no Hessian.
func (s *surgery) problem(ctx context.Context, c *obs.Calibration, l prune.Layer) (*obs.Problem, error) {
	if l.Transposed {
		return nil, nil
	}
	if err := s.calibrate(ctx, c); err != nil {
		return nil, err
	}
	bias, _, _ := s.weights.Get(c.Bias())
	o := s.job.Prune.Block
	p, err := c.Problem(s.layerWeights(l), bias, o.Out, o.In, s.job.Calibration.Damping)
	if p != nil {
		p.KeepColumns = l.ReadsInput
	}
	return p, err
}

// calibrate runs the pruned network on training samples, each after the dense one if its results are needed.
//
// Errors: exit 65 for values that are not finite; those of compiling, of reading and of the runs.
func (s *surgery) calibrate(ctx context.Context, c *obs.Calibration) (err error) {
	m, dense, o := s.model, s.model.Networks, s.options
	o.Passes = c.Passes()
	m.Networks = []model.Weights{dense[0], model.CopyWeights(s.weights)} // blocks that are zero in both may be skipped
	defer func() {
		m.Networks, err = dense, errors.Join(err, m.Close())
	}()
	if err := m.Open(o); err != nil {
		return err
	}
	next := s.samples.Stream(ctx, s.order)
	defer next.Close()
	for range s.order {
		fc, _, err := next.NextForecast()
		if err != nil {
			return err
		}
		if _, err := m.Prepare(fc, m.Task.UsedMembers); err != nil {
			return err
		}
		plan := m.Network.Plan
		for i, w := range m.Networks {
			if i == 0 && c.OnlyInputs {
				continue
			}
			if i == 1 && !c.OnlyInputs {
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
		if err := c.Observe(plan); err != nil {
			return &exit.Error{Code: exit.BadData, What: "a calibration sample has values that are not finite in the layer of " + c.Filter, At: fmt.Sprintf("initialisation %s", fc.Init),
				Why: "the network overflows there, or its weights are not finite", Fix: "check the input with `ensemble inspect --stats`, or train again with a lower train.learning_rate", Err: err}
		}
	}
	return nil
}
