package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// remote is the memory of a plan on a device with memory of its own: the arena,
// and copies of the parts of the store that the plan uses. Inputs and outputs
// are copied from and to host memory in every run. Parameters and states are
// uploaded before a run if they may have changed.
type remote struct {
	backend.Remote
	// parameters, states and gradients on the device, in the layout of the
	// store
	flat         [pass.Grad + 1][]float32
	version      [pass.Grad + 1]int // version of the store that the parameters and states on the device have
	snapshot     *Snapshot          // source of the parameters and states; nil or outdated: the store
	host         []float32          // host memory for offloaded values
	unrecorded   []bool             // kernels that are not recorded
	extraScratch []float32          // scratch memory that the arena has no gap for
	inputs       []*inputCopy       // copies of inputs to the device
	outputs      []copyPair         // copies of outputs and loss to host memory, after all kernels
	early        []copyPair         // those of outputs of the forward part
	lateResults  []copyPair         // results of host kernels that are copied to the device after all kernels
	spare        []float32          // activations during Plan.Swap
	recordings
}

// recordings are the work of a run and of its parts.
type recordings struct {
	whole, forward, backward remoteWork
	releases                 []func() error // functions that free the recordings
}

// remoteWork is work that a device runs repeatedly.
type remoteWork struct {
	runs int // number of runs so far
	// recorded work, of kernels and of the work after them: recordings, and the
	// calls between them
	records [2][]func() error
}

// inputCopy copies an input to the device. With staging it alternates between
// two pairs of buffers.
type inputCopy struct {
	name         string        // name of the input
	host, device []float32     // host buffer that is being filled, and its device buffer
	spare        *[2][]float32 // the other pair of buffers; nil before the first staging
	source       []float32     // device buffer of the input of the next step; nil before it is sent
	dest         []float32     // value in the arena
	arrived      func() error  // waits for the copy to the device
}

// send starts the copy to the device, unless it has started.
func (f *inputCopy) send(r *remote) (err error) {
	if f.source != nil || len(f.dest) == 0 {
		return nil
	}
	f.source = f.device
	f.arrived, err = r.CopyNow(f.device, f.host)
	return err
}

// swap switches to the other pair of buffers.
func (f *inputCopy) swap(r *remote) (err error) {
	if f.spare == nil {
		f.spare = &[2][]float32{}
		if f.spare[0], err = r.AllocHost(len(f.dest)); err != nil {
			return err
		}
		if f.spare[1], err = r.Alloc(len(f.dest)); err != nil {
			return err
		}
	}
	f.host, f.device, f.spare[0], f.spare[1] = f.spare[0], f.spare[1], f.host, f.device
	return nil
}

// copyPair is the destination and source of a copy, one of them on the device.
type copyPair struct{ to, from []float32 }

// scratch allocates the scratch buffer of kernels in place of the previous one.
func (r *remote) scratch(n int) (x []float32, err error) {
	if r.extraScratch != nil {
		err = r.Free(r.extraScratch)
	}
	if r.extraScratch = nil; n == 0 || err != nil {
		return nil, err
	}
	r.extraScratch, err = r.Alloc(n)
	return r.extraScratch, err
}

// bind allocates the memory on the device: parameters, states and gradients in
// the layout of the store, the arena, and host memory for offloaded values.
// Predictions, and plans whose extension consumes gradients, have no gradients
// on the device. The first plan that trains a store becomes the owner of its
// copy on the device.
func (r *remote) bind(p *Plan) (arena []float32, err error) {
	s := p.opts.Store
	for _, part := range []struct {
		where pass.MemorySpace
		n     int
	}{{pass.Param, len(s.flatParams)}, {pass.State, len(s.flatStates)}, {pass.Grad, len(s.flatParams)}} {
		if part.where == pass.Grad && (p.opts.Mode == Infer || p.unit.ExternalGrads != nil) {
			continue
		}
		if r.flat[part.where], err = r.Alloc(part.n); err != nil {
			return nil, err
		}
	}
	for _, where := range persistentKinds {
		r.version[where] = -1
	}
	if p.opts.Mode == Train && p.unit.ExternalGrads == nil && s.device == nil {
		s.device = &deviceCopy{dev: p.dev, remote: r, store: s}
	}
	if r.host, err = r.AllocHost(p.unit.Memory.HostSize); err != nil {
		return nil, err
	}
	return r.Alloc(p.unit.Memory.ArenaSize)
}

// storeSlice is the memory of a parameter, state or gradient on the device.
func (r *remote) storeSlice(where pass.MemorySpace, e Entry) []float32 {
	return r.flat[where][e.Offset : e.Offset+e.Size() : e.Offset+e.Size()]
}

// fill writes constants, and sets the inputs, outputs, loss and final copies of
// the plan.
func (r *remote) fill(p *Plan) error {
	m := &p.memory
	for i, n := range p.graph.Nodes {
		switch n.Kind {
		case graph.KindConst:
			if err := r.Copy(m.tensors[i].F32[:len(n.Data)], n.Data); err != nil {
				return err
			}
		case graph.KindInput:
			f := &inputCopy{name: n.Name, dest: m.tensors[i].F32}
			var err error
			if f.host, err = r.AllocHost(len(f.dest)); err != nil {
				return err
			}
			if f.device, err = r.Alloc(len(f.dest)); err != nil {
				return err
			}
			p.inputs[n.Name] = f.host
			r.inputs = append(r.inputs, f)
		}
	}
	download := func(id int, early bool) ([]float32, error) {
		x := m.tensors[id].F32
		host, err := r.AllocHost(len(x))
		r.outputs = append(r.outputs, copyPair{host, x})
		if early {
			r.early = append(r.early, copyPair{host, x})
		}
		return host, err
	}
	var err error
	for _, o := range p.graph.Outputs {
		if p.outputs[o.Name], err = download(o.ID, slices.Contains(p.opts.Forward, o.Name)); err != nil {
			return err
		}
	}
	if p.graph.Loss >= 0 {
		if p.loss, err = download(p.graph.Loss, true); err != nil {
			return err
		}
	}
	return r.finish(p)
}

// finish collects the work on the device after the last kernel: gradients that
// are still in the arena, and assignments. Gradients that no kernel writes stay
// zero.
func (r *remote) finish(p *Plan) error {
	m, s := &p.memory, p.opts.Store
	move := func(to, from []float32) {
		p.after = append(p.after, func() error { return r.Copy(to, from) })
	}
	switch {
	case p.opts.Mode == Infer:
		return nil
	case p.unit.ExternalGrads != nil:
		for _, id := range p.unit.Memory.ZeroGrads {
			name := p.graph.Nodes[id].Name
			p.after = append(p.after, func() error { p.extension.TakeGrad(name, backend.Tensor{}); return nil })
		}
		for _, c := range p.unit.Memory.GradCopies {
			name, x := p.graph.Nodes[c.Param].Name, m.tensors[c.Value]
			host, err := r.AllocHost(len(x.F32))
			if err != nil {
				return err
			}
			p.after = append(p.after, func() error {
				if err := r.Copy(host, x.F32); err != nil {
					return err
				}
				if err := r.Wait(); err != nil {
					return err
				}
				p.extension.TakeGrad(name, backend.Tensor{Shape: x.Shape, F32: host})
				return nil
			})
		}
	default:
		for _, c := range p.unit.Memory.GradCopies {
			move(r.storeSlice(pass.Grad, s.byName[p.graph.Nodes[c.Param].Name]), m.tensors[c.Value].F32)
		}
	}
	var assigns []copyPair
	for _, a := range p.graph.Assigns {
		to := r.storeSlice(pass.State, s.byName[p.graph.Nodes[a.State].Name])
		from := m.tensors[a.Value].F32
		if p.unit.Memory.Places[a.Value].Space == pass.State { // the value of a state before the step
			old, err := r.Alloc(len(from))
			if err != nil {
				return err
			}
			move(old, from)
			from = old
		}
		assigns = append(assigns, copyPair{to, from})
	}
	for _, l := range assigns {
		move(l.to, l.from)
	}
	return nil
}

// stage starts the copies of the inputs of the next step, and provides other
// memory for those of the step after it. The loss scale is not staged, since it
// may change until the step starts.
func (r *remote) stage(p *Plan) error {
	for _, f := range r.inputs {
		if f.source != nil || f.name == pass.LossScale { // already staged
			continue
		}
		if err := f.send(r); err != nil {
			return err
		}
		if err := f.swap(r); err != nil {
			return err
		}
		p.inputs[f.name] = f.host
	}
	return nil
}

// startStep enqueues all work of a step. The first run enqueues single kernels.
// Later runs enqueue recordings of the kernels between those that wait for the
// device.
func (r *remote) startStep(p *Plan) error {
	// Without an extension, kernels and the work after them form one recording.
	kernels, after := r.eachKernel, r.eachAfterKernels
	if p.opts.Extension == nil {
		kernels, after = r.eachWork, nil
	}
	if err := r.start(p, &r.whole, kernels, after); err != nil {
		return err
	}
	return r.publishStep(p)
}

// startForward enqueues the forward part of a step.
func (r *remote) startForward(p *Plan) error {
	return r.start(p, &r.forward, func(p *Plan, do visitor) error {
		if err := r.eachForwardKernel(p, do); err != nil {
			return err
		}
		for _, l := range r.early {
			if err := do(false, func() error { return r.Copy(l.to, l.from) }); err != nil {
				return err
			}
		}
		return nil
	}, nil)
}

// startBackward enqueues the backward part of a step.
func (r *remote) startBackward(p *Plan) error {
	if err := r.start(p, &r.backward, r.eachBackwardKernel, r.eachAfterKernels); err != nil {
		return err
	}
	return r.publishStep(p)
}

// start enqueues the inputs of a step and work, with after as for run.
func (r *remote) start(p *Plan, w *remoteWork, kernels, after func(*Plan, visitor) error) error {
	if p.opts.Profile {
		p.began = time.Now()
	}
	if err := r.SetStep(p.step); err != nil {
		return err
	}
	if err := r.load(p.opts.Store); err != nil {
		return err
	}
	left := false
	for _, f := range r.inputs {
		left = left || f.source == nil && len(f.dest) > 0
		if err := f.send(r); err != nil {
			return err
		}
		if len(f.dest) == 0 {
			continue
		}
		if err := f.arrived(); err != nil {
			return err
		}
		if err := r.Copy(f.dest, f.source); err != nil {
			return err
		}
		f.source = nil
	}
	// Buffers that were not staged are free again when Start returns: StageInputs, which
	// does not wait, may use them at once.
	if left {
		if err := r.Wait(); err != nil {
			return err
		}
	}
	return r.run(p, w, kernels, after)
}

// persistentKinds are the kinds of values that persist from one run to the
// next.
var persistentKinds = [...]pass.MemorySpace{pass.Param, pass.State}

// load uploads parameters and states if they may have changed.
func (r *remote) load(s *Store) error {
	for _, where := range persistentKinds {
		if s.device != nil && s.device.remote != r {
			s.device.download(where)
		}
		if r.version[where] == s.version[where] {
			continue
		}
		r.snapshot = nil
		if err := r.Copy(r.flat[where], s.flat(where)); err != nil {
			return err
		}
		r.version[where] = s.version[where]
	}
	return s.device.takeErr()
}

// publishStep publishes the states and gradients of a training step. They stay on
// the device if it holds the copy of the store, otherwise they are copied to the store.
func (r *remote) publishStep(p *Plan) error {
	if p.opts.Mode != Train {
		return nil
	}
	s := p.opts.Store
	if s.device != nil && s.device.remote == r {
		s.device.newer[pass.State], s.device.newer[pass.Grad] = true, true
		return nil
	}
	s.touch(pass.State)
	r.version[pass.State] = s.version[pass.State]
	if err := r.Copy(s.flatStates, r.flat[pass.State]); err != nil || p.unit.ExternalGrads != nil {
		return err
	}
	return r.Copy(s.grads(), r.flat[pass.Grad])
}

// run enqueues work. after is what follows the kernels once the extension has finished them; nil if nothing does, or if kernels
// has it too.
func (r *remote) run(p *Plan, w *remoteWork, kernels, after func(*Plan, visitor) error) error {
	w.runs++
	const firstRecorded = 2 // libraries allocate in the first run
	if w.runs == firstRecorded && !p.opts.Profile {
		var err error
		if w.records[0], err = r.record(p, kernels); err == nil && after != nil {
			w.records[1], err = r.record(p, after)
		}
		if err != nil {
			return err
		}
	}
	err := r.runPart(p, w.records[0], kernels)
	if after == nil {
		return err
	}
	if err := p.extension.Finish(err); err != nil {
		return err
	}
	return r.runPart(p, w.records[1], after)
}

// runPart enqueues a part of the work, recorded if there is a recording.
func (r *remote) runPart(p *Plan, recorded []func() error, work func(*Plan, visitor) error) error {
	if recorded == nil {
		return work(p, runNow)
	}
	for _, f := range recorded {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// visitor is called with each piece of work in order. waits reports whether the
// work waits for the device and so cannot be recorded.
type visitor func(waits bool, f func() error) error

// runNow is the visitor that runs the work at once.
func runNow(_ bool, f func() error) error { return f() }

// eachWork visits the kernels, then the work after them.
func (r *remote) eachWork(p *Plan, do visitor) error {
	if err := r.eachKernel(p, do); err != nil {
		return err
	}
	return r.eachAfterKernels(p, do)
}

// eachKernel visits all kernels.
func (r *remote) eachKernel(p *Plan, do visitor) error {
	if err := r.eachForwardKernel(p, do); err != nil {
		return err
	}
	return r.eachBackwardKernel(p, do)
}

// isApart reports whether the end of a kernel cannot be recorded.
func (r *remote) isApart(p *Plan) func(i int) bool {
	return func(i int) bool { return r.unrecorded[i] || !p.kernels[i].Async }
}

// eachForwardKernel visits the kernels of the forward part.
func (r *remote) eachForwardKernel(p *Plan, do visitor) error {
	if err := r.eachOf(p, 0, p.cut, do); err != nil {
		return err
	}
	return p.finishForward(do, r.isApart(p))
}

// eachBackwardKernel visits the kernels of the backward part.
func (r *remote) eachBackwardKernel(p *Plan, do visitor) error {
	if err := r.eachOf(p, p.cut, len(p.kernels), do); err != nil {
		return err
	}
	return p.finishUnread(do, r.isApart(p))
}

// eachOf visits consecutive kernels.
func (r *remote) eachOf(p *Plan, from, to int, do visitor) error {
	for i := from; i < to; i++ {
		k := &p.kernels[i]
		err := do(r.unrecorded[i], func() error {
			if !p.opts.Profile {
				return k.run()
			}
			return k.timed(r.Wait)
		})
		if err != nil {
			return fmt.Errorf("%s %v (%s): %w", k.node.Op.Name, k.node.Shape, k.node.At, err)
		}
	}
	return nil
}

// chooseRecorded decides which kernels are recorded. Work that several plans
// run together must be recorded by all of them or by none, because all ranks
// must issue collectives alike. So each plan offers its decisions, takes the
// maximum over all plans, and extends them by unrecordedKernels. This is
// repeated until no plan changes a decision.
func (r *remote) chooseRecorded(p *Plan) error {
	r.unrecorded = p.unrecordedKernels(nil)
	if p.opts.Extension == nil {
		return nil
	}
	var before []int64
	for {
		var flags []int64
		for i := range p.kernels {
			if p.kernels[i].Async {
				flags = append(flags, 0)
				if r.unrecorded[i] {
					flags[len(flags)-1] = 1
				}
			}
		}
		if err := p.extension.AllReduceMax(flags); err != nil {
			return err
		}
		if slices.Equal(flags, before) { // in the first round: nothing to agree on
			return nil
		}
		before = flags
		for i, k := 0, 0; i < len(p.kernels); i++ {
			if p.kernels[i].Async {
				r.unrecorded[i] = flags[k] == 1
				k++
			}
		}
		r.unrecorded = p.unrecordedKernels(r.unrecorded)
	}
}

// eachAfterKernels visits the work after all kernels.
func (r *remote) eachAfterKernels(p *Plan, do visitor) error {
	late := r.lateResults
	if p.unit.ExternalGrads != nil { // an extension has consumed them on the host, and their memory on the device has been reused
		late = nil
	}
	for _, l := range late {
		if err := do(false, func() error { return r.Copy(l.to, l.from) }); err != nil {
			return err
		}
	}
	for _, f := range p.after {
		if err := do(p.unit.ExternalGrads != nil, f); err != nil {
			return err
		}
	}
	for _, l := range r.outputs {
		if err := do(false, func() error { return r.Copy(l.to, l.from) }); err != nil {
			return err
		}
	}
	return nil
}

// record records a part of the work, split at the calls that wait for the
// device. The result alternates between recordings and such calls. A recording
// replays its work as a whole, like a CUDA graph, which saves the launch
// overhead of single kernels.
func (r *remote) record(p *Plan, work func(*Plan, visitor) error) ([]func() error, error) {
	records := []func() error{}
	var piece []func() error
	flush := func() error {
		if piece == nil {
			return nil
		}
		all := piece
		piece = nil
		run, end, err := r.Record(func() error {
			for _, f := range all {
				if err := f(); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			records, r.releases = append(records, run), append(r.releases, end)
		}
		return err
	}
	err := work(p, func(waits bool, f func() error) error {
		if !waits {
			piece = append(piece, f)
			return nil
		}
		if err := flush(); err != nil {
			return err
		}
		records = append(records, f)
		return nil
	})
	if err == nil {
		err = flush()
	}
	return records, err
}

// close frees the recordings. The device frees its memory when it is closed.
func (r *remote) close() error {
	for _, f := range r.releases {
		if err := f(); err != nil {
			return err
		}
	}
	r.recordings = recordings{}
	return nil
}

// onHost wraps a kernel for host memory, so that it runs on host copies of its
// operands: it copies the operands to the host, waits, runs the kernel, and
// copies the result back. A kernel whose result is completed later (Finish,
// Late) copies back when the result is complete.
func (r *remote) onHost(prepare func(backend.Request) (backend.Kernel, error)) func(backend.Request) (backend.Kernel, error) {
	return func(q backend.Request) (backend.Kernel, error) {
		var links []copyPair
		mirror := func(t backend.Tensor) (backend.Tensor, error) {
			device, stored := arenaSlice(t)
			host, err := r.AllocHost(len(device))
			links = append(links, copyPair{host, device})
			own := tensorIn(host, stored, t.Layout.Elems(t.Shape))
			own.Shape, own.Layout = t.Shape, t.Layout
			return own, err
		}
		own := q
		own.In = nil
		for _, t := range q.In {
			m, err := mirror(t)
			if err != nil {
				return backend.Kernel{}, err
			}
			own.In = append(own.In, m)
		}
		var err error
		if own.Out, err = mirror(q.Out); err != nil {
			return backend.Kernel{}, err
		}
		out := links[len(links)-1]
		k, err := prepare(own)
		if err != nil {
			return k, err
		}
		run, finish, early := k.Run, k.Finish, k.RunEarly
		back := func() error { return r.Copy(out.from, out.to) }
		k.Blocking, k.RunEarly = true, nil
		k.Run = func() error {
			for _, l := range links[:len(links)-1] {
				if err := r.Copy(l.to, l.from); err != nil {
					return err
				}
			}
			if err := r.Wait(); err != nil {
				return err
			}
			if early != nil {
				if err := early(); err != nil {
					return err
				}
			}
			if err := run(); err != nil {
				return err
			}
			if finish != nil || k.ResultAtEnd {
				return nil
			}
			return back()
		}
		if k.ResultAtEnd {
			r.lateResults = append(r.lateResults, copyPair{out.from, out.to})
		}
		if finish != nil {
			k.Finish = func() error {
				if err := finish(); err != nil {
					return err
				}
				return back()
			}
		}
		return k, nil
	}
}
