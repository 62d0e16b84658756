package unet3d

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Pool selects how features of members are combined to features of the ensemble, at each grid
// point.
type Pool string

// The pools. All are invariant under permutation of members, bit for bit except AttentionPool,
// which is so up to rounding.
const (
	MeanPool    Pool = "mean"     // mean
	MeanStdPool Pool = "mean_std" // mean and standard deviation with divisor M−1, concatenated
	MinMaxPool  Pool = "min_max"  // minimum and maximum, concatenated
	// AttentionPool is a weighted mean: attention of one trained query over the members at each
	// point, with poolingHeads heads.
	AttentionPool Pool = "attention"
)

// poolingHeads is the published number of heads.
const poolingHeads = 8

// MemberEncoder computes features of an ensemble from the fields of its members (deep set). Two
// layers (3×3×3 convolution, bias, ReLU) are applied to each member, then members are pooled.
//
// Source: Höhlein et al. 2024, doi:10.1175/AIES-D-23-0070.1, with convolutions instead of layers
// per point.
type MemberEncoder struct {
	Channels int // output channels of both layers
	Pool     Pool
	Periodic bool // longitudes are periodic
}

// Build extends the graph by the encoder.
//
// Shape: x [N·M C D H W], the members of a sample consecutive → [N Channels D H W]; 2·Channels for
// MeanStdPool and MinMaxPool.
// Errors: in the builder: ErrShape if M does not divide the rows, if M is 1 with MeanStdPool, or if
// the heads of AttentionPool do not divide Channels.
func (e MemberEncoder) Build(b *graph.Builder, x graph.Value, members int) graph.Value {
	if members < 1 || x.Dim(0)%members != 0 || members == 1 && e.Pool == MeanStdPool {
		return b.Fail("member_encoder", fmt.Errorf("input %v with %d members, pool %s: %w", x.Shape(), members, e.Pool, graph.ErrShape))
	}
	u := UNet{Periodic: e.Periodic}
	for _, name := range []string{"members_conv0", "members_conv1"} {
		x = u.layer(b, name, x, e.Channels)
	}
	switch e.Pool {
	case MeanPool:
		return op.SetMean(b, x, members)
	case MeanStdPool:
		return op.Concat(b, 1, op.SetMean(b, x, members), op.SetStd(b, x, members))
	case MinMaxPool:
		return op.Concat(b, 1, op.SetMin(b, x, members), op.SetMax(b, x, members))
	case AttentionPool:
		return e.attend(b, x, members, poolingHeads)
	}
	return b.Fail("member_encoder", fmt.Errorf("unknown pool %q", e.Pool))
}

// attend pools members by attention. Query, key, value and out are those of
// torch.nn.MultiheadAttention.
func (e MemberEncoder) attend(b *graph.Builder, x graph.Value, members, heads int) graph.Value {
	s := x.Shape()
	if !x.Valid() {
		return x
	}
	linear := func(name string, x graph.Value) graph.Value {
		return conv3D(b, "members_"+name, x, e.Channels, [3]int{1, 1, 1}, false)
	}
	k, v := linear("key", x), linear("value", x)
	q := op.BroadcastTo(b, b.ParamOf(graph.Embedding, "members_query", graph.Shape{1, e.Channels, 1, 1, 1}, graph.Normal(1)),
		graph.Shape{s[0] / members, e.Channels, s[2], s[3], s[4]})
	a := op.SetAttentionSizes{Queries: 1, Keys: members, Heads: heads, Cells: [3]int(s[2:])}
	g := op.Scale(b, op.SetDot(b, q, k, a), math.Sqrt(float64(heads)/float64(e.Channels)))
	return linear("out", op.SetMix(b, op.Softmax(b, g, 1, members), v, a))
}
