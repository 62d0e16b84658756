package unet3d

import (
	"cmp"
	"context"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/rng"
)

// membersNet is a network over members with random parameters: those initialised with 0 would hide
// their input.
type membersNet struct {
	plan *engine.Plan
	size int // values of a row of the input
}

func newMembersNet(t *testing.T, backend string, x graph.Shape, build func(*graph.Builder, graph.Value) graph.Value) membersNet {
	t.Helper()
	b := graph.New(1)
	b.Output("y", build(b, b.Input("x", x)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: backend}, Mode: engine.Infer, Numerics: engine.Numerics{UseHeuristics: true, Winograd: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plan.Close() })
	for i, e := range plan.Store().Entries() {
		w := make([]float32, e.Shape.Size())
		fan := math.Sqrt(float64(len(w) / e.Shape[0]))
		for k := range w {
			w[k] = float32(rng.Normal(rng.Key(3, uint64(i)), uint64(k)) / fan)
		}
		if err := plan.Store().Set(e.Name, w); err != nil {
			t.Fatal(err)
		}
	}
	for i := range plan.Input("x") {
		plan.Input("x")[i] = float32(rng.Normal(7, uint64(i)))
	}
	return membersNet{plan, x[1:].Size()}
}

// run returns the output.
func (n membersNet) run(t *testing.T) []float32 {
	t.Helper()
	if err := n.plan.Run(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(n.plan.Output("y"))
}

// exchange swaps two rows of the input.
func (n membersNet) exchange(i, k int) {
	x := n.plan.Input("x")
	for p := range n.size {
		x[i*n.size+p], x[k*n.size+p] = x[k*n.size+p], x[i*n.size+p]
	}
}

var pools = []Pool{MeanPool, MeanStdPool, MinMaxPool, AttentionPool}

// TestMemberEncoder: the output is invariant under permutation of members, bit for bit or, with
// attention, up to rounding. Members of another sample do not affect it, and a changed member does.
func TestMemberEncoder(t *testing.T) {
	for _, backend := range backends(t) {
		for _, pool := range pools {
			e := MemberEncoder{Channels: 8, Pool: pool, Periodic: true}
			n := newMembersNet(t, backend, graph.Shape{10, 3, 1, 8, 12}, func(b *graph.Builder, x graph.Value) graph.Value { return e.Build(b, x, 5) })
			before := n.run(t)
			n.exchange(0, 3)
			n.exchange(1, 2)
			n.exchange(5, 9)
			for i, v := range n.run(t) {
				if d := math.Abs(float64(v - before[i])); d > 1e-6 || d > 0 && pool != AttentionPool {
					t.Fatalf("%s on %s: another order of members gives %v, was %v", pool, backend, v, before[i])
				}
			}
			before = n.run(t)
			n.plan.Input("x")[7*n.size] += 1
			after, half := n.run(t), len(before)/2
			if !slices.Equal(after[:half], before[:half]) || slices.Equal(after[half:], before[half:]) {
				t.Errorf("%s on %s: a member of the second sample reaches the first, or not its own", pool, backend)
			}
		}
	}
}

// TestMemberEncoderLearns: features of members are concatenated to those of the sample, and the
// encoder is trained with the network.
func TestMemberEncoderLearns(t *testing.T) {
	for _, pool := range pools {
		b := graph.New(2)
		x, m, y := b.Input("x", graph.Shape{2, 3, 1, 8, 12}), b.Input("m", graph.Shape{6, 2, 1, 8, 12}), b.Input("y", graph.Shape{2, 1, 1, 8, 12})
		more := MemberEncoder{Channels: 8, Pool: pool}.Build(b, m, 3)
		b.Loss(op.MSE(b, UNet{Base: 2, Stages: 1}.BuildPadded(b, op.Concat(b, 1, x, more)), y))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}})
		if err != nil {
			t.Fatal(err)
		}
		defer plan.Close()
		for _, name := range []string{"x", "m", "y"} {
			for i := range plan.Input(name) {
				plan.Input(name)[i] = float32(rng.Normal(rng.Hash(name), uint64(i)))
			}
		}
		var losses []float64
		for step := range uint64(5) {
			if err := plan.Run(context.Background(), step); err != nil {
				t.Fatal(err)
			}
			losses = append(losses, plan.Loss())
			for i, d := range plan.Store().Grads() {
				plan.Store().Params()[i] -= 0.02 * d
			}
		}
		if !slices.IsSortedFunc(losses, func(a, b float64) int { return cmp.Compare(b, a) }) || losses[4] == losses[0] {
			t.Errorf("%s: losses %v, want them to fall", pool, losses)
		}
	}
}
