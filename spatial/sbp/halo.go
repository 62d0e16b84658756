package sbp

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Halo describes the box of a tensor, split along windows, that each rank reads:
// its own part and a rim around it.
type Halo struct{ t transfer }

// ForwardHalo returns the halo of the first operand under a rule, for the rank's
// part of the result.
func (o Op) ForwardHalo(m spatial.Mesh, r Rule) Halo {
	return o.halo(m, o.X[0], r.X[0], o.Window)
}

// BackwardHalo returns the halo of the gradient of the result, for the gradient of
// the rank's part of the operand. With stride 1 it is the mirrored window.
func (o Op) BackwardHalo(m spatial.Mesh, r Rule) Halo {
	mirrored := slices.Clone(o.Window)
	for i, w := range mirrored {
		mirrored[i].Pad = (w.Size-1)*w.Dilation - w.Pad
	}
	return o.halo(m, o.Y, r.DY, mirrored)
}

// halo returns the halo of a tensor under a signature and a window.
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

// Box returns the box that a rank receives, padding beyond the ends of the tensor
// included.
func (h Halo) Box(rank int) spatial.Box { return h.t.need(rank) }

// Cost returns the cost of the halo exchange for elements of unit bytes.
func (h Halo) Cost(unit int) Cost { return h.t.cost(unit) }

// FetchHalo returns a rank's box of the tensor, given its own part x. Elements
// beyond the ends of the tensor are zero. All ranks of c, which are those of the
// mesh, call it.
//
// Errors: ErrSignature for a mesh or a part of another size; failures of other
// ranks.
func FetchHalo[T comm.Number](c *comm.Comm, h Halo, x []T) ([]T, error) {
	n := h.t.mesh.Size()
	if want := part(h.t.mesh, h.t.shape, h.t.from, c.Rank()%n).Size(); c.Size() != n || len(x) != want {
		return nil, fmt.Errorf("%d elements on %d ranks, want %d on %d: %w", len(x), c.Size(), want, n, ErrSignature)
	}
	y, err := exchange(c, allRanks(h.t.mesh), h.t, x)
	if err != nil {
		return nil, fmt.Errorf("halo exchange: %w", err)
	}
	return y, nil
}
