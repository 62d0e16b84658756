package train

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// stepWindow is what the current step sees of the fields. All batches of a step, on all ranks, see the same window.
type stepWindow struct {
	index int // in job.sizes; 0: whole fields
	network.Window
	scratch []float32 // room of a field
}

// windowCount is the number of plans for windows.
func (j *job) windowCount() int {
	if j.sizes == nil {
		return 0
	}
	return len(j.sizes.All) - 1
}

// compileWindows compiles variants of the current network that see windows. They share its parameters and gradients.
func (t *trainer) compileWindows(spec network.Spec, o engine.Options) error {
	n := t.current
	n.windows = nil
	needs := ""
	if len(n.store.StateNames()) > 0 {
		needs = "running statistics"
	} else if n.cfg.Optimizer == config.KFACOptimizer {
		needs = "Kronecker factors"
	}
	if err := t.sizes.CheckWhole(needs); err != nil {
		return err
	}
	for i := range t.windowCount() {
		net, err := t.compileShare(spec.WithWindow(t.sizes.All[i+1]), o)
		if err != nil {
			return err
		}
		n.windows = append(n.windows, net)
		maps.Copy(t.kernels.choices, net.Plan.Choices())
	}
	return nil
}

// drawWindow draws the window of the step at a position, from the seed of the network and the place of its first batch.
func (n *currentNetwork) drawWindow(s *setup.Sizes, seed uint64, at position) {
	n.window.index, n.window.Window = s.Draw(seed, at.Epoch, n.cfg.Epochs, at.Batch)
}

// computeWindow computes the loss and the gradients of the window of a batch. Plans of windows read the maps, and write their
// gradients, from the first point on: the maps are moved there and back. A window changes no running statistics, as those of a
// prediction are those of whole fields.
func (n *currentNetwork) computeWindow(ctx context.Context, b *readyBatch, key uint64, scale float64) (float64, error) {
	net := n.windows[n.window.index-1]
	n.last = net
	n.window.Load(net, b.batch)
	if scale > 0 {
		net.Plan.ScaleLoss(scale)
	}
	n.moveMaps(n.store.Params(), false)
	err := net.Plan.Run(ctx, key)
	n.moveMaps(n.store.Params(), true)
	n.moveMaps(n.store.Grads(), true)
	copy(n.store.States(), n.statesBefore)
	if err != nil {
		return 0, err
	}
	return net.Plan.Loss(), nil
}

// moveMaps moves what x has of maps of trained values, so that the window begins at their first point, or back.
func (n *currentNetwork) moveMaps(x []float32, back bool) {
	w := &n.window
	if w.scratch == nil {
		w.scratch = make([]float32, w.NY*w.NX)
	}
	for _, e := range n.store.Entries() {
		if !e.State && e.Role == graph.Local {
			w.Rotate(x[e.Offset:e.Offset+e.Size()], w.scratch, back)
		}
	}
}

// weightOf is the sum of the point weights that a step sees of a batch.
func (t *trainer) weightOf(b *readyBatch) float64 {
	w := &t.current.window
	if w.index == 0 {
		return sum(b.batch.Weight)
	}
	seen := make([]float32, len(b.batch.Weight)/(w.NY*w.NX)*w.Size.Rows*w.Size.Columns)
	w.Copy(seen, b.batch.Weight)
	return sum(seen)
}

// sizeTimes has the number and time of the steps of each size since the last event, and all in seconds.
type sizeTimes struct {
	steps      []int
	time       []time.Duration
	all, whole struct{ steps, seconds float64 }
}

// cost is the mean time of a step relative to one of whole fields; NaN without these.
func (s *sizeTimes) cost() float64 {
	return (s.all.seconds / s.whole.seconds) * (s.whole.steps / s.all.steps)
}

// add counts a step.
func (s *sizeTimes) add(size int, t time.Duration) {
	for len(s.steps) <= size {
		s.steps, s.time = append(s.steps, 0), append(s.time, 0)
	}
	s.steps[size]++
	s.time[size] += t
	s.all.steps, s.all.seconds = s.all.steps+1, s.all.seconds+t.Seconds()
	if size == 0 {
		s.whole.steps, s.whole.seconds = s.whole.steps+1, s.whole.seconds+t.Seconds()
	}
}

// take returns the steps of each size and their mean time as values of an event, and starts again.
func (s *sizeTimes) take(sizes *setup.Sizes) (out []rundir.Value) {
	if sizes == nil {
		return nil
	}
	for i, n := range s.steps {
		if n > 0 {
			name := sizes.All[i].String()
			out = append(out, rundir.Value{Name: "steps_" + name, Value: n}, rundir.Value{Name: "step_s_" + name, Value: s.time[i].Seconds() / float64(n)})
		}
	}
	s.steps, s.time = nil, nil
	return out
}

// reportSizes states, before the first step of a network, the expected cost of its steps relative to whole fields, from the
// operations of the compiled plans.
func (t *trainer) reportSizes() error {
	n := t.current
	if t.sizes == nil {
		return nil
	}
	costs, parts := []float64{1}, []string{t.sizes.All[0].String() + ": 1"}
	for i, net := range n.windows {
		c := float64(net.Plan.FLOPs()) / float64(n.train.Plan.FLOPs())
		costs, parts = append(costs, c), append(parts, fmt.Sprintf("%s: %.3g", t.sizes.All[i+1], c))
	}
	mean := t.sizes.Cost(costs, n.cfg.Epochs)
	if t.pos.Network == 0 && t.warn != nil {
		t.warn(fmt.Sprintf("train.sizes: steps of windows of %s (operations of a step, relative to whole fields); a step of the training has %.3g of the operations of whole fields in the mean", strings.Join(parts, ", "), mean))
	}
	return t.observers.dir.Events().Write("sizes", t.pos.Step, t.pos.Epoch, rundir.Value{Name: "expected_cost", Value: mean})
}
