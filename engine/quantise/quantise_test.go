package quantise_test

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulated"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/quantise"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// network is a small U-Net with pooling, upsampling, and concatenation with its own features and
// with the input, whose values have both signs.
func network(t *testing.T) *graph.Graph {
	t.Helper()
	b := graph.New(3)
	conv := func(name string, x graph.Value, out int) graph.Value {
		w := b.Param(name+".weight", graph.Shape{out, x.Dim(1), 3, 3, 3}, graph.HeNormal(x.Dim(1)*27))
		return op.Bias(b, op.Conv3D(b, x, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)}), b.Param(name+".bias", graph.Shape{out}, graph.Zeros()))
	}
	x := b.Input("x", graph.Shape{1, 20, 2, 16, 24})
	h := op.ReLU(b, conv("first", x, 32))
	p := op.MaxPool(b, op.ReLU(b, conv("second", h, 32)), [3]int{1, 2, 2})
	q := op.MaxPool(b, op.ReLU(b, conv("third", p, 48)), [3]int{1, 2, 2})
	u := op.ReLU(b, conv("up", op.Concat(b, 1, op.Upsample(b, q, [3]int{1, 2, 2}, true), p), 32))
	v := op.ReLU(b, conv("join", op.Concat(b, 1, op.Upsample(b, u, [3]int{1, 2, 2}, true), x), 32))
	b.Output("y", conv("last", v, 3))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func fill(x []float32, sample int) {
	for i := range x {
		x[i] = float32(math.Sin(float64(i)*0.37+float64(sample)) + 0.3*math.Cos(float64(i*sample)))
	}
}

func compiled(t *testing.T, g *graph.Graph, o engine.Options) *engine.Plan {
	t.Helper()
	p, err := engine.Compile(g, o)
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func calibrated(t *testing.T, g *graph.Graph, o quantise.Options) map[string]*op.Int8Scales {
	t.Helper()
	o.IncludeInput, o.Exclude = true, []string{"first"}
	c := quantise.New(o)
	p := compiled(t, g, engine.Options{Mode: engine.Infer, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}, Debug: engine.Debug{Passes: c.Passes()}})
	if got := strings.Join(c.Filters(), " "); got != "second.weight third.weight up.weight join.weight" {
		t.Fatalf("quantised are %s", got)
	}
	for _, look := range []func(*engine.Plan){c.ObserveRanges, c.ObservePoints} {
		for i := range 3 {
			fill(p.Input("x"), i)
			if err := p.Run(context.Background(), 0); err != nil {
				t.Fatal(err)
			}
			look(p)
		}
	}
	s, err := c.Scales()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestQuantisedNetworkPredictsTheSame: the int8 network agrees with the float network up to the
// rounding of points to 8 bits, about 7 % of the standard deviation of a layer. This holds for
// every method, on the reference and the CPU backend, which agree except for ties. Values between
// its convolutions are int8.
func TestQuantisedNetworkPredictsTheSame(t *testing.T) {
	g := network(t)
	predict := func(o engine.Options) (*engine.Plan, []float32) {
		o.Mode, o.Winograd, o.UseHeuristics, o.Store = engine.Infer, true, true, engine.NewStore()
		p := compiled(t, g, o)
		fill(p.Input("x"), 7)
		if err := p.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		return p, p.Output("y")
	}
	_, want := predict(engine.Options{})
	distance := func(a, b []float32) float64 {
		var d, n float64
		for i := range a {
			d, n = d+float64(a[i]-b[i])*float64(a[i]-b[i]), n+float64(b[i])*float64(b[i])
		}
		return math.Sqrt(d / n)
	}
	for _, m := range quantise.Methods {
		scales := calibrated(t, g, quantise.Options{Method: m, ClipFraction: 1e-4})
		p, got := predict(engine.Options{Numerics: engine.Numerics{Int8: scales}})
		if e := distance(got, want); e > 0.1 || e == 0 {
			t.Errorf("%s: relative error %.4f", m, e)
		}
		codes, reads := 0, 0
		for _, n := range p.Graph().Nodes {
			if n.DType == graph.UInt8 {
				codes++
			}
			if n.Kind == graph.KindOp && n.Op.Name == "quantise" {
				reads++
			}
		}
		// What first makes and the input become codes; second, its pooling, third, its pooling
		// and upsampling, up and its upsampling are. join is read by a convolution of values.
		if codes != 2+7 || reads != 2 {
			t.Errorf("%s: %d values are codes, of which %d are made of others, want 9 and 2", m, codes, reads)
		}
		if _, half := predict(engine.Options{Numerics: engine.Numerics{Int8: scales, Precision: "bf16"}}); distance(half, got) > 0.05 {
			t.Errorf("%s: stored as bfloat16 it is %.4f away", m, distance(half, got))
		}
		if m != quantise.LeastError {
			continue
		}
		_, judge := predict(engine.Options{Numerics: engine.Numerics{Int8: scales}, Device: engine.Device{Backend: "ref"}})
		if direct(p) { // the reference is not
			if e, by := distance(got, want), distance(judge, want); e > by/2 {
				t.Errorf("direct convolutions are %.2g away, those of transformed tiles %.2g, want at most half of it", e, by)
			}
			continue
		}
		// One code beside a tie rounds all points of its tile anew, and all that follows.
		if e := distance(got, judge); e > 0.05 {
			t.Errorf("the processor and the reference differ by %.2g", e)
		}
	}
}

// direct reports whether the int8 convolutions of a plan are direct.
func direct(p *engine.Plan) bool {
	return slices.ContainsFunc(p.Graph().Nodes, func(n *graph.Node) bool {
		a, ok := n.Attrs.(op.Int8Conv)
		return ok && a.Direct
	})
}

// withoutAMX runs the test in a process that is held down to AVX-512 where this one has AMX; it reports
// whether it did.
func withoutAMX(t *testing.T, p *engine.Plan) bool {
	t.Helper()
	const variable = "ONEDNN_MAX_CPU_ISA"
	if !direct(p) {
		return false
	}
	if os.Getenv(variable) != "" {
		t.Fatalf("AMX is in use although %s is set", variable)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"=AVX512_CORE_BF16")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return true
}

// TestQuantisedNetworkSkipsZeroBlocks: an int8 network of which filters have blocks of zeros predicts the
// same bits with kernels that skip them, which run where the timing table has them as faster.
func TestQuantisedNetworkSkipsZeroBlocks(t *testing.T) {
	b := graph.New(5)
	conv := func(name string, x graph.Value, out int) graph.Value {
		w := b.Param(name, graph.Shape{out, x.Dim(1), 3, 3, 3}, graph.HeNormal(x.Dim(1)*27))
		return op.ReLU(b, op.Bias(b, op.Conv3D(b, x, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)}), b.Param(name+".bias", graph.Shape{out}, graph.Zeros())))
	}
	x := b.Input("x", graph.Shape{1, 40, 2, 32, 40})
	h := conv("first", x, 64)
	b.Output("y", conv("last", op.Concat(b, 1, conv("second", h, 64), x), 48))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]op.BlockMask{"second": "0100" + "1000" + "0000" + "0110", "last": op.BlockMask("1000010" + "0000000" + "0010001")}
	store := engine.NewStore()
	options := func(masks map[string]op.BlockMask, scales map[string]*op.Int8Scales) engine.Options {
		return engine.Options{Mode: engine.Infer, Reuse: engine.Reuse{Store: store}, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true, BlockMasks: masks, Int8: scales}}
	}
	c := quantise.New(quantise.Options{IncludeInput: true})
	o := options(kept, nil)
	o.Passes = c.Passes()
	p := compiled(t, g, o)
	for name, k := range kept {
		w, shape, _ := store.Get(name)
		k.Clear(w, shape)
	}
	for _, look := range []func(*engine.Plan){c.ObserveRanges, c.ObservePoints} {
		fill(p.Input("x"), 1)
		if err := p.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		look(p)
	}
	scales, err := c.Scales()
	if err != nil {
		t.Fatal(err)
	}
	if withoutAMX(t, compiled(t, g, options(nil, scales))) {
		return
	}
	predict := func(masks map[string]op.BlockMask, table *tune.Table) (out []float32, sparse int) {
		o := options(masks, scales)
		o.Timings = table
		p := compiled(t, g, o)
		fill(p.Input("x"), 7)
		if err := p.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		for _, m := range p.Movement(engine.Peaks{}) {
			sparse += strings.Count(m.Kernel, "wino int8 sparse")
		}
		return p.Output("y"), sparse
	}
	want, _ := predict(nil, nil)
	measured := tune.Open(t.TempDir(), cpu.Machine(1), nil)
	predict(kept, measured)
	for _, faster := range []bool{false, true} {
		table, raced := tune.Open(t.TempDir(), cpu.Machine(1), nil), 0
		for key, e := range measured.All() {
			for i, c := range e.Candidates {
				if e.Candidates[i].CPU = 1e9; strings.HasPrefix(c.Name, "wino int8 sparse") == faster {
					e.Candidates[i].CPU = 1e8
				}
			}
			if strings.HasPrefix(key, "wino int8 ") {
				raced++
			}
			table.Record(key, e)
		}
		got, sparse := predict(kept, table)
		if raced != len(kept) || faster && sparse != len(kept) || !faster && sparse != 0 {
			t.Errorf("%d convolutions are timed, %d leave blocks out; faster %v", raced, sparse, faster)
		}
		if !slices.Equal(got, want) {
			t.Errorf("other bits than by dense kernels; sparse kernels %d", sparse)
		}
	}
}

// TestQuantisedNetworkOnGPU: on a GPU, convolutions with few blocks run in int8 and read codes, also through pooling and
// upsampling; the others stay in float. The prediction is that of the float network up to rounding.
func TestQuantisedNetworkOnGPU(t *testing.T) {
	before := engine.Backends
	t.Cleanup(func() { engine.Backends = before })
	engine.Backends = append(before[:len(before):len(before)], engine.Backend{Name: "emulated", Open: func(engine.Options) (backend.Backend, error) { return emulated.OpenLazy(1 << 28) }})
	g := network(t)
	scales := calibrated(t, g, quantise.Options{})
	// Filters of 32×32, 48×32, 32×80 and 32×52 channels: a quarter, 2 of 6 and 3 of 10 of the blocks, and 2 of 8.
	kept := map[string]op.BlockMask{"second.weight": "01" + "00", "third.weight": "10" + "01" + "00", "up.weight": "10010" + "00100", "join.weight": "1000" + "0010"}
	predict := func(device string, scales map[string]*op.Int8Scales) (*engine.Plan, []float32) {
		store := engine.NewStore()
		p := compiled(t, g, engine.Options{Mode: engine.Infer, Reuse: engine.Reuse{Store: store}, Device: engine.Device{Backend: device}, Numerics: engine.Numerics{BlockMasks: kept, Int8: scales}})
		for name, k := range kept {
			w, shape, _ := store.Get(name)
			k.Clear(w, shape)
		}
		fill(p.Input("x"), 7)
		if err := p.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		return p, p.Output("y")
	}
	_, want := predict("ref", nil)
	p, got := predict("emulated", scales)
	sparse, codes := 0, 0
	for _, m := range p.Movement(engine.Peaks{}) {
		sparse += strings.Count(m.Kernel, "conv int8 sparse")
	}
	for _, n := range p.Graph().Nodes {
		if n.DType == graph.UInt8 {
			codes++
		}
	}
	if sparse != 3 {
		t.Errorf("%d convolutions run in int8, want 3: third has more than 0.3 of its blocks", sparse)
	}
	// What first makes, the two fields that up reads, up, its upsampling, and the input.
	if codes != 6 {
		t.Errorf("%d values are codes, want 6", codes)
	}
	var d, n float64
	for i := range want {
		d, n = d+float64(got[i]-want[i])*float64(got[i]-want[i]), n+float64(want[i])*float64(want[i])
	}
	if e := math.Sqrt(d / n); e == 0 || e > 0.05 {
		t.Errorf("relative error %.4f", e)
	}
}

func TestQuantiseRefuses(t *testing.T) {
	g := network(t)
	scales := calibrated(t, g, quantise.Options{})
	plan := func(o engine.Options) error {
		o.Winograd, o.UseHeuristics = true, true
		p, err := engine.Compile(g, o)
		if err == nil {
			p.Close()
		}
		return err
	}
	if err := plan(engine.Options{Mode: engine.Infer, Debug: engine.Debug{Passes: quantise.New(quantise.Options{Exclude: []string{"secnod"}}).Passes()}}); !errors.Is(err, quantise.ErrLayer) {
		t.Errorf("unknown layer: %v", err)
	}
	c := quantise.New(quantise.Options{Exclude: []string{"up"}, IncludeInput: true})
	err := plan(engine.Options{Mode: engine.Infer, Debug: engine.Debug{Passes: c.Passes()}})
	if err != nil || len(c.Filters()) != 4 || c.Skipped["up.weight"] == "" || c.Skipped["last.weight"] == "" {
		t.Errorf("left out are %v, %v", c.Skipped, err)
	}
	c = quantise.New(quantise.Options{})
	if err := plan(engine.Options{Mode: engine.Infer, Debug: engine.Debug{Passes: c.Passes()}}); err != nil || strings.Join(c.Filters(), " ") != "second.weight third.weight up.weight" {
		t.Errorf("quantised without what reads the input are %v, %v", c.Filters(), err)
	}
	if _, err := c.Scales(); err == nil {
		t.Error("no samples")
	}
	if err := plan(engine.Options{Mode: engine.Train, Numerics: engine.Numerics{Int8: scales}}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("a training in int8: %v", err)
	}
	if err := plan(engine.Options{Mode: engine.Infer, Numerics: engine.Numerics{Int8: map[string]*op.Int8Scales{"secnod.weight": scales["second.weight"]}}}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("scales of no convolution: %v", err)
	}
	other := *scales["second.weight"]
	other.Channels = other.Channels[1:]
	if err := plan(engine.Options{Mode: engine.Infer, Numerics: engine.Numerics{Int8: map[string]*op.Int8Scales{"second.weight": &other}}}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("scales of other channels: %v", err)
	}
}
