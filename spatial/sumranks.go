package spatial

import (
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// meshAxes holds the mesh axes along which ranks communicate. It is part of the
// attributes of collectives.
type meshAxes struct{ Mesh []string }

// String returns the names of the axes, separated by spaces. It is the key of
// Mesh.Groups.
func (a meshAxes) String() string { return strings.Join(a.Mesh, " ") }

// sumRanks is an all-reduce: it sums the partial results of the ranks along mesh
// axes. All ranks of the group obtain the same bits.
//
// Shape: x → y of the same shape.
// Gradient: none; it is inserted after add-gradients.
// Memory: in place.
// Cost: that of comm.AllReduce.
// Source: Thakur, Rabenseifner and Gropp 2005, doi:10.1177/1094342005051521.
var sumRanks = &graph.Op{
	Name:   "sum_ranks",
	Doc:    "The sum over the ranks along mesh axes, each of which has a value of this shape.",
	Source: "Thakur, Rabenseifner and Gropp 2005, doi:10.1177/1094342005051521",
	NoGrad: noGrad,
	Shape: func(in []graph.Shape, _ any) (graph.Shape, error) {
		if len(in) != 1 {
			return nil, fmt.Errorf("%d operands, want 1: %w", len(in), graph.ErrShape)
		}
		return in[0].Clone(), nil
	},
	Window:  func([]graph.Shape, any) graph.Window { return graph.Window{} },
	FLOPs:   noFLOPs,
	Bytes:   func(_ []graph.Shape, out graph.Shape, _ any) int64 { return 8 * int64(out.Size()) },
	InPlace: func(int, any) bool { return true },
	Ordered: true,
}

// sumKernel prepares sum_ranks within a group, for values in host memory.
func sumKernel(c *comm.Comm, q backend.Request) (backend.Kernel, error) {
	if x, y := q.In[0].F64, q.Out.F64; y != nil {
		return backend.Kernel{Name: "all-reduce", Run: func() error {
			copy(y, x)
			return comm.AllReduce(c, y, comm.Auto)
		}}, nil
	}
	x, y := q.In[0].F32, q.Out.F32
	return backend.Kernel{Name: "all-reduce", Run: func() error {
		copy(y, x)
		return comm.AllReduce(c, y, comm.Auto)
	}}, nil
}
