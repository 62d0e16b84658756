package spatial

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Operations between ranks whose values stay on devices. All that is exchanged goes, on each device, through one
// stream, in the order of execution, which is the same on all ranks (graph.Op.Ordered; Compile compares it). So of
// all exchanges that are not done the first in that order waits for nothing but its ranks, and those have nothing before it:
// ranks cannot wait for each other in a circle, whatever groups they form.

// packer is what a backend has that copies parts of values within its memory.
type packer interface {
	backend.Remote
	Within(place []float32, like backend.Tensor, s graph.Shape) backend.Tensor
	CopyPart(x backend.Tensor, lo graph.Shape, y backend.Tensor, to, size graph.Shape) (backend.Kernel, error)
	ClearPart(y backend.Tensor, lo, size graph.Shape) (backend.Kernel, error)
	JoinMoments(all []float32, counts []int, y backend.Tensor) (backend.Kernel, error)
}

// onDevices are the exchanges of a plan whose values stay on devices.
type onDevices struct {
	c       *comm.Comm
	groups  map[string]*comm.Comm
	dev     packer
	devices Devices
	peers   map[string]backend.Peers // by axes of the mesh
	all     backend.Peers
	halos   []*deviceExchange
	rooms   [2]packed // which exchanges take in turns
	order   []string  // what is exchanged, as far as all ranks see it alike
	begun   bool      // all is there for a run
}

// packed is memory for the messages of an exchange, and what ends the one that has it.
type packed struct {
	memory []float32
	finish func() error
}

// of gives the devices of the ranks along axes of the mesh. All of them ask for it at once.
func (o *onDevices) of(axes string) (backend.Peers, error) {
	if p, ok := o.peers[axes]; ok {
		return p, nil
	}
	p, err := o.devices.Join(o.groups[axes])
	if err == nil {
		o.peers[axes] = p
	}
	return p, err
}

// deviceExchange is gather.
type deviceExchange struct {
	of            *onDevices
	room          *packed
	x, y          backend.Tensor
	own           Box
	sends, gets   []move
	words         int // of messages
	pack, between []func() error
	unpack        []func() error
	clear         []Box
	keep          []Move
	parts         []backend.Part
	into          Box // what y is of the value
	arrived       func() error
}

// move is a message: what part of a value it is, and its place among messages.
type move struct {
	rank      int
	box       Box
	at, words int
}

// gather prepares gather.
func (o *onDevices) gather(q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(gathered)
	o.order = append(o.order, fmt.Sprintf("gather %d", a.Tag))
	moves, err := a.Moves()
	if err != nil {
		return backend.Kernel{}, err
	}
	if o.all == nil {
		if o.all, err = o.devices.Join(o.c); err != nil {
			return backend.Kernel{}, err
		}
	}
	me := o.c.Rank()
	e := &deviceExchange{of: o, x: q.In[0], y: q.Out, own: a.Mesh.Owned(a.From, a.Parts.Shape, me), into: a.room(me), room: &o.rooms[len(o.halos)%len(o.rooms)]}
	_, unit := bytesOf(q.Out)
	message := func(rank int, b Box) move {
		const align = 64 // 256 bytes
		m := move{rank: rank, box: b, at: e.words, words: (q.Out.Layout.Elems(b.Shape())*unit + 3) / 4}
		e.words += (m.words + align - 1) / align * align
		return m
	}
	for _, v := range moves {
		switch {
		case v.From == me && v.To == me:
			e.keep = append(e.keep, v)
		case v.From == me:
			e.sends = append(e.sends, message(v.To, v.At))
		case v.To == me:
			e.gets = append(e.gets, message(v.From, v.Into))
		}
	}
	e.clear = beyond(e.into, a.Need[me])
	o.halos = append(o.halos, e)
	return backend.Kernel{Name: "exchange between devices", Run: e.start, Finish: e.finish, Beside: true, There: e.there()}, nil
}

// there is a box of the result, as large as may be, of which nothing comes from other ranks: all of it is there behind start.
func (e *deviceExchange) there() *backend.Region {
	b := slices.Clone(e.into)
	size := func(b Box) int { return b.Shape().Size() }
	for _, m := range e.gets {
		if common := b.Intersect(m.box); size(common) > 0 {
			var best Box
			for _, rest := range beyond(b, common) {
				if best == nil || size(rest) > size(best) {
					best = rest
				}
			}
			if best == nil {
				return nil
			}
			b = best
		}
	}
	return &backend.Region{Lo: b.lo(e.into), Size: b.Shape()}
}

// beyond are boxes, no two with a common point, of what a box has around an inner one.
func beyond(outer, inner Box) (around []Box) {
	rest := slices.Clone(outer)
	for axis, v := range inner {
		if v.Len() <= 0 {
			return append(around, rest)
		}
		for _, side := range []Interval{{rest[axis].Lo, v.Lo}, {v.Hi, rest[axis].Hi}} {
			if side.Len() > 0 {
				b := slices.Clone(rest)
				b[axis] = side
				around = append(around, b)
			}
		}
		rest[axis] = v
	}
	return around
}

// lo is where a box begins within a part of the value.
func (b Box) lo(part Box) graph.Shape {
	s := make(graph.Shape, len(b))
	for i, v := range b {
		s[i] = v.Lo - part[i].Lo
	}
	return s
}

// bind makes the copies, once the memory for messages is there.
func (e *deviceExchange) bind() error {
	dev, zero := e.of.dev, make(graph.Shape, len(e.into))
	add := func(to *[]func() error, k backend.Kernel, err error) error {
		*to = append(*to, k.Run)
		return err
	}
	var errs []error
	place := func(m move) []float32 { return e.room.memory[m.at : m.at+m.words : m.at+m.words] }
	for _, m := range e.sends {
		size := m.box.Shape()
		k, err := dev.CopyPart(e.x, m.box.lo(e.own), dev.Within(place(m), e.x, size), zero, size)
		errs = append(errs, add(&e.pack, k, err))
		e.parts = append(e.parts, backend.Part{Rank: m.rank, Send: place(m)})
	}
	for _, b := range e.clear {
		k, err := dev.ClearPart(e.y, b.lo(e.into), b.Shape())
		errs = append(errs, add(&e.between, k, err))
	}
	for _, v := range e.keep {
		k, err := dev.CopyPart(e.x, v.At.lo(e.own), e.y, v.Into.lo(e.into), v.At.Shape())
		errs = append(errs, add(&e.between, k, err))
	}
	for _, m := range e.gets {
		size := m.box.Shape()
		k, err := dev.CopyPart(dev.Within(place(m), e.y, size), zero, e.y, m.box.lo(e.into), size)
		errs = append(errs, add(&e.unpack, k, err))
		e.parts = append(e.parts, backend.Part{Rank: m.rank, Recv: place(m)})
	}
	return errors.Join(errs...)
}

// inTurn calls all.
func inTurn(all []func() error) error {
	for _, f := range all {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// start packs what others want and begins to exchange it; beside that it copies what stays.
func (e *deviceExchange) start() (err error) {
	if e.room.finish != nil { // an exchange whose result nobody has read yet
		if err := e.room.finish(); err != nil {
			return err
		}
	}
	if err := inTurn(e.pack); err != nil {
		return err
	}
	if e.arrived, err = e.of.all.Exchange(e.parts); err != nil {
		return err
	}
	e.room.finish = e.finish
	return inTurn(e.between)
}

// finish puts what has come where it belongs, unless that was done.
func (e *deviceExchange) finish() error {
	if e.arrived == nil {
		return nil
	}
	arrived := e.arrived
	e.arrived, e.room.finish = nil, nil
	if err := arrived(); err != nil {
		return err
	}
	return inTurn(e.unpack)
}

// crop prepares crop.
func (o *onDevices) crop(q backend.Request) (backend.Kernel, error) {
	b := q.Attrs.(cropped).Box
	whole := make(Box, len(b))
	return o.dev.CopyPart(q.In[0], b.lo(whole), q.Out, make(graph.Shape, len(b)), b.Shape())
}

// moved copies a value within the device, unless it is there.
func (o *onDevices) moved(to, from []float32) error {
	if len(to) == 0 || &to[0] == &from[0] {
		return nil
	}
	return o.dev.Copy(to, from)
}

// sum prepares sum_ranks.
func (o *onDevices) sum(q backend.Request) (backend.Kernel, error) {
	axes := q.Attrs.(along).String()
	o.order = append(o.order, "sum "+axes)
	peers, err := o.of(axes)
	if err != nil {
		return backend.Kernel{}, err
	}
	var arrived func() error
	return backend.Kernel{Name: "all-reduce between devices", Beside: true, Run: func() (err error) {
		if err = o.moved(q.Out.F32, q.In[0].F32); err == nil {
			arrived, err = peers.Sum(q.Out.F32)
		}
		return err
	}, Finish: func() error { return arrived() }}, nil
}

// joinMoments prepares join_moments.
func (o *onDevices) joinMoments(q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(counted)
	axes := a.String()
	o.order = append(o.order, "moments "+axes)
	peers, err := o.of(axes)
	if err != nil {
		return backend.Kernel{}, err
	}
	x := q.In[0].F32
	all, err := o.dev.Make(len(x) * len(a.Counts))
	if err != nil {
		return backend.Kernel{}, err
	}
	k, err := o.dev.JoinMoments(all, a.Counts, q.Out)
	if err != nil {
		return k, err
	}
	own, join := all[o.groups[axes].Rank()*len(x):], k.Run
	var arrived func() error
	k.Name, k.Beside = "all-gather between devices", true
	k.Run = func() (err error) {
		if err = o.dev.Copy(own[:len(x)], x); err == nil {
			arrived, err = peers.Gather(all)
		}
		return err
	}
	k.Finish = func() error {
		if err := arrived(); err != nil {
			return err
		}
		return join()
	}
	return k, nil
}

// later prepares sum_ranks_later: the gradients of a bucket are added up beside the rest of the backward pass.
func (o *onDevices) later(s *gradientSums, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(late)
	axes := a.along.String()
	o.order = append(o.order, "gradient "+axes)
	peers, err := o.of(axes)
	if err != nil {
		return backend.Kernel{}, err
	}
	b := s.add(q)
	return backend.Kernel{Name: "bucket on the device", Late: true, Beside: true, Run: func() (err error) {
		if err := o.moved(q.Out.F32, q.In[0].F32); err != nil {
			return err
		}
		if b.made++; b.made < len(b.parts) {
			return nil
		}
		var x [][]float32
		for _, p := range b.parts {
			x = append(x, p.x.F32)
		}
		b.made = 0
		b.arrived, err = peers.Sum(x...)
		return err
	}, Finish: func() error { // of one of them, for all
		if b.arrived == nil {
			return nil
		}
		arrived := b.arrived
		b.arrived = nil
		return arrived()
	}}, nil
}

// begin gives messages their memory, once all kernels are prepared, and compares what the ranks will exchange.
//
// Errors: *exit.Error (bug) if they would not exchange the same in the same order, and wait for each other for ever.
func (o *onDevices) begin() error {
	for i := range o.rooms {
		most := 0
		for k := i; k < len(o.halos); k += len(o.rooms) {
			most = max(most, o.halos[k].words)
		}
		var err error
		if o.rooms[i].memory, err = o.dev.Make(most); err != nil {
			return err
		}
	}
	for _, e := range o.halos {
		if err := e.bind(); err != nil {
			return err
		}
	}
	h := fnv.New64a()
	for _, s := range o.order {
		_, _ = io.WriteString(h, s+"\n") // never fails
	}
	all, err := comm.AllGather(o.c, []int64{int64(h.Sum64())})
	if err != nil {
		return err
	}
	for r, v := range all {
		if v != all[0] {
			return &exit.Error{Code: exit.Bug, What: fmt.Sprintf("ranks 0 and %d would not exchange the same values in the same order", r),
				Why: "their plans differ", Fix: "report this with the mesh and the configuration"}
		}
	}
	o.begun = true
	return nil
}

// deviceExtension lets a plan exchange values between devices where they can.
type deviceExtension struct{ *extension }

// native are the kernels of operations whose values stay on devices.
func (e *deviceExtension) native() map[string]func(backend.Request) (backend.Kernel, error) {
	p := e.plan
	native := map[string]func(backend.Request) (backend.Kernel, error){
		gather.Name:      func(q backend.Request) (backend.Kernel, error) { return p.devices.gather(q) },
		crop.Name:        func(q backend.Request) (backend.Kernel, error) { return p.devices.crop(q) },
		sumRanks.Name:    func(q backend.Request) (backend.Kernel, error) { return p.devices.sum(q) },
		joinMoments.Name: func(q backend.Request) (backend.Kernel, error) { return p.devices.joinMoments(q) },
	}
	if !p.sums.shared { // whose optimiser is the program's
		native[sumLater.Name] = func(q backend.Request) (backend.Kernel, error) { return p.devices.later(p.sums, q) }
	}
	return native
}

// Kernels are those on devices, once these are joined.
func (e *deviceExtension) Kernels() map[string]func(backend.Request) (backend.Kernel, error) {
	all := e.extension.Kernels()
	for name, there := range e.native() {
		here := all[name]
		all[name] = func(q backend.Request) (backend.Kernel, error) {
			if e.plan.devices == nil {
				return here(q)
			}
			return there(q)
		}
	}
	return all
}

// Opened joins the devices of the ranks.
func (e *deviceExtension) Opened(dev backend.Backend) (map[string]bool, error) {
	devices, said, err := link(e.c, dev)
	if _, away := dev.(backend.Remote); err != nil || !away {
		return nil, err
	}
	e.plan.links = said
	if e.log != nil {
		e.log.Info("halos and gradients are exchanged", "by", said)
	}
	if devices == nil {
		return nil, nil
	}
	e.plan.devices = &onDevices{c: e.c, groups: e.groups, dev: dev.(packer), devices: devices, peers: map[string]backend.Peers{}}
	names := map[string]bool{}
	for name := range e.native() {
		names[name] = true
	}
	return names, nil
}

// Agree takes the largest numbers of all ranks.
func (e *deviceExtension) Agree(x []int64) error {
	all, err := comm.AllGather(e.c, x)
	if err != nil {
		return err
	}
	for i, v := range all {
		x[i%len(x)] = max(x[i%len(x)], v)
	}
	return nil
}

// Ended adds the error of the devices.
func (e *deviceExtension) Ended(err error) error {
	if e.plan.devices == nil {
		return err
	}
	return errors.Join(err, e.plan.devices.devices.Err())
}

// Closed leaves the devices of the other ranks.
func (e *deviceExtension) Closed() error {
	on := e.plan.devices
	if on == nil {
		return nil
	}
	if !on.begun { // others may be waiting for this rank
		_ = on.devices.Abort(errors.New("the plan of this rank could not be made")) // its error says why
	}
	return on.devices.Close()
}

// Finish has the devices give up where a kernel failed.
func (e *deviceExtension) Finish(err error) error {
	if on := e.plan.devices; err != nil && on != nil {
		err = errors.Join(err, on.devices.Abort(err))
	}
	return e.extension.Finish(err)
}

// Links says how the devices of the ranks exchange values, and why not otherwise; empty where there are no devices with
// memory of their own.
func (p *Plan) Links() string { return p.links }
