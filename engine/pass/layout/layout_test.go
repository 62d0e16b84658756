package layout_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/pass/layout"
)

// The layouts of the reference case: plain, blocked, channels last.
const (
	plain = iota
	blocked
	last
)

var inf = math.Inf(1)

// tolerance of sums of some ten costs of the order of ten.
const tolerance = 1e-9

// chain is the reference case of the specification: conv1, norm, conv2 and pool
// in sequence, between a plain input and a plain output.
func chain(factor float64, freeOutput bool) *layout.Network {
	t := [][]float64{{0, 1.8, 1.5}, {1.8, 0, 2.2}, {1.5, 2.2, 0}}
	for _, row := range t {
		for i := range row {
			row[i] *= factor
		}
	}
	n := &layout.Network{Labels: 3, Values: make([]layout.Value, 5)}
	for i := range n.Values {
		n.Values[i].Transpose = t
	}
	n.Values[0].Given = []int{plain}
	if !freeOutput {
		n.Values[4].Required = []int{plain}
	}
	way := func(in, out int, cost float64) layout.Variant {
		return layout.Variant{In: []int{in}, Out: out, Cost: cost}
	}
	for i, ways := range [][]layout.Variant{
		{way(plain, plain, 10), way(plain, blocked, 6), way(blocked, blocked, 5.5), way(last, last, 7)},
		{way(plain, plain, 2), way(blocked, blocked, 2), way(last, last, 2.4)},
		{way(plain, plain, 14), way(blocked, blocked, 7), way(last, last, 6)},
		{way(plain, plain, 1.5), way(blocked, blocked, 1.2), way(last, last, 1)},
	} {
		n.Ops = append(n.Ops, layout.Op{In: []int{i}, Out: i + 1, Variants: ways})
	}
	return n
}

// TestOracle compares with the numbers of the specification, which were
// computed by hand.
func TestOracle(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      *layout.Network
		want   float64
		made   []int
		copies []layout.Copy
	}{
		{"plain output", chain(1, false), 18.0, []int{plain, blocked, blocked, blocked, blocked}, []layout.Copy{{4, plain}}},
		{"free output", chain(1, true), 16.2, []int{plain, blocked, blocked, blocked, blocked}, nil},
		{"half price", chain(0.5, false), 16.85, []int{plain, blocked, blocked, last, last}, []layout.Copy{{2, last}, {4, plain}}},
		{"double price", chain(2, false), 19.8, []int{plain, blocked, blocked, blocked, blocked}, []layout.Copy{{4, plain}}},
	} {
		got, err := c.n.Solve()
		if err != nil || math.Abs(got.Cost-c.want) > tolerance || !slices.Equal(got.Layouts, c.made) || !slices.Equal(got.Copies, c.copies) {
			t.Errorf("%s: %+v, %v; want cost %g, values made in %v, copies %v", c.name, got, err, c.want, c.made, c.copies)
		}
	}
}

// TestOracleWithoutChoice restricts the same chain to one layout, and to the
// fastest variant of each operator.
func TestOracleWithoutChoice(t *testing.T) {
	held := chain(1, false)
	for i := range held.Ops {
		held.Ops[i].Variants = held.Ops[i].Variants[:1]
	}
	if got, err := held.Solve(); err != nil || math.Abs(got.Cost-27.5) > tolerance {
		t.Errorf("all plain: %+v, %v; want 27.5", got, err)
	}
	greedy := chain(1, false)
	for i := range greedy.Ops {
		w := greedy.Ops[i].Variants
		greedy.Ops[i].Variants = []layout.Variant{slices.MinFunc(w, func(a, b layout.Variant) int {
			if a.Cost < b.Cost {
				return -1
			}
			return 1
		})}
	}
	// blocked from the start: 1.8 + 5.5 | 1.8 + 2 plain | 1.5 + 6 + 1 + 1.5
	if got, err := greedy.Solve(); err != nil || math.Abs(got.Cost-21.1) > tolerance {
		t.Errorf("fastest by itself: %+v, %v; want 21.1", got, err)
	}
}

// TestShared verifies that a copy read by two operators is paid once: 1 + 2·1
// with one transpose of 5, where plain costs 4 + 4.
func TestShared(t *testing.T) {
	n := &layout.Network{Labels: 2, Values: make([]layout.Value, 3)}
	for i := range n.Values {
		n.Values[i].Transpose = [][]float64{{0, 5}, {5, 0}}
	}
	n.Values[0].Given = []int{0}
	ways := []layout.Variant{{In: []int{0}, Out: 0, Cost: 4}, {In: []int{1}, Out: 1, Cost: 1}}
	n.Ops = []layout.Op{{In: []int{0}, Out: 1, Variants: ways}, {In: []int{0}, Out: 2, Variants: ways}}
	got, err := n.Solve()
	if err != nil || got.Cost != 7 || !slices.Equal(got.Copies, []layout.Copy{{0, 1}}) {
		t.Errorf("%+v, %v; want cost 7 with one copy", got, err)
	}
	n.Ops = n.Ops[:1] // for one reader the copy costs more than it saves
	if got, err := n.Solve(); err != nil || got.Cost != 4 || len(got.Copies) != 0 {
		t.Errorf("%+v, %v; want cost 4 without copies", got, err)
	}
}

// total is the cost of a network by the documented rule: every layout in which
// a value is read or required, other than its own, is one copy. made holds the
// layouts of values without a producer.
func total(n *layout.Network, ways, made []int) float64 {
	sum := 0.0
	own, need := slices.Clone(made), make([]map[int]bool, len(n.Values))
	for v := range n.Values {
		need[v] = map[int]bool{}
		for _, l := range n.Values[v].Required {
			need[v][l] = true
		}
	}
	for i, o := range n.Ops {
		w := o.Variants[ways[i]]
		sum += w.Cost
		own[o.Out] = w.Out
		for k, v := range o.In {
			need[v][w.In[k]] = true
		}
	}
	for v, layouts := range need {
		for l := range layouts {
			if l != own[v] {
				sum += n.Values[v].Transpose[own[v]][l]
			}
		}
	}
	return sum
}

// brute is the minimal cost of a network over all variants and all layouts of
// its inputs.
func brute(n *layout.Network) float64 {
	best := inf
	made := make([]int, len(n.Values))
	maker := make([]bool, len(n.Values))
	for _, o := range n.Ops {
		maker[o.Out] = true
	}
	ways := make([]int, len(n.Ops))
	var op func(i int)
	op = func(i int) {
		if i == len(n.Ops) {
			best = min(best, total(n, ways, made))
			return
		}
		for k := range n.Ops[i].Variants {
			ways[i] = k
			op(i + 1)
		}
	}
	var input func(v int)
	input = func(v int) {
		if v == len(n.Values) {
			op(0)
			return
		}
		if maker[v] {
			input(v + 1)
			return
		}
		given := n.Values[v].Given
		if len(given) == 0 {
			for l := range n.Labels {
				given = append(given, l)
			}
		}
		for _, l := range given {
			made[v] = l
			input(v + 1)
		}
	}
	input(0)
	return best
}

// costOf is the cost of a solution by the same rule, with the copies that it
// lists.
func costOf(t *testing.T, n *layout.Network, c *layout.Choice) float64 {
	t.Helper()
	sum := 0.0
	has := make([]map[int]bool, len(n.Values))
	for v := range has {
		has[v] = map[int]bool{c.Layouts[v]: true}
	}
	for _, x := range c.Copies {
		if has[x.Value][x.To] {
			t.Errorf("value %d is copied to %d twice", x.Value, x.To)
		}
		has[x.Value][x.To] = true
		sum += n.Values[x.Value].Transpose[c.Layouts[x.Value]][x.To]
	}
	for i, o := range n.Ops {
		w := o.Variants[c.Variants[i]]
		sum += w.Cost
		if c.Layouts[o.Out] != w.Out {
			t.Errorf("operator %d makes value %d in %d, the answer says %d", i, o.Out, w.Out, c.Layouts[o.Out])
		}
		for k, v := range o.In {
			if !has[v][w.In[k]] {
				t.Errorf("operator %d reads value %d in %d, which is not there", i, v, w.In[k])
			}
		}
	}
	for v, val := range n.Values {
		for _, l := range val.Required {
			if !has[v][l] {
				t.Errorf("value %d is not there in %d", v, l)
			}
		}
	}
	return sum
}

// random is a network of ops operators, whose operands are drawn from all
// earlier values.
func random(r *rand.Rand, labels, ops int) *layout.Network {
	n := &layout.Network{Labels: labels}
	value := func() int {
		t := make([][]float64, labels)
		for a := range t {
			t[a] = make([]float64, labels)
			for b := range t[a] {
				if a != b {
					t[a][b] = float64(1 + r.IntN(6))
				}
			}
		}
		n.Values = append(n.Values, layout.Value{Transpose: t})
		return len(n.Values) - 1
	}
	for range 1 + r.IntN(2) {
		if v := value(); r.IntN(3) > 0 {
			n.Values[v].Given = []int{r.IntN(labels)}
		}
	}
	for range ops {
		o := layout.Op{}
		for range 1 + r.IntN(3) {
			o.In = append(o.In, r.IntN(len(n.Values))) // the same value twice is allowed
		}
		o.Out = value()
		for range 1 + r.IntN(3) {
			w := layout.Variant{Out: r.IntN(labels), Cost: float64(r.IntN(12))}
			for range o.In {
				w.In = append(w.In, r.IntN(labels))
			}
			o.Variants = append(o.Variants, w)
		}
		n.Ops = append(n.Ops, o)
		if r.IntN(4) == 0 {
			n.Values[o.Out].Required = []int{r.IntN(labels)}
		}
	}
	return n
}

// TestBruteForce verifies that the solution has the minimal cost of all
// choices, and that its cost is correct. Costs are integers, so sums are exact.
func TestBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	for k := range 400 {
		n := random(r, 2+r.IntN(3), 1+r.IntN(7))
		got, err := n.Solve()
		if err != nil {
			t.Fatalf("network %d: %v", k, err)
		}
		if want := brute(n); got.Cost != want || costOf(t, n, got) != want {
			t.Fatalf("network %d: %+v, priced %g; the least cost is %g", k, got, costOf(t, n, got), want)
		}
	}
}

// TestProblem compares random tables with forbidden pairs with enumeration.
func TestProblem(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 13))
	none := 0
	for k := range 400 {
		var p layout.Problem
		for range 1 + r.IntN(7) {
			p.Nodes = append(p.Nodes, layout.Node{Cost: row(r, 1+r.IntN(4))})
		}
		for range r.IntN(12) {
			a, b := r.IntN(len(p.Nodes)), r.IntN(len(p.Nodes))
			if a == b {
				continue
			}
			e := layout.Edge{From: a, To: b}
			for range p.Nodes[a].Cost {
				e.Cost = append(e.Cost, row(r, len(p.Nodes[b].Cost)))
			}
			p.Edges = append(p.Edges, e)
		}
		want := inf
		labels := make([]int, len(p.Nodes))
		var try func(i int)
		try = func(i int) {
			if i == len(labels) {
				want = min(want, price(&p, labels))
				return
			}
			for l := range p.Nodes[i].Cost {
				labels[i] = l
				try(i + 1)
			}
		}
		try(0)
		got, cost, err := p.Solve()
		if math.IsInf(want, 1) {
			none++
			if !errors.Is(err, layout.ErrInfeasible) {
				t.Fatalf("problem %d: %v, %g, %v; no choice is possible", k, got, cost, err)
			}
			continue
		}
		if err != nil || cost != want || price(&p, got) != want {
			t.Fatalf("problem %d: %v, %g, %v; the least cost is %g", k, got, cost, err, want)
		}
	}
	if none == 0 {
		t.Error("no problem without an answer was drawn")
	}
}

func row(r *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		if out[i] = float64(r.IntN(20)); r.IntN(4) == 0 {
			out[i] = inf
		}
	}
	return out
}

func price(p *layout.Problem, labels []int) float64 {
	sum := 0.0
	for i, n := range p.Nodes {
		sum += n.Cost[labels[i]]
	}
	for _, e := range p.Edges {
		sum += e.Cost[labels[e.From]][labels[e.To]]
	}
	return sum
}

// TestShortestPath compares a long chain with a shortest path, computed layer
// by layer.
func TestShortestPath(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const layers, labels = 500, 4
	var p layout.Problem
	dist := make([]float64, labels)
	for i := range layers {
		cost := make([]float64, labels)
		for l := range cost {
			cost[l] = float64(r.IntN(100))
		}
		p.Nodes = append(p.Nodes, layout.Node{Cost: cost})
		if i == 0 {
			copy(dist, cost)
			continue
		}
		e := layout.Edge{From: i - 1, To: i}
		next := []float64{inf, inf, inf, inf}
		for a := range labels {
			e.Cost = append(e.Cost, make([]float64, labels))
			for b := range labels {
				e.Cost[a][b] = float64(r.IntN(60))
				next[b] = min(next[b], dist[a]+e.Cost[a][b]+cost[b])
			}
		}
		p.Edges = append(p.Edges, e)
		dist = next
	}
	got, cost, err := p.Solve()
	if err != nil || cost != slices.Min(dist) || price(&p, got) != cost {
		t.Errorf("cost %g, priced %g, %v; the shortest path is %g", cost, price(&p, got), err, slices.Min(dist))
	}
}

// unet is the training graph of a U-Net of some stages with two convolutions
// each: the forward pass, and the gradients that read its results.
func unet(r *rand.Rand, stages, labels int) *layout.Network {
	n := &layout.Network{Labels: labels}
	value := func(size float64) int {
		t := make([][]float64, labels)
		for a := range t {
			t[a] = make([]float64, labels)
			for b := range t[a] {
				if a != b {
					t[a][b] = size * (1 + r.Float64())
				}
			}
		}
		n.Values = append(n.Values, layout.Value{Transpose: t})
		return len(n.Values) - 1
	}
	// op adds an operator that runs in any single layout, at a cost per layout.
	op := func(size, work float64, in ...int) int {
		o := layout.Op{In: in, Out: value(size)}
		for l := range labels {
			w := layout.Variant{Out: l, Cost: work * size * (1 + 2*r.Float64())}
			for range in {
				w.In = append(w.In, l)
			}
			o.Variants = append(o.Variants, w)
		}
		n.Ops = append(n.Ops, o)
		return o.Out
	}
	var tape []func(dy int) int
	conv := func(size float64, x int) int {
		y := op(size, 5, x)
		tape = append(tape, func(dy int) int {
			dz := op(size, 1, y, dy) // relu
			op(size/100, 5, x, dz)   // gradient of the filter
			op(size/100, 0.5, dz)    // of the bias
			return op(size, 5, dz)   // of the input
		})
		return y
	}
	back := func(dy int) int {
		for _, f := range slices.Backward(tape) {
			dy = f(dy)
		}
		tape = nil
		return dy
	}
	x := value(1)
	n.Values[x].Given = []int{0}
	var level func(s int, size float64, x int) (y int, grad func(dy int) int)
	level = func(s int, size float64, x int) (int, func(int) int) {
		e := conv(size, conv(size, x))
		down := tape
		tape = nil
		if s == 0 {
			return e, func(dy int) int { tape = down; return back(dy) }
		}
		p := op(size/4, 1, e)
		y, inner := level(s-1, size/4, p)
		u := op(size, 1, y)
		c := op(2*size, 1, e, u)
		d := conv(size, conv(size, c))
		up := tape
		tape = nil
		return d, func(dy int) int {
			tape = up
			dc := back(dy)
			de, du := op(size, 1, dc), op(size, 1, dc)
			dp := inner(op(size/4, 1, du))
			sum := op(size, 1, de, op(size, 1, e, p, dp))
			tape = down
			return back(sum)
		}
	}
	y, grad := level(stages, 1, x)
	n.Values[y].Required = []int{0}
	grad(op(1, 1, y))
	return n
}

// TestUNetSmall compares the smallest U-Net with its gradients, in two layouts,
// with all 2^k choices of its operators.
func TestUNetSmall(t *testing.T) {
	n := unet(rand.New(rand.NewPCG(1, 2)), 0, 2)
	got, err := n.Solve()
	if err != nil {
		t.Fatal(err)
	}
	if want := brute(n); math.Abs(got.Cost-want) > tolerance || math.Abs(costOf(t, n, got)-want) > tolerance {
		t.Errorf("%d operators: cost %g, the least is %g", len(n.Ops), got.Cost, want)
	}
}

// TestUNetQuick verifies that U-Nets of some hundred operators are solved
// exactly in well under a second on an idle machine, and that no change of one
// or two operators improves the solution.
func TestUNetQuick(t *testing.T) {
	for stages := 1; stages <= 6; stages++ {
		n := unet(rand.New(rand.NewPCG(1, uint64(stages))), stages, 3)
		start := time.Now()
		got, err := n.Solve()
		took := time.Since(start)
		if err != nil {
			t.Fatalf("%d stages: %v", stages, err)
		}
		t.Logf("%d stages: %d operators, %d values: %v", stages, len(n.Ops), len(n.Values), took)
		if took > time.Minute {
			t.Errorf("%d stages took %v", stages, took)
		}
		if p := costOf(t, n, got); math.Abs(p-got.Cost) > tolerance*p {
			t.Errorf("%d stages: cost %g, priced %g", stages, got.Cost, p)
		}
		ways := slices.Clone(got.Variants)
		for i, o := range n.Ops {
			for ways[i] = range o.Variants {
				for j := range i { // change of two operators
					for ways[j] = range n.Ops[j].Variants {
						if other := total(n, ways, got.Layouts); other < got.Cost-tolerance {
							t.Fatalf("%d stages: operators %d and %d in ways %d and %d cost %g, the answer %g", stages, i, j, ways[i], ways[j], other, got.Cost)
						}
					}
					ways[j] = got.Variants[j]
					if stages > 1 {
						break
					}
				}
			}
			ways[i] = got.Variants[i]
		}
	}
}

// TestErrors verifies the errors for invalid networks.
func TestErrors(t *testing.T) {
	two := [][]float64{{0, 1}, {1, 0}}
	ok := func() *layout.Network {
		return &layout.Network{Labels: 2, Values: []layout.Value{{Transpose: two}, {Transpose: two}},
			Ops: []layout.Op{{In: []int{0}, Out: 1, Variants: []layout.Variant{{In: []int{0}, Out: 0}}}}}
	}
	if _, err := ok().Solve(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(n *layout.Network){
		"no layouts":       func(n *layout.Network) { n.Labels = 0 },
		"transpose table":  func(n *layout.Network) { n.Values[0].Transpose = two[:1] },
		"no such value":    func(n *layout.Network) { n.Ops[0].In = []int{2} },
		"no such layout":   func(n *layout.Network) { n.Ops[0].Variants[0].Out = 2 },
		"operand count":    func(n *layout.Network) { n.Ops[0].Variants[0].In = nil },
		"no way":           func(n *layout.Network) { n.Ops[0].Variants = nil },
		"made twice":       func(n *layout.Network) { n.Ops = append(n.Ops, n.Ops[0]) },
		"given and made":   func(n *layout.Network) { n.Values[1].Given = []int{0} },
		"wanted layout":    func(n *layout.Network) { n.Values[1].Required = []int{-1} },
		"nothing possible": func(n *layout.Network) { n.Ops[0].Variants[0].Cost = inf },
		"no such transpose": func(n *layout.Network) {
			n.Values[0] = layout.Value{Transpose: [][]float64{{0, inf}, {inf, 0}}, Given: []int{1}}
		},
	} {
		n := ok()
		change(n)
		if c, err := n.Solve(); err == nil {
			t.Errorf("%s: %+v, want an error", name, c)
		}
	}
	// 16 nodes of 16 labels, all connected: 16^15 joint choices
	var p layout.Problem
	for i := range 16 {
		p.Nodes = append(p.Nodes, layout.Node{Cost: make([]float64, 16)})
		for j := range i {
			e := layout.Edge{From: j, To: i}
			for range 16 {
				e.Cost = append(e.Cost, make([]float64, 16))
			}
			p.Edges = append(p.Edges, e)
		}
	}
	if _, _, err := p.Solve(); !errors.Is(err, layout.ErrTooWide) {
		t.Errorf("a clique: %v, want %v", err, layout.ErrTooWide)
	}
	if labels, cost, err := p.SolveApproximate(1 << 10); err != nil || cost != 0 || len(labels) != len(p.Nodes) {
		t.Errorf("a clique, nearly: %v, cost %g, error %v", labels, cost, err)
	}
}

// TestSolveApproximate verifies that approximate solutions with small tables are
// feasible, have the reported cost, and are close to the optimum; with large
// tables they are optimal.
func TestSolveApproximate(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		var p layout.Problem
		for i := range 12 {
			node := layout.Node{Cost: make([]float64, 2+r.IntN(2))}
			for k := range node.Cost {
				node.Cost[k] = r.Float64()
			}
			p.Nodes = append(p.Nodes, node)
			for j := range i {
				if r.IntN(3) > 0 {
					continue
				}
				e := layout.Edge{From: j, To: i, Cost: make([][]float64, len(p.Nodes[j].Cost))}
				for a := range e.Cost {
					for range node.Cost {
						e.Cost[a] = append(e.Cost[a], r.Float64())
					}
				}
				p.Edges = append(p.Edges, e)
			}
		}
		_, least, err := p.Solve()
		if err != nil {
			t.Fatal(err)
		}
		if _, cost, err := p.SolveApproximate(layout.MaxTable); err != nil || cost != least {
			t.Fatalf("large tables: cost %g, error %v, want %g", cost, err, least)
		}
		labels, cost, err := p.SolveApproximate(4)
		if err != nil {
			t.Fatal(err)
		}
		var sum float64
		for i, n := range p.Nodes {
			sum += n.Cost[labels[i]]
		}
		for _, e := range p.Edges {
			sum += e.Cost[labels[e.From]][labels[e.To]]
		}
		if math.Abs(sum-cost) > tolerance || cost < least-tolerance || cost > 1.5*least {
			t.Fatalf("cost %g, by its labels %g, the least is %g", cost, sum, least)
		}
	}
}

// BenchmarkUNet solves the training graph of a U-Net of five stages with three
// layouts.
func BenchmarkUNet(b *testing.B) {
	n := unet(rand.New(rand.NewPCG(1, 2)), 5, 3)
	for b.Loop() {
		if _, err := n.Solve(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(n.Ops)), "operators")
}

func ExampleNetwork_Solve() {
	n := chain(1, false)
	c, err := n.Solve()
	fmt.Printf("%.1f %v %v %v\n", c.Cost, c.Layouts, c.Copies, err)
	// Output: 18.0 [0 1 1 1 1] [{4 0}] <nil>
}
