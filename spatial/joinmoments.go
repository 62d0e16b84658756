package spatial

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// joinMomentsAttrs holds the attributes of join_moments: the mesh axes, and the
// number of values per channel of each rank of the group, in rank order.
type joinMomentsAttrs struct {
	meshAxes
	Counts []int
}

// joinMoments merges the per-channel moments of the shards of a field into those of
// the field. It is the synchronised part of batch normalisation.
//
// Shape: x [2 C], means then variances of the rank's shard → y [2 C] of the field.
// Gradient: none; sharding.momentsGrad rescales the gradient of the moments
// instead.
// Cost: one all-gather of 2C values.
var joinMoments = &graph.Op{
	Name: "join_moments",
	Doc: "Mean and variance (divisor n) of each channel over all ranks along mesh axes, from the moments of each rank's " +
		"shard [2 C].",
	Source: "Chan, Golub and LeVeque 1979, Stanford STAN-CS-79-773, equation 2.1",
	NoGrad: noGrad,
	Shape: func(in []graph.Shape, _ any) (graph.Shape, error) {
		if len(in) != 1 || len(in[0]) != 2 || in[0][0] != 2 {
			return nil, fmt.Errorf("operands %v, want moments [2 C]: %w", in, graph.ErrShape)
		}
		return in[0].Clone(), nil
	},
	Window:  func([]graph.Shape, any) graph.Window { return graph.Window{} },
	FLOPs:   noFLOPs,
	Bytes:   func(_ []graph.Shape, out graph.Shape, _ any) int64 { return 8 * int64(out.Size()) },
	InPlace: func(int, any) bool { return true },
	Ordered: true,
}

// joinMomentsKernel prepares join_moments within a group.
func joinMomentsKernel(c *comm.Comm, q backend.Request) (backend.Kernel, error) {
	counts := q.Attrs.(joinMomentsAttrs).Counts
	if y := q.Out.F64; y != nil {
		return joinMomentsOver(c, counts, y, q.In[0].F64), nil
	}
	return joinMomentsOver(c, counts, q.Out.F32, q.In[0].F32), nil
}

// joinMomentsOver all-gathers the moments x of the ranks and merges them in rank
// order, so that every rank computes the same bits. The merge is in float64 for
// both element types.
//
// Shape: x, y [2 C], means then variances.
func joinMomentsOver[T float32 | float64](c *comm.Comm, counts []int, y, x []T) backend.Kernel {
	return backend.Kernel{Name: "all-gather", Run: func() error {
		all, err := comm.AllGather(c, x)
		if err != nil {
			return err
		}
		for k, ch := 0, len(x)/2; k < ch; k++ {
			var n, mean, squares float64
			for r, count := range counts {
				part := all[r*len(x):]
				n, mean, squares = mergeMoments(n, mean, squares, float64(count), float64(part[k]), float64(part[ch+k])*float64(count))
			}
			y[k], y[ch+k] = T(mean), T(squares/n)
		}
		return nil
	}}
}

// mergeMoments merges count n, mean and sum of squared deviations of two sets of
// values:
//
//	δ = mean₂ − mean,  mean' = mean + δ·m/(n+m),  S' = S + S₂ + δ²·n·m/(n+m)
//
// Source: Chan, Golub and LeVeque 1979, Stanford STAN-CS-79-773, equation 2.1.
func mergeMoments(n, mean, squares, m, mean2, squares2 float64) (count, both, sum float64) {
	count = n + m
	d := mean2 - mean
	return count, mean + d*m/count, squares + squares2 + d*d*n*m/count
}
