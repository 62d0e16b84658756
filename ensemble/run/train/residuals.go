package train

import (
	"errors"
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/topk"
)

// sparsePosition is the part of a checkpoint that describes sparse sums of gradients. Residuals are tensors.
type sparsePosition struct {
	Mesh    string         `json:"mesh"`
	Buckets []sparseBucket `json:"buckets"`
}

// sparseBucket is the state of one sum. Thresholds are the bits of float32.
type sparseBucket struct {
	Step   int64    `json:"step"`
	Keep   int64    `json:"keep"`
	Global uint32   `json:"global"`
	Local  []uint32 `json:"local"` // by data rank
	Bounds []int64  `json:"bounds"`
}

// setDensity sets the density of sparse sums for the current epoch.
func (t *trainer) setDensity() error {
	k := t.current.cfg.Compression
	if !k.IsEnabled() {
		return nil
	}
	return t.current.train.Shard.SetDensity(topk.WarmupDensity(t.pos.Epoch, k.Warmup, k.Density))
}

// setUpdateRate sets the learning rate of the next step where ranks sum updates instead of gradients.
func (t *trainer) setUpdateRate(rate float64) {
	if t.current.cfg.Compression.IsEnabled() {
		t.current.train.Shard.SetRate(rate)
	}
}

// shiftWeights moves weights by the updates of this rank that wait to be summed, and returns a function that restores them.
func (t *trainer) shiftWeights() (restore func()) {
	if !t.current.cfg.Compression.IsEnabled() {
		return func() {}
	}
	return t.current.train.Shard.ShiftWeights(t.current.store)
}

// continueResiduals continues the sparse sums of a plan that the current one replaces.
func (t *trainer) continueResiduals(former *spatial.Plan) error {
	if !t.current.cfg.Compression.IsEnabled() {
		return nil
	}
	return errors.Join(t.current.train.Shard.ContinueSums(former), t.setDensity())
}

// saveResiduals gathers the residuals of all data ranks on rank 0 and describes them in the position.
//
// Shape: each tensor [data ranks, values of a bucket].
func (t *trainer) saveResiduals() ([]ckpt.Tensor, error) {
	if !t.current.cfg.Compression.IsEnabled() {
		return nil, nil
	}
	states, err := t.current.train.Shard.GatherResiduals()
	if err != nil || !t.ranks.IsRoot() {
		return nil, err
	}
	at := &sparsePosition{Mesh: fmt.Sprint(t.ranks.Mesh)}
	var tensors []ckpt.Tensor
	for i, bucket := range states {
		first := bucket[0]
		b := sparseBucket{Step: first.Step, Keep: first.Keep, Global: math.Float32bits(first.Global), Bounds: first.Bounds}
		var residuals, velocities, squares []float32
		for _, s := range bucket {
			b.Local = append(b.Local, math.Float32bits(s.Local))
			residuals, velocities, squares = append(residuals, s.Residual...), append(velocities, s.Velocity...), append(squares, s.Squares...)
		}
		at.Buckets = append(at.Buckets, b)
		add := func(kind string, x []float32) {
			if len(x) == 0 {
				return
			}
			tensors = append(tensors, ckpt.Tensor{Name: residualName(i, kind), Shape: graph.Shape{len(bucket), len(x) / len(bucket)}, Data: x})
		}
		add("residual", residuals)
		add("velocity", velocities)
		add("squares", squares)
	}
	t.pos.Sparse = at
	return tensors, nil
}

// residualName is the name of a tensor of a bucket.
func residualName(bucket int, kind string) string {
	return fmt.Sprintf("%sbucket%03d.%s", partResiduals, bucket, kind)
}

// restoreResiduals continues sparse sums from a checkpoint.
//
// Errors: exit 64 for another mesh, whose data ranks would need other residuals.
func (t *trainer) restoreResiduals(w model.Weights, dir string) error {
	if !t.current.cfg.Compression.IsEnabled() {
		return nil
	}
	if t.pos.Sparse == nil {
		t.pos.Sparse = &sparsePosition{}
	}
	rows := map[string][]float32{}
	for _, x := range w {
		rows[partResiduals+x.Name], _ = x.Data.([]float32)
	}
	var all spatial.SparseStates
	for i, b := range t.pos.Sparse.Buckets {
		var states []topk.State
		for r, local := range b.Local {
			of := func(kind string) []float32 {
				x := rows[residualName(i, kind)]
				n := len(x) / len(b.Local)
				return x[r*n : (r+1)*n]
			}
			states = append(states, topk.State{Step: b.Step, Keep: b.Keep, Local: math.Float32frombits(local), Global: math.Float32frombits(b.Global), Bounds: b.Bounds,
				Residual: of("residual"), Velocity: of("velocity"), Squares: of("squares")})
		}
		all = append(all, states)
	}
	err := t.current.train.Shard.SetResiduals(all)
	if errors.Is(err, spatial.ErrOtherSums) {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the checkpoint has gradients that mesh %q has not exchanged yet, and the mesh is %q", t.pos.Sparse.Mesh, fmt.Sprint(t.ranks.Mesh)),
			At: dir, Why: err.Error(), Fix: fmt.Sprintf("resume with --set %q, on any number of processes", "train.mesh="+t.pos.Sparse.Mesh), Err: err}
	}
	return err
}
