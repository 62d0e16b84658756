package partial

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// LocalOptions are the options of local SGD, equal on all ranks.
type LocalOptions struct {
	Steps     int            // H: number of local steps between averages
	Rate      float64        // learning rate of the outer optimiser; 1 without momentum averages the models
	Momentum  float64        // Nesterov momentum of the outer optimiser, below 1
	Algorithm comm.Algorithm // of the sums
}

// Local is local SGD with an outer optimiser (DiLoCo) on one rank. After H local steps the
// change of the weights, averaged over ranks, is a gradient of an outer step with Nesterov
// momentum:
//
//	Δ = θ − (1/P) Σ w
//	v = momentum·v + Δ
//	θ = θ − rate·(Δ + momentum·v)
//
// All ranks continue from θ. Its rate 1 and momentum 0 are federated averaging; Douillard et
// al. take 0.7 and 0.9. Ranks wait for each other every H steps only.
//
// Source: Douillard et al. 2023, arXiv:2311.08105, algorithm 1.
type Local struct {
	c        *comm.Comm
	o        LocalOptions
	outer    []float32 // θ: weights after the last outer step
	velocity []float32 // v
	steps    int       // since the last outer step
	delta    []float32
}

// NewLocal returns local SGD for models that start with weights w, equal on all ranks.
//
// Errors: exit 64 for invalid options.
func NewLocal(c *comm.Comm, w []float32, o LocalOptions) (*Local, error) {
	if o.Steps < 1 || o.Rate <= 0 || o.Momentum < 0 || o.Momentum >= 1 {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid local SGD of %d steps with rate %g and momentum %g", o.Steps, o.Rate, o.Momentum),
			Why: "averages need at least one step, a positive rate, and a momentum from 0 to below 1", Fix: "set 1 step or more, rate 0.7 and momentum 0.9, or 1 and 0 to average models"}
	}
	return &Local{c: c, o: o, outer: slices.Clone(w), velocity: make([]float32, len(w)), delta: make([]float32, len(w))}, nil
}

// Step counts a local step that led to weights w. Every H-th call is an outer step: it replaces
// w and returns true.
//
// Errors: exit 64 for another length; failures of other ranks.
func (l *Local) Step(w []float32) (outer bool, err error) {
	if len(w) != len(l.outer) {
		return false, sizeError("model", len(w), len(l.outer))
	}
	if l.steps++; l.steps < l.o.Steps {
		return false, nil
	}
	l.steps = 0
	for i, v := range l.outer {
		l.delta[i] = v - w[i]
	}
	if err := comm.AllReduce(l.c, l.delta, l.o.Algorithm); err != nil {
		return false, fmt.Errorf("outer step: %w", err)
	}
	p, rate, momentum := float32(l.c.Size()), float32(l.o.Rate), float32(l.o.Momentum)
	for i, sum := range l.delta {
		d := sum / p
		l.velocity[i] = momentum*l.velocity[i] + d
		l.outer[i] -= rate * (d + momentum*l.velocity[i])
	}
	copy(w, l.outer)
	return true, nil
}

// Velocity returns the momentum of the outer optimiser, equal on all ranks. With the weights
// after an outer step it is the state of the training; the caller may set it to continue one.
func (l *Local) Velocity() []float32 { return l.velocity }
