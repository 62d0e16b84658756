package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
)

// Plan is a compiled graph: prepared kernels over one arena. One goroutine at a
// time may use a plan, and plans that share a Store take turns.
type Plan struct {
	graph   *graph.Graph
	unit    *pass.Unit
	dev     backend.Backend
	opts    Options
	kernels []kernel
	memory  memory
	after   []func() error // assignments and gradients that need a copy
	closed  bool
	extensionState
	ioBuffers
	stepState
	extraMemory
}

// extensionState is what runs beside the kernels of the device.
type extensionState struct {
	extension Extension // that of the options, or one that does nothing
	foreign   map[string]func(backend.Request) (backend.Kernel, error)
}

// ioBuffers are those that enter and leave a plan.
type ioBuffers struct {
	inputs  map[string][]float32
	outputs map[string][]float32
	loss    []float32
	scale   float32 // ScaleLoss
}

// stepState is a run of a plan.
type stepState struct {
	step    uint64
	runStep func() error // built once, so that Run allocates nothing
	endStep func() error // the same, of Wait; nil if a run is over when it was started
	began   time.Time    // of the last run, with Profile
}

// extraMemory are bytes beside the arena: of scratch for which that has no room, and of memory that
// Reserve gave.
type extraMemory struct{ extraScratch, reserved int64 }

// kernel is one prepared operation and the time it took: so far, and last.
type kernel struct {
	backend.Kernel
	node         *graph.Node
	finishers    []func() error // of operands that this kernel is the first to read
	waitsForHost bool           // whether any of these is more than work of the device
	firstReader  int            // that calls Finish, if there is one
	bindScratch  func()         // gives the device the scratch of the kernel; nil if it needs none
	ns           int64
	runs         int64
	start        time.Time
	last         time.Duration
}

// Compile runs the passes over g, opens the device and prepares every kernel.
// The graph itself is not changed and may be compiled again.
//
// Errors: *exit.Error: what no plan can be (exit.Usage), a missing device or
// library or too little memory (exit.NoDevice), a workspace too small (exit.Usage
// around workspace.ErrLimit).
func Compile(g *graph.Graph, o Options) (p *Plan, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.Store.layout(g); err != nil {
		return nil, err
	}
	choices := maps.Clone(o.Store.choices)
	maps.Copy(choices, o.Choices)
	o.Choices = choices
	dev, err := open(o)
	if err != nil {
		return nil, err
	}
	own, err := g.Rewrite(nil, func(*graph.Builder, *graph.Node, []graph.Value) graph.Value { return graph.Value{} })
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	extension := o.Extension
	if extension == nil {
		extension = NoExtension{}
	}
	foreign := extension.Kernels()
	u := &pass.Unit{Graph: own, Debug: pass.Debug{Log: o.Log, AfterPass: o.AfterPass}}
	u.Options = pass.Options{Infer: o.Mode == Infer, DonateInputs: o.DonateInputs, MemoryLimit: o.Memory.Limit, Workspace: o.Workspace,
		Precision: precisions[cmp.Or(o.Precision, "f32")], BlockMasks: o.BlockMasks, Int8: o.Int8, Choices: o.Choices}
	u.ElemBytes = dev.Elem().Bytes()
	u.Foreign = func(n *graph.Op) bool { return foreign[n.Name] != nil }
	u.Layouts, _ = dev.(backend.Layouts)
	u.Cuts, _ = dev.(backend.VariantLister)
	if err := setDeviceLimits(u, dev, o); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	native, err := extension.OnOpen(dev)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	u.Native = func(n *graph.Op) bool { return native[n.Name] }
	if err := pass.Run(o.Passes, u); err != nil {
		return nil, errors.Join(deviceMemoryError(err, o), dev.Do(extension.OnClose), dev.Close())
	}
	p = &Plan{graph: u.Graph, unit: u, dev: dev, opts: o, extensionState: extensionState{extension, foreign},
		ioBuffers: ioBuffers{inputs: map[string][]float32{}, outputs: map[string][]float32{}, scale: 1}}
	err = dev.Do(func() error {
		if err := p.memory.bind(p); err != nil {
			return err
		}
		return p.prepare()
	})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.runStep = p.execute
	if p.memory.remote != nil {
		p.runStep = func() error { return p.memory.remote.startStep(p) }
		p.endStep = func() error { return extension.OnRunEnd(p.memory.remote.Wait()) }
	}
	maps.Copy(o.Store.choices, p.Choices())
	for _, n := range u.Graph.Notes {
		o.Log.Debug("note of the network", "note", n)
	}
	o.Log.Debug("compiled", "backend", dev.Name(), "kernels", len(p.kernels),
		"arena_bytes", int64(u.Memory.ArenaSize)*int64(u.ElemBytes), "scratch_bytes", p.ScratchBytes(), "flops", p.FLOPs())
	return p, nil
}

// prepare makes the kernels in the order of execution.
func (p *Plan) prepare() error {
	if borrower, ok := p.dev.(backend.ScratchSetter); ok {
		borrower.SetScratch(nil)
	}
	aside, under := pendingCopies{}, pendingResults{}
	for _, id := range p.unit.Sequence {
		n := p.graph.Nodes[id]
		q := backend.Request{Op: n.Op, Attrs: n.Attrs, Out: p.memory.tensors[id], Variant: p.unit.CutOf[id], Seed: p.graph.Seed, Step: &p.step}
		for _, in := range n.In {
			q.In = append(q.In, p.memory.tensors[in])
		}
		if p.memory.remote != nil {
			q.Ready = under.read(p.graph, n)
		}
		if r := p.memory.remote; r != nil && op.IsHostCopy(n.Op) {
			p.kernels = append(p.kernels, kernel{Kernel: aside.kernel(r, n, q), node: n})
			continue
		}
		prepare := p.dev.Prepare
		if own, ok := p.foreign[n.Op.Name]; ok {
			prepare = own
			if r := p.memory.remote; r != nil && !p.unit.Native(n.Op) {
				prepare = r.onHost(own)
			}
		}
		k, err := prepare(q)
		if err != nil {
			return fmt.Errorf("prepare %s %v (%s): %w", n.Op.Name, n.Shape, n.At, err)
		}
		if k.Finish != nil && !k.ResultAtEnd {
			under[id] = k.Ready
		}
		p.kernels = append(p.kernels, kernel{Kernel: k, node: n})
	}
	p.assignFinishers()
	if r := p.memory.remote; r != nil {
		if err := r.chooseRecorded(p); err != nil {
			return err
		}
	}
	if err := p.assignScratch(); err != nil {
		return err
	}
	if need := p.ScratchBytes(); p.opts.Workspace > 0 && need > p.opts.Workspace { // a kernel of which there is one cut
		i := slices.IndexFunc(p.kernels, func(k kernel) bool { return k.Scratch == need })
		return pass.WorkspaceTooSmall(p.graph, p.kernels[i].node, p.opts.Workspace, need)
	}
	return nil
}

// pendingResults are the results that are only begun when the next kernel is prepared, and what is there of them.
type pendingResults map[int]*backend.Region

// read tells what is there of the operands of n, before it ends what is under way (Plan.assignFinishers); nil if all is.
func (u pendingResults) read(g *graph.Graph, n *graph.Node) (there []*backend.Region) {
	for i, id := range n.In {
		part, begun := u[g.AliasRoot(id)]
		if !begun {
			continue
		}
		if there == nil {
			there = make([]*backend.Region, len(n.In))
		}
		if part == nil || g.AliasRoot(id) != id {
			none := make(graph.Shape, len(g.Nodes[id].Shape))
			part = &backend.Region{Lo: none, Size: none}
		}
		there[i] = part
	}
	if !n.Op.Alias {
		for _, id := range n.In {
			delete(u, g.AliasRoot(id))
		}
	}
	return there
}

// assignScratch gives each kernel its scratch: of the arena what no value takes while it runs, or if
// that is too small what all such kernels use in turn.
func (p *Plan) assignScratch() (err error) {
	const elem = 4 // bytes
	borrower, _ := p.dev.(backend.ScratchSetter)
	p.extraScratch = 0
	length := func(k *kernel) int { return int(k.Scratch / elem) }
	give := func(k *kernel, scratch []float32) error {
		switch {
		case k.SetScratch != nil:
			return k.SetScratch(scratch)
		case borrower != nil:
			k.bindScratch = func() { borrower.SetScratch(scratch) }
		}
		return nil
	}
	var beside []*kernel
	for i := range p.kernels {
		k := &p.kernels[i]
		if k.Scratch == 0 {
			continue
		}
		at, ok := p.unit.Memory.FindGap(i, i, length(k))
		if !ok {
			beside = append(beside, k)
			p.extraScratch = max(p.extraScratch, k.Scratch)
			continue
		}
		if err := give(k, p.memory.arena[at:at+length(k)]); err != nil {
			return err
		}
	}
	scratch := []float32(nil)
	if n := int(p.extraScratch / elem); p.memory.remote == nil {
		scratch = bigmem.Make[float32](n)
	} else if scratch, err = p.memory.remote.scratch(n); err != nil {
		return err
	}
	for _, k := range beside {
		if err := give(k, scratch[:length(k)]); err != nil {
			return err
		}
	}
	return nil
}

// Reserve gives memory of n elements that kernels of an Extension fill from the first-th
// operation of a run on, and that stays as it is from its end to the next: in the arena
// where that has room. It is called before the first run.
func (p *Plan) Reserve(first, n int) []float32 {
	m := p.unit.Memory
	at, ok := m.FindGap(first, len(p.kernels), n)
	if !ok || p.memory.arena == nil || p.memory.remote != nil {
		p.reserved += 4 * int64(n)
		return bigmem.Make[float32](n)
	}
	m.Spans = append(m.Spans, pass.Span{Offset: at, Size: n, First: first, Last: len(p.kernels)})
	if _, ok := p.dev.(backend.ScratchSetter); ok {
		_ = p.assignScratch() // only memory of a device can be missing
	}
	return p.memory.arena[at : at+n : at+n]
}

// assignFinishers has every result that a kernel only starts ended by the first kernel that reads
// it, or else behind the last of all.
func (p *Plan) assignFinishers() {
	for i := range p.kernels {
		k := &p.kernels[i]
		if k.Finish == nil {
			continue
		}
		k.firstReader = len(p.kernels)
		for at := len(p.kernels) - 1; at > i && !k.ResultAtEnd; at-- {
			n := p.kernels[at].node
			if !n.Op.Alias && slices.ContainsFunc(n.In, func(id int) bool { return p.graph.AliasRoot(id) == k.node.ID }) {
				k.firstReader = at
			}
		}
		if k.firstReader < len(p.kernels) {
			reader := &p.kernels[k.firstReader]
			reader.finishers, reader.waitsForHost = append(reader.finishers, k.Finish), reader.waitsForHost || !k.Async
		}
	}
}

// finishUnread gives the ends of results that no kernel reads, and whether each is not recorded, which apart tells of the
// kernel that began it.
func (p *Plan) finishUnread(do visitor, apart func(i int) bool) error {
	for i := range p.kernels {
		k := &p.kernels[i]
		if k.Finish == nil || k.firstReader < len(p.kernels) {
			continue
		}
		if err := do(apart(i), k.Finish); err != nil {
			return fmt.Errorf("end of %s %v (%s): %w", k.node.Op.Name, k.node.Shape, k.node.At, err)
		}
	}
	return nil
}

// run runs a kernel whose operands may still be under way.
func (k *kernel) run() error {
	if k.bindScratch != nil {
		k.bindScratch()
	}
	if k.RunEarly != nil {
		if err := k.RunEarly(); err != nil {
			return err
		}
	}
	for _, end := range k.finishers {
		if err := end(); err != nil {
			return err
		}
	}
	return k.Run()
}

// timed runs a kernel, and what wait waits for if it is not nil, and takes the time.
func (k *kernel) timed(wait func() error) error {
	k.start = time.Now()
	err := k.run()
	if err == nil && wait != nil {
		err = wait()
	}
	k.last = time.Since(k.start)
	k.ns += k.last.Nanoseconds()
	k.runs++
	return err
}

// execute runs all kernels once, on the thread of the device.
func (p *Plan) execute() error {
	if p.opts.Profile {
		p.began = time.Now()
	}
	p.memory.load()
	if err := p.extension.Finish(p.runKernels()); err != nil {
		return err
	}
	for _, f := range p.after {
		if err := f(); err != nil {
			return err
		}
	}
	p.memory.store()
	return nil
}

// runKernels runs all kernels until one fails.
func (p *Plan) runKernels() error {
	for i := range p.kernels {
		k := &p.kernels[i]
		run := k.run
		if p.opts.Profile {
			run = func() error { return k.timed(nil) }
		}
		if err := run(); err != nil {
			return fmt.Errorf("%s %v (%s): %w", k.node.Op.Name, k.node.Shape, k.node.At, err)
		}
	}
	return p.finishUnread(runNow, func(int) bool { return true })
}

// Run computes one step: it reads the inputs and the store, and writes outputs,
// loss, gradients and states. step keys random operations; the same step, seed,
// store and inputs give the same bits. Nothing is allocated.
//
// Errors: ctx.Err(), looked at before the step; an error of the device.
func (p *Plan) Run(ctx context.Context, step uint64) error {
	if err := p.Start(ctx, step); err != nil {
		return err
	}
	return p.Wait()
}

// Start begins a step, and Wait ends it: outputs, loss, gradients and states are there when
// Wait returns. Between both, a device with memory of its own works by itself; elsewhere
// the step is over when Start returns.
//
// Errors: as of Run.
func (p *Plan) Start(ctx context.Context, step uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.closed {
		return errClosed
	}
	p.step = step
	if x := p.inputs[pass.LossScale]; x != nil {
		x[0] = p.scale
	}
	return p.dev.Do(p.runStep)
}

// ScaleLoss has gradients of the steps that begin from now on be those of the loss times a
// number, where they are stored as float16 (ScalesLoss); the loss itself stays as it is.
func (p *Plan) ScaleLoss(by float64) { p.scale = float32(by) }

// Wait ends the step that Start began.
//
// Errors: of the device.
func (p *Plan) Wait() error {
	if p.endStep == nil || p.closed {
		return nil
	}
	return p.dev.Do(p.endStep)
}

// HasDeviceMemory tells whether the plan computes on a device with memory of its own, which works by
// itself between Start and Wait.
func (p *Plan) HasDeviceMemory() bool { return p.memory.remote != nil }

// Device tells what the plan computes on; false if that is the processor.
func (p *Plan) Device() (about backend.DeviceInfo, ok bool) {
	if d, ok := p.dev.(backend.InfoProvider); ok {
		return d.DeviceInfo(), true
	}
	return about, false
}

// StageInputs says that the inputs of the next step are filled: they are on their way to a device
// with memory of its own from here on, while that works, and Input gives other memory. It is
// never needed, and does nothing elsewhere. Inputs may be filled again when Stage, or Start
// without it, returns.
//
// Errors: of the device.
func (p *Plan) StageInputs() error {
	if p.memory.remote == nil || p.closed {
		return nil
	}
	return p.dev.Do(func() error { return p.memory.remote.stage(p) })
}

var errClosed = errors.New("engine: the plan is closed")

// Input is the memory of an input, to be filled before Run, and before every one with
// Options.Consume or behind Stage; nil if the graph has none of this name.
func (p *Plan) Input(name string) []float32 { return p.inputs[name] }

// Output is the memory of an output, valid after Run until the next; nil if
// the graph has none of this name.
func (p *Plan) Output(name string) []float32 { return p.outputs[name] }

// Loss is the loss of the last run; 0 if the graph has none.
func (p *Plan) Loss() float64 {
	if p.loss == nil {
		return 0
	}
	return float64(p.loss[0])
}

// Store is the store of the plan.
func (p *Plan) Store() *Store { return p.opts.Store }

// Graph is the graph after all passes. The caller must not change it.
func (p *Plan) Graph() *graph.Graph { return p.graph }

// Choices are the kernels and layouts that were chosen by time, by description of
// the operation or graph: what a checkpoint must keep for the same bits after a
// resume. Backends without such choices give an empty map.
func (p *Plan) Choices() map[string]string {
	all := map[string]string{}
	maps.Copy(all, p.unit.Chosen)
	if c, ok := p.dev.(interface{ Choices() map[string]string }); ok {
		maps.Copy(all, c.Choices())
	}
	return all
}

// FLOPs counts the useful floating point operations of one run: without those
// that are computed again to save memory.
func (p *Plan) FLOPs() int64 { return p.graph.FLOPs() - p.unit.Recomputed.FLOPs }

// ArenaBytes is the size of the arena: all values of a step.
func (p *Plan) ArenaBytes() int64 { return int64(p.unit.Memory.ArenaSize) * int64(p.unit.ElemBytes) }

// MemoryBytes is the size of the arena, and of scratch and what Reserve gives for which it
// has no room.
func (p *Plan) MemoryBytes() int64 { return p.ArenaBytes() + p.extraScratch + p.reserved }

// ScratchBytes is the most scratch that a kernel uses. It lies where the arena has room
// while the kernel runs, or else in a buffer that kernels use in turn (MemoryBytes).
func (p *Plan) ScratchBytes() int64 {
	var most int64
	for _, k := range p.kernels {
		most = max(most, k.Scratch)
	}
	return most
}

// Close frees kernels and device. It may be repeated. Slices from Input and
// Output stay readable.
func (p *Plan) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	var err error
	if h := p.opts.Store.device; h != nil && h.remote == p.memory.remote {
		h.release()
		err = h.takeErr()
	}
	err = errors.Join(err, p.dev.Do(func() error {
		for _, k := range p.kernels {
			if k.Close != nil {
				k.Close()
			}
		}
		var err error
		if p.memory.remote != nil {
			err = p.memory.remote.close()
		}
		return errors.Join(err, p.extension.OnClose())
	}))
	p.kernels = nil
	err = errors.Join(err, p.dev.Close())
	p.memory.release()
	return err
}
