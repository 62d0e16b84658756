package share

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/optim"
)

// textbook is a U-Net with four resolutions, base 8 and 42 input channels: two convolutions per
// resolution, the second of the encoder twice as wide, and a concatenation before the first of the
// decoder.
func textbook(b *graph.Builder) {
	for i, c := range [][2]int{{42, 8}, {8, 16}, {16, 16}, {16, 32}, {32, 32}, {32, 64}, {64, 64}, {64, 128}, {192, 64}, {64, 64}, {96, 32}, {32, 32}, {48, 16}, {16, 16}} {
		x := b.Input(fmt.Sprintf("x%d", i), graph.Shape{1, c[0], 1, 3, 3})
		w := b.Param(fmt.Sprintf("conv%d.weight", i), graph.Shape{c[1], c[0], 3, 3, 3}, graph.HeNormal(27*c[0]))
		b.Output(fmt.Sprintf("y%d", i), op.Conv3D(b, x, w, op.Conv{Pad: op.Same(3, 3, 3)}))
	}
}

// TestSplitByHand: the budget of the textbook network, divided by hand. Layers with a shape of
// their own keep their filters.
func TestSplitByHand(t *testing.T) {
	b := graph.New(0)
	textbook(b)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		budget int
		want   []int
	}{
		{1028592, []int{13824, 55296, 221184}},
		{925732, []int{8926, 35704, 142814}},
		{822873, []int{4028, 16111, 64446}},
		{514296, nil},
	} {
		p, err := New(g, Options{Budget: float64(c.budget) / 1028592, Groups: ByShape})
		if c.want == nil {
			if !errors.Is(err, ErrInfeasible) {
				t.Errorf("budget %d: %v, want an infeasible one", c.budget, err)
			}
			// The least budget that the error names suffices, and little less does not.
			var small *BudgetError
			if !errors.As(err, &small) {
				t.Fatalf("error %v names no budget", err)
			}
			if _, err := New(g, Options{Budget: small.Least, Groups: ByShape}); err != nil {
				t.Errorf("budget %g, as named: %v", small.Least, err)
			}
			if _, err := New(g, Options{Budget: small.Least - 2e-3, Groups: ByShape}); err == nil {
				t.Errorf("less than budget %g is feasible", small.Least)
			}
			continue
		}
		if err != nil {
			t.Errorf("budget %d: %v", c.budget, err)
			continue
		}
		var sizes []int
		for _, g := range p.Groups {
			sizes = append(sizes, g.Size)
		}
		if !slices.Equal(sizes, c.want) || p.Filters != 1028592 || p.Unshared != 738288 || p.Unshared+p.Stored != c.budget {
			t.Errorf("budget %d: stores %v, want %v; %d of %d filters, %d of their own, %d stored", c.budget, sizes, c.want, p.Unshared, p.Filters, p.Unshared, p.Stored)
		}
	}
	p, err := New(g, Options{Budget: 0.02, Groups: OneGroup})
	if err != nil || p.Unshared != 0 || p.Stored != 20572 {
		t.Errorf("2 %% in one group: %+v, %v", p, err)
	}
}

// TestAutoGroups: the default takes the finest grouping that leaves the stores at least half of their layers' share of the budget. In
// the textbook network layers with a shape of their own have 738288 of 1028592 weights: with 95 % of them the stores get 238874 of
// 275789, with 80 % 84585 of 232243, which is less than half, so that all layers share by the extent of the filter. With a few parameters more
// than stores only one group is left.
func TestAutoGroups(t *testing.T) {
	b := graph.New(0)
	textbook(b)
	g := built(t, b)
	for _, c := range []struct {
		budget   float64
		grouping string
		stores   int
	}{{0.95, ByShape, 3}, {0.8, ByKernel, 4}, {0.05, ByKernel, 4}, {2.0 / 1028592, OneGroup, 1}} {
		p, err := New(g, Options{Budget: c.budget})
		if err != nil || p.Grouping != c.grouping || len(p.Groups) != c.stores || p.Unshared+p.Stored != int(math.Round(c.budget*1028592)) {
			t.Errorf("budget %g: %+v, %v; want %s with %d stores", c.budget, p, err, c.grouping, c.stores)
		}
	}
}

func TestTemplatesOfALayer(t *testing.T) {
	for _, c := range []struct {
		m, k     int
		enlarged bool
	}{{13824, 2, false}, {8926, 1, false}, {4028, 1, true}, {69120, 2, false}} {
		if k, enlarged := TemplateCount(c.m, 6912, 2); k != c.k || enlarged != c.enlarged {
			t.Errorf("a store of %d for 6912 weights: %d templates, enlarged %v, want %d, %v", c.m, k, enlarged, c.k, c.enlarged)
		}
	}
}

// network is a small network of five convolutions, the last initialised with 0, with its loss.
func network(seed uint64) *graph.Builder {
	b := graph.New(seed)
	x := b.Input("x", graph.Shape{2, 3, 2, 5, 6})
	h := x
	for i, out := range []int{4, 4, 4, 6} {
		w := b.Param(fmt.Sprintf("conv%d.weight", i), graph.Shape{out, h.Dim(1), 3, 3, 3}, graph.HeNormal(27*h.Dim(1)))
		bias := b.Param(fmt.Sprintf("conv%d.bias", i), graph.Shape{out}, graph.Zeros())
		h = op.ReLU(b, op.Bias(b, op.Conv3D(b, h, w, op.Conv{Pad: op.Same(3, 3, 3)}), bias))
	}
	y := op.Conv3D(b, h, b.Param("last.weight", graph.Shape{1, 6, 1, 1, 1}, graph.Zeros()), op.Conv{})
	b.Output("y", y)
	b.Loss(op.Mean(b, op.Square(b, op.Sub(b, y, b.Input("target", graph.Shape{2, 1, 2, 5, 6})))))
	return b
}

func built(t *testing.T, b *graph.Builder) *graph.Graph {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// trained returns parameters and losses of some steps of Adam; with a nil p those of the network
// without sharing.
func trained(t *testing.T, p *Plan, steps int) (map[string][]float32, []float64, []float32) {
	t.Helper()
	g := built(t, network(3))
	if p != nil {
		var err error
		if g, err = p.Rewrite(g); err != nil {
			t.Fatal(err)
		}
	}
	store := engine.NewStore()
	plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Threads: 1}, Reuse: engine.Reuse{Store: store}, Numerics: engine.Numerics{UseHeuristics: true, Winograd: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	opt, err := optim.New(store, optim.Options{Kind: optim.AdamW, Decay: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	defer opt.Close()
	for name, scale := range map[string]float64{"x": 1, "target": 0.7} {
		for i := range plan.Input(name) {
			plan.Input(name)[i] = float32(math.Sin(scale * float64(i*i)))
		}
	}
	var losses []float64
	for step := range steps {
		if err := plan.Run(context.Background(), uint64(step+1)); err != nil {
			t.Fatal(err)
		}
		losses = append(losses, plan.Loss())
		if _, err := opt.Step(0.02); err != nil {
			t.Fatal(err)
		}
	}
	out := map[string][]float32{}
	for _, name := range store.Names() {
		v, _, _ := store.Get(name)
		out[name] = slices.Clone(v)
	}
	if err := plan.Run(context.Background(), 99); err != nil {
		t.Fatal(err)
	}
	return out, losses, slices.Clone(plan.Output("y"))
}

// TestFullBudgetIsTheNetworkItself: with as many parameters as the network, one template per layer
// and no trained coefficients, every layer has its own section of the store, and training equals
// that of the network without sharing, bit for bit.
func TestFullBudgetIsTheNetworkItself(t *testing.T) {
	plain, losses, _ := trained(t, nil, 6)
	for _, groups := range []string{OneGroup, ByShape} {
		p, err := New(built(t, network(3)), Options{Budget: 1, Groups: groups, Coefficients: Average, Templates: 1})
		if err != nil {
			t.Fatal(err)
		}
		shared, same, _ := trained(t, p, 6)
		if !slices.Equal(same, losses) || losses[0] == losses[5] {
			t.Errorf("%s: losses %v, want %v", groups, same, losses)
		}
		filters, err := p.Weights(func(name string) ([]float32, bool) { v, ok := shared[name]; return v, ok })
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range plain {
			have, ok := filters[name]
			if !ok {
				have = shared[name]
			}
			if !slices.Equal(have, want) {
				t.Errorf("%s: %s differs", groups, name)
			}
		}
	}
}

// TestSharedFiltersArePlainOnes: for all options the computed filters give the plain network the
// same results; filters have the initial variance of the network without sharing; the number of
// parameters is that of the budget; and training decreases the loss.
func TestSharedFiltersArePlainOnes(t *testing.T) {
	for _, o := range []Options{
		{Budget: 0.5, Groups: OneGroup}, {Budget: 0.1, Groups: OneGroup}, {Budget: 2.5, Groups: OneGroup, Templates: 4},
		{Budget: 0.8}, {Budget: 1, Coefficients: Average}, {Budget: 0.3, Groups: OneGroup, Coefficients: Embedding}, {Budget: 1.5, Coefficients: Embedding, Templates: 3},
		{Budget: 0.5, Groups: OneGroup, Coefficients: Softmax, Templates: 4}, {Budget: 1, Groups: Learned, Learned: [][]string{{"conv0", "conv3"}, {"conv1", "conv2"}}},
	} {
		p, err := New(built(t, network(3)), o)
		if err != nil {
			t.Fatal(o, err)
		}
		params, losses, y := trained(t, p, 12)
		if losses[11] >= losses[0] {
			t.Errorf("%+v: losses %v", o, losses)
		}
		filters, err := p.Weights(func(name string) ([]float32, bool) { v, ok := params[name]; return v, ok })
		if err != nil {
			t.Fatal(o, err)
		}
		store := engine.NewStore()
		plan, err := engine.Compile(built(t, network(9)), engine.Options{Device: engine.Device{Threads: 1}, Reuse: engine.Reuse{Store: store}, Numerics: engine.Numerics{UseHeuristics: true, Winograd: true}, Mode: engine.Infer})
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, v := range params {
			total += len(v)
		}
		for _, name := range store.Names() {
			v, ok := filters[name]
			if !ok {
				v = params[name]
				total -= len(v)
			}
			if err := store.Set(name, v); err != nil {
				t.Fatal(o, name, err)
			}
		}
		own := 0
		for _, l := range p.Layers {
			if l.Store == "" {
				own += l.Shape.Size()
			}
		}
		if total+own != p.Unshared+p.Stored+p.Coefficients || own != p.Unshared || p.Unshared+p.Stored != int(math.Round(o.Budget*float64(p.Filters))) {
			t.Errorf("%+v: %d parameters of filters beside %d of layers alone, planned %+v", o, total, own, p)
		}
		for i := range plan.Input("x") {
			plan.Input("x")[i] = float32(math.Sin(float64(i * i)))
		}
		if err := plan.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		for i, v := range plan.Output("y") {
			if math.Abs(float64(v-y[i])) > 1e-6 {
				t.Errorf("%+v: value %d is %v, want %v", o, i, v, y[i])
				break
			}
		}
		if err := plan.Close(); err != nil {
			t.Fatal(err)
		}
		start, _, _ := trained(t, p, 0)
		if filters, err = p.Weights(func(name string) ([]float32, bool) { v, ok := start[name]; return v, ok }); err != nil {
			t.Fatal(err)
		}
		for _, l := range p.Layers {
			var sum float64
			w := filters[l.Name]
			for _, v := range w {
				sum += float64(v) * float64(v)
			}
			have := math.Sqrt(sum / float64(max(1, len(w))))
			if len(w) > 0 && math.Abs(have/l.init.Std()-1) > 0.25 { // small stores have few random values
				t.Errorf("%+v: %s starts with a deviation of %v, without a store %v", o, l.Name, have, l.init.Std())
			}
		}
	}
}

func TestWhatCannotBeShared(t *testing.T) {
	b := graph.New(0)
	x := b.Input("x", graph.Shape{1, 2, 1, 3, 3})
	w := b.Param("a.weight", graph.Shape{2, 2, 3, 3, 3}, graph.HeNormal(54))
	y := op.Conv3D(b, x, w, op.Conv{Pad: op.Same(3, 3, 3)})
	b.Output("y", op.Add(b, y, op.Mean(b, w))) // not only read as a filter
	if p, err := New(built(t, b), Options{Budget: 1}); err == nil {
		t.Errorf("%+v, want an error", p)
	}
	if _, err := SplitBudget(100, 40, []int{1, 1000000}); !errors.Is(err, ErrInfeasible) {
		t.Errorf("%v for a group that gets nothing", err)
	}
	if p, err := New(built(t, network(0)), Options{Budget: 1}); err != nil {
		t.Fatal(err)
	} else if _, err := p.Weights(func(string) ([]float32, bool) { return nil, false }); err == nil {
		t.Error("no error for weights without a store")
	}
}
