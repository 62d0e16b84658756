package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// remote is the memory of a plan on a device that has its own: the arena, and copies of
// what the plan uses of its store. Inputs and outputs are copied from and to memory of
// the program in every run, parameters and states before one if they may have changed.
type remote struct {
	backend.Remote
	flat    [pass.Grad + 1][]float32 // parameters, states and gradients on the device, in the layout of the store
	version [pass.Grad + 1]int       // of the store, that parameters and states have here
	uses    *Kept                    // that parameters and states are, as long as their versions stay
	host    []float32                // of the program, for what leaves the device for a while
	apart   []bool                   // kernels that are not recorded
	beside  []float32                // scratch for which the arena has no room
	feeds   []*feed                  // of inputs
	stores  []link                   // behind all kernels, to such memory
	runs    int
	late    []link            // results of kernels that are in the program's memory when all have run
	records [2][]func() error // of kernels and of what is behind them: pieces that are asked for as a whole, and what lies between
	ends    []func() error    // that free them
}

// feed brings an input to the device.
type feed struct {
	name        string
	here, there []float32     // being filled, and its place on the device
	next        *[2][]float32 // the same that Stage takes in turns with these; nil before its first call
	from        []float32     // where the input is, or will be, on the device; nil before it is sent
	to          []float32     // in the arena
	arrived     func() error
}

// send begins to copy what was filled, unless that has begun.
func (f *feed) send(r *remote) (err error) {
	if f.from != nil || len(f.to) == 0 {
		return nil
	}
	f.from = f.there
	f.arrived, err = r.Send(f.there, f.here)
	return err
}

// swap goes on to the other memory.
func (f *feed) swap(r *remote) (err error) {
	if f.next == nil {
		f.next = &[2][]float32{}
		if f.next[0], err = r.MakeHost(len(f.to)); err != nil {
			return err
		}
		if f.next[1], err = r.Make(len(f.to)); err != nil {
			return err
		}
	}
	f.here, f.there, f.next[0], f.next[1] = f.next[0], f.next[1], f.here, f.there
	return nil
}

// link is two places of one value, one of them on the device.
type link struct{ to, from []float32 }

// scratch makes memory for the scratch of kernels in place of what was made before.
func (r *remote) scratch(n int) (x []float32, err error) {
	if r.beside != nil {
		err = r.Free(r.beside)
	}
	if r.beside = nil; n == 0 || err != nil {
		return nil, err
	}
	r.beside, err = r.Make(n)
	return r.beside, err
}

// bind makes the memory on the device.
func (r *remote) bind(p *Plan) (arena []float32, err error) {
	s := p.opts.Store
	for _, part := range []struct {
		where pass.Where
		n     int
	}{{pass.Param, len(s.flatParams)}, {pass.State, len(s.flatStates)}, {pass.Grad, len(s.flatParams)}} {
		if part.where == pass.Grad && (p.opts.Mode == Infer || p.unit.Taken != nil) {
			continue
		}
		if r.flat[part.where], err = r.Make(part.n); err != nil {
			return nil, err
		}
	}
	for _, where := range kept {
		r.version[where] = -1
	}
	if p.opts.Mode == Train && p.unit.Taken == nil && s.home == nil {
		s.home = &home{dev: p.dev, at: r, of: s}
	}
	if r.host, err = r.MakeHost(p.unit.Memory.HostSize); err != nil {
		return nil, err
	}
	return r.Make(p.unit.Memory.ArenaSize)
}

// external is the place of a parameter, state or gradient on the device.
func (r *remote) external(where pass.Where, e Entry) []float32 {
	return r.flat[where][e.Offset : e.Offset+e.Size() : e.Offset+e.Size()]
}

// fill writes constants, and gives the plan its inputs, outputs and loss, and what happens
// behind the last kernel.
func (r *remote) fill(p *Plan) error {
	m := &p.memory
	for i, n := range p.graph.Nodes {
		switch n.Kind {
		case graph.KindConst:
			if err := r.Copy(m.tensors[i].F32[:len(n.Data)], n.Data); err != nil {
				return err
			}
		case graph.KindInput:
			f := &feed{name: n.Name, to: m.tensors[i].F32}
			var err error
			if f.here, err = r.MakeHost(len(f.to)); err != nil {
				return err
			}
			if f.there, err = r.Make(len(f.to)); err != nil {
				return err
			}
			p.inputs[n.Name] = f.here
			r.feeds = append(r.feeds, f)
		}
	}
	leaves := func(id int) ([]float32, error) {
		x := m.tensors[id].F32
		here, err := r.MakeHost(len(x))
		r.stores = append(r.stores, link{here, x})
		return here, err
	}
	var err error
	for _, o := range p.graph.Outputs {
		if p.outputs[o.Name], err = leaves(o.ID); err != nil {
			return err
		}
	}
	if p.graph.Loss >= 0 {
		if p.loss, err = leaves(p.graph.Loss); err != nil {
			return err
		}
	}
	return r.finish(p)
}

// finish collects what happens behind the last kernel on the device: gradients that are
// still in the arena, and assignments. Gradients that nothing writes stay zero.
func (r *remote) finish(p *Plan) error {
	m, s := &p.memory, p.opts.Store
	move := func(to, from []float32) {
		p.after = append(p.after, func() error { return r.Copy(to, from) })
	}
	switch {
	case p.opts.Mode == Infer:
		return nil
	case p.unit.Taken != nil:
		for _, id := range p.unit.Memory.Zero {
			name := p.graph.Nodes[id].Name
			p.after = append(p.after, func() error { p.extension.TakeGrad(name, backend.Tensor{}); return nil })
		}
		for _, c := range p.unit.Memory.Copies {
			name, x := p.graph.Nodes[c.Param].Name, m.tensors[c.Value]
			here, err := r.MakeHost(len(x.F32))
			if err != nil {
				return err
			}
			p.after = append(p.after, func() error {
				if err := r.Copy(here, x.F32); err != nil {
					return err
				}
				if err := r.Wait(); err != nil {
					return err
				}
				p.extension.TakeGrad(name, backend.Tensor{Shape: x.Shape, F32: here})
				return nil
			})
		}
	default:
		for _, c := range p.unit.Memory.Copies {
			move(r.external(pass.Grad, s.byName[p.graph.Nodes[c.Param].Name]), m.tensors[c.Value].F32)
		}
	}
	var late []link
	for _, a := range p.graph.Assigns {
		to := r.external(pass.State, s.byName[p.graph.Nodes[a.State].Name])
		from := m.tensors[a.Value].F32
		if p.unit.Memory.Places[a.Value].Where == pass.State { // of a state's value before the step
			old, err := r.Make(len(from))
			if err != nil {
				return err
			}
			move(old, from)
			from = old
		}
		late = append(late, link{to, from})
	}
	for _, l := range late {
		move(l.to, l.from)
	}
	return nil
}

// stage has the inputs of the next step begin their way, and gives other memory for those
// of the step behind it. What the loss is multiplied by is not known before that begins.
func (r *remote) stage(p *Plan) error {
	for _, f := range r.feeds {
		if f.from != nil || f.name == pass.LossScale { // is staged
			continue
		}
		if err := f.send(r); err != nil {
			return err
		}
		if err := f.swap(r); err != nil {
			return err
		}
		p.inputs[f.name] = f.here
	}
	return nil
}

// start asks for all work of a step. The first run asks for every kernel by itself, and
// later ones for the recorded parts between kernels that wait for the device.
func (r *remote) start(p *Plan) error {
	if p.opts.Profile {
		p.began = time.Now()
	}
	if err := r.Begin(p.step); err != nil {
		return err
	}
	if err := r.load(p.opts.Store); err != nil {
		return err
	}
	left := false
	for _, f := range r.feeds {
		left = left || f.from == nil && len(f.to) > 0
		if err := f.send(r); err != nil {
			return err
		}
		if len(f.to) == 0 {
			continue
		}
		if err := f.arrived(); err != nil {
			return err
		}
		if err := r.Copy(f.to, f.from); err != nil {
			return err
		}
		f.from = nil
	}
	// What was not staged is free again, here and there, when Start returns: Stage, which waits
	// for nothing, may use it at once.
	if left {
		if err := r.Wait(); err != nil {
			return err
		}
	}
	err := r.run(p)
	if err == nil && p.opts.Mode == Train {
		err = r.leave(p)
	}
	return err
}

// kept are the kinds of values that a run finds as the one before it, or the program, left them.
var kept = [...]pass.Where{pass.Param, pass.State}

// load brings parameters and states to the device if they may have changed.
func (r *remote) load(s *Store) error {
	for _, where := range kept {
		if s.home != nil && s.home.at != r {
			s.home.fetch(where)
		}
		if r.version[where] == s.version[where] {
			continue
		}
		r.uses = nil
		if err := r.Copy(r.flat[where], s.flat(where)); err != nil {
			return err
		}
		r.version[where] = s.version[where]
	}
	return s.home.failed()
}

// leave has the store know the states and gradients of a run: where its home is they stay,
// else they are copied.
func (r *remote) leave(p *Plan) error {
	s := p.opts.Store
	if s.home != nil && s.home.at == r {
		s.home.ahead[pass.State], s.home.ahead[pass.Grad] = true, true
		return nil
	}
	s.touch(pass.State)
	r.version[pass.State] = s.version[pass.State]
	if err := r.Copy(s.flatStates, r.flat[pass.State]); err != nil || p.unit.Taken != nil {
		return err
	}
	return r.Copy(s.grads(), r.flat[pass.Grad])
}

// run does the work of a run on the device: as one whole if nothing else has to end
// between the kernels and what is behind them.
func (r *remote) run(p *Plan) error {
	kernels, behind := r.kernels, r.behind
	if p.opts.Extension == nil {
		kernels, behind = r.all, nil
	}
	r.runs++
	const firstRecorded = 2 // libraries make what they need in the first run
	if r.runs == firstRecorded && !p.opts.Profile {
		var err error
		if r.records[0], err = r.record(p, kernels); err == nil && behind != nil {
			r.records[1], err = r.record(p, behind)
		}
		if err != nil {
			return err
		}
	}
	err := r.part(p, r.records[0], kernels)
	if behind == nil {
		return err
	}
	if err := p.extension.Finish(err); err != nil {
		return err
	}
	return r.part(p, r.records[1], behind)
}

// part does a part of the work of a run, as it was recorded if it was.
func (r *remote) part(p *Plan, recorded []func() error, work func(*Plan, visit) error) error {
	if recorded == nil {
		return work(p, now)
	}
	for _, f := range recorded {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// visit is given work in order, and whether it waits for the device.
type visit func(waits bool, f func() error) error

// now does work when it is given.
func now(_ bool, f func() error) error { return f() }

// all gives all work.
func (r *remote) all(p *Plan, do visit) error {
	if err := r.kernels(p, do); err != nil {
		return err
	}
	return r.behind(p, do)
}

// kernels gives all kernels.
func (r *remote) kernels(p *Plan, do visit) error {
	for i := range p.kernels {
		k := &p.kernels[i]
		err := do(r.apart[i], func() error {
			if !p.opts.Profile {
				return k.run()
			}
			return k.timed(r.Wait)
		})
		if err != nil {
			return fmt.Errorf("%s %v (%s): %w", k.node.Op.Name, k.node.Shape, k.node.At, err)
		}
	}
	return p.rest(do, func(i int) bool { return r.apart[i] || !p.kernels[i].Beside })
}

// settle decides which kernels are recorded. What goes on between plans that run together is so on all
// of them or on none.
func (r *remote) settle(p *Plan) error {
	r.apart = p.apart(nil)
	if p.opts.Extension == nil {
		return nil
	}
	var before []int64
	for {
		var told []int64
		for i := range p.kernels {
			if p.kernels[i].Beside {
				told = append(told, 0)
				if r.apart[i] {
					told[len(told)-1] = 1
				}
			}
		}
		if err := p.extension.Agree(told); err != nil {
			return err
		}
		if slices.Equal(told, before) { // as none at first
			return nil
		}
		before = told
		for i, k := 0, 0; i < len(p.kernels); i++ {
			if p.kernels[i].Beside {
				r.apart[i] = told[k] == 1
				k++
			}
		}
		r.apart = p.apart(r.apart)
	}
}

// behind gives what happens behind all kernels.
func (r *remote) behind(p *Plan, do visit) error {
	for _, l := range r.late {
		if err := do(false, func() error { return r.Copy(l.to, l.from) }); err != nil {
			return err
		}
	}
	for _, f := range p.after {
		if err := do(p.unit.Taken != nil, f); err != nil {
			return err
		}
	}
	for _, l := range r.stores {
		if err := do(false, func() error { return r.Copy(l.to, l.from) }); err != nil {
			return err
		}
	}
	return nil
}

// record writes down a part of the work of a run, in pieces between what waits for the
// device.
func (r *remote) record(p *Plan, work func(*Plan, visit) error) ([]func() error, error) {
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
			records, r.ends = append(records, run), append(r.ends, end)
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

// close frees what was recorded; the device frees its memory when it is closed.
func (r *remote) close() error {
	for _, f := range r.ends {
		if err := f(); err != nil {
			return err
		}
	}
	r.ends, r.records = nil, [2][]func() error{}
	return nil
}

// here has a kernel that knows the program's memory only run there, on copies of its
// operands.
func (r *remote) here(prepare func(backend.Request) (backend.Kernel, error)) func(backend.Request) (backend.Kernel, error) {
	return func(q backend.Request) (backend.Kernel, error) {
		var links []link
		mirror := func(t backend.Tensor) (backend.Tensor, error) {
			there, stored := words(t)
			here, err := r.MakeHost(len(there))
			links = append(links, link{here, there})
			own := valueIn(here, stored, t.Layout.Elems(t.Shape))
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
		run, finish, early := k.Run, k.Finish, k.Early
		back := func() error { return r.Copy(out.from, out.to) }
		k.Waits, k.Early = true, nil
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
			if finish != nil || k.Late {
				return nil
			}
			return back()
		}
		if k.Late {
			r.late = append(r.late, link{out.from, out.to})
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
