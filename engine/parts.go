package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// parts divides the kernels of a run: the forward part computes the outputs of Options.Forward and the loss, the backward part
// everything else. Without Options.Forward the forward part is empty.
type parts struct {
	cut    int          // first kernel of the backward part
	unread []int        // kernels of the forward part that start results which it does not read
	saved  []arenaRange // ascending, that the backward part reads and the forward part has written
}

// arenaRange is the range [lo, hi) of elements of the arena.
type arenaRange struct{ lo, hi int }

// divide finds the parts of the plan.
//
// Errors: *exit.Error (exit.Usage) for an output that the graph does not have, and for an order of execution in which the parts
// are mixed.
func (p *Plan) divide() error {
	if p.opts.Forward == nil {
		return nil
	}
	wrong := func(why, fix string) error {
		return &exit.Error{Code: exit.Usage, What: "engine options: the run cannot be divided into a forward and a backward part", Why: why, Fix: fix}
	}
	for _, name := range p.opts.Forward {
		if !slices.ContainsFunc(p.graph.Outputs, func(o graph.Output) bool { return o.Name == name }) {
			return wrong(fmt.Sprintf("the graph has no output %q", name), "name outputs of the graph")
		}
	}
	isForward := pass.ForwardPart(p.graph, p.opts.Forward)
	for at, id := range p.unit.Sequence {
		if !isForward[id] {
			continue
		}
		if at != p.cut {
			return wrong("the memory limit needs an order that mixes the parts", "raise the memory limit")
		}
		p.cut++
	}
	p.saved = p.rangesAcross(isForward)
	return nil
}

// rangesAcross lists the memory of results of the forward part that the backward part reads, or that a run leaves.
func (p *Plan) rangesAcross(isForward []bool) (ranges []arenaRange) {
	g, m := p.graph, p.unit.Memory
	reads := map[int]bool{} // roots of memory
	for _, id := range p.unit.Sequence[p.cut:] {
		for _, in := range g.Nodes[id].In {
			reads[g.AliasRoot(in)] = true
		}
	}
	for _, o := range g.Outputs {
		if !slices.Contains(p.opts.Forward, o.Name) {
			reads[g.AliasRoot(o.ID)] = true
		}
	}
	for _, d := range m.GradCopies {
		reads[g.AliasRoot(d.Value)] = true
	}
	for _, a := range g.Assigns {
		reads[g.AliasRoot(a.Value)] = true
	}
	for id, n := range g.Nodes {
		if at := m.Places[id]; reads[id] && isForward[id] && n.Kind == graph.KindOp && at.Space == pass.Arena {
			ranges = append(ranges, arenaRange{at.Offset, at.Offset + at.Size})
		}
	}
	slices.SortFunc(ranges, func(a, b arenaRange) int { return a.lo - b.lo })
	return ranges
}

// RunForward runs the forward part of a step: it computes the outputs of Options.Forward and the loss. RunBackward computes the
// rest. Both parts together are a Run, with its bits.
//
// Errors: as Run.
func (p *Plan) RunForward(ctx context.Context, step uint64) error {
	return p.runPart(ctx, step, func() error {
		if p.memory.remote != nil {
			return p.memory.remote.startForward(p)
		}
		p.memory.load()
		if err := p.runForwardKernels(); err != nil {
			return p.extension.Finish(err)
		}
		p.memory.store()
		return nil
	})
}

// RunBackward runs the backward part of the step whose forward part the plan has run last, or whose results Load has copied
// back. Inputs that it reads must have the values of the forward part, and step its number.
//
// Errors: as Run.
func (p *Plan) RunBackward(ctx context.Context, step uint64) error {
	return p.runPart(ctx, step, func() error {
		if p.memory.remote != nil {
			return p.memory.remote.startBackward(p)
		}
		p.memory.load()
		return p.complete(p.runBackwardKernels())
	})
}

// runPart runs a part of a step and waits for its end.
func (p *Plan) runPart(ctx context.Context, step uint64, run func() error) error {
	if err := p.start(ctx, step, run); err != nil {
		return err
	}
	return p.Wait()
}

// runForwardKernels runs the kernels of the forward part and finishes its results.
func (p *Plan) runForwardKernels() error {
	if err := p.runKernels(p.kernels[:p.cut]); err != nil {
		return err
	}
	return p.finishForward(runNow, recordsNothing)
}

// finishForward visits the Finish functions of results of the forward part that it does not read.
func (p *Plan) finishForward(do visitor, apart func(i int) bool) error {
	for _, i := range p.unread {
		k := &p.kernels[i]
		if err := do(apart(i), k.Finish); err != nil {
			return fmt.Errorf("finish %s %v (%s): %w", k.node.Op.Name, k.node.Shape, k.node.At, err)
		}
	}
	return nil
}

// runBackwardKernels runs the kernels of the backward part and finishes the results that no kernel reads.
func (p *Plan) runBackwardKernels() error {
	if err := p.runKernels(p.kernels[p.cut:]); err != nil {
		return err
	}
	return p.finishUnread(runNow, recordsNothing)
}

// recordsNothing is the last argument of finishUnread where work is not recorded.
func recordsNothing(int) bool { return true }

// Activations is memory for what a forward part leaves for its backward part, on the device of a plan.
type Activations struct {
	host   []byte
	device []float32 // of a device with memory of its own
}

// SavedBytes is the size of what the backward part reads of the results of the forward part, in the layouts and types in
// which they are stored: the activations of a step, without inputs.
func (p *Plan) SavedBytes() int64 {
	var n int
	for _, r := range p.saved {
		n += r.hi - r.lo
	}
	return int64(n) * int64(p.unit.ElemBytes)
}

// NewActivations allocates memory of SavedBytes. It is valid until the plan is closed.
//
// Errors: *exit.Error (exit.NoDevice) if the device has too little memory.
func (p *Plan) NewActivations() (a *Activations, err error) {
	n := int(p.SavedBytes()) / 4
	if p.memory.remote == nil {
		return &Activations{host: bigmem.Bytes(bigmem.Make[float32](n))}, nil
	}
	a = &Activations{}
	err = p.dev.Do(func() error {
		a.device, err = p.memory.remote.Alloc(n)
		return err
	})
	return a, err
}

// Save copies what the backward part reads of the forward part that ran last. The plan may then run other forward parts.
//
// Errors: those of the device.
// Cost: a copy of a few contiguous ranges.
func (p *Plan) Save(to *Activations) error {
	if p.memory.remote != nil {
		return p.dev.Do(func() error { return p.copyRanges(to.device, true) })
	}
	x := to.host
	for _, own := range p.savedBytes() {
		x = x[copy(x, own):]
	}
	return nil
}

// Load copies back what Save has copied.
//
// Errors: those of the device.
func (p *Plan) Load(from *Activations) error {
	if p.memory.remote != nil {
		return p.dev.Do(func() error { return p.copyRanges(from.device, false) })
	}
	x := from.host
	for _, own := range p.savedBytes() {
		x = x[copy(own, x):]
	}
	return nil
}

// Swap is Save and Load in one: a receives what Save would copy, and its former content is loaded.
//
// Errors: those of the device.
// Memory: on a device with memory of its own, once SavedBytes.
func (p *Plan) Swap(a *Activations) error {
	if p.memory.remote != nil {
		return p.dev.Do(func() error { return p.memory.remote.swap(p, a) })
	}
	var part [16 << 10]byte // stays in the first cache
	x := a.host
	for _, own := range p.savedBytes() {
		for len(own) > 0 {
			n := copy(part[:], own)
			copy(own[:n], x)
			copy(x, part[:n])
			own, x = own[n:], x[n:]
		}
	}
	return nil
}

// savedBytes lists the saved ranges of an arena in host memory.
func (p *Plan) savedBytes() (ranges [][]byte) {
	for _, r := range p.saved {
		unit := p.unit.ElemBytes
		ranges = append(ranges, p.memory.bytes[r.lo*unit:r.hi*unit])
	}
	return ranges
}

// copyRanges copies the saved ranges of an arena on a device to x, or back. Call it within Do.
func (p *Plan) copyRanges(x []float32, save bool) error {
	for _, r := range p.saved {
		own, n := p.memory.arena[r.lo:r.hi], r.hi-r.lo
		to, from := own, x[:n]
		if save {
			to, from = from, to
		}
		if err := p.memory.remote.Copy(to, from); err != nil {
			return err
		}
		x = x[n:]
	}
	return nil
}

// swap is Plan.Swap by a spare copy. Call it within Do.
func (r *remote) swap(p *Plan, a *Activations) (err error) {
	if r.spare == nil {
		if r.spare, err = r.Alloc(len(a.device)); err != nil {
			return err
		}
	}
	if err = p.copyRanges(r.spare, true); err == nil {
		err = p.copyRanges(a.device, false)
	}
	r.spare, a.device = a.device, r.spare
	return err
}
