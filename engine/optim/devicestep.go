package optim

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
)

// deviceStep runs the optimiser's step on the device that holds the parameters, so that parameters
// and gradients need not be copied to the host in each step.
//
// Memory: moments, accumulated gradients, the moving average and the mask stay on the device from
// step to step. download copies them to the host when the program reads them.
type deviceStep struct {
	optimizer       *Optimizer
	residence       *engine.DeviceParams // device memory of the parameters
	average         *engine.DeviceParams // device memory of the moving average; nil if there is none
	dev             backend.Updater
	rule            backend.Rule
	chunks          []backend.ParamRange
	tensors         []backend.ParamTensor
	arrays          backend.OptimArrays // device memory of parameters, gradients, moments and average
	sweep           backend.Optimiser   // step with the gradient of the last batch
	uploaded, newer bool                // moments are on the device; the device copy is newer than the host copy
	accumulation    *accumulation       // nil before the first Accumulate
	mask            *deviceMask         // nil before the first SetMask
	sumOnDevice     bool                // accumulated gradients exist on the device only
	deferred        error               // deferred error, returned by the next call that can return one
}

// accumulation is gradient accumulation on the device: Σ weight·gradient over batches.
type accumulation struct {
	sum, weight []float32
	hostWeight  []float32 // host copy of weight, one element in pinned memory
	add         func() error
	sweep       backend.Optimiser // step with the accumulated gradient
}

// deviceMask holds the pruning mask on the device and the functions that set masked elements to 0.
type deviceMask struct {
	keep     backend.ParamMask
	clears   []func() error // clear masked elements of parameters, average and moments
	gradient func() error   // clears masked elements of the gradient
	sum      func() error   // clears masked elements of the accumulated gradient; nil before the first use
}

// rules maps each optimiser to the update rule of the device kernels.
var rules = map[Kind]backend.Rule{SGD: backend.RuleSGD, Adam: backend.RuleAdam, AdamW: backend.RuleAdamW, LARS: backend.RuleLARS, LAMB: backend.RuleLAMB}

// useDevice runs the steps on the device if the parameters are there and the backend has the kernels.
// An optimiser that is shared by several ranks, or has a preconditioner, steps on the host.
//
// Errors: if the device has too little memory for the moments.
func (p *Optimizer) useDevice() (err error) {
	at := p.store.DeviceParams()
	if at == nil || p.o.Ranks != nil || p.o.Preconditioner != nil {
		return nil
	}
	dev, ok := at.Device().(backend.Updater)
	if !ok {
		return nil
	}
	w := &deviceStep{optimizer: p, residence: at, dev: dev}
	w.arrays = backend.OptimArrays{W: at.Params(), G: at.Grads()}
	if p.o.Average != nil {
		if w.average, err = at.Attach(p.o.Average); err != nil {
			return err
		}
		w.arrays.E = w.average.Params()
	}
	for _, x := range p.allChunks { // without ranks, moments have the layout of the parameters
		w.chunks = append(w.chunks, backend.ParamRange{Lo: x.lo, Hi: x.hi, Tensor: x.tensor, At: x.lo})
	}
	for _, t := range p.tensors {
		w.tensors = append(w.tensors, backend.ParamTensor{Decay: t.decay, Plain: t.unscaled})
	}
	w.rule = rules[p.o.Kind]
	if p.o.Kind == SGD && p.o.Nesterov {
		w.rule = backend.RuleNesterov
	}
	err = dev.Do(func() (err error) {
		if w.arrays.M, err = dev.Alloc(len(p.arena.m)); err != nil {
			return err
		}
		if w.arrays.V, err = dev.Alloc(len(p.arena.v)); err != nil {
			return err
		}
		w.sweep, err = dev.NewOptimiser(w.rule, w.chunks, w.tensors, w.arrays)
		return err
	})
	if err == nil {
		p.device = w
	}
	return err
}

// accumulate implements Optimizer.Accumulate on the device. Accumulate returns no error, so an
// error is deferred to the next step.
func (w *deviceStep) accumulate(weight float32, first bool) {
	w.sumOnDevice = true
	w.deferred = errors.Join(w.deferred, w.dev.Do(func() (err error) {
		if w.accumulation == nil {
			if w.accumulation, err = w.newAccumulation(); err != nil {
				return err
			}
		}
		g := w.accumulation
		if first {
			if err := w.dev.Clear(g.sum); err != nil {
				return err
			}
		}
		if err := w.dev.Wait(); err != nil { // the previous copy may still read hostWeight
			return err
		}
		g.hostWeight[0] = weight
		if err := w.dev.Copy(g.weight, g.hostWeight); err != nil {
			return err
		}
		return g.add()
	}))
}

// newAccumulation allocates the accumulator and the one-element weight on the device.
func (w *deviceStep) newAccumulation() (g *accumulation, err error) {
	g = &accumulation{}
	if g.sum, err = w.dev.Alloc(len(w.arrays.G)); err != nil {
		return nil, err
	}
	if g.weight, err = w.dev.Alloc(1); err != nil {
		return nil, err
	}
	if g.hostWeight, err = w.dev.AllocHost(1); err != nil {
		return nil, err
	}
	if g.add, err = w.dev.PrepareAccumulate(g.sum, w.arrays.G, g.weight); err != nil {
		return nil, err
	}
	arrays := w.arrays
	arrays.G = g.sum
	g.sweep, err = w.dev.NewOptimiser(w.rule, w.chunks, w.tensors, arrays)
	return g, err
}

// setMask implements Optimizer.SetMask on the device.
func (w *deviceStep) setMask(keep []bool) error {
	err := w.dev.Do(func() (err error) {
		if err = w.upload(); err != nil {
			return err
		}
		if w.mask == nil {
			if w.mask, err = w.newDeviceMask(len(keep)); err != nil {
				return err
			}
		}
		if err = w.mask.keep.Set(keep); err != nil {
			return err
		}
		for _, f := range w.mask.clears {
			if err = f(); err != nil {
				return err
			}
		}
		return nil
	})
	w.markNewer()
	return errors.Join(w.takeError(), err)
}

// newDeviceMask prepares the mask of n elements and a clearing function for each array that a mask
// affects.
func (w *deviceStep) newDeviceMask(n int) (m *deviceMask, err error) {
	m = &deviceMask{}
	if m.keep, err = w.dev.NewMask(n); err != nil {
		return nil, err
	}
	for _, x := range [][]float32{w.arrays.W, w.arrays.E, w.arrays.M, w.arrays.V} {
		if len(x) == 0 {
			continue
		}
		f, err := w.sweep.PrepareMask(x, m.keep)
		if err != nil {
			return nil, err
		}
		m.clears = append(m.clears, f)
	}
	m.gradient, err = w.sweep.PrepareMask(w.arrays.G, m.keep)
	return m, err
}

// maskGradient sets masked elements of the gradient of the next step to 0, so that norms and
// clipping do not count them.
func (w *deviceStep) maskGradient() (err error) {
	m := w.mask
	if w.optimizer.mask == nil {
		return nil
	}
	if !w.optimizer.pending {
		return m.gradient()
	}
	if m.sum == nil {
		if m.sum, err = w.sweep.PrepareMask(w.accumulation.sum, m.keep); err != nil {
			return err
		}
	}
	return m.sum()
}

// markNewer records that parameters, average and moments were changed on the device.
func (w *deviceStep) markNewer() {
	w.newer = true
	w.residence.MarkChanged()
	if w.average != nil {
		w.average.MarkChanged()
	}
}

// step implements Optimizer.Step on the device. The device checks that the gradient is finite
// before it changes anything.
func (w *deviceStep) step(rate float64) (norm float64, err error) {
	p := w.optimizer
	if err := w.takeError(); err != nil {
		return 0, err
	}
	sweep, factor := w.activeSweep(), p.factor()
	var s step
	p.setConstants(&s, rate, p.steps+1)
	finite := true
	err = w.dev.Do(func() (err error) {
		if err = w.upload(); err != nil {
			return err
		}
		if err = w.maskGradient(); err != nil {
			return err
		}
		if err = sweep.SetConstants(backend.OptimConstants{Rate: rate, Beta1: p.o.Beta1, Beta2: p.o.Beta2, Eps: p.o.Eps, Momentum: p.o.Momentum, GradScale: factor,
			ClipNorm: p.o.Clip, EMAWeight: s.blend, Correct1: s.correct1, Correct2: s.correct2, TrustCoefficient: p.o.Trust}); err != nil {
			return err
		}
		if err = sweep.Step(); err != nil {
			return err
		}
		norm, finite, err = sweep.GradNorm()
		return err
	})
	p.pending, w.sumOnDevice = false, false
	if err == nil && !finite {
		err = ErrNotFinite
	}
	if err != nil {
		return norm, fmt.Errorf("optimiser step %d: %w", p.steps, err)
	}
	p.steps++
	w.markNewer()
	return norm, nil
}

// activeSweep returns the sweep that uses the gradient of the next step: the accumulated one after
// Accumulate.
func (w *deviceStep) activeSweep() backend.Optimiser {
	if w.optimizer.pending {
		return w.accumulation.sweep
	}
	return w.sweep
}

// finite implements Optimizer.IsFinite on the device.
func (w *deviceStep) finite() (ok bool, err error) {
	err = w.dev.Do(func() (err error) {
		ok, err = w.activeSweep().Finite()
		return err
	})
	return ok, errors.Join(w.takeError(), err)
}

// takeError returns the deferred error and clears it.
func (w *deviceStep) takeError() error {
	err := w.deferred
	w.deferred = nil
	return err
}

// upload copies to the device what the host may have changed: parameters, average and moments.
func (w *deviceStep) upload() error {
	if err := w.residence.Upload(); err != nil {
		return err
	}
	if w.average != nil {
		if err := w.average.Upload(); err != nil {
			return err
		}
	}
	if w.uploaded {
		return nil
	}
	w.uploaded = true
	return errors.Join(w.dev.Copy(w.arrays.M, w.optimizer.arena.m), w.dev.Copy(w.arrays.V, w.optimizer.arena.v))
}

// download copies moments and accumulated gradients to the host if the device copies are newer. The
// host may change them afterwards, so the next step uploads them again.
func (w *deviceStep) download() {
	w.uploaded = false
	var copies [][2][]float32
	if w.newer {
		copies = append(copies, [2][]float32{w.optimizer.arena.m, w.arrays.M}, [2][]float32{w.optimizer.arena.v, w.arrays.V})
	}
	if w.sumOnDevice && w.accumulation != nil {
		copies = append(copies, [2][]float32{w.optimizer.accumulator(), w.accumulation.sum})
	}
	if w.newer, w.sumOnDevice = false, false; copies == nil {
		return
	}
	w.deferred = errors.Join(w.deferred, w.dev.Do(func() error {
		for _, c := range copies {
			if err := w.dev.Copy(c[0], c[1]); err != nil {
				return err
			}
		}
		return w.dev.Wait()
	}))
}
