package optim

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
)

// away moves the parameters of a store where they lie, on a GPU. Moments and the average
// lie there too, from step to step, and come back when the program asks for them; with a
// mask, or gradients that are gathered, steps are those of the program.
type away struct {
	of           *Optimizer
	at           *engine.Residence
	average      *engine.Residence // nil without one
	dev          *cuda.Backend
	sweep        *cuda.Sweep
	m, v         []float32 // on the device
	there, ahead bool      // moments are on the device, and newer than the program's
	err          error     // of a copy that nobody has been told of
}

// rules are the numbers of the rules on the device.
var rules = map[Kind]cuda.Rule{SGD: cuda.RuleSGD, Adam: cuda.RuleAdam, AdamW: cuda.RuleAdamW, LARS: cuda.RuleLARS, LAMB: cuda.RuleLAMB}

// leaves has the steps of an optimiser of one rank run where its parameters lie.
//
// Errors: too little memory there.
func (p *Optimizer) leaves() (err error) {
	at := p.store.Residence()
	if at == nil || p.o.Ranks != nil {
		return nil
	}
	dev, ok := at.Device().(*cuda.Backend)
	if !ok {
		return nil
	}
	w := &away{of: p, at: at, dev: dev}
	arrays := cuda.SweepArrays{W: at.Params(), G: at.Grads()}
	if p.o.Average != nil {
		if w.average, err = at.Settle(p.o.Average); err != nil {
			return err
		}
		arrays.E = w.average.Params()
	}
	var pieces []cuda.SweepPiece
	for _, x := range p.all { // moments of one rank lie as parameters do
		pieces = append(pieces, cuda.SweepPiece{Lo: x.lo, Hi: x.hi, Tensor: x.tensor, At: x.lo})
	}
	var tensors []cuda.SweepTensor
	for _, t := range p.tensors {
		tensors = append(tensors, cuda.SweepTensor{Decay: t.decay, Plain: t.plain})
	}
	rule := rules[p.o.Kind]
	if p.o.Kind == SGD && p.o.Nesterov {
		rule = cuda.RuleNesterov
	}
	err = dev.Do(func() (err error) {
		if w.m, err = dev.Make(len(p.arena.m)); err != nil {
			return err
		}
		if w.v, err = dev.Make(len(p.arena.v)); err != nil {
			return err
		}
		arrays.M, arrays.V = w.m, w.v
		w.sweep, err = dev.NewSweep(rule, pieces, tensors, arrays)
		return err
	})
	if err == nil {
		p.away = w
	}
	return err
}

// step is Optimizer.Step on the device.
func (w *away) step(rate float64) (norm float64, err error) {
	p := w.of
	if w.err != nil {
		return 0, w.err
	}
	var s step
	p.constants(&s, rate, p.steps+1)
	finite := true
	err = w.dev.Do(func() (err error) {
		if err = w.ready(); err != nil {
			return err
		}
		if err = w.sweep.Set(cuda.SweepConstants{Rate: rate, Beta1: p.o.Beta1, Beta2: p.o.Beta2, Eps: p.o.Eps, Momentum: p.o.Momentum, Factor: 1,
			Clip: p.o.Clip, Blend: s.blend, Correct1: s.correct1, Correct2: s.correct2, Trust: p.o.Trust}); err != nil {
			return err
		}
		if err = w.sweep.Step(); err != nil {
			return err
		}
		norm, finite, err = w.sweep.Found()
		return err
	})
	if err == nil && !finite {
		err = ErrNotFinite
	}
	if err != nil {
		return norm, fmt.Errorf("optimiser step %d: %w", p.steps, err)
	}
	p.steps++
	w.ahead = true
	w.at.Moved()
	if w.average != nil {
		w.average.Moved()
	}
	return norm, nil
}

// ready brings to the device what the program may have changed.
func (w *away) ready() error {
	if err := w.at.Ready(); err != nil {
		return err
	}
	if w.average != nil {
		if err := w.average.Ready(); err != nil {
			return err
		}
	}
	if w.there {
		return nil
	}
	w.there = true
	return errors.Join(w.dev.Copy(w.m, w.of.arena.m), w.dev.Copy(w.v, w.of.arena.v))
}

// leave brings moments to the program, which may change them.
func (w *away) leave() {
	w.there = false
	if !w.ahead {
		return
	}
	w.ahead = false
	w.err = errors.Join(w.err, w.dev.Do(func() error {
		return errors.Join(w.dev.Copy(w.of.arena.m, w.m), w.dev.Copy(w.of.arena.v, w.v), w.dev.Wait())
	}))
}
