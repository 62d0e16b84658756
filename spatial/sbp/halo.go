package sbp

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Halo is what ranks read of a tensor that is cut along windows: their own parts, and
// around them what others hold.
type Halo struct{ t transfer }

// ForwardHalo is that of the first operand under a rule: what the rank's part of the result
// reads.
func (o Op) ForwardHalo(m spatial.Mesh, r Rule) Halo {
	return o.halo(m, o.X[0], r.X[0], o.Window)
}

// BackwardHalo is that of the gradient of the result: what the gradient of the rank's part of
// the operand reads. With stride 1 it is a window too, seen from its other end.
func (o Op) BackwardHalo(m spatial.Mesh, r Rule) Halo {
	mirrored := slices.Clone(o.Window)
	for i, w := range mirrored {
		mirrored[i].Pad = (w.Size-1)*w.Dilation - w.Pad
	}
	return o.halo(m, o.Y, r.DY, mirrored)
}

func (o Op) halo(m spatial.Mesh, shape graph.Shape, s Signature, window []graph.WindowAxis) Halo {
	t := conversion(m, shape, s, s)
	t.periodic = func(dim int) bool { return dim < len(window) && window[dim].Periodic }
	t.need = func(rank int) spatial.Box {
		box := part(m, shape, s, rank)
		for dim, w := range window {
			if w.Size > 0 {
				box[dim] = spatial.PaddedInputRange(w, box[dim])
			}
		}
		return box
	}
	return Halo{t}
}

// Box is what a rank gets, the padding beyond the ends of the tensor included.
func (h Halo) Box(rank int) spatial.Box { return h.t.need(rank) }

// Cost is that of getting elements of so many bytes.
func (h Halo) Cost(unit int) Cost { return h.t.cost(unit) }

// FetchHalo gives a rank its box, from its own part x; zeros lie beyond the ends of the
// tensor. All ranks of c, which are those of the mesh, call it.
//
// Errors: ErrSignature for a mesh or a part of another size; those of other ranks.
func FetchHalo[T comm.Number](c *comm.Comm, h Halo, x []T) ([]T, error) {
	n := h.t.mesh.Size()
	if want := part(h.t.mesh, h.t.shape, h.t.from, c.Rank()%n).Size(); c.Size() != n || len(x) != want {
		return nil, fmt.Errorf("%d elements on %d ranks, want %d on %d: %w", len(x), c.Size(), want, n, ErrSignature)
	}
	y, err := exchange(c, allRanks(h.t.mesh), h.t, x)
	if err != nil {
		return nil, fmt.Errorf("fetching a halo: %w", err)
	}
	return y, nil
}
