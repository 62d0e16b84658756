package search

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// randomMachine draws rates for which computing, latency and bandwidth have similar
// weight, so that choices differ.
func randomMachine(r *rand.Rand) Machine {
	return Machine{
		FLOPs: 1e9 * (1 + 99*r.Float64()), Bytes: 1e9 * (1 + 9*r.Float64()), PerNode: []int{1, 2, 4, 8}[r.IntN(4)],
		IntraNode:        Link{cluster.Time(r.IntN(2000)) * cluster.Nanosecond, cluster.Rate(1e9 * (1 + 9*r.Float64()))},
		InterNode:        Link{cluster.Time(r.IntN(20000)) * cluster.Nanosecond, cluster.Rate(1e8 * (1 + 99*r.Float64()))},
		OverlapHalos:     r.IntN(2) == 0,
		OverlapGradients: r.IntN(2) == 0,
	}
}

// window returns the window of a filter along latitude and longitude.
func window(size, stride, up, pad int) []graph.WindowAxis {
	w := make([]graph.WindowAxis, fieldAxes)
	for i := range w {
		w[i] = graph.WindowAxis{Size: 1, Stride: 1, Dilation: 1}
		if i >= 3 {
			w[i] = graph.WindowAxis{Size: size, Stride: stride, Dilation: 1, UpFactor: up, Pad: pad, Periodic: i == 4}
		}
	}
	return w
}

// randomLayer draws the work and memory of a layer.
func randomLayer(r *rand.Rand, name string, out graph.Shape, from ...Edge) Layer {
	work := func() []Work { return []Work{{FLOPs: r.Int64N(1e8), Bytes: r.Int64N(1e7), Fixed: r.Int64N(1e5)}} }
	l := Layer{Name: name, Out: out, From: from, Forward: work(), Backward: work(), Filter: work(), Data: work(), SavedBytes: 4 * int64(out.Size()),
		GradientValues: r.Int64N(1e5)}
	if r.IntN(3) == 0 {
		l.Sums, l.BackwardSums = []int64{r.Int64N(100)}, []int64{r.Int64N(100)}
	}
	if r.IntN(4) == 0 {
		l.GatheredValues = r.Int64N(1e5)
	}
	return l
}

// randomUNet draws a U-Net with the given number of poolings. Without poolings it
// draws a chain with that many more convolutions, one of which halves fields.
func randomUNet(r *rand.Rand, stages, chain int) Network {
	n := Network{Parameters: r.Int64N(1e3), Optimiser: Optimiser{State: 2}}
	shape := graph.Shape{1 + r.IntN(4), 1 + r.IntN(8), 1 + r.IntN(3), 8 + 8*r.IntN(3), 8 + 8*r.IntN(3)}
	add := func(out graph.Shape, from ...Edge) int {
		n.Layers = append(n.Layers, randomLayer(r, fmt.Sprint("layer ", len(n.Layers)), out, from...))
		return len(n.Layers) - 1
	}
	conv := func(from int, in graph.Shape, stride int) int {
		out := in.Clone()
		out[1] = []int{3, 16, 32, 64}[r.IntN(4)]
		out[3], out[4] = out[3]/stride, out[4]/stride
		return add(out, Edge{From: from, Shape: in, Window: window(3, stride, 0, 1), MixesChannels: true})
	}
	at := conv(Input, shape, 1)
	halving := r.IntN(chain + 1)
	for i := range chain {
		stride := 1
		if i == halving {
			stride = 2
		}
		at = conv(at, n.Layers[at].Out, stride)
	}
	var skips []int
	for range stages {
		skips = append(skips, at)
		in := n.Layers[at].Out
		out := in.Clone()
		out[3], out[4] = out[3]/2, out[4]/2
		at = add(out, Edge{From: at, Shape: in, Window: window(2, 2, 0, 0)})
	}
	for s := stages - 1; s >= 0; s-- {
		in := n.Layers[at].Out
		out := in.Clone()
		out[3], out[4] = out[3]*2, out[4]*2
		at = add(out, Edge{From: at, Shape: in, Window: window(2, 1, 2, 0)})
		skip := n.Layers[skips[s]].Out
		joined := out.Clone()
		joined[1] += skip[1]
		at = add(joined, Edge{From: at, Shape: out}, Edge{From: skips[s], Shape: skip})
		n.Layers[at].Joined = true
		last := joined.Clone()
		last[1] = 16
		at = add(last, Edge{From: at, Shape: joined, Joined: true, Window: window(3, 1, 0, 1), MixesChannels: true})
	}
	return n
}

// Dynamic programming finds a plan as fast as the best of all, on chains, U-Nets
// and graphs with arbitrary skips, with and without overlap and memory limits.
// Times are equal to the picosecond.
func TestDynamicEqualsExhaustive(t *testing.T) {
	one := []spatial.Mesh{{{Name: "lon", Size: 2}}, {{Name: "lat", Size: 4}}, {{Name: "data", Size: 2}}, {{Name: "lon", Size: 8}}, {{Name: "lat", Size: 3}}, {{Name: "level", Size: 2}}}
	two := []spatial.Mesh{{{Name: "lat", Size: 2}, {Name: "lon", Size: 2}}, {{Name: "data", Size: 2}, {Name: "lon", Size: 4}}, {{Name: "lat", Size: 2}, {Name: "lon", Size: 4}}}
	three := []spatial.Mesh{{{Name: "data", Size: 2}, {Name: "lat", Size: 2}, {Name: "lon", Size: 2}}}
	changed, limited := 0, 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		var n Network
		var mesh spatial.Mesh
		switch seed % 4 {
		case 0:
			n, mesh = randomUNet(r, 0, 1+r.IntN(3)), two[r.IntN(len(two))]
		case 1:
			n, mesh = randomUNet(r, 2, 0), one[r.IntN(len(one))]
		case 2:
			n, mesh = randomUNet(r, 1, 0), two[r.IntN(len(two))]
		case 3:
			n, mesh = randomUNet(r, 0, 1+r.IntN(2)), three[0]
		}
		m := randomMachine(r)
		free := exhaustive(n, m, mesh)
		if seed%2 == 1 { // bind it: less than the fastest plan wants
			m.Memory = free.Memory - free.Memory/int64(20+r.IntN(30))
		}
		want := exhaustive(n, m, mesh)
		p := newCostModel(n, &m, mesh, newSplitter(n))
		got, ok := p.best(1 << 60)
		if ok != want.Fits || ok && got.Step != want.Step {
			t.Fatalf("seed %d, mesh %v: %v (%v), exhaustive %v (%v)", seed, mesh, got.Step, ok, want.Step, want.Fits)
		}
		if !ok {
			continue
		}
		if m.Memory > 0 && got.Memory > m.Memory {
			t.Fatalf("seed %d: %d bytes, the limit is %d", seed, got.Memory, m.Memory)
		}
		if again := CostOf(n, m, got.Mesh); again.Estimate != got.Estimate {
			t.Fatalf("seed %d: the text of the plan, %v, means another one", seed, got.Mesh)
		}
		if read, err := spatial.ParseMesh(got.Mesh.String()); err != nil || read.String() != got.Mesh.String() {
			t.Fatalf("seed %d: %v is read as %v, %v", seed, got.Mesh, read, err)
		}
		if !got.IsUniform() {
			changed++
		}
		if want.Step > free.Step {
			limited++
		}
	}
	if changed < 50 || limited < 4 { // else the test says little
		t.Errorf("%d plans with changes, %d of which the limit of memory costs time", changed, limited)
	}
}

// A bound below the best time finds nothing; the best time itself is found.
func TestBound(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	n := randomUNet(r, 1, 0)
	m := randomMachine(r)
	mesh := spatial.Mesh{{Name: "lat", Size: 2}, {Name: "lon", Size: 2}}
	p := newCostModel(n, &m, mesh, newSplitter(n))
	best, _ := p.best(1 << 60)
	if again, ok := p.best(best.Step - best.Optimiser); !ok || again.Step != best.Step {
		t.Errorf("with the best time as bound: %v, %v", again.Step, ok)
	}
	if _, ok := p.best(best.Step - best.Optimiser - 1); ok {
		t.Error("a plan below the best time")
	}
}

// exhaustive tries all plans of a mesh. It is the reference for dynamic programming
// on small networks.
func exhaustive(n Network, m Machine, mesh spatial.Mesh) Plan {
	p := newCostModel(n, &m, mesh, newSplitter(n))
	choices := p.cuts.choices(p.mesh)
	at := make([]int, len(choices)) // by stage
	to := make([]stageSplit, len(choices))
	known := map[string]cost{}
	price := func(v int) cost { // depends on the stages of the layer and of those that it reads
		key := fmt.Sprint(v, at[p.cuts.stage(n.Layers[v].Out)])
		for _, e := range n.Layers[v].From {
			key += fmt.Sprint(" ", at[p.cuts.stage(e.Shape)])
		}
		c, ok := known[key]
		if !ok {
			c = p.stageCost(v, to)
			known[key] = c
		}
		return c
	}
	var best Plan
	for first := true; ; first = false {
		for i, choice := range at {
			to[i] = choices[i][choice]
		}
		e := p.evaluate(price)
		if fits := m.Memory == 0 || e.Memory <= m.Memory; first || fits && (!best.Fits || e.Step < best.Step) {
			best = p.plan(to)
		}
		i := len(at) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < len(choices[i]) {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return best
		}
	}
}
