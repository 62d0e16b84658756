package pass

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass/offload"
)

// overLinks runs all passes for a device whose kernels take a microsecond plus
// a nanosecond per element that they move, with copy engines of the given bytes
// per second.
func overLinks(t *testing.T, g *graph.Graph, limit int64, by Links) (*Unit, error) {
	t.Helper()
	own, err := g.Rewrite(nil, func(*graph.Builder, *graph.Node, []graph.Value) graph.Value { return graph.Value{} })
	if err != nil {
		t.Fatal(err)
	}
	u := &Unit{Graph: own, Device: Device{ElemBytes: 4, Seconds: moving}, Options: Options{MemoryLimit: limit}}
	u.Links = func() (Links, error) { return by, nil }
	return u, Run(List, u)
}

func moving(q backend.Request) float64 {
	n := q.Out.Shape.Size()
	for _, x := range q.In {
		n += x.Shape.Size()
	}
	return 1e-6 + 1e-9*float64(n)
}

// carried simulates the sequence of a unit on memory in which every element is
// marked with its value. It verifies that operands are present, that nothing
// changes the source of a copy in progress, and that nothing accesses its
// destination. It returns the time with one engine for kernels and one for each
// copy direction, each working in order.
func carried(t *testing.T, u *Unit, by Links) (end float64) {
	t.Helper()
	g, m := u.Graph, u.Memory
	memory := map[MemorySpace][]int{Arena: make([]int, m.ArenaSize), Host: make([]int, m.HostSize)}
	for i := range memory[Arena] {
		memory[Arena][i] = -1
	}
	room := func(id int) []int {
		p := m.Places[id]
		if s, ok := memory[p.Space]; ok {
			return s[p.Offset : p.Offset+p.Size]
		}
		return nil
	}
	write := func(id, v int) {
		for i := range room(id) {
			room(id)[i] = v
		}
	}
	check := func(what string, id, v int) {
		t.Helper()
		if i := slices.IndexFunc(room(id), func(x int) bool { return x != v }); i >= 0 {
			t.Errorf("%s: element %d of %%%d holds %d, not %d", what, i, id, room(id)[i], v)
		}
	}
	for i, n := range g.Nodes {
		if n.Kind != graph.KindOp {
			write(i, i)
		}
	}
	now, toHost, fromHost := 0.0, 0.0, 0.0
	ready := map[int]float64{}
	const underWay = -7
	for _, id := range u.Sequence {
		n := g.Nodes[id]
		bytes := float64(4 * roundUp(n.ArenaElems()))
		switch n.Op {
		case op.OffloadStartOp:
			check("offload_start", g.AliasRoot(n.In[0]), g.AliasRoot(n.In[0]))
			toHost = max(now, toHost) + bytes/by.ToHost
			ready[id] = toHost
			now += bytes * by.Lost
			write(id, underWay)
		case op.OffloadDoneOp:
			check("offload_done", g.AliasRoot(n.In[1]), g.AliasRoot(n.In[1]))
			check("offload_done", n.In[0], underWay)
			write(id, id)
			now = max(now, ready[n.In[0]])
		case op.FetchStartOp:
			check("fetch_start", n.In[0], n.In[0])
			fromHost = max(now, fromHost) + bytes/by.FromHost
			ready[id] = fromHost
			now += bytes * by.Lost
			write(id, underWay)
		case op.FetchDoneOp:
			check("fetch_done", n.In[0], underWay)
			write(id, id)
			now = max(now, ready[n.In[0]])
		default:
			for _, in := range n.In {
				check(n.Op.Name, g.AliasRoot(in), g.AliasRoot(in))
			}
			write(id, id)
			now += moving(requestOf(g, n))
		}
	}
	return now
}

// TestOffload verifies, for random limits and copy rates, that the arena fits
// the limit, that no copy is disturbed, that the graph computes the same
// values, and that the time is the predicted one.
func TestOffload(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	for _, c := range []struct {
		name  string
		g     *graph.Graph
		least int // total number of offloaded results
	}{{"net", net(t), 2}, {"deep", deep(t), 10}} {
		away := 0
		free, err := overLinks(t, c.g, 0, Links{})
		if err != nil {
			t.Fatal(err)
		}
		most := arenaBytes(free)
		ideal := carried(t, free, Links{})
		for range 6 {
			rate := math.Exp(r.Float64()*9) * 1e7
			by := Links{ToHost: rate, FromHost: rate / 2, Lost: r.Float64() / rate * float64(r.IntN(2)), Margin: 0.2 * float64(r.IntN(2))}
			_, err := overLinks(t, c.g, 64, by)
			least := tooSmall(t, err)
			limit := least + r.Int64N(max(most-least, 1))
			if r.IntN(3) == 0 {
				limit = least
			}
			u, err := overLinks(t, c.g, limit, by)
			if err != nil || arenaBytes(u) > limit {
				t.Fatalf("%s: limit %d of %d: arena %d, error %v", c.name, limit, most, arenaBytes(u), err)
			}
			end := carried(t, u, by)
			if math.Abs(end-u.Recomputed.Slowdown*ideal) > 1e-9*end {
				t.Errorf("%s: limit %d of %d over %.3g bytes a second: %g s, predicted %g", c.name, limit, most, rate, end, u.Recomputed.Slowdown*ideal)
			}
			copies := 0
			for _, id := range u.Sequence {
				if u.Graph.Nodes[id].Op == op.OffloadStartOp {
					copies++
				}
			}
			if copies != u.Recomputed.Offloaded || u.Graph.FLOPs()-u.Recomputed.FLOPs != free.Graph.FLOPs() {
				t.Errorf("%s: limit %d: %+v, %d results leave", c.name, limit, u.Recomputed, copies)
			}
			away += copies
			sameWithout(t, free.Graph, u)
		}
		if away < c.least {
			t.Errorf("%s: %d results left", c.name, away)
		}
	}
}

// TestCopiesThatDoNotPay verifies that nothing is offloaded where copies take more time from the kernels than they save, or save
// less than the margin.
func TestCopiesThatDoNotPay(t *testing.T) {
	g := deep(t)
	free, err := overLinks(t, g, 0, Links{})
	if err != nil {
		t.Fatal(err)
	}
	fast := Links{ToHost: 1e10, FromHost: 1e10}
	_, err = overLinks(t, g, 64, Links{})
	least := tooSmall(t, err)
	for _, share := range []int64{0, 1, 2} {
		limit := least + (arenaBytes(free)-least)*share/3
		for _, c := range []struct {
			by     Links
			copies bool
		}{{fast, true}, {Links{ToHost: 1e10, FromHost: 1e10, Lost: 1e-6}, false}, {Links{ToHost: 1e10, FromHost: 1e10, Margin: 0.99}, false}} {
			u, err := overLinks(t, g, limit, c.by)
			if err != nil || u.Recomputed.Offloaded > 0 != c.copies || u.Recomputed.Offloaded+u.Recomputed.Operations == 0 {
				t.Errorf("%+v in %d bytes: %+v, %v", c.by, limit, u.Recomputed, err)
			}
		}
	}
}

// sameWithout verifies that a graph computes the same as another one, once
// copies are removed and recomputed operations merged.
func sameWithout(t *testing.T, want *graph.Graph, u *Unit) {
	t.Helper()
	to := map[int]graph.Value{}
	own, err := u.Graph.Rewrite(nil, func(_ *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		if n.Kind == graph.KindOp && op.IsHostCopy(n.Op) {
			return in[0]
		}
		return to[n.ID]
	})
	if err != nil {
		t.Fatal(err)
	}
	v := &Unit{Graph: own, Device: Device{ElemBytes: 4}}
	if err := mergeDuplicates(v); err != nil {
		t.Fatal(err)
	}
	if err := removeDead(v); err != nil {
		t.Fatal(err)
	}
	numbers := map[string]int{}
	a, b := expressions(want, numbers), expressions(v.Graph, numbers)
	slices.Sort(a)
	slices.Sort(b)
	if !slices.Equal(a, b) {
		t.Errorf("limit %d: without copies and repeats, the graph is another one", u.MemoryLimit)
	}
}

// blocksOf returns an order model of the blocks of package offload, and the
// order of a plan. Operation i computes block i, and operation n+i its
// gradient.
func blocksOf(blocks []offload.Block, m offload.Machine, letters string) (*orderModel, []int) {
	n := len(blocks)
	g := &graph.Graph{Loss: -1, Nodes: make([]*graph.Node, 2*n)}
	for i := range g.Nodes {
		g.Nodes[i] = &graph.Node{ID: i}
	}
	p := &orderModel{g: g, size: make([]int, 2*n), opOf: make([]int, 2*n), reads: make([][]int, 2*n), inPlace: make([][]int, 2*n),
		stays: make([]bool, 2*n), forward: make([]bool, 2*n), recomputable: make([]bool, 2*n), cost: make([]float64, 2*n),
		cheap: make([]bool, 2*n), now: make([]int, 2*n)}
	var order []int
	for i, b := range blocks {
		p.opOf[i], p.opOf[n+i] = i, n+i
		p.size[i], p.cost[i], p.cost[n+i] = int(b.Interior), b.Forward, b.Backward
		p.reads[n+i] = []int{i}
		p.forward[i], p.recomputable[i] = true, true
		order = append(order, i)
	}
	p.enableCopies(&Unit{Graph: g, Device: Device{ElemBytes: 1}}, Links{ToHost: m.ToHost, FromHost: m.FromHost})
	for i := n - 1; i >= 0; i-- {
		switch letters[i] {
		case offload.Recompute:
			order = append(order, i)
		case offload.Swap:
			order = append(order, p.fetchNumber(i))
		}
		order = append(order, n+i)
	}
	return p, order
}

// TestAgainstOffload verifies that block plans take the time that package
// offload predicts, or less where a fetch can start before the last block of
// the forward pass.
func TestAgainstOffload(t *testing.T) {
	uniform := slices.Repeat([]offload.Block{{Forward: 1, Backward: 2, Interior: 4}}, 6)
	unet := []offload.Block{{Forward: 4, Backward: 8, Interior: 16}, {Forward: 3, Backward: 6, Interior: 8}, {Forward: 2, Backward: 4, Interior: 4},
		{Forward: 2, Backward: 4, Interior: 2}, {Forward: 3, Backward: 6, Interior: 6}, {Forward: 4, Backward: 8, Interior: 12}, {Forward: 5, Backward: 10, Interior: 20}}
	timed := func(b []offload.Block, m offload.Machine, letters string) float64 {
		p, order := blocksOf(b, m, letters)
		a := p.measured(order)
		if float64(a.peak) > m.Memory {
			t.Fatalf("%s needs %d of %v", letters, a.peak, m.Memory)
		}
		_, end := p.scheduleCopies(a, int(m.Memory))
		return end
	}
	for _, c := range []struct {
		b       []offload.Block
		m, rate float64
		plan    string
		want    float64 // of the specification
	}{
		{uniform, 12, 4, "KSSSKK", 18}, {uniform, 12, 2, "SKSRKK", 19}, {uniform, 12, 1, "SKRRKK", 20}, {uniform, 12, 0.5, "KKRRRK", 21},
		{uniform, 8, 2, "SRSRKK", 20}, {unet, 40, 4, "SSKKSKK", 69}, {unet, 40, 2, "SSSKKKK", 69},
	} {
		if got := timed(c.b, offload.Machine{Memory: c.m, ToHost: c.rate, FromHost: c.rate}, c.plan); got != c.want {
			t.Errorf("%s over %v: %v, want %v", c.plan, c.rate, got, c.want)
		}
	}
	r := rand.New(rand.NewPCG(4, 4))
	same := 0
	for range 300 {
		var b []offload.Block
		for range 6 {
			b = append(b, offload.Block{Forward: float64(1 + r.IntN(4)), Backward: float64(1 + r.IntN(6)), Interior: float64(1 + r.IntN(9))})
		}
		rate := []float64{0.5, 1, 2, 4}[r.IntN(4)]
		m := offload.Machine{Memory: float64(10 + r.IntN(15)), ToHost: rate, FromHost: rate}
		plan, run, ok := offload.Search(b, m, "KRS")
		if !ok {
			continue
		}
		var ideal float64 // if memory were unlimited
		for _, x := range b {
			ideal += x.Forward + x.Backward
		}
		got := timed(b, m, plan)
		if got > run.Makespan || got < ideal {
			t.Errorf("%+v on %+v: %s takes %v, want %v", b, m, plan, got, run.Makespan)
		}
		if got == run.Makespan {
			same++
		}
	}
	if same < 200 {
		t.Errorf("%d of 300 take the same time", same)
	}
}
