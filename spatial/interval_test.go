package spatial

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

type haloCase struct {
	name    string
	axis    graph.WindowAxis
	n       int
	cut     []int // of the inputs
	out     []int // of the outputs, where it is given
	forward [][2]int
	back    [][2]int
}

func even(n, p int) []int {
	starts := make([]int, p)
	for r := range starts {
		starts[r] = n * r / p
	}
	return starts
}

func outputs(a graph.WindowAxis, n int) int {
	if a.Periodic {
		return n / a.Stride
	}
	return (n+2*a.Pad-a.Dilation*(a.Size-1)-1)/a.Stride + 1
}

// Halo widths of published cases, before and after each rank's shard.
func TestHalo(t *testing.T) {
	one, zero := [2]int{1, 1}, [2]int{0, 0}
	for _, k := range []haloCase{
		{"size 3", graph.WindowAxis{Size: 3, Stride: 1, Dilation: 1, Pad: 1}, 16, even(16, 4), nil,
			[][2]int{{0, 1}, one, one, {1, 0}}, [][2]int{{0, 1}, one, one, {1, 0}}},
		{"size 3, periodic", graph.WindowAxis{Size: 3, Stride: 1, Dilation: 1, Pad: 1, Periodic: true}, 16, even(16, 4), nil,
			[][2]int{one, one, one, one}, [][2]int{one, one, one, one}},
		{"dilation 2, periodic", graph.WindowAxis{Size: 3, Stride: 1, Dilation: 2, Pad: 2, Periodic: true}, 16, even(16, 4), nil,
			[][2]int{{2, 2}, {2, 2}, {2, 2}, {2, 2}}, [][2]int{{2, 2}, {2, 2}, {2, 2}, {2, 2}}},
		{"stride 2", graph.WindowAxis{Size: 3, Stride: 2, Dilation: 1, Pad: 1}, 16, even(16, 4), []int{0, 2, 4, 6},
			[][2]int{zero, {1, 0}, {1, 0}, {1, 0}}, [][2]int{{0, 1}, {0, 1}, {0, 1}, zero}},
		{"stride 2, uneven", graph.WindowAxis{Size: 3, Stride: 2, Dilation: 1, Pad: 1}, 13, []int{0, 4, 7, 10}, []int{0, 2, 4, 5},
			[][2]int{zero, one, zero, {1, 0}}, [][2]int{{0, 1}, zero, one, zero}},
		{"pool 2, uneven", graph.WindowAxis{Size: 2, Stride: 2, Dilation: 1}, 18, []int{0, 5, 10, 14}, []int{0, 3, 5, 7},
			[][2]int{{0, 1}, zero, zero, zero}, [][2]int{zero, {1, 0}, zero, zero}},
		{"size 7, stride 2", graph.WindowAxis{Size: 7, Stride: 2, Dilation: 1, Pad: 3}, 20, even(20, 4), nil,
			[][2]int{{0, 3}, {2, 2}, {3, 3}, {2, 0}}, [][2]int{{0, 1}, {2, 2}, one, {2, 0}}},
		{"stride 2, periodic, 16 ranks", graph.WindowAxis{Size: 3, Stride: 2, Dilation: 1, Pad: 1, Periodic: true}, 720, even(720, 16), nil,
			[][2]int{one, zero}, [][2]int{zero, one}},
	} {
		m := outputs(k.axis, k.n)
		in := graph.AxisPartition{MeshAxis: "lon", Starts: k.cut}
		out, ok := OutputSplit(k.axis, in, m)
		if !ok || k.out != nil && !slices.Equal(out.Starts, k.out) {
			t.Errorf("%s: outputs are cut at %v, %v, want %v", k.name, out.Starts, ok, k.out)
		}
		for r := range k.forward {
			before, behind := HaloWidths(InputRange(k.axis, OwnedInterval(out, r, m), k.n), OwnedInterval(in, r, k.n))
			if got := [2]int{before, behind}; got != k.forward[r] {
				t.Errorf("%s, rank %d: forward %v, want %v", k.name, r, got, k.forward[r])
			}
			before, behind = HaloWidths(AdjointRange(k.axis, OwnedInterval(in, r, k.n), m), OwnedInterval(out, r, m))
			if got := [2]int{before, behind}; got != k.back[r] {
				t.Errorf("%s, rank %d: backward %v, want %v", k.name, r, got, k.back[r])
			}
		}
	}
}

// For random windows and splits: InputRange contains everything that the outputs
// read, AdjointRange everything that gradients read, interiors read no elements of
// other ranks, and Sources returns every index once, from its owner.
func TestNeedsByBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	cases := 0
	for cases < 3000 {
		a := graph.WindowAxis{Size: 1 + rng.IntN(5), Stride: 1 + rng.IntN(3), Dilation: 1 + rng.IntN(2), Periodic: rng.IntN(2) == 0}
		a.Pad = rng.IntN((a.Size-1)*a.Dilation/2 + 1)
		n, p := 6+rng.IntN(30), 1+rng.IntN(4)
		if rng.IntN(5) == 0 {
			a = graph.WindowAxis{Size: 3, Stride: 1, Dilation: 1, Pad: 1, UpFactor: 2, Periodic: a.Periodic}
		}
		m := outputs(a, n)
		if a.UpFactor > 1 {
			m = n * a.UpFactor
		}
		starts := []int{0}
		for len(starts) < p {
			starts = append(starts, starts[len(starts)-1]+1+rng.IntN(n/p))
		}
		in := graph.AxisPartition{MeshAxis: "lon", Starts: starts}
		if m < 1 || starts[p-1] >= n || a.Periodic && (n%a.Stride != 0 || (a.Size-1)*a.Dilation >= n) {
			continue
		}
		out, ok := OutputSplit(a, in, m)
		if !ok {
			continue
		}
		cases++
		for r := range p {
			own, made := OwnedInterval(in, r, n), OwnedInterval(out, r, m)
			forward, back := InputRange(a, made, n), AdjointRange(a, own, m)
			inside := InteriorOutputs(a, made, own, n)
			for o := range m {
				for i := range n {
					if !a.Reads(o, i, n) {
						continue
					}
					if made.holds(o) && !covers(forward, i, n) {
						t.Fatalf("%+v n %d cut %v: rank %d makes %d of %d and misses %d: %v", a, n, starts, r, o, m, i, forward)
					}
					if own.holds(i) && !covers(back, o, m) {
						t.Fatalf("%+v n %d cut %v: rank %d owns %d and misses the gradient of %d of %d: %v", a, n, starts, r, i, o, m, back)
					}
					if inside.holds(o) && !own.holds(i) {
						t.Fatalf("%+v n %d cut %v: rank %d has %d inside, which reads %d", a, n, starts, r, o, i)
					}
				}
			}
			at := forward.Lo
			for _, s := range Sources(in, forward, n) {
				if s.To.Lo != at || s.At.Len() != s.To.Len() || (s.To.Lo-s.At.Lo)%n != 0 || s.At.Intersect(OwnedInterval(in, s.Rank, n)) != s.At {
					t.Fatalf("%+v n %d cut %v: rank %d needs %v, sources %v", a, n, starts, r, forward, Sources(in, forward, n))
				}
				at = s.To.Hi
			}
			if at != forward.Hi {
				t.Fatalf("%+v n %d cut %v: rank %d needs %v, sources end at %d", a, n, starts, r, forward, at)
			}
		}
	}
}

func (v Interval) holds(i int) bool { return i >= v.Lo && i < v.Hi }

// covers reports whether an interval that may extend beyond the ends contains i mod
// n.
func covers(v Interval, i, n int) bool {
	return v.holds(i) || v.holds(i-n) || v.holds(i+n) || v.holds(i+2*n) || v.holds(i-2*n)
}
