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
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
)

// Plan is a compiled graph: prepared kernels over one arena. Use a plan from
// one goroutine at a time. Plans that share a Store must not run concurrently.
type Plan struct {
	graph   *graph.Graph // after all passes
	unit    *pass.Unit   // decisions of the passes
	dev     backend.Backend
	opts    Options
	kernels []kernel       // in order of execution
	memory  memory         // tensors of all values
	after   []func() error // assignments and gradients that need a copy
	closed  bool
	extensionState
	ioBuffers
	stepState
	extraMemory
	parts
	masked []maskedKernel // kernels whose block masks may change
}

// extensionState holds the extension of a plan.
type extensionState struct {
	extension Extension                                                // that of the options, or NoExtension
	foreign   map[string]func(backend.Request) (backend.Kernel, error) // prepares operations of the extension, by name
}

// ioBuffers holds the host memory of inputs, outputs and loss.
type ioBuffers struct {
	inputs  map[string][]float32 // by name
	outputs map[string][]float32 // by name
	loss    []float32            // one element; nil without a loss
	scale   float32              // factor on the loss; see ScaleLoss
}

// stepState holds the state of a run.
type stepState struct {
	step    uint64       // key of random numbers
	runStep func() error // built once, so that Run allocates nothing
	endStep func() error // as runStep, for Wait; nil if Start completes the run
	began   time.Time    // start of the last run, with Profile
}

// extraMemory counts bytes outside of the arena: scratch memory that the arena
// has no gap for, and memory from KeptGrads.
type extraMemory struct{ extraScratch, reserved int64 }

// kernel is one prepared operation with its timings, in total and of the last
// run.
type kernel struct {
	backend.Kernel
	node         *graph.Node    // operation that it computes
	finishers    []func() error // Finish functions of operands that this kernel is the first to read
	waitsForHost bool           // whether one of these waits on the host, not only on the device
	firstReader  int            // position of the kernel that calls Finish, if there is a Finish
	bindScratch  func()         // gives the scratch memory to the device; nil if the kernel needs none
	ns           int64          // total time in nanoseconds
	runs         int64          // number of timed runs
	start        time.Time      // start of the last run, with Profile
	last         time.Duration  // time of the last run, with Profile
}

// Compile runs the passes on a copy of g, opens the device and prepares every
// kernel. g does not change and may be compiled again. The steps are:
//
//   - Check the options and lay out the store for g.
//   - Open the device, and merge the choices of earlier plans.
//   - Run the passes, which give the order of execution and the memory plan.
//   - Allocate the arena, prepare the kernels, and assign scratch memory.
//
// If another process takes memory of the device between the plan, which fits
// into the free memory, and the allocation, all steps are repeated once with
// the memory that is free then, after a warning in the log. With an Extension
// they are not, as the other ranks do not repeat theirs.
//
// Errors: *exit.Error. exit.Usage for invalid graphs and options, and around
// workspace.ErrLimit for a workspace limit that is too small. exit.NoDevice for
// a missing device or library, or too little memory.
func Compile(g *graph.Graph, o Options) (*Plan, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p, err := compile(g, o)
	if !errors.Is(err, device.ErrOutOfMemory) || o.Memory.Limit > 0 || o.Extension != nil {
		return p, err
	}
	o.Log.Warn("the memory of the GPU no longer suffices for a plan that was made for what was free: planning again for what is free now", "error", err)
	return compile(g, o)
}

// compile is one attempt of Compile.
func compile(g *graph.Graph, o Options) (p *Plan, err error) {
	if err := o.Store.LayOut(g); err != nil {
		return nil, err
	}
	// Choices of the caller take precedence over those of earlier plans of the
	// store.
	choices := maps.Clone(o.Store.choices)
	maps.Copy(choices, o.Choices)
	o.Choices = choices
	dev, err := open(o)
	if err != nil {
		return nil, err
	}
	// A copy, since passes modify nodes.
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
		Forward: o.Forward, MaxFactorSide: o.MaxFactorSide, Precision: precisions[cmp.Or(o.Precision, "f32")], BlockMasks: o.BlockMasks, TwoFourFilters: o.TwoFourFilters, GradientMasks: o.GradientMasks, MasksChange: o.MasksChange, Int8: o.Int8, Choices: o.Choices}
	u.ElemBytes = dev.Elem().Bytes()
	u.Foreign = func(n *graph.Op) bool { return foreign[n.Name] != nil }
	u.Layouts, _ = dev.(backend.Layouts)
	u.Variants, _ = dev.(backend.VariantLister)
	u.HasTwoFourKernels = hasTwoFourKernels(dev)
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
		if err := p.divide(); err != nil {
			return err
		}
		if err := p.memory.bind(p); err != nil {
			return err
		}
		return p.prepare()
	})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	// The functions are bound once: a method value in Run would allocate.
	p.runStep = p.execute
	if p.memory.remote != nil {
		p.runStep = func() error { return p.memory.remote.startStep(p) }
		p.endStep = func() error { return extension.OnRunEnd(p.memory.remote.Wait()) }
	}
	maps.Copy(o.Store.choices, p.Choices())
	for _, n := range u.Graph.Notes {
		o.Log.Debug("note", "note", n)
	}
	o.Log.Debug("compiled", "backend", dev.Name(), "kernels", len(p.kernels),
		"arena_bytes", int64(u.Memory.ArenaSize)*int64(u.ElemBytes), "scratch_bytes", p.ScratchBytes(), "flops", p.FLOPs())
	return p, nil
}

// prepare prepares the kernels in order of execution.
func (p *Plan) prepare() error {
	if borrower, ok := p.dev.(backend.ScratchSetter); ok {
		borrower.SetScratch(nil)
	}
	copies, pending, fileCopies := pendingCopies{}, pendingResults{}, map[int]*fileCopy{}
	for _, id := range p.unit.Sequence {
		n := p.graph.Nodes[id]
		q := p.request(n)
		if p.memory.remote != nil {
			q.Ready = pending.read(p.graph, n)
		}
		if op.IsHostCopy(n.Op) {
			k := kernel{node: n}
			if f := p.memory.file; f != nil {
				k.Kernel = f.kernel(p, n, q, fileCopies)
			} else {
				k.Kernel = copies.kernel(p.memory.remote, n, q)
			}
			p.kernels = append(p.kernels, k)
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
			pending[id] = k.Ready
		}
		p.kernels = append(p.kernels, kernel{Kernel: k, node: n})
	}
	p.assignFinishers()
	if err := p.prepareMasked(); err != nil {
		return err
	}
	if r := p.memory.remote; r != nil {
		if err := r.chooseRecorded(p); err != nil {
			return err
		}
	}
	if err := p.assignScratch(); err != nil {
		return err
	}
	// choose-workspaces checks kernels with several variants. A kernel with a
	// single one shows its need only now.
	if need := p.ScratchBytes(); p.opts.Workspace > 0 && need > p.opts.Workspace { // a kernel without a smaller variant
		i := slices.IndexFunc(p.kernels, func(k kernel) bool { return k.Scratch == need })
		return pass.WorkspaceTooSmall(p.graph, p.kernels[i].node, p.opts.Workspace, need)
	}
	return nil
}

// request is the request for the kernel of an operation, on all available data.
func (p *Plan) request(n *graph.Node) backend.Request {
	q := backend.Request{Op: n.Op, Attrs: n.Attrs, Out: p.memory.tensors[n.ID], Variant: p.unit.VariantOf[n.ID], Seed: p.graph.Seed, Step: &p.step}
	for _, in := range n.In {
		q.In = append(q.In, p.memory.tensors[in])
	}
	return q
}

// pendingResults holds the nodes whose kernels have started but not finished
// their results, with the region that is available before Finish; nil means
// nothing is.
type pendingResults map[int]*backend.Region

// read returns the available region of each operand of n, before n calls the
// pending Finish functions. It is nil if all operands are complete. The
// operands count as complete afterwards.
func (u pendingResults) read(g *graph.Graph, n *graph.Node) (ready []*backend.Region) {
	for i, id := range n.In {
		region, isPending := u[g.AliasRoot(id)]
		if !isPending {
			continue
		}
		if ready == nil {
			ready = make([]*backend.Region, len(n.In))
		}
		if region == nil || g.AliasRoot(id) != id {
			none := make(graph.Shape, len(g.Nodes[id].Shape))
			region = &backend.Region{Lo: none, Size: none}
		}
		ready[i] = region
	}
	if !n.Op.Alias {
		for _, id := range n.In {
			delete(u, g.AliasRoot(id))
		}
	}
	return ready
}

// assignScratch assigns scratch memory to each kernel: a gap of the arena while
// the kernel runs, or a common buffer for all kernels without such a gap.
//
// A gap is memory that no value occupies while the kernel runs, so scratch costs nothing in
// most plans.
//
// Errors: *exit.Error (exit.NoDevice) if a device has no memory for the buffer.
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
	// Kernels whose scratch memory fits no gap of the arena share one buffer,
	// which is as large as the largest of them needs.
	var unplaced []*kernel
	for i := range p.kernels {
		k := &p.kernels[i]
		if k.Scratch == 0 {
			continue
		}
		at, ok := p.unit.Memory.FindGap(i, i, length(k))
		if !ok {
			unplaced = append(unplaced, k)
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
	for _, k := range unplaced {
		if err := give(k, scratch[:length(k)]); err != nil {
			return err
		}
	}
	return nil
}

// KeptGrads returns the memory of n elements in which an Extension keeps its part of
// the gradients: the one planned in the arena (pass.GradMemory), or memory outside of
// it if none was planned or n is larger. Call it before the first run.
func (p *Plan) KeptGrads(n int) []float32 {
	k := p.unit.Memory.Kept
	if n > k.Size || p.memory.arena == nil || p.memory.remote != nil {
		p.reserved += 4 * int64(n)
		return bigmem.Make[float32](n)
	}
	return p.memory.arena[k.Offset : k.Offset+n : k.Offset+n]
}

// assignFinishers assigns every Finish function to the first kernel that reads
// the result. Results that no kernel reads are finished after the last one. The
// forward part finishes its results.
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
		if i < p.cut && k.firstReader >= p.cut {
			k.firstReader, p.unread = p.cut, append(p.unread, i)
			continue
		}
		if k.firstReader < len(p.kernels) {
			reader := &p.kernels[k.firstReader]
			reader.finishers, reader.waitsForHost = append(reader.finishers, k.Finish), reader.waitsForHost || !k.Async
		}
	}
}

// finishUnread visits the Finish functions of results that no kernel reads.
// apart reports, for the kernel that started the result, whether Finish cannot
// be recorded.
func (p *Plan) finishUnread(do visitor, apart func(i int) bool) error {
	for i := range p.kernels {
		k := &p.kernels[i]
		if k.Finish == nil || k.firstReader < len(p.kernels) || i < p.cut {
			continue
		}
		if err := do(apart(i), k.Finish); err != nil {
			return fmt.Errorf("finish %s %v (%s): %w", k.node.Op.Name, k.node.Shape, k.node.At, err)
		}
	}
	return nil
}

// run runs a kernel, after the Finish functions of its operands.
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

// timed runs a kernel and measures its time. wait, if not nil, waits for the
// device before the clock is read.
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
	err := p.runForwardKernels()
	if err == nil {
		err = p.runBackwardKernels()
	}
	return p.complete(err)
}

// complete ends a step after its kernels, the last of which may have failed.
func (p *Plan) complete(err error) error {
	if err := p.extension.Finish(err); err != nil {
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

// runKernels runs consecutive kernels until one fails.
func (p *Plan) runKernels(kernels []kernel) error {
	for i := range kernels {
		k := &kernels[i]
		run := k.run
		if p.opts.Profile {
			run = func() error { return k.timed(nil) }
		}
		if err := run(); err != nil {
			if p.memory.file != nil {
				p.memory.file.settle()
			}
			return fmt.Errorf("%s %v (%s): %w", k.node.Op.Name, k.node.Shape, k.node.At, err)
		}
	}
	return nil
}

// Run computes one step. It reads the inputs and the store, and writes outputs,
// loss, gradients and states. step is part of the key of random numbers: the
// same step, seed, store and inputs give the same bits. Run allocates nothing.
//
// Errors: ctx.Err() before the step, or an error of the device.
func (p *Plan) Run(ctx context.Context, step uint64) error {
	if err := p.Start(ctx, step); err != nil {
		return err
	}
	return p.Wait()
}

// Start starts a step, and Wait waits for its end. Outputs, loss, gradients and
// states are valid after Wait. In between, a device with memory of its own
// works asynchronously. On other devices Start completes the step.
//
// Errors: as Run.
func (p *Plan) Start(ctx context.Context, step uint64) error {
	return p.start(ctx, step, p.runStep)
}

// start runs a step or a part of it.
func (p *Plan) start(ctx context.Context, step uint64, run func() error) error {
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
	return p.dev.Do(run)
}

// ScaleLoss sets the loss scale of later steps: gradients are those of by times
// the loss. It applies to gradients stored as float16 (ScalesLoss). The loss
// itself is not scaled.
func (p *Plan) ScaleLoss(by float64) { p.scale = float32(by) }

// Wait waits for the end of the step that Start started.
//
// Errors: those of the device.
func (p *Plan) Wait() error {
	if p.endStep == nil || p.closed {
		return nil
	}
	return p.dev.Do(p.endStep)
}

// HasDeviceMemory reports whether the plan runs on a device with memory of its
// own, which works asynchronously between Start and Wait.
func (p *Plan) HasDeviceMemory() bool { return p.memory.remote != nil }

// hasTwoFourKernels reports whether a device has kernels for 2:4 filters in some precision.
func hasTwoFourKernels(dev backend.Backend) bool {
	d, ok := dev.(backend.TwoFourSkipper)
	return ok && d.HasTwoFourKernels()
}

// HasTwoFourKernels reports whether the device has kernels for filters with the 2:4
// pattern in the precision of the plan.
func (p *Plan) HasTwoFourKernels() bool {
	return hasTwoFourKernels(p.dev) && precisions[p.opts.Precision] != graph.Float32
}

// Device describes the device. ok is false on the CPU.
func (p *Plan) Device() (about backend.DeviceInfo, ok bool) {
	if d, ok := p.dev.(backend.InfoProvider); ok {
		return d.DeviceInfo(), true
	}
	return about, false
}

// StageInputs starts the copy of the filled inputs to a device with memory of
// its own, while the device still works on the previous step. Input returns
// other memory afterwards. StageInputs is optional, and does nothing on other
// devices. Inputs may be filled again when StageInputs returns, or Start if it was
// not called.
//
// Errors: those of the device.
func (p *Plan) StageInputs() error {
	if p.memory.remote == nil || p.closed {
		return nil
	}
	return p.dev.Do(func() error { return p.memory.remote.stage(p) })
}

// errClosed is returned by runs of a closed plan.
var errClosed = errors.New("engine: plan is closed")

// Input is the memory of an input. Fill it before Run. With
// Memory.DonateInputs, or after Plan.StageInputs, fill it before every Run. It
// is nil if the graph has no input of this name.
func (p *Plan) Input(name string) []float32 { return p.inputs[name] }

// Factors describes the Kronecker factors that the plan computes as outputs, for every filter. It is nil without
// Options.MaxFactorSide.
func (p *Plan) Factors() []pass.LayerFactors { return p.unit.Factors }

// Output is the memory of an output, valid from Run to the next Run. It is nil
// if the graph has no output of this name.
func (p *Plan) Output(name string) []float32 { return p.outputs[name] }

// Loss is the loss of the last run, or 0 if the graph has none.
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

// Choices are the kernels and layouts that were chosen by timing, keyed by a
// description of the operation or graph. A checkpoint stores them, so that a
// resumed run gives the same bits. The map is empty for backends without such
// choices.
func (p *Plan) Choices() map[string]string {
	all := map[string]string{}
	maps.Copy(all, p.unit.Chosen)
	if c, ok := p.dev.(interface{ Choices() map[string]string }); ok {
		maps.Copy(all, c.Choices())
	}
	return all
}

// FLOPs counts the useful floating point operations of one run, without
// recomputation.
func (p *Plan) FLOPs() int64 { return p.graph.FLOPs() - p.unit.Recomputed.FLOPs }

// ArenaBytes is the size of the arena, which holds all values of a step.
func (p *Plan) ArenaBytes() int64 { return int64(p.unit.Memory.ArenaSize) * int64(p.unit.ElemBytes) }

// MemoryBytes is the size of the arena, of scratch memory outside of it, and of
// memory from KeptGrads outside of it.
func (p *Plan) MemoryBytes() int64 { return p.ArenaBytes() + p.extraScratch + p.reserved }

// ScratchBytes is the largest scratch memory of a kernel. It lies in a gap of
// the arena, or in a buffer that kernels share (MemoryBytes).
func (p *Plan) ScratchBytes() int64 {
	var most int64
	for _, k := range p.kernels {
		most = max(most, k.Scratch)
	}
	return most
}

// Close frees the kernels and the device. It may be called repeatedly. Slices
// from Input and Output stay readable.
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
		p.closeMasked()
		for _, k := range p.kernels {
			if k.Close != nil {
				k.Close()
			}
		}
		var err error
		if p.memory.remote != nil {
			err = p.memory.remote.close()
		}
		if p.memory.file != nil {
			err = p.memory.file.close()
		}
		return errors.Join(err, p.extension.OnClose())
	}))
	p.kernels, p.masked = nil, nil
	err = errors.Join(err, p.dev.Close())
	p.memory.release()
	return err
}
