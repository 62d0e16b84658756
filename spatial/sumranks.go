package spatial

import (
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// meshAxes are the axes of the mesh over which ranks act together.
type meshAxes struct{ Mesh []string }

// String names the axes.
func (a meshAxes) String() string { return strings.Join(a.Mesh, " ") }

// sumRanks adds up what the ranks along axes of the mesh have computed of a sum.
var sumRanks = &graph.Op{
	Name:   "sum_ranks",
	Doc:    "The sum over the ranks along axes of the mesh, of which each has a value of this shape.",
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

// sumKernel prepares sum_ranks within a group.
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
