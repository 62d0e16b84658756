package engine

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// maskedKernel is a kernel of a convolution, or of one of its gradients, whose block mask may change
// between runs (Numerics.MasksChange).
type maskedKernel struct {
	at         int            // position in Plan.kernels
	filter     string         // parameter that the mask belongs to
	isGradient bool           // computes the gradient of the filter
	dense      backend.Kernel // for the filter without a mask
}

// isDense reports whether the kernel in use is the dense one.
func (m *maskedKernel) isDense(p *Plan) bool { return op.MaskOf(p.kernels[m.at].node.Attrs) == "" }

// SetBlockMasks replaces the block masks of a plan with MasksChange, between two runs. kept are those of the filters;
// the caller guarantees that masked blocks are zero. gradients are those of the filters' gradients, which are zero in
// masked blocks: usually kept, or fewer filters where the gradient of masked blocks is needed too. A filter that has no
// mask in a map is dense there. A mask must keep as many blocks as that which the plan was compiled with, and belong to
// a filter that had one.
//
// Kernels are prepared anew, with other lists of blocks; variants, memory and everything else of the plan remain.
//
// Errors: exit.Usage for a mask of another filter, shape or number of blocks, or a plan without MasksChange.
func (p *Plan) SetBlockMasks(kept, gradients map[string]op.BlockMask) error {
	if err := p.checkBlockMasks(kept, gradients); err != nil {
		return err
	}
	return p.dev.Do(func() error {
		for i := range p.masked {
			m := &p.masked[i]
			k := kept[m.filter]
			if m.isGradient {
				k = gradients[m.filter]
			}
			if err := p.setMask(m, k); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkBlockMasks refuses masks that do not fit the plan.
func (p *Plan) checkBlockMasks(kept, gradients map[string]op.BlockMask) error {
	refuse := func(filter, why string) error {
		return &exit.Error{Code: exit.Usage, What: "the block mask of " + filter + " does not fit the plan", Why: why, Fix: "compile a plan with these masks"}
	}
	for i, all := range []map[string]op.BlockMask{kept, gradients} {
		for filter, k := range all {
			was := p.opts.BlockMasks[filter]
			if own, ok := p.opts.GradientMasks[filter]; ok && i == 1 {
				was = own
			}
			n, of := k.Count()
			have, blocks := was.Count()
			switch {
			case k == "":
			case !p.opts.MasksChange:
				return refuse(filter, "its masks are fixed")
			case p.memory.remote != nil:
				return refuse(filter, "the device repeats recorded kernels")
			case n != have || of != blocks:
				return refuse(filter, fmt.Sprintf("it keeps %d of %d blocks, that of the plan %d of %d", n, of, have, blocks))
			}
		}
	}
	return nil
}

// setMask gives a kernel another mask.
//
// Errors: those of preparing it; exit.Bug if it needs more scratch memory than was reserved.
func (p *Plan) setMask(m *maskedKernel, k op.BlockMask) error {
	to := &p.kernels[m.at]
	n := to.node
	if op.MaskOf(n.Attrs) == k {
		return nil
	}
	next := m.dense
	if k != "" {
		q := p.request(n)
		q.Attrs = op.WithMask(n.Attrs, k)
		var err error
		if next, err = p.dev.Prepare(q); err != nil {
			return fmt.Errorf("prepare %s %v (%s): %w", n.Op.Name, n.Shape, n.At, err)
		}
	}
	if next.Scratch > to.Scratch {
		return &exit.Error{Code: exit.Bug, What: fmt.Sprintf("%s with another block mask needs %d bytes of scratch memory, %d are reserved", n.Op.Name, next.Scratch, to.Scratch), Fix: "report this"}
	}
	if !m.isDense(p) && to.Close != nil {
		to.Close()
	}
	next.Scratch = to.Scratch
	to.Kernel, n.Attrs = next, op.WithMask(n.Attrs, k)
	return nil
}

// prepareMasked prepares the dense kernels of convolutions whose masks may change, and reserves their scratch memory.
//
// Errors: those of preparing a kernel.
func (p *Plan) prepareMasked() error {
	if !p.opts.MasksChange {
		return nil
	}
	ofGradient := pass.FilterGradients(p.graph, p.opts.BlockMasks)
	for at := range p.kernels {
		n := p.kernels[at].node
		if op.MaskOf(n.Attrs) == "" {
			continue
		}
		m := maskedKernel{at: at, filter: ofGradient[n.ID]}
		m.isGradient = m.filter != ""
		for _, id := range n.In {
			if w := p.graph.Nodes[p.graph.AliasRoot(id)]; w.Kind == graph.KindParam && p.opts.BlockMasks[w.Name] != "" {
				m.filter = w.Name
			}
		}
		if m.filter == "" { // a constant filter, whose mask never changes
			continue
		}
		q := p.request(n)
		q.Attrs, q.Variant = op.WithMask(n.Attrs, ""), p.unit.UnmaskedVariantOf[n.ID]
		var err error
		if m.dense, err = p.dev.Prepare(q); err != nil {
			return fmt.Errorf("prepare %s %v (%s): %w", n.Op.Name, n.Shape, n.At, err)
		}
		p.kernels[at].Scratch = max(p.kernels[at].Scratch, m.dense.Scratch)
		p.masked = append(p.masked, m)
	}
	return nil
}

// closeMasked frees the dense kernels that are not in use.
func (p *Plan) closeMasked() {
	for i := range p.masked {
		if m := &p.masked[i]; !m.isDense(p) && m.dense.Close != nil {
			m.dense.Close()
		}
	}
}
