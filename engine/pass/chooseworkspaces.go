package pass

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass/workspace"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// chooseWorkspaces chooses how the work of every kernel is cut: the fastest of the
// backend's cuts whose scratch is within the limit, which is that of the scratch or
// what the arena leaves of the limit of the memory. Kernels run one after the other
// and share one buffer, so each may use all of the limit (µ-cuDNN's workspace
// reuse), and the choices do not depend on each other.
//
// On the processor batches and latitudes are not divided: our convolutions go by blocks of
// tiles inside the kernel already, with filters that are transformed once for all blocks,
// and what lies in their scratch is these filters, which pieces of a batch do not
// make smaller. See docs/decisions/0005-workspaces.md. On a GPU the backend's cuts are its
// own kernels and cuDNN's plans, these whole or in pieces of the batch and of latitudes.
//
// Errors: exit.Usage around workspace.ErrLimit, with the operation that needs most
// and the least limit that serves all. A limit of the memory that the arena and that
// least exceed is left to plan-memory.
//
// Source: Oyama, Ben-Nun, Hoefler, Matsuoka 2018, arXiv:1804.04806.
func chooseWorkspaces(u *Unit) error {
	if u.Cuts == nil {
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
		if u.MemoryLimit > 0 {
			v := *u
			assignMemory(&v)
			limit = max(least, min(limit, u.MemoryLimit-int64(v.Memory.ArenaSize)*int64(u.ElemBytes)))
		}
	}
	u.CutOf, u.ScratchOf, u.Scratch = map[int]string{}, map[int]int64{}, 0
	for _, id := range u.Sequence {
		n := u.Graph.Nodes[id]
		cuts, err := cutsOf(u, n)
		if err != nil {
			return err
		}
		if len(cuts) == 0 {
			continue
		}
		k := workspace.Kernel{Name: fmt.Sprintf("%s %v (%s)", n.Op.Name, n.Shape, n.At), Size: 1}
		for _, c := range cuts {
			k.Micros = append(k.Micros, workspace.Micro{Size: 1, Algorithm: c.Name, Time: c.Time, Bytes: c.Bytes})
		}
		c, err := k.Reuse(limit)
		if err != nil {
			return err
		}
		u.CutOf[id], u.ScratchOf[id] = c.Pieces[0].Algorithm, c.Bytes
		u.Scratch = max(u.Scratch, c.Bytes)
	}
	return nil
}

// bounded tells whether the scratch of kernels must be known before they are made.
func bounded(u *Unit) bool { return u.Workspace > 0 || u.MemoryLimit > 0 }

// cutsOf lists the ways to cut the work of an operation; if there is a bound and no
// choice, the one way that there is, without a name; none of a foreign operation.
func cutsOf(u *Unit, n *graph.Node) ([]backend.Variant, error) {
	if u.Foreign != nil && u.Foreign(n.Op) {
		return nil, nil
	}
	q := requestOf(u.Graph, n)
	cuts, err := u.Cuts.Variants(q)
	if err == nil && len(cuts) == 0 && bounded(u) {
		cuts = make([]backend.Variant, 1)
		cuts[0].Bytes, err = u.Cuts.Scratch(q)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %v (%s): %w", n.Op.Name, n.Shape, n.At, err)
	}
	return cuts, nil
}

// leastScratch is the least limit of the scratch that serves all kernels, in bytes,
// and the operation that needs it; 0 if the backend does not know.
func leastScratch(u *Unit) (tightest *graph.Node, need int64, err error) {
	if u.Cuts == nil {
		return nil, 0, nil
	}
	for _, id := range u.Sequence {
		n := u.Graph.Nodes[id]
		cuts, err := cutsOf(u, n)
		if err != nil {
			return nil, 0, err
		}
		if len(cuts) == 0 {
			continue
		}
		least := slices.MinFunc(cuts, func(a, b backend.Variant) int { return cmp.Compare(a.Bytes, b.Bytes) }).Bytes
		if tightest == nil || least > need {
			tightest, need = n, least
		}
	}
	return tightest, need, nil
}

// requestOf asks for the kernel of an operation, without its memory.
func requestOf(g *graph.Graph, n *graph.Node) backend.Request {
	q := backend.Request{Op: n.Op, Attrs: n.Attrs, Out: tensorOf(n), Seed: g.Seed}
	for _, in := range n.In {
		q.In = append(q.In, tensorOf(g.Nodes[in]))
	}
	return q
}

func tensorOf(n *graph.Node) backend.Tensor {
	return backend.Tensor{Shape: n.Shape, Layout: n.Layout, DType: n.DType}
}

// WorkspaceTooSmall is the error for a limit of the scratch that no cut of an
// operation is within, of all operations the one that needs most.
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
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a workspace of %d bytes is too small", limit), At: n.At,
		Why: fmt.Sprintf("%s, %v, needs %d bytes of scratch at least", layer, n.Shape, need),
		Fix: fmt.Sprintf("set the workspace to %d bytes or more, or to 0 for no bound", need),
		Err: &WorkspaceError{Limit: limit, Smallest: need}}
}

// WorkspaceError says that the scratch of a kernel exceeds the limit.
type WorkspaceError struct {
	Limit, Smallest int64 // in bytes; Smallest is the least limit that serves all kernels
}

func (e *WorkspaceError) Error() string {
	return fmt.Sprintf("%v: %d bytes, the least that serves is %d", workspace.ErrLimit, e.Limit, e.Smallest)
}

// Unwrap is workspace.ErrLimit.
func (e *WorkspaceError) Unwrap() error { return workspace.ErrLimit }
