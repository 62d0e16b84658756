package pass

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// deep is a U-Net of three stages with batch normalisation and dropout.
func deep(t *testing.T) *graph.Graph {
	t.Helper()
	b := graph.New(5)
	x, y := b.Input("x", graph.Shape{1, 3, 2, 16, 24}), b.Input("y", graph.Shape{1, 1, 2, 16, 24})
	layer := func(name string, v graph.Value, out int) graph.Value {
		c := graph.Shape{out}
		v = op.Conv3D(b, v, b.Param(name+".weight", graph.Shape{out, v.Dim(1), 3, 3, 3}, graph.HeNormal(v.Dim(1)*27)), op.Conv{Pad: op.Same(3, 3, 3)})
		v = op.BatchNorm(b, v, b.Param(name+".gamma", c, graph.Ones()), b.Param(name+".beta", c, graph.Zeros()),
			b.State(name+".mean", c, graph.Zeros()), b.State(name+".var", c, graph.Ones()), op.BatchNormOptions{})
		return op.ReLU(b, v)
	}
	half := [3]int{1, 2, 2}
	v := layer("e0", x, 4)
	skips := []graph.Value{v}
	for i, name := range []string{"e1", "e2"} {
		v = layer(name, op.MaxPool(b, v, half), 6+4*i)
		skips = append(skips, v)
	}
	v = op.Dropout(b, layer("m", op.MaxPool(b, v, half), 16), 0.2)
	for i, name := range []string{"d2", "d1", "d0"} {
		v = layer(name, op.Concat(b, 1, op.Upsample(b, v, half, true), skips[2-i]), 10-3*i)
	}
	z := op.Conv3D(b, v, b.Param("out", graph.Shape{1, v.Dim(1), 1, 1, 1}, graph.Ones()), op.Conv{})
	b.Output("z", z)
	b.Loss(op.MSE(b, z, y))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// compiled runs all passes with a memory limit.
func compiled(t *testing.T, g *graph.Graph, infer bool, limit int64) (*Unit, error) {
	t.Helper()
	own, err := g.Rewrite(nil, func(*graph.Builder, *graph.Node, []graph.Value) graph.Value { return graph.Value{} })
	if err != nil {
		t.Fatal(err)
	}
	u := &Unit{Graph: own, Options: Options{Infer: infer, MemoryLimit: limit}, Device: Device{ElemBytes: 4}}
	return u, Run(List, u)
}

// smallest is the smallest limit, from the error of a limit that cannot be met.
func smallest(t *testing.T, g *graph.Graph, infer bool) int64 {
	t.Helper()
	_, err := compiled(t, g, infer, 64)
	return tooSmall(t, err)
}

// tooSmall is the smallest limit that an error names.
func tooSmall(t *testing.T, err error) int64 {
	t.Helper()
	var small *MemoryLimitError
	if !errors.As(err, &small) || exit.CodeOf(err) != exit.NoDevice {
		t.Fatalf("a limit of 64 bytes: error %v, want *TooSmall with exit code %d", err, exit.NoDevice)
	}
	return small.Smallest
}

func arenaBytes(u *Unit) int64 { return int64(u.Memory.ArenaSize) * int64(u.ElemBytes) }

// TestSmallestLimit verifies that the smallest limit of an error succeeds, that
// one element less fails, and that the message gives it in MiB.
func TestSmallestLimit(t *testing.T) {
	for _, infer := range []bool{false, true} {
		for name, g := range map[string]*graph.Graph{"net": net(t), "deep": deep(t)} {
			least := smallest(t, g, infer)
			if u, err := compiled(t, g, infer, least); err != nil || arenaBytes(u) > least {
				t.Errorf("%s, infer %v: limit %d, which is called enough: %v", name, infer, least, err)
			}
			_, err := compiled(t, g, infer, least-align*4)
			if exit.CodeOf(err) != exit.NoDevice {
				t.Errorf("%s, infer %v: limit %d, one unit below the smallest: error %v", name, infer, least-align*4, err)
			}
			if err != nil && !strings.Contains(err.Error(), "needs at least 1 MiB of memory, the limit is 0") {
				t.Errorf("%s, infer %v: message %q", name, infer, err)
			}
		}
	}
}

// TestRecompute verifies, for limits between the smallest and none, that the
// arena fits, that repetitions are the same operations on the same operands
// (merged, they give the original graph), and that each one directly precedes
// its reader.
func TestRecompute(t *testing.T) {
	for name, g := range map[string]*graph.Graph{"net": net(t), "deep": deep(t)} {
		free, err := compiled(t, g, false, 0)
		if err != nil {
			t.Fatal(err)
		}
		most, least := arenaBytes(free), smallest(t, g, false)
		if name == "deep" && float64(least) > 0.6*float64(most) {
			t.Errorf("%s: the smallest arena is %d of %d bytes", name, least, most)
		}
		for k := range 9 {
			limit := least + (most-least)*int64(k)/8
			u, err := compiled(t, g, false, limit)
			if err != nil || arenaBytes(u) > limit {
				t.Fatalf("%s: limit %d of %d: arena %d, error %v", name, limit, most, arenaBytes(u), err)
			}
			if again := limit < most; len(u.Graph.Notes) > len(free.Graph.Notes) != again || u.Recomputed.SavedBytes < most-limit || (u.Recomputed != Recomputation{}) != again || again && u.Recomputed.Slowdown < 1 {
				t.Errorf("%s: limit %d of %d: %+v, notes %q", name, limit, most, u.Recomputed, u.Graph.Notes)
			}
			if len(u.Sequence) != len(free.Sequence)+u.Recomputed.Operations {
				t.Errorf("%s: limit %d: %d operations run, %d without limit, %d again", name, limit, len(u.Sequence), len(free.Sequence), u.Recomputed.Operations)
			}
			if got := u.Graph.FLOPs() - u.Recomputed.FLOPs; got != free.Graph.FLOPs() {
				t.Errorf("%s: limit %d: %d useful operations, want %d", name, limit, got, free.Graph.FLOPs())
			}
			checkLate(t, u)
			if err := mergeDuplicates(u); err != nil {
				t.Fatal(err)
			}
			if err := removeDead(u); err != nil {
				t.Fatal(err)
			}
			numbers := map[string]int{}
			want, got := expressions(free.Graph, numbers), expressions(u.Graph, numbers)
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(want, got) {
				t.Errorf("%s: limit %d: merged, the graph is another one", name, limit)
			}
		}
	}
}

// expressions numbers every node, with equal numbers for nodes of two graphs
// that compute the same expression of the inputs.
func expressions(g *graph.Graph, numbers map[string]int) []int {
	out := make([]int, len(g.Nodes))
	for i, n := range g.Nodes {
		key := n.Label()
		if n.Kind == graph.KindOp {
			key = n.Op.Name + " " + graph.AttrText(n.Attrs)
			for _, in := range n.In {
				key += fmt.Sprint(" ", out[in])
			}
		} else if n.Kind == graph.KindConst {
			key = fmt.Sprint(n.Shape, n.Data)
		}
		if _, ok := numbers[key]; !ok {
			numbers[key] = len(numbers)
		}
		out[i] = numbers[key]
	}
	return out
}

// checkLate verifies that only repetitions lie between a repetition and its
// first reader.
func checkLate(t *testing.T, u *Unit) {
	t.Helper()
	e := expressions(u.Graph, map[string]int{})
	seen := map[int]bool{}
	again := make([]bool, len(u.Sequence))
	for i, id := range u.Sequence {
		again[i] = seen[e[id]]
		seen[e[id]] = true
	}
	n := 0
	for i, id := range u.Sequence {
		if !again[i] {
			continue
		}
		n++
		for k := i + 1; ; k++ {
			if slices.ContainsFunc(u.Graph.Nodes[u.Sequence[k]].In, func(in int) bool { return u.Graph.AliasRoot(in) == id }) {
				break
			}
			if !again[k] {
				t.Errorf("%%%d is recomputed at %d, long before it is read", id, i)
				break
			}
		}
	}
	if n != u.Recomputed.Operations {
		t.Errorf("%d operations are recomputed, the summary has %d", n, u.Recomputed.Operations)
	}
}

// TestProfile verifies that the memory of an order, computed without placing
// buffers, is at most the arena and at least the sum of the values alive.
func TestProfile(t *testing.T) {
	u, err := compiled(t, deep(t), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := newOrderModel(u)
	r := rand.New(rand.NewPCG(7, 8))
	order := u.Sequence
	for range 60 {
		f := p.measured(order)
		v := &Unit{Device: Device{ElemBytes: 4}}
		v.Graph, v.Sequence = p.write(order)
		if err := v.Graph.Check(); err != nil {
			t.Fatal(err)
		}
		assignMemory(v)
		if f.peak > v.Memory.ArenaSize || f.peak < v.Memory.LowerBound {
			t.Fatalf("peak %d, arena %d, alive %d", f.peak, v.Memory.ArenaSize, v.Memory.LowerBound)
		}
		if f.peak != f.live[f.peakAt] || slices.Max(f.live) != f.peak {
			t.Fatalf("peak %d at %d, where %d are in use", f.peak, f.peakAt, f.live[f.peakAt])
		}
		// free any result that is read later
		for range 1000 {
			at := r.IntN(len(order))
			id := order[at]
			q := at + 2 + r.IntN(len(order)-at)
			for q < len(order) && !slices.Contains(p.reads[order[q]], id) {
				q++
			}
			if q < len(order) && p.recomputable[id] {
				order, _ = p.recomputeAt(f, id, q, operandRule(r.IntN(int(numOperandRules))), nil)
				break
			}
		}
	}
}

// chain5 is a sequence of five convolutions of different widths.
func chain5(t *testing.T) *graph.Graph {
	t.Helper()
	b := graph.New(1)
	v := b.Input("x", graph.Shape{1, 1, 2, 6, 8})
	for i, out := range []int{4, 6, 3, 5, 2} {
		w := b.Param(string(rune('a'+i)), graph.Shape{out, v.Dim(1), 3, 3, 3}, graph.HeNormal(27))
		v = op.Conv3D(b, v, w, op.Conv{Pad: op.Same(3, 3, 3)})
	}
	b.Loss(op.Sum(b, v))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// optimum is the shortest time of an order within a limit, over all ways to
// recompute results of the forward pass at any time: the shortest path over all
// sets of results in memory. It is +Inf if there is none.
func optimum(p *orderModel, order []int, limit int) float64 {
	bit := map[int]uint{}
	for i, id := range order {
		bit[id] = uint(i)
	}
	size := func(set uint32) (sum int) {
		for i, id := range order {
			if set>>uint(i)&1 == 1 {
				sum += p.size[id]
			}
		}
		return sum + p.fixed
	}
	needs := func(id int) (set uint32) {
		for _, r := range p.reads[id] {
			set |= 1 << bit[r]
		}
		return set
	}
	// gone marks the gradients that no later operation reads; they are freed at once.
	gone := make([]uint32, len(order))
	for i, id := range order {
		if last := p.measured(order).last[i]; !p.recomputable[id] && last < len(order) {
			gone[last] |= 1 << uint(i)
		}
	}
	q := &states{{}}
	best := map[[2]uint32]float64{}
	for q.Len() > 0 {
		s := heap.Pop(q).(state)
		key := [2]uint32{uint32(s.t), s.set}
		if at, ok := best[key]; ok && at <= s.cost {
			continue
		}
		best[key] = s.cost
		if s.t == len(order) {
			return s.cost
		}
		run := func(id, t int, gone uint32) {
			if now := s.set | 1<<bit[id]; needs(id)&^s.set == 0 && size(now) <= limit {
				heap.Push(q, state{t, now &^ gone, s.cost + p.cost[id]})
			}
		}
		run(order[s.t], s.t+1, gone[s.t])
		for i, id := range order[:s.t] {
			switch in := s.set>>uint(i)&1 == 1; {
			case p.recomputable[id] && in:
				heap.Push(q, state{s.t, s.set &^ (1 << uint(i)), s.cost})
			case p.recomputable[id]:
				run(id, s.t, 0)
			}
		}
	}
	return math.Inf(1)
}

// state is the next operation of the order, the results in memory, and the time
// so far.
type state struct {
	t    int
	set  uint32
	cost float64
}

type states []state

func (s states) Len() int           { return len(s) }
func (s states) Less(i, j int) bool { return s[i].cost < s[j].cost }
func (s states) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *states) Push(x any)        { *s = append(*s, x.(state)) }
func (s *states) Pop() any {
	x := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return x
}

// TestAgainstOptimum verifies, on a small network, that the search needs little
// more time than the optimum, and little more memory than the minimum.
func TestAgainstOptimum(t *testing.T) {
	free, err := compiled(t, chain5(t), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := newOrderModel(free)
	starts := initialOrders(free)
	_, least := p.searchPaths(starts, 0)
	for limit := p.measured(free.Sequence).peak; limit >= least; limit -= 8 * align {
		order, _ := p.searchPaths(starts, limit)
		got, want := math.Inf(1), math.Inf(1)
		if order != nil {
			got = p.measured(order).cost
		}
		for _, s := range starts {
			want = min(want, optimum(p, s, limit))
		}
		t.Logf("limit %d elements: time %.4g, least possible %.4g", limit, got, want)
		if got > 1.1*want {
			t.Errorf("limit %d elements: %.4g s, %.4g s are possible", limit, got, want)
		}
	}
	// freeing one result at a time does not always reach the minimum
	for _, s := range starts {
		if c := optimum(p, s, least*85/100); !math.IsInf(c, 1) {
			t.Errorf("the search needs %d elements, 85 %% of that would do", least)
		}
	}
}
