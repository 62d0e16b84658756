package pass

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass/workspace"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// chooseWorkspaces chooses the variant of every kernel: the fastest one of the
// backend whose scratch memory is within the limit. The limit is the workspace
// limit, or the part of the memory limit that the arena leaves. Kernels run one
// after the other and share one buffer. So each may use the whole limit
// (workspace reuse of µ-cuDNN), and the choices are independent.
//
// On the CPU, batches and latitudes are not divided. Our convolutions process
// blocks of tiles inside the kernel, with filters that are transformed once for
// all blocks. Their scratch memory holds these filters, which smaller batches
// do not reduce. See docs/decisions/0005-workspaces.md. On a GPU the variants
// are own kernels and cuDNN's plans, whole or for pieces of the batch and of
// latitudes.
//
// If there is a memory limit, the arena is planned once in advance to find the
// memory that it leaves. The final arena has the same size: plan-memory only
// moves buffers to open gaps for scratch memory.
//
// Errors: exit.Usage around workspace.ErrLimit, with the operation that needs
// most and the smallest sufficient limit. A memory limit that the arena and
// this minimum exceed is left to plan-memory.
// Source: Oyama, Ben-Nun, Hoefler, Matsuoka 2018, arXiv:1804.04806.
func chooseWorkspaces(u *Unit) error {
	if u.Variants == nil {
		return nil
	}
	limit := int64(math.MaxInt64)
	if bounded(u) {
		tightest, least, err := leastScratch(u)
		if err != nil {
			return err
		}
		if limit = cmp.Or(u.Workspace, limit); least > limit {
			return WorkspaceTooSmall(u.Graph, tightest, limit, least)
		}
		// The workspace may use what the arena leaves of the memory limit, but
		// at least what the kernels need.
		if u.MemoryLimit > 0 {
			v := *u
			assignMemory(&v)
			limit = max(least, min(limit, u.MemoryLimit-int64(v.Memory.ArenaSize)*int64(u.ElemBytes)))
		}
	}
	u.VariantOf, u.UnmaskedVariantOf, u.ScratchOf = map[int]string{}, map[int]string{}, map[int]int64{}
	for _, id := range u.Sequence {
		n := u.Graph.Nodes[id]
		if err := u.chooseVariant(n, limit, u.VariantOf); err != nil {
			return err
		}
		if u.MasksChange && op.MaskOf(n.Attrs) != "" {
			dense := *n
			dense.Attrs = op.WithMask(n.Attrs, "")
			if err := u.chooseVariant(&dense, limit, u.UnmaskedVariantOf); err != nil {
				return err
			}
		}
	}
	return nil
}

// chooseVariant chooses the fastest variant of an operation within a limit of scratch memory, and adds it to chosen.
//
// Errors: workspace.ErrLimit.
func (u *Unit) chooseVariant(n *graph.Node, limit int64, chosen map[int]string) error {
	variants, err := variantsOf(u, n)
	if err != nil || len(variants) == 0 {
		return err
	}
	// Every variant runs the whole operation, so it is a
	// micro-configuration of the full size 1.
	k := workspace.Kernel{Name: fmt.Sprintf("%s %v (%s)", n.Op.Name, n.Shape, n.At), Size: 1}
	for _, c := range variants {
		k.Micros = append(k.Micros, workspace.Micro{Size: 1, Algorithm: c.Name, Time: c.Time, Bytes: c.Bytes})
	}
	c, err := k.Reuse(limit)
	if err != nil {
		return err
	}
	chosen[n.ID], u.ScratchOf[n.ID] = c.Pieces[0].Algorithm, max(u.ScratchOf[n.ID], c.Bytes)
	return nil
}

// bounded reports whether there is a limit, so that scratch memory must be
// known before kernels are prepared.
func bounded(u *Unit) bool { return u.Workspace > 0 || u.MemoryLimit > 0 }

// variantsOf lists the kernel variants of an operation. If there is a limit but no
// choice, it is the only variant, without a name. Foreign operations and copies, which the plan runs, have none.
func variantsOf(u *Unit, n *graph.Node) ([]backend.Variant, error) {
	if op.IsHostCopy(n.Op) || u.Foreign != nil && u.Foreign(n.Op) {
		return nil, nil
	}
	q := requestOf(u.Graph, n)
	variants, err := u.Variants.Variants(q)
	if err == nil && len(variants) == 0 && bounded(u) {
		variants = make([]backend.Variant, 1)
		variants[0].Bytes, err = u.Variants.Scratch(q)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %v (%s): %w", n.Op.Name, n.Shape, n.At, err)
	}
	return variants, nil
}

// leastScratch is the smallest limit in bytes that suffices for all kernels,
// with the operation that needs it. It is 0 if the backend reports no scratch
// memory.
func leastScratch(u *Unit) (tightest *graph.Node, need int64, err error) {
	if u.Variants == nil {
		return nil, 0, nil
	}
	for _, id := range u.Sequence {
		n := u.Graph.Nodes[id]
		variants, err := variantsOf(u, n)
		if err != nil {
			return nil, 0, err
		}
		if len(variants) == 0 {
			continue
		}
		least := slices.MinFunc(variants, func(a, b backend.Variant) int { return cmp.Compare(a.Bytes, b.Bytes) }).Bytes
		if tightest == nil || least > need {
			tightest, need = n, least
		}
	}
	return tightest, need, nil
}

// requestOf is the request for the kernel of an operation, without memory.
func requestOf(g *graph.Graph, n *graph.Node) backend.Request {
	q := backend.Request{Op: n.Op, Attrs: n.Attrs, Out: tensorOf(n), Seed: g.Seed}
	for _, in := range n.In {
		q.In = append(q.In, tensorOf(g.Nodes[in]))
	}
	return q
}

// tensorOf describes a value without memory.
func tensorOf(n *graph.Node) backend.Tensor {
	return backend.Tensor{Shape: n.Shape, Layout: n.Layout, DType: n.DType}
}

// WorkspaceTooSmall is the error for a limit that every variant of an operation
// exceeds. n is the operation that needs most.
func WorkspaceTooSmall(g *graph.Graph, n *graph.Node, limit, need int64) error {
	layer := n.Op.Name
	for _, id := range n.In {
		if in := g.Nodes[id]; in.Kind == graph.KindParam {
			layer += " with " + in.Name
			break
		}
	}
	for _, d := range g.Grads {
		if d.Value == n.ID {
			layer += " of " + g.Nodes[d.Param].Name
		}
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("workspace limit of %d bytes is too small", limit), At: n.At,
		Why: fmt.Sprintf("%s %v needs at least %d bytes of scratch memory", layer, n.Shape, need),
		Fix: fmt.Sprintf("set the workspace to %d bytes or more, or to 0 for no limit", need),
		Err: &WorkspaceError{Limit: limit, Smallest: need}}
}

// WorkspaceError reports that the scratch memory of a kernel exceeds the limit.
type WorkspaceError struct {
	Limit, Smallest int64 // bytes; Smallest is the least limit that suffices for all kernels
}

// Error names the limit and the smallest sufficient one.
func (e *WorkspaceError) Error() string {
	return fmt.Sprintf("%v: got %d bytes, need at least %d", workspace.ErrLimit, e.Limit, e.Smallest)
}

// Unwrap is workspace.ErrLimit.
func (e *WorkspaceError) Unwrap() error { return workspace.ErrLimit }
