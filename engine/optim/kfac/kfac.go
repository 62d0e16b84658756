package kfac

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/optim"
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
	// Delayed allocates memory for averages and inverses that are not in use yet: Begin needs it.
	Delayed bool
	// Ranks share the inversions; nil means one process.
	Ranks Ranks
	// Owners are ranks that have the gradients and factors of different layers, such as the stages of a pipeline. Each
	// tensor has one owner, that of a layer's filter owns its bias. A rank has averages and inverses of the layers that it
	// owns; gradients have the layout of its chunks (optim.ChunkOffsets). nil means that this process has all layers.
	Owners optim.Ranks
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
	now, next      version         // in use, and after Publish; without Options.Delayed there is no next
	history        [2][2][]float32 // factors of the last update and of the one before, G and A; nil without Options.History
	gradient, half []float32       // workspace [Rows × columns of the matrix]
}

// version has running averages of G and A, lower triangles by rows, and the inverses of the damped averages, whole matrices; nil
// before they are computed.
type version struct{ average, inverse [2][]float32 }

// newVersion returns averages of 0.
func newVersion(l pass.LayerFactors) version {
	return version{average: [2][]float32{make([]float32, op.TriangleSize(l.Rows)), make([]float32, op.TriangleSize(l.Cols))}}
}

// sides are those of G and A.
func (l *layer) sides() [2]int { return [2]int{l.Rows, l.Cols} }

// Preconditioner holds the curvature of the layers of one store. It is not safe for concurrent use.
type Preconditioner struct {
	o        Options
	layers   []layer             // of this rank
	all      []pass.LayerFactors // with factors, of all ranks
	ownerOf  map[string]int      // rank that owns a tensor, with Options.Owners
	changes  [2]float64          // see Changes
	owners   []int               // rank that inverts each factor: two for each layer, G then A
	inverted []bool              // by factor: its next inverse is computed
	sweeps   []*sweep            // by factor: inversions that have begun
	updates  uint64
	pending  bool // averages and inverses wait for Publish
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
	p := &Preconditioner{o: o, all: withFactors(layers)}
	if len(p.all) == 0 {
		return nil, noLayers(layers)
	}
	entries := map[string]engine.Entry{}
	for _, e := range p.entries(store) {
		entries[e.Name] = e
	}
	for _, l := range p.all {
		filter, isOwn := entries[l.Param]
		bias, hasBias := entries[l.Bias]
		if l.Bias != "" && hasBias != isOwn {
			return nil, &exit.Error{Code: exit.Bug, What: "a layer has two owners", At: l.Param, Why: "its filter and " + l.Bias + " are on different ranks", Fix: "report this with the configuration"}
		}
		if isOwn {
			p.layers = append(p.layers, p.newLayer(l, filter, bias))
		}
	}
	p.owners, p.inverted, p.sweeps = p.shareInversions(), make([]bool, 2*len(p.layers)), make([]*sweep, 2*len(p.layers))
	return p, nil
}

// entries are the tensors whose gradients this rank has, with their places in these.
func (p *Preconditioner) entries(store *engine.Store) []engine.Entry {
	r := p.o.Owners
	if r == nil {
		return store.Entries()
	}
	p.ownerOf = map[string]int{}
	for i, x := range optim.Chunks(store) {
		p.ownerOf[x.Param] = r.Owners()[i]
	}
	return optim.OwnedEntries(store, r.Owners(), r.Rank())
}

// newLayer allocates a layer.
func (p *Preconditioner) newLayer(of pass.LayerFactors, filter, bias engine.Entry) layer {
	n := of.Rows * of.Width()
	l := layer{LayerFactors: of, filter: filter, bias: bias, now: newVersion(of), gradient: make([]float32, n), half: make([]float32, n)}
	if p.o.Delayed {
		l.next = newVersion(of)
	}
	if p.o.History {
		for k := range l.history {
			l.history[k] = newVersion(of).average
		}
	}
	return l
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
// with the same factors and get the same bits; with Options.Owners each has those of its layers.
//
// Errors: ErrNotFinite if a factor is not finite; communication errors.
func (p *Preconditioner) Update(factor func(name string) []float32) error {
	if err := p.add(factor, (*layer).current); err != nil {
		return err
	}
	return p.invert((*layer).current)
}

// current and coming are the versions of a layer.
func (l *layer) current() *version { return &l.now }
func (l *layer) coming() *version  { return &l.next }

// add computes the averages of a version from those in use and new factors.
func (p *Preconditioner) add(factor func(name string) []float32, of func(*layer) *version) error {
	decay := p.o.Decay
	if p.updates == 0 {
		decay = 0
	}
	if err := p.remember(factor); err != nil {
		return err
	}
	for i := range p.layers {
		l := &p.layers[i]
		to := of(l)
		average(to.average[0], l.now.average[0], factor(l.RowsName()), decay)
		average(to.average[1], l.now.average[1], factor(l.ColsName()), decay)
	}
	p.updates++
	return nil
}

// average computes to = decay·a + (1−decay)·x.
func average(to, a, x []float32, decay float64) {
	old, add := float32(decay), float32(1-decay)
	for i, v := range x {
		to[i] = old*a[i] + add*v
	}
}

// dampings returns what is added to the diagonals of G and A: √λ/π and π√λ. ok is false if a factor is
// zero, as that of a layer that does not affect the loss.
func (p *Preconditioner) dampings(l *layer, of *version) (damp [2]float64, ok bool) {
	g, a := meanDiagonal(of.average[0], l.Rows), meanDiagonal(of.average[1], l.Cols)
	if g == 0 || a == 0 {
		return damp, false
	}
	root, pi := math.Sqrt(p.o.Damping), math.Sqrt(a/g)
	if !p.o.Absolute {
		root *= math.Sqrt(a * g)
	}
	return [2]float64{root / pi, root * pi}, true
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

// Directs reports whether Apply changes the gradient of a parameter, which this rank owns.
func (p *Preconditioner) Directs(param string) bool {
	for i := range p.layers {
		if l := &p.layers[i]; l.now.inverse[0] != nil && (l.Param == param || l.Bias != "" && l.Bias == param) {
			return true
		}
	}
	return false
}

// Updates is the number of updates so far.
func (p *Preconditioner) Updates() uint64 { return p.updates }
