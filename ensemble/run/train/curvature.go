package train

import (
	"fmt"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/optim/kfac"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// curvature holds the Kronecker factors of the current network.
type curvature struct {
	net            *network.Network            // training step that computes the factors too; nil with a pipeline, whose stages do
	factor         func(name string) []float32 // factor of the last such step
	preconditioner *kfac.Preconditioner
	computed       bool // the last step computed factors that no update has used
}

// curvaturePosition is the schedule of the factors. Steps count those of the current network.
type curvaturePosition struct {
	Next    int    `json:"next"`              // step from which the factors are due
	Updates uint64 `json:"updates"`           // computations so far
	Publish int    `json:"publish,omitempty"` // step from which inverses of the last one are used; 0: they are in use
	kfac.Schedule
}

// curvatureRanks shares inversions over the ranks of a team.
type curvatureRanks struct{ *comm.Comm }

// Broadcast implements kfac.Ranks.
func (r curvatureRanks) Broadcast(root int, x []float32) error {
	return comm.Broadcast(r.Comm, root, x)
}

// compileCurvature compiles the training step with factors, over the parameters and gradients of the current network.
// It does nothing for other optimisers than kfac.
//
// Errors: exit 64 if no layer has factors, or they exceed train.memory.
func (t *trainer) compileCurvature(spec network.Spec, o engine.Options) error {
	n := t.current
	if n.cfg.Optimizer != config.KFACOptimizer {
		return nil
	}
	o.MaxFactorSide = n.cfg.KFAC.MaxSide
	net, err := spec.Compile(&t.model.Task, t.model.Grid, n.cfg.BatchSize, t.seed(), true, o, t.ranks)
	if err != nil {
		return t.nameMemoryKeys(err)
	}
	n.curvature = &curvature{net: net, factor: net.Plan.Output}
	k := setup.KFACOptions(&n.cfg)
	if err := checkFactorMemory(net.Plan.Factors(), n.cfg); err != nil {
		return err
	}
	if t.ranks != nil {
		k.Ranks = curvatureRanks{t.ranks.Comm}
	}
	n.curvature.preconditioner, err = kfac.New(n.store, net.Plan.Factors(), k)
	return err
}

// pipelineCurvature prepares the factors of a pipeline: each rank has those of the layers that it owns.
//
// Errors: exit 64 if no layer has factors, or those of a rank exceed train.memory.
func (n *currentNetwork) pipelineCurvature() (err error) {
	if n.cfg.Optimizer != config.KFACOptimizer {
		return nil
	}
	for _, layers := range n.pipeline.OwnFactors() {
		if err := checkFactorMemory(layers, n.cfg); err != nil {
			return err
		}
	}
	n.curvature = &curvature{factor: n.pipeline.Factor}
	k := setup.KFACOptions(&n.cfg)
	k.Owners = n.pipeline.Ranks()
	if n.curvature.preconditioner, err = kfac.New(n.store, n.pipeline.Factors(), k); err == nil && k.Delayed {
		n.pipeline.FillIdleTimes(n.curvature.preconditioner)
	}
	return err
}

// checkFactorMemory refuses factors that take more than train.memory, if that is limited.
//
// Errors: exit 64, with the largest side of the layers without the largest one.
func checkFactorMemory(layers []pass.LayerFactors, c config.Training) error {
	need, limit := kfac.Bytes(layers, setup.KFACOptions(&c)), int64(c.Memory)
	if limit == 0 || need <= limit {
		return nil
	}
	largest := 0
	for _, l := range layers {
		if l.Form != pass.NoFactors {
			largest = max(largest, l.Rows, l.Cols)
		}
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the Kronecker factors need %v", config.Bytes(need)), At: "train.kfac.max_side",
		Why: fmt.Sprintf("train.memory is %v, and the largest factor has a side of %d", c.Memory, largest),
		Fix: fmt.Sprintf("set train.kfac.max_side to %d or less, or a larger train.memory", largest-1)}
}

// refreshesCurvature reports whether the step that begins with a batch computes factors: if they are due, and the batch
// has all input members.
func (t *trainer) refreshesCurvature(b *readyBatch) bool {
	n := t.current
	return n.curvature != nil && t.networkSteps() >= t.pos.Curvature.Next && n.forBatch(b.batch) == n.train
}

// updateCurvature gives the factors of the step to the preconditioner, if the step computed some, and publishes earlier ones if that
// is due: train.kfac.delay steps after they were computed, whenever their inversions ran. The first are used at once.
func (t *trainer) updateCurvature() error {
	c, at := t.current.curvature, &t.pos.Curvature
	if c == nil {
		return nil
	}
	began := time.Now()
	defer func() { t.current.pipeline.CountExposed(time.Since(began)) }()
	if at.Publish > 0 && t.networkSteps() >= at.Publish {
		if err := c.preconditioner.Publish(); err != nil {
			return err
		}
		at.Publish = 0
	}
	if !c.computed {
		return nil
	}
	c.computed = false
	cfg, update := t.current.cfg.KFAC, c.preconditioner.Update
	if cfg.Delay > 0 && at.Updates > 0 { // the first inverses replace none
		update, at.Publish = c.preconditioner.Begin, t.networkSteps()+cfg.Delay
	}
	if err := update(c.factor); err != nil {
		return err
	}
	if at.Updates = c.preconditioner.Updates(); cfg.Adaptive {
		at.Schedule = at.Schedule.Next(c.preconditioner.Changes())
	}
	at.Next = t.networkSteps() + cfg.Refresh*max(at.Interval, 1)
	return nil
}

// tensors are the running averages of the factors, for a checkpoint; none without curvature. All ranks call it; rank 0 has all.
func (c *curvature) tensors() (out []ckpt.Tensor, err error) {
	if c == nil {
		return nil, nil
	}
	state, err := c.preconditioner.State()
	for _, x := range state {
		out = append(out, ckpt.Tensor{Name: partCurvature + x.Name, Shape: graph.Shape{len(x.Values)}, Data: x.Values})
	}
	return out, err
}

// restoreCurvature sets the running averages to those of a checkpoint.
func (t *trainer) restoreCurvature(w model.Weights) error {
	c := t.current.curvature
	if c == nil {
		return nil
	}
	averages := map[string][]float32{}
	for _, x := range w {
		averages[x.Name], _ = x.Data.([]float32)
	}
	return c.preconditioner.Restore(t.pos.Curvature.Updates, t.pos.Curvature.Publish > 0, func(name string) ([]float32, error) {
		if averages[name] == nil {
			return nil, fmt.Errorf("tensor %q is missing", name)
		}
		return averages[name], nil
	})
}
