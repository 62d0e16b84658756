package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// parts divides the kernels of a run: the forward part computes the outputs of Options.Forward and the loss, the backward part
// everything else. Without Options.Forward the forward part is empty.
type parts struct {
	cut       int            // first kernel of the backward part
	finishers []func() error // Finish functions of the forward part whose results it does not read
	saved     []byteRange    // of the arena, ascending, that the backward part reads and the forward part has written
}

// byteRange is the range [lo, hi) of the arena.
type byteRange struct{ lo, hi int }

// divide finds the parts of the plan.
//
// Errors: *exit.Error (exit.Usage) for an output that the graph does not have, for a device with memory of its own, and for an
// order of execution in which the parts are mixed.
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
	if _, isRemote := p.dev.(backend.Remote); isRemote {
		return wrong("backend "+p.dev.Name()+" runs steps as a whole", "use backend cpu")
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
func (p *Plan) rangesAcross(isForward []bool) (ranges []byteRange) {
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
			unit := p.unit.ElemBytes
			ranges = append(ranges, byteRange{at.Offset * unit, (at.Offset + at.Size) * unit})
		}
	}
	slices.SortFunc(ranges, func(a, b byteRange) int { return a.lo - b.lo })
	return ranges
}

// RunForward runs the forward part of a step: it computes the outputs of Options.Forward and the loss. RunBackward computes the
// rest. Both parts together are a Run, with its bits.
//
// Errors: as Run.
func (p *Plan) RunForward(ctx context.Context, step uint64) error {
	return p.start(ctx, step, func() error {
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
	return p.start(ctx, step, func() error {
		p.memory.load()
		return p.complete(p.runBackwardKernels())
	})
}

// runForwardKernels runs the kernels of the forward part and finishes its results.
func (p *Plan) runForwardKernels() error {
	if err := p.runKernels(p.kernels[:p.cut]); err != nil {
		return err
	}
	return p.finishForward()
}

// finishForward finishes the results of the forward part that only the backward part reads, or none.
func (p *Plan) finishForward() error {
	for _, f := range p.finishers {
		if err := f(); err != nil {
			return fmt.Errorf("finish forward part: %w", err)
		}
	}
	return nil
}

// runBackwardKernels runs the kernels of the backward part and finishes the results that no kernel reads.
func (p *Plan) runBackwardKernels() error {
	if err := p.runKernels(p.kernels[p.cut:]); err != nil {
		return err
	}
	return p.finishUnread(runNow, func(int) bool { return true })
}

// SavedBytes is the size of what the backward part reads of the results of the forward part, in the layouts and types in
// which they are stored: the activations of a step, without inputs.
func (p *Plan) SavedBytes() int64 {
	var n int
	for _, r := range p.saved {
		n += r.hi - r.lo
	}
	return int64(n)
}

// Save copies what the backward part reads of the forward part that ran last to dst, of SavedBytes. The plan may then run
// other forward parts.
//
// Cost: a copy of a few contiguous ranges.
func (p *Plan) Save(dst []byte) {
	for _, r := range p.saved {
		dst = dst[copy(dst, p.memory.bytes[r.lo:r.hi]):]
	}
}

// Load copies back what Save has copied.
func (p *Plan) Load(src []byte) {
	for _, r := range p.saved {
		src = src[copy(p.memory.bytes[r.lo:r.hi], src):]
	}
}

// Swap is Save and Load in one buffer: x receives what Save would copy, and its former content is loaded.
func (p *Plan) Swap(x []byte) {
	var part [16 << 10]byte // stays in the first cache
	for _, r := range p.saved {
		for own := p.memory.bytes[r.lo:r.hi]; len(own) > 0; {
			n := copy(part[:], own)
			copy(own[:n], x)
			copy(x, part[:n])
			own, x = own[n:], x[n:]
		}
	}
}
