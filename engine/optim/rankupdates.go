package optim

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
)

// RankUpdates are steps of AdamW that a rank computes from its own gradients g, for
// parameters whose updates the ranks sum instead of their gradients:
//
//	m = β₁m + (1−β₁)g     v = β₂v + (1−β₂)g²     e = e + rate·(m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + eps)
//
// The update does not depend on the scale of g. Weight decay is not part of it: it is that
// of Options.Updates.
//
// Source: Chen et al. 2020, arXiv:2004.14180 (Adam whose updates are compressed, with the
// rest e kept).
type RankUpdates struct{ s step }

// NewRankUpdates returns the step of a number, from 1 on, at a learning rate.
func NewRankUpdates(rate float64, number uint64) RankUpdates {
	return RankUpdates{step{rate: rate, beta1: defaultBeta1, beta2: defaultBeta2, eps: defaultEps,
		correct1: biasCorrection(defaultBeta1, number), correct2: biasCorrection(defaultBeta2, number)}}
}

// Add changes the moments m and v by factor·g, and adds the update to e.
//
// Shape: equal lengths.
func (r *RankUpdates) Add(e, m, v, g []float32, factor float32) {
	a, rate := arena{m: m, v: v}, float32(r.s.rate)
	for i, x := range g {
		r.s.updateMoments(&a, i, factor*x)
		e[i] += rate * r.s.update(&a, i)
	}
}

// applied is what a step applies to the parameters: steps of the rule, or updates that the
// gradients contain already.
type applied struct {
	given        []bool // parameters of Options.Updates, by tensor; nil for none
	rule, update sweeper
	step         step // applies updates: SGD at rate 1 without momentum, which leaves w·(1−rate·decay) − g
}

// newApplied divides the chunks by Options.Updates.
func newApplied(store *engine.Store, o Options, tensors []tensor, all sweeper, chunks []chunk) applied {
	if len(o.Updates) == 0 {
		return applied{rule: all}
	}
	a := applied{given: make([]bool, len(tensors)), step: step{rule: SGD, rate: 1, factor: 1, decay: make([]float32, len(tensors)), ratio: make([]float32, len(tensors))}}
	number := 0
	for _, e := range store.Entries() {
		if !e.State {
			a.given[number] = slices.Contains(o.Updates, e.Name)
			number++
		}
	}
	given := func(c chunk) bool { return a.given[c.tensor] }
	a.rule = all.of(slices.DeleteFunc(slices.Clone(chunks), given))
	a.update = all.of(slices.DeleteFunc(slices.Clone(chunks), func(c chunk) bool { return !given(c) }))
	return a
}

// isGiven reports whether the gradient of a tensor is an update.
func (a *applied) isGiven(tensor int) bool { return a.given != nil && a.given[tensor] }

// apply applies the step s.
func (a *applied) apply(x *arena, s *step) {
	a.rule.apply(x, s)
	if a.given == nil {
		return
	}
	for i, d := range s.decay {
		a.step.decay[i] = float32(s.rate) * d
	}
	a.step.blend = s.blend
	a.update.apply(x, &a.step)
}
