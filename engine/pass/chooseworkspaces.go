package pass

import (
	"cmp"
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass/workspace"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// chooseWorkspaces chooses how the work of every kernel is cut: the fastest of the
// backend's cuts whose scratch is within the limit. Kernels run one after the other
// and share one buffer, so each may use all of the limit (µ-cuDNN's workspace
// reuse), and the choices do not depend on each other.
//
// Batches and latitudes are not divided: our convolutions go by blocks of tiles
// inside the kernel already, with filters that are transformed once for all blocks,
// and what lies in their scratch is these filters, which pieces of a batch do not
// make smaller. See docs/decisions/0005-workspaces.md.
//
// Errors: exit.Usage around workspace.ErrLimit, with the operation that needs most
// and the least limit that serves all.
//
// Source: Oyama, Ben-Nun, Hoefler, Matsuoka 2018, arXiv:1804.04806.
func chooseWorkspaces(u *Unit) error {
	if u.Cuts == nil {
		return nil
	}
	limit := cmp.Or(u.Workspace, math.MaxInt64)
	u.CutOf = map[int]string{}
	var tightest *graph.Node // whose least scratch exceeds the limit most
	var need int64
	for _, id := range u.Sequence {
		n := u.Graph.Nodes[id]
		cuts, err := u.Cuts.Cuts(requestOf(u.Graph, n))
		if err != nil {
			return fmt.Errorf("%s %v (%s): %w", n.Op.Name, n.Shape, n.At, err)
		}
		if len(cuts) == 0 {
			continue
		}
		k := workspace.Kernel{Name: fmt.Sprintf("%s %v (%s)", n.Op.Name, n.Shape, n.At), Size: 1}
		least := int64(math.MaxInt64)
		for _, c := range cuts {
			k.Micros = append(k.Micros, workspace.Micro{Size: 1, Algorithm: c.Name, Time: c.Time, Bytes: c.Bytes})
			least = min(least, c.Bytes)
		}
		if least > limit {
			if least > need {
				tightest, need = n, least
			}
			continue
		}
		c, err := k.Reuse(limit)
		if err != nil {
			return err
		}
		u.CutOf[id] = c.Pieces[0].Algorithm
	}
	if tightest != nil {
		return WorkspaceTooSmall(u.Graph, tightest, limit, need)
	}
	return nil
}

// requestOf asks for the kernel of an operation, without its memory.
func requestOf(g *graph.Graph, n *graph.Node) backend.Request {
	q := backend.Request{Op: n.Op, Attrs: n.Attrs, Out: backend.Tensor{Shape: n.Shape, Layout: n.Layout}, Seed: g.Seed}
	for _, in := range n.In {
		q.In = append(q.In, backend.Tensor{Shape: g.Nodes[in].Shape, Layout: g.Nodes[in].Layout})
	}
	return q
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
