package kfac

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Options of a Preconditioner.
type Options struct {
	// Damping is λ, in units of the mean eigenvalue of each Fisher block, (tr A/columns)·(tr G/rows).
	// It then does not depend on the units of inputs and loss. With Absolute it is λ itself.
	Damping  float64
	Absolute bool
	// Decay is the weight of the old running average at an update, at least 0 and less than 1.
	Decay float64
	// History keeps the factors of the last two updates, for Changes.
	History bool
	// Ranks share the inversions; nil means one process.
	Ranks Ranks
}

// Ranks is a group of processes with the same factors. Each inverts a part of them.
type Ranks interface {
	Rank() int
	Size() int
	// Broadcast copies x of the rank root to all ranks. All ranks call it in the same order.
	Broadcast(root int, x []float32) error
}

// layer is a layer with factors.
type layer struct {
	pass.LayerFactors
	filter, bias   engine.Entry
	rows, cols     []float32 // running averages of G and A, lower triangles by rows
	rowsInv        []float32 // inverses of the damped averages, whole matrices; nil before the first update
	colsInv        []float32
	history        [2][2][]float32 // factors of the last update and of the one before, G and A; nil without Options.History
	gradient, half []float32       // workspace [Rows × columns of the matrix]
}

// Preconditioner holds the curvature of the layers of one store. It is not safe for concurrent use.
type Preconditioner struct {
	o       Options
	layers  []layer
	changes [2]float64 // see Changes
	owners  []int      // rank that inverts each factor: two for each layer, G then A
	updates uint64
}

// New returns a preconditioner without curvature for the layers of a compiled training step
// (engine.Plan.Factors). Layers without factors are ignored.
//
// Memory: Bytes, before the first update without inverses.
// Errors: *exit.Error (exit.Usage) if no layer has factors, or for invalid options.
func New(store *engine.Store, layers []pass.LayerFactors, o Options) (*Preconditioner, error) {
	if !(o.Damping >= 0) || !(o.Decay >= 0 && o.Decay < 1) {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid K-FAC options: damping %g, decay %g", o.Damping, o.Decay),
			Why: "the damping must not be negative, and the decay lies between 0 and 1", Fix: "use 0.01 and 0.95"}
	}
	p := &Preconditioner{o: o}
	entries := map[string]engine.Entry{}
	for _, e := range store.Entries() {
		entries[e.Name] = e
	}
	for _, l := range layers {
		if l.Form == pass.NoFactors {
			continue
		}
		n := l.Rows * l.Width()
		p.layers = append(p.layers, layer{LayerFactors: l, filter: entries[l.Param], bias: entries[l.Bias],
			rows: make([]float32, op.TriangleSize(l.Rows)), cols: make([]float32, op.TriangleSize(l.Cols)),
			gradient: make([]float32, n), half: make([]float32, n)})
		if o.History {
			x := &p.layers[len(p.layers)-1]
			for k := range x.history {
				x.history[k] = [2][]float32{make([]float32, len(x.rows)), make([]float32, len(x.cols))}
			}
		}
	}
	if len(p.layers) == 0 {
		return nil, noLayers(layers)
	}
	p.owners = p.shareInversions()
	return p, nil
}

// noLayers is the error of a network none of whose layers has factors.
func noLayers(layers []pass.LayerFactors) error {
	why := "the network has no convolution with a filter of its own"
	if len(layers) > 0 {
		why = fmt.Sprintf("%s: %s", layers[0].Param, layers[0].Why)
	}
	return &exit.Error{Code: exit.Usage, What: "no layer of the network has Kronecker factors", Why: why,
		Fix: "set train.optimizer: adamw, or a larger train.kfac.max_side"}
}

// Update adds new factors to the running averages, of which the first replaces the zeros, and inverts
// the averages. factor returns a factor by its name (pass.LayerFactors.RowsName). All ranks call it
// with the same factors and get the same bits.
//
// Errors: ErrNotFinite if a factor is not finite; communication errors.
func (p *Preconditioner) Update(factor func(name string) []float32) error {
	decay := p.o.Decay
	if p.updates == 0 {
		decay = 0
	}
	p.remember(factor)
	for i := range p.layers {
		l := &p.layers[i]
		average(l.rows, factor(l.RowsName()), decay)
		average(l.cols, factor(l.ColsName()), decay)
	}
	p.updates++
	return p.invert()
}

// average computes a = decay·a + (1−decay)·x.
func average(a, x []float32, decay float64) {
	old, add := float32(decay), float32(1-decay)
	for i, v := range x {
		a[i] = old*a[i] + add*v
	}
}

// dampings returns what is added to the diagonals of G and A: √λ/π and π√λ. ok is false if a factor is
// zero, as that of a layer that does not affect the loss.
func (p *Preconditioner) dampings(l *layer) (rows, cols float64, ok bool) {
	g, a := meanDiagonal(l.rows, l.Rows), meanDiagonal(l.cols, l.Cols)
	if g == 0 || a == 0 {
		return 0, 0, false
	}
	root, pi := math.Sqrt(p.o.Damping), math.Sqrt(a/g)
	if !p.o.Absolute {
		root *= math.Sqrt(a * g)
	}
	return root / pi, root * pi, true
}

// meanDiagonal is the mean of the diagonal of a symmetric matrix with n rows, the lower triangle of which
// is given by rows.
func meanDiagonal(triangle []float32, n int) float64 {
	sum := 0.0
	for i := range n {
		sum += float64(triangle[i*(i+3)/2])
	}
	return sum / float64(n)
}

// Directs reports whether Apply changes the gradient of a parameter.
func (p *Preconditioner) Directs(param string) bool {
	for i := range p.layers {
		if l := &p.layers[i]; l.rowsInv != nil && (l.Param == param || l.Bias != "" && l.Bias == param) {
			return true
		}
	}
	return false
}

// Updates is the number of updates so far.
func (p *Preconditioner) Updates() uint64 { return p.updates }
