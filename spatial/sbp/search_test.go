package sbp_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	. "github.com/ensemble-weather/ensemble/spatial/sbp"
)

// chain is layers of matrix products; an element counts as a byte.
func chain(b int, widths []int, rows ...string) Network {
	n := Network{InputGradients: true}
	for l := range len(widths) - 1 {
		n.Nodes = append(n.Nodes, Node{
			Name: fmt.Sprint("layer", l+1), Op: MatMul(b, widths[l], widths[l+1]).WithRules(rows...), From: []int{l - 1},
		})
	}
	return n
}

func names(p Plan) []string {
	var out []string
	for _, r := range p.Rules {
		out = append(out, r.Name)
	}
	return out
}

// The chain of two layers 4096 wide: elements that a rank sends in a step.
func TestTwoLayers(t *testing.T) {
	for _, c := range []struct {
		b     int
		sizes []int
		merge bool
		rules []string // nil for the best of all
		want  int64
	}{
		{1024, []int{4}, false, []string{"dp", "dp"}, 50_331_648},
		{1024, []int{4}, false, []string{"col", "row"}, 12_582_912},
		{1024, []int{4}, false, nil, 12_582_912},
		{1024, []int{2, 2}, false, []string{"col x row", "row x col"}, 8_388_608},
		// If both layers use the same axes, a split moves from one axis to the
		// other, once as the outer of two: 3/4 of the tensor between the layers in
		// each direction, not 1/2.
		{1024, []int{2, 2}, false, []string{"col x row", "col x row"}, 10_485_760},
		{1024, []int{2, 2}, false, nil, 8_388_608},
		{4096, []int{4}, false, []string{"dp", "dp"}, 50_331_648},
		{4096, []int{4}, false, []string{"col", "row"}, 50_331_648},
		{4096, []int{4}, false, nil, 50_331_648},
		{4096, []int{2, 2}, false, []string{"dp x col", "dp x row"}, 33_554_432},
		{4096, []int{2, 2}, false, nil, 33_554_432},
		{16384, []int{4}, false, []string{"dp", "dp"}, 50_331_648},
		{16384, []int{4}, false, []string{"col", "row"}, 201_326_592},
		{16384, []int{4}, false, nil, 50_331_648},
		{16384, []int{2, 2}, false, []string{"dp x dp", "dp x dp"}, 67_108_864},
		{16384, []int{2, 2}, true, []string{"dp x dp", "dp x dp"}, 50_331_648},
		{4096, []int{16}, false, []string{"dp", "dp"}, 62_914_560},
		{4096, []int{16}, false, []string{"col", "row"}, 62_914_560},
		{4096, []int{16}, false, nil, 62_914_560},
		{4096, []int{4, 4}, false, []string{"col x dp", "col x dp"}, 25_165_824},
		{4096, []int{4, 4}, false, nil, 25_165_824},
		{4096, []int{2, 8}, false, nil, 33_554_432},
		{4096, []int{8, 2}, false, nil, 33_554_432},
	} {
		n := chain(c.b, []int{4096, 4096, 4096}, "dp", "col", "row")
		m := Machine{Mesh: mesh(c.sizes...), Link: Link{Beta: 1}, Merge: c.merge}
		p, err := NewPlan(n, m, c.rules...)
		if c.rules == nil {
			p, err = Exhaustive(n, m)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Estimate.Communication().Sent; got != c.want || p.Estimate.Seconds != float64(c.want) {
			t.Errorf("batch %d on %v, merge %v, %v: %d elements in %v, want %d", c.b, c.sizes, c.merge, names(p), got, p.Estimate.Seconds, c.want)
		}
	}
}

// fast is a machine on which computing, latency and bandwidth all matter.
func fast(sizes ...int) Machine {
	return Machine{Mesh: mesh(sizes...), Link: Link{Alpha: 5e-6, Beta: 8e-11}, Rate: 1e12, Merge: true}
}

// near compares within the rounding of a sum of about thirty terms in another
// order.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-14*(a+b) }

// On chains of up to 4 layers, descent and dynamic programming find what trying all
// plans finds.
func TestSearches(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	size := func() int { return 1 << (7 + rng.IntN(7)) }
	for _, sizes := range [][]int{{1}, {2}, {4}, {2, 2}, {4, 2}, {2, 2, 2}} {
		for layers := 1; layers <= 4; layers++ {
			for trial := range 6 {
				rows := []string{"dp", "col", "row", "rep"}
				if layers == 4 && len(sizes) == 3 {
					if rows = rows[:3]; trial > 1 {
						break // 27⁴ plans each
					}
				}
				if layers > 2 && len(sizes) == 3 {
					rows = rows[:3]
				}
				widths := []int{size()}
				for range layers {
					widths = append(widths, size())
				}
				n := chain(size(), widths, rows...)
				n.Unit, n.InputGradients = 4, trial%2 == 0
				m := fast(sizes...)
				best, err := Exhaustive(n, m)
				if err != nil {
					t.Fatal(err)
				}
				found, err := Descent{Seed: uint64(trial)}.Search(n, m)
				if err != nil || !near(found.Estimate.Seconds, best.Estimate.Seconds) {
					t.Errorf("%v wide on %v: descent finds %v s %v, %v; the best is %v s %v", widths, sizes, found.Estimate.Seconds, names(found), err, best.Estimate.Seconds, names(best))
				}
				exact, err := Chain(n, m)
				if err != nil || !near(exact.Estimate.Seconds, best.Estimate.Seconds) {
					t.Errorf("%v wide on %v: dynamic programming finds %v s %v, %v; the best is %v s %v", widths, sizes, exact.Estimate.Seconds, names(exact), err, best.Estimate.Seconds, names(best))
				}
			}
		}
	}
}

// An axis of size 1 changes neither the plan nor its cost, wherever it stands.
func TestAxisOfOne(t *testing.T) {
	n := chain(4096, []int{4096, 8192, 1024, 4096})
	for at := range 3 {
		n := Network{Unit: 4, InputGradients: true, Nodes: slices.Clone(n.Nodes)}
		for v := range n.Nodes {
			n.Nodes[v].Op.AxisRules = MatMul(1, 1, 1).AxisRules
		}
		want, err := Descent{}.Search(n, fast(2, 4))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Descent{}.Search(n, fast(slices.Insert([]int{2, 4}, at, 1)...))
		if err != nil {
			t.Fatal(err)
		}
		if got.Estimate != want.Estimate {
			t.Errorf("axis %d of size 1: %+v, without %+v", at, got.Estimate, want.Estimate)
		}
		for v, r := range got.Rules {
			if y := slices.Delete(slices.Clone(r.Y), at, at+1); !slices.Equal(y, want.Rules[v].Y) {
				t.Errorf("axis %d of size 1: %s gives %v, without %v", at, got.Nodes[v], r.Y, want.Rules[v].Y)
			}
		}
	}
}

// The dearer a byte, the fewer are sent.
func TestBeta(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	size := func() int { return 1 << (6 + rng.IntN(8)) }
	dropped := 0
	for range 10 {
		n := chain(size(), []int{size(), size(), size(), size()}, "dp", "col", "row", "rep")
		last := int64(math.MaxInt64)
		for beta := 1e-14; beta < 1e-6; beta *= 3 {
			m := fast(2, 2)
			m.Link.Beta = beta
			p, err := Exhaustive(n, m)
			if err != nil {
				t.Fatal(err)
			}
			sent := p.Estimate.Communication().Sent
			if sent > last {
				t.Errorf("%v s/byte: %d bytes, fewer when bytes were cheaper: %d", beta, sent, last)
			}
			if sent < last && last < math.MaxInt64 {
				dropped++
			}
			last = sent
		}
	}
	if dropped == 0 {
		t.Error("no plan ever changed")
	}
}

// unet is two stages with a skip.
func unet() Network {
	field := func(c, f, lat, lon int) Op {
		return Convolution(2, c, f, SpatialDim{Name: "lat", Size: lat, Filter: 3}, SpatialDim{Name: "lon", Size: lon, Filter: 3, Periodic: true})
	}
	shape := graph.Shape{2, 64, 32, 64}
	return Network{Unit: 4, State: 2, Nodes: []Node{
		{"encode", field(8, 64, 32, 64), []int{Input}},
		{"relu", Elementwise(shape, 1, false), []int{0}},
		{"inner", field(64, 64, 32, 64), []int{1}},
		{"join", Concat([]graph.Shape{shape, shape}, 1), []int{1, 2}},
		{"decode", field(128, 4, 32, 64), []int{3}},
	}}
}

// With a skip, halos, overlap and a memory limit, descent finds the best plan too.
func TestUNet(t *testing.T) {
	for _, overlap := range []bool{false, true} {
		for _, memory := range []int64{0, 8 << 20} {
			m := fast(4)
			m.Overlap, m.Memory = overlap, memory
			best, err := Exhaustive(unet(), m)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Descent{}.Search(unet(), m)
			if err != nil || got.Hash() != best.Hash() {
				t.Errorf("overlap %v, %d bytes: %v\n%vwant\n%v", overlap, memory, err, got, best)
			}
			if memory > 0 && got.Estimate.Memory > memory {
				t.Errorf("%d bytes, the limit is %d", got.Estimate.Memory, memory)
			}
		}
	}
}

// A memory limit can exclude the fastest plan; one below every plan is an error.
func TestMemory(t *testing.T) {
	n := chain(16384, []int{1024, 1024, 1024})
	for v := range n.Nodes {
		n.Nodes[v].Op.AxisRules = MatMul(1, 1, 1).AxisRules
	}
	m := fast(4)
	free, err := Descent{}.Search(n, m)
	if err != nil {
		t.Fatal(err)
	}
	// dp holds a quarter of X and all of W and of its gradient, twice.
	if want := int64(2 * (16384*1024/4 + 2*1024*1024)); free.Estimate.Memory != want {
		t.Errorf("%v holds %d, want %d", names(free), free.Estimate.Memory, want)
	}
	m.Memory = free.Estimate.Memory - 1
	lean, err := Descent{}.Search(n, m)
	if err != nil || lean.Estimate.Memory > m.Memory || lean.Estimate.Seconds <= free.Estimate.Seconds {
		t.Errorf("%v holds %d in %v s, %v; the limit is %d, without it %v s", names(lean), lean.Estimate.Memory, lean.Estimate.Seconds, err, m.Memory, free.Estimate.Seconds)
	}
	m.Memory = 1000
	for _, search := range []func(Network, Machine) (Plan, error){Descent{}.Search, Exhaustive} {
		if _, err := search(n, m); !errors.Is(err, ErrMemory) {
			t.Errorf("%v, want ErrMemory", err)
		}
	}
	if _, err := Chain(n, m); !errors.Is(err, ErrNetwork) {
		t.Errorf("%v, want ErrNetwork: memory does not add up along a chain", err)
	}
}

// What a convolution holds: its operand with one row of halo on either side, weights
// and their gradient.
func TestHaloMemory(t *testing.T) {
	op := Convolution(1, 3, 5, SpatialDim{Name: "lat", Size: 8, Filter: 3}, SpatialDim{Name: "lon", Size: 12, Filter: 3, Periodic: true})
	n := Network{Unit: 4, Nodes: []Node{{"conv", op, []int{Input}}}}
	p, err := NewPlan(n, fast(2), "lon")
	if want := int64(4 * (3*(8+2)*(6+2) + 2*5*3*3*3)); err != nil || p.Estimate.Memory != want {
		t.Errorf("%d bytes, %v; want %d", p.Estimate.Memory, err, want)
	}
}

// A sharded optimiser sends as much as an all-reduce, and keeps its state once.
func TestSharded(t *testing.T) {
	n := chain(64, []int{64, 64}, "dp")
	n.State = 2
	m := Machine{Mesh: mesh(4), Link: Link{Beta: 1}}
	whole, err := NewPlan(n, m, "dp")
	if err != nil {
		t.Fatal(err)
	}
	n.Sharded = true
	cut, err := NewPlan(n, m, "dp")
	if err != nil {
		t.Fatal(err)
	}
	if whole.Estimate.Reduce != cut.Estimate.Reduce {
		t.Errorf("sharded %+v, whole %+v", cut.Estimate.Reduce, whole.Estimate.Reduce)
	}
	if got, want := whole.Estimate.Memory-cut.Estimate.Memory, int64(2*64*64*3/4); got != want {
		t.Errorf("sharding saves %d, want %d", got, want)
	}
}

// Two layers by hand: the sum of the last layer's weights is hidden behind the backward
// pass of the first, that of the first is not.
func TestOverlap(t *testing.T) {
	n := chain(512, []int{256, 256, 256}, "dp")
	m := Machine{Mesh: mesh(2), Link: Link{Beta: 1e-9}, Rate: 1e9}
	const (
		compute = 2. * 256 * 256 * 256 / 1e9 // s of a forward pass of a layer
		reduce  = 256 * 256 * 1e-9           // s of a sum over two ranks
	)
	for overlap, want := range map[bool]float64{false: 6*compute + 2*reduce, true: 6*compute + reduce} {
		m.Overlap = overlap
		p, err := NewPlan(n, m, "dp", "dp")
		if err != nil || !near(p.Estimate.Seconds, want) || !near(p.Estimate.Compute, 6*compute) {
			t.Errorf("overlap %v: %v s, of which computing %v, %v; want %v", overlap, p.Estimate.Seconds, p.Estimate.Compute, err, want)
		}
	}
}

func TestNetworkErrors(t *testing.T) {
	op := MatMul(4, 4, 4)
	for name, nodes := range map[string][]Node{
		"no name":          {{"", op, []int{Input}}},
		"two of one name":  {{"a", op, []int{Input}}, {"a", op, []int{0}}},
		"missing operand":  {{"a", op, nil}},
		"reads later node": {{"a", op, []int{1}}, {"b", op, []int{0}}},
		"another shape":    {{"a", op, []int{Input}}, {"b", MatMul(4, 5, 4), []int{0}}},
		"no rule":          {{"a", op.WithRules("none"), []int{Input}}},
	} {
		if _, err := (Descent{}).Search(Network{Nodes: nodes}, fast(2)); !errors.Is(err, ErrNetwork) {
			t.Errorf("%s: %v, want ErrNetwork", name, err)
		}
	}
	branches := Network{Nodes: []Node{{"a", op, []int{Input}}, {"b", op, []int{Input}}}}
	if _, err := Chain(branches, fast(2)); !errors.Is(err, ErrNetwork) {
		t.Errorf("a network of two chains: %v, want ErrNetwork", err)
	}
}
