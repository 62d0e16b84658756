package optim

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Kind names an optimiser.
type Kind string

// The optimisers.
const (
	// SGD is gradient descent with momentum:
	//
	//	g′ = g + decay·w     v = momentum·v + g′     w = w − rate·v
	//
	// (with Nesterov: w − rate·(g′ + momentum·v)).
	// Source: Sutskever et al. 2013, ICML 28; the form of torch.optim.SGD.
	SGD Kind = "sgd"
	// Adam is
	//
	//	g′ = g + decay·w     m = β₁m + (1−β₁)g′     v = β₂v + (1−β₂)g′²
	//	w = w − rate·(m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + eps)
	//
	// Source: Kingma and Ba 2015, arXiv:1412.6980.
	Adam Kind = "adam"
	// AdamW is Adam with decoupled decay: w − rate·decay·w first, g′ = g.
	// Source: Loshchilov and Hutter 2019, arXiv:1711.05101.
	AdamW Kind = "adamw"
)

// Options of an optimiser. The zero value is Adam with its usual constants.
type Options struct {
	Kind  Kind    // empty: Adam
	Beta1 float64 // 0: 0.9
	Beta2 float64 // 0: 0.999
	Eps   float64 // 0: 1e-8

	Momentum float64 // of SGD
	Nesterov bool    // of SGD

	Decay float64 // weight decay; coupled for SGD and Adam
	// NoDecay names parameters without decay; nil: none. See Biases.
	NoDecay func(name string) bool
	// Clip bounds the norm of all gradients together; 0: no bound.
	Clip    float64
	Threads int // of the sweep; 0 means 1
}

// Biases is true for parameters called "….bias", which weight decay leaves out
// by custom.
func Biases(name string) bool { return strings.HasSuffix(name, ".bias") || name == "bias" }

// check completes the options.
func (o *Options) check() error {
	if o.Kind == "" {
		o.Kind = Adam
	}
	if o.Beta1 == 0 {
		o.Beta1 = 0.9
	}
	if o.Beta2 == 0 {
		o.Beta2 = 0.999
	}
	if o.Eps == 0 {
		o.Eps = 1e-8
	}
	in := func(v float64) bool { return v >= 0 && v < 1 }
	known := o.Kind == SGD || o.Kind == Adam || o.Kind == AdamW
	if !known || !in(o.Beta1) || !in(o.Beta2) || !in(o.Momentum) || !(o.Eps > 0) || !(o.Decay >= 0) || !(o.Clip >= 0) || o.Threads < 0 {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("optimiser options do not make sense: %s", o.Kind),
			Why: fmt.Sprintf("beta %g %g, eps %g, momentum %g, decay %g, clip %g, threads %d",
				o.Beta1, o.Beta2, o.Eps, o.Momentum, o.Decay, o.Clip, o.Threads),
			Fix: "kind is sgd, adam or adamw; betas and momentum lie in 0…1, the rest is not negative"}
	}
	return nil
}

// ErrNotFinite marks a step refused because a gradient is NaN or infinite.
var ErrNotFinite = errors.New("the gradient is not finite")

// segment is a run of the flat memory with one decay.
type segment struct {
	lo, hi int
	decay  float64
}

// Optimizer moves the parameters of one store. One goroutine at a time.
type Optimizer struct {
	o        Options
	store    *engine.Store
	segments []segment
	m, v     []float32 // first moment (or velocity), second moment; in the layout of the store
	steps    uint64
	sweep    sweeper
}

// New gives an optimiser at rest for the parameters of store, which a graph
// must have laid out.
//
// Errors: *exit.Error (exit.Usage) for options that make no sense.
func New(store *engine.Store, o Options) (*Optimizer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &Optimizer{o: o, store: store}
	n := len(store.Params())
	for _, e := range store.Entries() {
		if e.State {
			continue
		}
		d := o.Decay
		if o.NoDecay != nil && o.NoDecay(e.Name) {
			d = 0
		}
		if k := len(p.segments); k > 0 && p.segments[k-1].decay == d {
			continue
		} else if k > 0 {
			p.segments[k-1].hi = e.Offset
		}
		p.segments = append(p.segments, segment{e.Offset, n, d})
	}
	p.m = make([]float32, n)
	if o.Kind != SGD {
		p.v = make([]float32, n)
	}
	var err error
	p.sweep, err = newSweeper(max(o.Threads, 1))
	return p, err
}

// Step moves the parameters once and returns the norm of all gradients before
// clipping.
//
// Errors: ErrNotFinite; then nothing has been changed.
func (p *Optimizer) Step(rate float64) (norm float64, err error) {
	w, g := p.store.Params(), p.store.Grads()
	norm = p.sweep.norm(g)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm, fmt.Errorf("optimiser step %d: %w", p.steps, ErrNotFinite)
	}
	factor := 1.0
	if p.o.Clip > 0 { // as torch.nn.utils.clip_grad_norm_
		factor = math.Min(1, p.o.Clip/(norm+1e-6))
	}
	p.steps++
	for _, s := range p.segments {
		lo, hi := s.lo, s.hi
		if p.o.Kind == SGD {
			p.sgd(w[lo:hi], p.m[lo:hi], g[lo:hi], rate, s.decay, factor)
			continue
		}
		p.sweep.adam(w[lo:hi], p.m[lo:hi], p.v[lo:hi], g[lo:hi], adamStep{
			rate: rate, beta1: p.o.Beta1, beta2: p.o.Beta2, eps: p.o.Eps, decay: s.decay,
			coupled: p.o.Kind == Adam, factor: factor,
			correct1: 1 - math.Pow(p.o.Beta1, float64(p.steps)),
			correct2: 1 - math.Pow(p.o.Beta2, float64(p.steps)),
		})
	}
	return norm, nil
}

// sgd is the sweep of SGD.
func (p *Optimizer) sgd(w, v, g []float32, rate, decay, factor float64) {
	r, d, f, mom := float32(rate), float32(decay), float32(factor), float32(p.o.Momentum)
	for i := range w {
		gi := f*g[i] + d*w[i]
		v[i] = mom*v[i] + gi
		if p.o.Nesterov {
			w[i] -= r * (gi + mom*v[i])
		} else {
			w[i] -= r * v[i]
		}
	}
}

// Tensor is one part of the state of an optimiser: its memory, not a copy.
type Tensor struct {
	Name   string // moment and parameter: "m.enc_conv0.weight"
	Shape  graph.Shape
	Values []float32
}

// State lists the moments by parameter: m (the velocity of SGD), and v for
// Adam and AdamW. Writing into the values restores a state; see SetSteps.
func (p *Optimizer) State() []Tensor {
	var out []Tensor
	for _, e := range p.store.Entries() {
		if e.State {
			continue
		}
		out = append(out, Tensor{"m." + e.Name, e.Shape, p.m[e.Offset : e.Offset+e.Size()]})
		if p.v != nil {
			out = append(out, Tensor{"v." + e.Name, e.Shape, p.v[e.Offset : e.Offset+e.Size()]})
		}
	}
	return out
}

// Steps is the number of steps taken.
func (p *Optimizer) Steps() uint64 { return p.steps }

// SetSteps restores the number of steps taken, together with State.
func (p *Optimizer) SetSteps(n uint64) { p.steps = n }

// Close ends the threads of the sweep; more than once does no harm.
func (p *Optimizer) Close() error { return p.sweep.close() }

// adamStep holds the constants of one sweep of Adam.
type adamStep struct {
	rate, beta1, beta2, eps, decay, factor, correct1, correct2 float64
	coupled                                                    bool
}
