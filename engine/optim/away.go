package optim

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
)

// away moves the parameters of a store where they lie, on a GPU. Moments, gathered
// gradients, the average and a mask lie there too, from step to step, and come back when the
// program asks for them.
type away struct {
	of           *Optimizer
	at           *engine.Residence
	average      *engine.Residence // nil without one
	dev          backend.Updater
	rule         backend.Rule
	pieces       []backend.SweepPiece
	tensors      []backend.SweepTensor
	arrays       backend.SweepArrays // on the device
	sweep        backend.Sweep       // along the present gradient
	there, ahead bool                // moments are on the device, and newer than the program's
	gather       *gathering          // nil before the first Add
	mask         *masking            // nil before the first Mask
	sums         bool                // gathered gradients are there and nowhere else
	err          error               // that nobody has been told of
}

// gathering is the sum of gradients on the device.
type gathering struct {
	sum, weight []float32
	told        []float32 // the weight, where the program has it
	add         func() error
	sweep       backend.Sweep // along the sum
}

// masking is the mask on the device.
type masking struct {
	keep     backend.SweepMask
	kept     []func() error // clear what is masked: of parameters, average and moments
	gradient func() error   // of the present gradient
	sum      func() error   // of the sum of gradients; nil before there is one
}

// rules are the numbers of the rules on the device.
var rules = map[Kind]backend.Rule{SGD: backend.RuleSGD, Adam: backend.RuleAdam, AdamW: backend.RuleAdamW, LARS: backend.RuleLARS, LAMB: backend.RuleLAMB}

// leaves has the steps of an optimiser of one rank run where its parameters lie.
//
// Errors: too little memory there.
func (p *Optimizer) leaves() (err error) {
	at := p.store.Residence()
	if at == nil || p.o.Ranks != nil {
		return nil
	}
	dev, ok := at.Device().(backend.Updater)
	if !ok {
		return nil
	}
	w := &away{of: p, at: at, dev: dev}
	w.arrays = backend.SweepArrays{W: at.Params(), G: at.Grads()}
	if p.o.Average != nil {
		if w.average, err = at.Settle(p.o.Average); err != nil {
			return err
		}
		w.arrays.E = w.average.Params()
	}
	for _, x := range p.all { // moments of one rank lie as parameters do
		w.pieces = append(w.pieces, backend.SweepPiece{Lo: x.lo, Hi: x.hi, Tensor: x.tensor, At: x.lo})
	}
	for _, t := range p.tensors {
		w.tensors = append(w.tensors, backend.SweepTensor{Decay: t.decay, Plain: t.plain})
	}
	w.rule = rules[p.o.Kind]
	if p.o.Kind == SGD && p.o.Nesterov {
		w.rule = backend.RuleNesterov
	}
	err = dev.Do(func() (err error) {
		if w.arrays.M, err = dev.Make(len(p.arena.m)); err != nil {
			return err
		}
		if w.arrays.V, err = dev.Make(len(p.arena.v)); err != nil {
			return err
		}
		w.sweep, err = dev.NewSweep(w.rule, w.pieces, w.tensors, w.arrays)
		return err
	})
	if err == nil {
		p.away = w
	}
	return err
}

// add is Optimizer.Add on the device; an error is told by the next step.
func (w *away) add(weight float32, first bool) {
	w.sums = true
	w.err = errors.Join(w.err, w.dev.Do(func() (err error) {
		if w.gather == nil {
			if w.gather, err = w.newGathering(); err != nil {
				return err
			}
		}
		g := w.gather
		if first {
			if err := w.dev.Clear(g.sum); err != nil {
				return err
			}
		}
		if err := w.dev.Wait(); err != nil { // the weight before it is read
			return err
		}
		g.told[0] = weight
		if err := w.dev.Copy(g.weight, g.told); err != nil {
			return err
		}
		return g.add()
	}))
}

func (w *away) newGathering() (g *gathering, err error) {
	g = &gathering{}
	if g.sum, err = w.dev.Make(len(w.arrays.G)); err != nil {
		return nil, err
	}
	if g.weight, err = w.dev.Make(1); err != nil {
		return nil, err
	}
	if g.told, err = w.dev.MakeHost(1); err != nil {
		return nil, err
	}
	if g.add, err = w.dev.Gathered(g.sum, w.arrays.G, g.weight); err != nil {
		return nil, err
	}
	arrays := w.arrays
	arrays.G = g.sum
	g.sweep, err = w.dev.NewSweep(w.rule, w.pieces, w.tensors, arrays)
	return g, err
}

// cover is Optimizer.Mask on the device.
func (w *away) cover(keep []bool) error {
	err := w.dev.Do(func() (err error) {
		if err = w.ready(); err != nil {
			return err
		}
		if w.mask == nil {
			if w.mask, err = w.newMasking(len(keep)); err != nil {
				return err
			}
		}
		if err = w.mask.keep.Set(keep); err != nil {
			return err
		}
		for _, f := range w.mask.kept {
			if err = f(); err != nil {
				return err
			}
		}
		return nil
	})
	w.moved()
	return errors.Join(w.told(), err)
}

func (w *away) newMasking(n int) (m *masking, err error) {
	m = &masking{}
	if m.keep, err = w.dev.NewMask(n); err != nil {
		return nil, err
	}
	for _, x := range [][]float32{w.arrays.W, w.arrays.E, w.arrays.M, w.arrays.V} {
		if len(x) == 0 {
			continue
		}
		f, err := w.sweep.Masked(x, m.keep)
		if err != nil {
			return nil, err
		}
		m.kept = append(m.kept, f)
	}
	m.gradient, err = w.sweep.Masked(w.arrays.G, m.keep)
	return m, err
}

// masked clears what is masked of the gradient that the next step moves along.
func (w *away) masked() (err error) {
	m := w.mask
	if w.of.keep == nil {
		return nil
	}
	if !w.of.pending {
		return m.gradient()
	}
	if m.sum == nil {
		if m.sum, err = w.sweep.Masked(w.gather.sum, m.keep); err != nil {
			return err
		}
	}
	return m.sum()
}

// moved says that parameters, average and moments were changed on the device.
func (w *away) moved() {
	w.ahead = true
	w.at.Moved()
	if w.average != nil {
		w.average.Moved()
	}
}

// step is Optimizer.Step on the device.
func (w *away) step(rate float64) (norm float64, err error) {
	p := w.of
	if err := w.told(); err != nil {
		return 0, err
	}
	sweep, factor := w.along(), p.factor()
	var s step
	p.constants(&s, rate, p.steps+1)
	finite := true
	err = w.dev.Do(func() (err error) {
		if err = w.ready(); err != nil {
			return err
		}
		if err = w.masked(); err != nil {
			return err
		}
		if err = sweep.Set(backend.SweepConstants{Rate: rate, Beta1: p.o.Beta1, Beta2: p.o.Beta2, Eps: p.o.Eps, Momentum: p.o.Momentum, Factor: factor,
			Clip: p.o.Clip, Blend: s.blend, Correct1: s.correct1, Correct2: s.correct2, Trust: p.o.Trust}); err != nil {
			return err
		}
		if err = sweep.Step(); err != nil {
			return err
		}
		norm, finite, err = sweep.Found()
		return err
	})
	p.pending, w.sums = false, false
	if err == nil && !finite {
		err = ErrNotFinite
	}
	if err != nil {
		return norm, fmt.Errorf("optimiser step %d: %w", p.steps, err)
	}
	p.steps++
	w.moved()
	return norm, nil
}

// along is the sweep along the gradient of the next step.
func (w *away) along() backend.Sweep {
	if w.of.pending {
		return w.gather.sweep
	}
	return w.sweep
}

// finite is Optimizer.Finite on the device.
func (w *away) finite() (ok bool, err error) {
	err = w.dev.Do(func() (err error) {
		ok, err = w.along().Finite()
		return err
	})
	return ok, errors.Join(w.told(), err)
}

// told is the error that nobody has been told of.
func (w *away) told() error {
	err := w.err
	w.err = nil
	return err
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
	return errors.Join(w.dev.Copy(w.arrays.M, w.of.arena.m), w.dev.Copy(w.arrays.V, w.of.arena.v))
}

// leave brings moments and gathered gradients to the program, which may change them.
func (w *away) leave() {
	w.there = false
	var copies [][2][]float32
	if w.ahead {
		copies = append(copies, [2][]float32{w.of.arena.m, w.arrays.M}, [2][]float32{w.of.arena.v, w.arrays.V})
	}
	if w.sums && w.gather != nil {
		copies = append(copies, [2][]float32{w.of.gathered(), w.gather.sum})
	}
	if w.ahead, w.sums = false, false; copies == nil {
		return
	}
	w.err = errors.Join(w.err, w.dev.Do(func() error {
		for _, c := range copies {
			if err := w.dev.Copy(c[0], c[1]); err != nil {
				return err
			}
		}
		return w.dev.Wait()
	}))
}
