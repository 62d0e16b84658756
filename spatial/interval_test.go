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

// haloWidths returns the widths of the halo before and after the interval that a
// rank owns. A width is 0 if the rank owns more than it needs on that side.
func haloWidths(need []Interval, own Interval) (before, behind int) {
	if len(need) == 0 {
		return 0, 0
	}
	return max(0, own.Lo-hull(need).Lo), max(0, hull(need).Hi-own.Hi)
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
			before, behind := haloWidths(InputsRead(k.axis, OwnedInterval(out, r, m), k.n), OwnedInterval(in, r, k.n))
			if got := [2]int{before, behind}; got != k.forward[r] {
				t.Errorf("%s, rank %d: forward %v, want %v", k.name, r, got, k.forward[r])
			}
			before, behind = haloWidths(OutputsReading(k.axis, OwnedInterval(in, r, k.n), m), OwnedInterval(out, r, m))
			if got := [2]int{before, behind}; got != k.back[r] {
				t.Errorf("%s, rank %d: backward %v, want %v", k.name, r, got, k.back[r])
			}
		}
	}
}

// For random windows and splits of inputs and outputs: ranks need exactly what their outputs, and the gradients of
// their inputs, read; and every position of a need has one source, its owner,
// which sends no index twice.
func TestNeedsByBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for cases := 0; cases < 3000; {
		a := graph.WindowAxis{Size: 1 + rng.IntN(5), Stride: 1 + rng.IntN(3), Dilation: 1 + rng.IntN(3), Periodic: rng.IntN(2) == 0}
		a.Pad = rng.IntN((a.Size-1)*a.Dilation/2 + 1)
		n, p := 6+rng.IntN(30), 1+rng.IntN(4)
		if rng.IntN(4) == 0 {
			a = graph.WindowAxis{Size: 2, Stride: 1, Dilation: 1, UpFactor: 2 + rng.IntN(4), Periodic: a.Periodic}
		}
		m := outputs(a, n)
		if a.UpFactor > 1 {
			m = n * a.UpFactor
		}
		if m < p || a.Periodic && (n%a.Stride != 0 || (a.Size-1)*a.Dilation >= n) {
			continue
		}
		cases++
		in := graph.AxisPartition{MeshAxis: "lon", Starts: randomStarts(rng, n, p)}
		out, ok := OutputSplit(a, in, m)
		if !ok || rng.IntN(2) == 0 {
			out.Starts = randomStarts(rng, m, p)
		}
		for r := range p {
			own, made := OwnedInterval(in, r, n), OwnedInterval(out, r, m)
			forward, back := make([]bool, n), make([]bool, m)
			for o := range m {
				for i := range n {
					if !a.Reads(o, i, n) {
						continue
					}
					forward[i] = forward[i] || made.holds(o)
					back[o] = back[o] || own.holds(i)
				}
			}
			x, dy := InputsRead(a, made, n), OutputsReading(a, own, m)
			if !slices.Equal(wrapped(x, n), intervalsOf(forward, 0)) || !a.Periodic && !slices.Equal(x, intervalsOf(forward, 0)) {
				t.Fatalf("%+v n %d outputs cut %v: rank %d needs %v, reads %v", a, n, out.Starts, r, x, intervalsOf(forward, 0))
			}
			if !slices.Equal(wrapped(dy, m), intervalsOf(back, 0)) || !a.Periodic && !slices.Equal(dy, intervalsOf(back, 0)) {
				t.Fatalf("%+v n %d cut %v: gradients of rank %d need %v of %d, read %v", a, n, in.Starts, r, dy, m, intervalsOf(back, 0))
			}
			checkSources(t, in, x, n)
			checkSources(t, out, dy, m)
		}
	}
}

// randomStarts returns the first indices of p parts of n.
func randomStarts(rng *rand.Rand, n, p int) []int {
	starts := append([]int{-1}, rng.Perm(n - 1)[:p-1]...)
	for i := range starts {
		starts[i]++
	}
	slices.Sort(starts)
	return starts
}

// checkSources fails unless every index of the need has one source, which owns it, and no index is sent twice.
func checkSources(t *testing.T, c graph.AxisPartition, need []Interval, n int) {
	t.Helper()
	span := hull(need)
	filled, sent := make([]bool, span.Len()), make([]bool, n)
	for _, s := range joinRepeats(without(Sources(c, span, n), holesIn(span, need)), n) {
		for k := range s.At.Len() {
			if sent[s.At.Lo+k] {
				t.Fatalf("cut %v: need %v of %d, index %d is sent twice", c.Starts, need, n, s.At.Lo+k)
			}
			sent[s.At.Lo+k] = true
		}
		if s.At.Intersect(OwnedInterval(c, s.Rank, n)) != s.At {
			t.Fatalf("cut %v: need %v of %d, rank %d does not own %v", c.Starts, need, n, s.Rank, s.At)
		}
		for _, to := range append([]Interval{s.To}, s.Repeats...) {
			if to.Len() != s.At.Len() || (to.Lo-s.At.Lo)%n != 0 {
				t.Fatalf("cut %v: need %v of %d, %v goes to %v", c.Starts, need, n, s.At, to)
			}
			for i := to.Lo; i < to.Hi; i++ {
				if filled[i-span.Lo] {
					t.Fatalf("cut %v: need %v of %d, position %d is filled twice", c.Starts, need, n, i)
				}
				filled[i-span.Lo] = true
			}
		}
	}
	if got := intervalsOf(filled, span.Lo); !slices.Equal(got, need) {
		t.Fatalf("cut %v: need %v of %d, sources fill %v", c.Starts, need, n, got)
	}
}

func (v Interval) holds(i int) bool { return i >= v.Lo && i < v.Hi }
