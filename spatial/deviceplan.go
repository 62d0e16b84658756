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

// Communication between devices. On each device all messages go through one stream,
// in the order of execution, which is the same on all ranks (graph.Op.Ordered;
// devicePlan.allocate compares it). The first unfinished exchange in that order
// waits only for its ranks, and no earlier exchange blocks them. So there is no
// deadlock, whatever groups the ranks form.

// deviceMemory is a backend that can copy parts of values within device memory.
type deviceMemory interface {
	backend.Remote
	// TensorAt returns a tensor of shape s that lies in place, with the element
	// type and layout of like.
	TensorAt(place []float32, like backend.Tensor, s graph.Shape) backend.Tensor
	// CopyBox prepares a copy of size elements per axis from x at lo to y at to.
	CopyBox(x backend.Tensor, lo graph.Shape, y backend.Tensor, to, size graph.Shape) (backend.Kernel, error)
	// ClearBox prepares setting size elements per axis of y at lo to zero.
	ClearBox(y backend.Tensor, lo, size graph.Shape) (backend.Kernel, error)
	// MergeMoments prepares the merge of the moments of all ranks into y, as
	// mergeMoments computes it.
	MergeMoments(all []float32, counts []int, y backend.Tensor) (backend.Kernel, error)
}

// devicePlan holds the communication of a plan between devices.
type devicePlan struct {
	c         *comm.Comm
	groups    map[string]*comm.Comm
	dev       deviceMemory
	devices   Devices
	peers     map[string]backend.Peers // by mesh axes
	all       backend.Peers            // devices of all ranks
	exchanges []*deviceExchange
	// Exchanges use the two staging buffers in turn, so that one may be packed
	// while the other is in transit.
	staging [2]stagingBuffer
	// communication in order of execution, in a form that is equal on all ranks
	order     []string
	allocated bool // allocate has succeeded: the plan can run
}

// stagingBuffer is device memory for the messages of an exchange. finish ends the
// exchange that currently uses it; nil if it is free.
type stagingBuffer struct {
	memory []float32
	finish func() error
}

// peersAlong returns the communicator of the devices along mesh axes. All ranks of
// the group call it at the same point of the compilation.
func (o *devicePlan) peersAlong(axes string) (backend.Peers, error) {
	if p, ok := o.peers[axes]; ok {
		return p, nil
	}
	p, err := o.devices.Join(o.groups[axes])
	if err == nil {
		o.peers[axes] = p
	}
	return p, err
}

// deviceExchange is the gather operation between devices: pack, exchange, unpack.
type deviceExchange struct {
	plan              *devicePlan
	staging           *stagingBuffer
	x, y              backend.Tensor
	own               Box // box of x
	sends, receives   []deviceMessage
	words             int            // float32 words of all messages together
	pack, localCopies []func() error // copies to run before the messages, and while they are in transit
	unpack            []func() error // copies to run after the messages have arrived
	clear             []Box          // padding around the required box
	keep              []Move
	parts             []backend.Transfer
	outBox            Box          // box of y
	wait              func() error // waits for the messages; nil when no exchange is in progress
}

// deviceMessage is a message: the box that it carries and its position in the
// staging buffer.
type deviceMessage struct {
	rank      int // the other rank
	box       Box
	repeats   []Box // further boxes of the receiver
	at, words int   // offset and length in float32 words
}

// places returns all boxes of the receiver that the message fills.
func (m deviceMessage) places() []Box { return append([]Box{m.box}, m.repeats...) }

// gather prepares the operation gather. Messages start at multiples of 256 bytes,
// the alignment of device allocations.
func (o *devicePlan) gather(q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(gatherAttrs)
	o.order = append(o.order, fmt.Sprintf("gather %d", a.Tag))
	me := o.c.Rank()
	moves, err := a.MovesOf(me)
	if err != nil {
		return backend.Kernel{}, err
	}
	if o.all == nil {
		if o.all, err = o.devices.Join(o.c); err != nil {
			return backend.Kernel{}, err
		}
	}
	e := &deviceExchange{plan: o, x: q.In[0], y: q.Out, own: a.Mesh.Owned(a.From, a.Redistribution.Shape, me), outBox: a.room(me), staging: &o.staging[len(o.exchanges)%len(o.staging)]}
	_, unit := bytesOf(q.Out)
	message := func(rank int, b Box) deviceMessage {
		const align = 64 // 256 bytes in float32 words
		m := deviceMessage{rank: rank, box: b, at: e.words, words: (q.Out.Layout.Elems(b.Shape())*unit + 3) / 4}
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
			m := message(v.From, v.Into)
			m.repeats = v.Repeats
			e.receives = append(e.receives, m)
		}
	}
	e.clear = append(boxDifference(e.outBox, a.Need.Of(me)), holeBoxes(a.Need.Of(me), a.Need.holes(me))...)
	o.exchanges = append(o.exchanges, e)
	return backend.Kernel{Name: "exchange between devices", Run: e.start, Finish: e.finish, Async: true, Ready: e.readyRegion()}, nil
}

// readyRegion returns a box of the result that contains no element from another
// rank, as large as the greedy choice below finds it. The device may read it right
// after start, while the halo is in transit; nil if there is none.
func (e *deviceExchange) readyRegion() *backend.Region {
	b := slices.Clone(e.outBox)
	size := func(b Box) int { return b.Shape().Size() }
	for _, m := range e.receives {
		for _, into := range m.places() {
			common := b.Intersect(into)
			if size(common) == 0 {
				continue
			}
			var best Box
			for _, rest := range boxDifference(b, common) {
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
	return &backend.Region{Lo: b.offsetIn(e.outBox), Size: b.Shape()}
}

// boxDifference returns disjoint boxes that together cover outer without inner.
// Along each axis it cuts off the parts before and after inner and continues with
// the rest.
func boxDifference(outer, inner Box) (around []Box) {
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

// offsetIn returns the first index of a box in coordinates relative to the box
// part.
func (b Box) offsetIn(part Box) graph.Shape {
	s := make(graph.Shape, len(b))
	for i, v := range b {
		s[i] = v.Lo - part[i].Lo
	}
	return s
}

// bindCopies prepares the copies of an exchange after the staging buffers are
// allocated.
func (e *deviceExchange) bindCopies() error {
	dev, zero := e.plan.dev, make(graph.Shape, len(e.outBox))
	add := func(to *[]func() error, k backend.Kernel, err error) error {
		*to = append(*to, k.Run)
		return err
	}
	var errs []error
	place := func(m deviceMessage) []float32 { return e.staging.memory[m.at : m.at+m.words : m.at+m.words] }
	for _, m := range e.sends {
		size := m.box.Shape()
		k, err := dev.CopyBox(e.x, m.box.offsetIn(e.own), dev.TensorAt(place(m), e.x, size), zero, size)
		errs = append(errs, add(&e.pack, k, err))
		e.parts = append(e.parts, backend.Transfer{Rank: m.rank, Send: place(m)})
	}
	for _, b := range e.clear {
		k, err := dev.ClearBox(e.y, b.offsetIn(e.outBox), b.Shape())
		errs = append(errs, add(&e.localCopies, k, err))
	}
	for _, v := range e.keep {
		for _, into := range v.places() {
			k, err := dev.CopyBox(e.x, v.At.offsetIn(e.own), e.y, into.offsetIn(e.outBox), v.At.Shape())
			errs = append(errs, add(&e.localCopies, k, err))
		}
	}
	for _, m := range e.receives {
		size := m.box.Shape()
		for _, into := range m.places() {
			k, err := dev.CopyBox(dev.TensorAt(place(m), e.y, size), zero, e.y, into.offsetIn(e.outBox), size)
			errs = append(errs, add(&e.unpack, k, err))
		}
		e.parts = append(e.parts, backend.Transfer{Rank: m.rank, Recv: place(m)})
	}
	return errors.Join(errs...)
}

// runAll calls all functions in order until one fails.
func runAll(all []func() error) error {
	for _, f := range all {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// start packs the messages and starts the exchange. The copies within the device
// run while the messages are in transit.
func (e *deviceExchange) start() (err error) {
	if e.staging.finish != nil { // the previous exchange in this buffer, whose result has not been read yet
		if err := e.staging.finish(); err != nil {
			return err
		}
	}
	if err := runAll(e.pack); err != nil {
		return err
	}
	if e.wait, err = e.plan.all.Exchange(e.parts); err != nil {
		return err
	}
	e.staging.finish = e.finish
	return runAll(e.localCopies)
}

// finish waits for the messages and unpacks them. It does nothing if that has been
// done.
func (e *deviceExchange) finish() error {
	if e.wait == nil {
		return nil
	}
	arrived := e.wait
	e.wait, e.staging.finish = nil, nil
	if err := arrived(); err != nil {
		return err
	}
	return runAll(e.unpack)
}

// crop prepares the operation crop.
func (o *devicePlan) crop(q backend.Request) (backend.Kernel, error) {
	b := q.Attrs.(cropAttrs).Box
	whole := make(Box, len(b))
	return o.dev.CopyBox(q.In[0], b.offsetIn(whole), q.Out, make(graph.Shape, len(b)), b.Shape())
}

// copyValue copies a value within the device, unless source and destination are the
// same memory.
func (o *devicePlan) copyValue(to, from []float32) error {
	if len(to) == 0 || &to[0] == &from[0] {
		return nil
	}
	return o.dev.Copy(to, from)
}

// sum prepares the operation sum_ranks.
func (o *devicePlan) sum(q backend.Request) (backend.Kernel, error) {
	axes := q.Attrs.(meshAxes).String()
	o.order = append(o.order, "sum "+axes)
	peers, err := o.peersAlong(axes)
	if err != nil {
		return backend.Kernel{}, err
	}
	var arrived func() error
	return backend.Kernel{Name: "all-reduce between devices", Async: true, Run: func() (err error) {
		if err = o.copyValue(q.Out.F32, q.In[0].F32); err == nil {
			arrived, err = peers.AllReduce(q.Out.F32)
		}
		return err
	}, Finish: func() error { return arrived() }}, nil
}

// joinMoments prepares the operation join_moments: an all-gather of the moments,
// then their merge on the device.
func (o *devicePlan) joinMoments(q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(joinMomentsAttrs)
	axes := a.String()
	o.order = append(o.order, "moments "+axes)
	peers, err := o.peersAlong(axes)
	if err != nil {
		return backend.Kernel{}, err
	}
	x := q.In[0].F32
	all, err := o.dev.Alloc(len(x) * len(a.Counts))
	if err != nil {
		return backend.Kernel{}, err
	}
	k, err := o.dev.MergeMoments(all, a.Counts, q.Out)
	if err != nil {
		return k, err
	}
	own, join := all[o.groups[axes].Rank()*len(x):], k.Run
	var arrived func() error
	k.Name, k.Async = "all-gather between devices", true
	k.Run = func() (err error) {
		if err = o.dev.Copy(own[:len(x)], x); err == nil {
			arrived, err = peers.AllGather(all)
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

// sumDeferred prepares the deferred sum of a gradient. The kernel of the last
// gradient of a bucket starts the sum, which runs during the rest of the backward
// pass.
func (o *devicePlan) sumDeferred(s *gradientSums, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(deferredSumAttrs)
	axes := a.meshAxes.String()
	o.order = append(o.order, "gradient "+axes)
	peers, err := o.peersAlong(axes)
	if err != nil {
		return backend.Kernel{}, err
	}
	b := s.add(q)
	return backend.Kernel{Name: "bucket on the device", ResultAtEnd: true, Async: true, Run: func() (err error) {
		if err := o.copyValue(q.Out.F32, q.In[0].F32); err != nil {
			return err
		}
		if b.computed++; b.computed < len(b.grads) {
			return nil
		}
		var x [][]float32
		for _, p := range b.grads {
			x = append(x, p.x.F32)
		}
		b.computed = 0
		b.wait, err = peers.AllReduce(x...)
		return err
	}, Finish: func() error { // the kernels of a bucket share one wait
		if b.wait == nil {
			return nil
		}
		arrived := b.wait
		b.wait = nil
		return arrived()
	}}, nil
}

// allocate allocates the staging buffers after all kernels are prepared, and
// compares the order of communication of all ranks by a hash.
//
// Errors: *exit.Error (bug) if the orders differ, which would be a deadlock at run
// time.
func (o *devicePlan) allocate() error {
	for i := range o.staging {
		most := 0
		for k := i; k < len(o.exchanges); k += len(o.staging) {
			most = max(most, o.exchanges[k].words)
		}
		var err error
		if o.staging[i].memory, err = o.dev.Alloc(most); err != nil {
			return err
		}
	}
	for _, e := range o.exchanges {
		if err := e.bindCopies(); err != nil {
			return err
		}
	}
	h := fnv.New64a()
	for _, s := range o.order {
		_, _ = io.WriteString(h, s+"\n") // a hash never returns an error
	}
	all, err := comm.AllGather(o.c, []int64{int64(h.Sum64())})
	if err != nil {
		return err
	}
	for r, v := range all {
		if v != all[0] {
			return &exit.Error{Code: exit.Bug, What: fmt.Sprintf("ranks 0 and %d have different orders of communication", r),
				Why: "their compiled plans differ", Fix: "report this together with the mesh and the configuration"}
		}
	}
	o.allocated = true
	return nil
}

// deviceExtension adds communication between devices to an extension.
type deviceExtension struct{ *extension }

// deviceKernels returns the kernel constructors of operations whose operands are in
// device memory.
func (e *deviceExtension) deviceKernels() map[string]func(backend.Request) (backend.Kernel, error) {
	p := e.plan
	native := map[string]func(backend.Request) (backend.Kernel, error){
		gather.Name:      func(q backend.Request) (backend.Kernel, error) { return p.devices.gather(q) },
		crop.Name:        func(q backend.Request) (backend.Kernel, error) { return p.devices.crop(q) },
		sumRanks.Name:    func(q backend.Request) (backend.Kernel, error) { return p.devices.sum(q) },
		joinMoments.Name: func(q backend.Request) (backend.Kernel, error) { return p.devices.joinMoments(q) },
	}
	if !p.sums.sharded { // a sharded optimiser runs on the host and needs the gradients there
		native[sumRanksDeferred.Name] = func(q backend.Request) (backend.Kernel, error) { return p.devices.sumDeferred(p.sums, q) }
	}
	return native
}

// Kernels returns the kernels between devices if a transport is open, otherwise
// those in host memory.
func (e *deviceExtension) Kernels() map[string]func(backend.Request) (backend.Kernel, error) {
	all := e.extension.Kernels()
	for name, onDevice := range e.deviceKernels() {
		onHost := all[name]
		all[name] = func(q backend.Request) (backend.Kernel, error) {
			if e.plan.devices == nil {
				return onHost(q)
			}
			return onDevice(q)
		}
	}
	return all
}

// OnOpen opens a transport between the devices of the ranks.
func (e *deviceExtension) OnOpen(dev backend.Backend) (map[string]bool, error) {
	devices, transport, err := openTransport(e.c, dev)
	if _, isRemote := dev.(backend.Remote); err != nil || !isRemote {
		return nil, err
	}
	e.plan.transport = transport
	if e.log != nil {
		e.log.Info("transport of halos and gradients", "by", transport)
	}
	if devices == nil {
		return nil, nil
	}
	e.plan.devices = &devicePlan{c: e.c, groups: e.groups, dev: dev.(deviceMemory), devices: devices, peers: map[string]backend.Peers{}}
	names := map[string]bool{}
	for name := range e.deviceKernels() {
		names[name] = true
	}
	return names, nil
}

// AllReduceMax replaces each number by its maximum over the ranks.
func (e *deviceExtension) AllReduceMax(x []int64) error {
	all, err := comm.AllGather(e.c, x)
	if err != nil {
		return err
	}
	for i, v := range all {
		x[i%len(x)] = max(x[i%len(x)], v)
	}
	return nil
}

// OnRunEnd adds asynchronous errors of the devices.
func (e *deviceExtension) OnRunEnd(err error) error {
	if e.plan.devices == nil {
		return err
	}
	return errors.Join(err, e.plan.devices.devices.Err())
}

// OnClose closes the transport. If the plan was never ready, it aborts the
// transport first.
func (e *deviceExtension) OnClose() error {
	on := e.plan.devices
	if on == nil {
		return nil
	}
	if !on.allocated { // other ranks may wait for this one
		_ = on.devices.Abort(errors.New("compiling the plan of this rank failed")) // the caller has the error already
	}
	return on.devices.Close()
}

// Finish aborts the communication between devices if a kernel failed.
func (e *deviceExtension) Finish(err error) error {
	if on := e.plan.devices; err != nil && on != nil {
		err = errors.Join(err, on.devices.Abort(err))
	}
	return e.extension.Finish(err)
}

// Transport describes how the devices of the ranks exchange values: the name of the
// transport, or host memory with the reason. It is empty for a backend without
// device memory.
func (p *Plan) Transport() string { return p.transport }
