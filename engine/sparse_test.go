package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// pruned is a network of two convolutions, one of them of two parts, with the
// block masks of their filters.
func pruned(t *testing.T) (*graph.Graph, map[string]op.BlockMask) {
	t.Helper()
	return prunedOn(t, 32, 40)
}

// prunedOn is the same on fields of other sizes.
func prunedOn(t *testing.T, height, width int) (*graph.Graph, map[string]op.BlockMask) {
	t.Helper()
	b := graph.New(4)
	conv := func(name string, x graph.Value, out int) graph.Value {
		w := b.Param(name, graph.Shape{out, x.Dim(1), 3, 3, 3}, graph.HeNormal(x.Dim(1)*27))
		return op.ReLU(b, op.Bias(b, op.Conv3D(b, x, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)}), b.Param(name+".bias", graph.Shape{out}, graph.Ones())))
	}
	x, y := b.Input("x", graph.Shape{1, 48, 2, height, width}), b.Input("y", graph.Shape{1, 64, 2, height, width})
	v := conv("last", op.Concat(b, 1, conv("first", x, 64), x), 64)
	b.Output("out", v)
	b.Loss(op.L1(b, v, y))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g, map[string]op.BlockMask{"first": "010" + "100" + "000" + "011", "last": op.BlockMask("1000010" + "0000000" + "0010001" + "0100000")}
}

// sparseStep runs one step of a network with zero blocks. It returns the output
// and all gradients.
func sparseStep(t *testing.T, o engine.Options) (p *engine.Plan, out []float32, grads map[string][]float32) {
	t.Helper()
	g, kept := pruned(t)
	o.Store, o.Winograd, o.Threads = engine.NewStore(), true, 2
	p = compile(t, g, o)
	grads = map[string][]float32{}
	out = runSparse(t, p, kept, grads)
	for name, k := range kept {
		if o.BlockMasks == nil { // the dense plan also computes masked blocks
			_, shape, _ := p.Store().Get(name)
			k.Clear(grads[name], shape)
		}
	}
	return p, out, grads
}

// runSparse runs one step with zeros in the masked blocks, adds the gradients of the filters to grads and returns
// the output.
func runSparse(t *testing.T, p *engine.Plan, kept map[string]op.BlockMask, grads map[string][]float32) []float32 {
	t.Helper()
	for name, k := range kept {
		v, shape, _ := p.Store().Get(name)
		k.Clear(v, shape)
	}
	for _, name := range []string{"x", "y"} {
		for i := range p.Input(name) {
			p.Input(name)[i] = float32(i%13)/13 - 0.4
		}
	}
	if err := p.Run(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	for name := range kept {
		d, _ := p.Store().Grad(name)
		grads[name] = slices.Clone(d)
	}
	return slices.Clone(p.Output("out"))
}

// sparseTimings returns the timings of a table, but sparse kernels take a tenth of the time of dense ones.
func sparseTimings(t *testing.T, kept map[string]op.BlockMask) *tune.Table {
	t.Helper()
	measured, table := tune.Open(t.TempDir(), cpu.Machine(2), nil), tune.Open(t.TempDir(), cpu.Machine(2), nil)
	sparseStep(t, engine.Options{Numerics: engine.Numerics{BlockMasks: kept, UseHeuristics: true}, Reuse: engine.Reuse{Timings: measured}})
	for _, key := range keys(measured) {
		e, _ := measured.Lookup(key)
		e.Skipped = nil
		for i, c := range e.Candidates {
			if e.Candidates[i].CPU = 1e9; strings.HasPrefix(c.Name, "wino sparse") {
				e.Candidates[i].CPU = 1e8
			}
		}
		table.Record(key, e)
	}
	return table
}

// TestReplacedMasks verifies that a plan whose masks are replaced between runs gives the bits of a dense plan with
// zeros in the masked blocks: with gradients of the kept blocks, of all blocks, and of the kept ones again.
func TestReplacedMasks(t *testing.T) {
	whole, first := pruned(t)
	part, _ := prunedOn(t, 6, 8) // the reference is slow
	// As many blocks elsewhere; more of those of the second part of the input, whose data gradient has a mask of its own.
	second := map[string]op.BlockMask{"first": "101" + "000" + "010" + "001", "last": op.BlockMask("0000111" + "0000000" + "0000110" + "0000000")}
	for _, c := range []struct {
		name string
		o    engine.Options
	}{
		{"sparse kernels", engine.Options{Numerics: engine.Numerics{UseHeuristics: true, Winograd: true}, Reuse: engine.Reuse{Timings: sparseTimings(t, first)}}},
		{"dense kernels", engine.Options{Numerics: engine.Numerics{UseHeuristics: true}}},
		{"reference", engine.Options{Device: engine.Device{Backend: "ref"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, g := c.o, whole
			if o.Threads = 2; o.Backend == "ref" {
				g = part
			}
			plan := func(masks map[string]op.BlockMask) *engine.Plan {
				o.Store, o.BlockMasks, o.MasksChange = engine.NewStore(), masks, masks != nil
				return compile(t, g, o)
			}
			p := plan(first)
			if n := strings.Count(strings.Join(kernelNames(p), " "), "wino sparse"); (n == 5) != (c.name == "sparse kernels") {
				t.Errorf("%d kernels leave blocks out", n)
			}
			for i, step := range []struct {
				kept, gradients map[string]op.BlockMask
			}{{first, first}, {second, second}, {second, nil}, {first, nil}, {first, first}, {nil, nil}, {second, second}} {
				if err := p.SetBlockMasks(step.kept, step.gradients); err != nil {
					t.Fatal(err)
				}
				zeros := step.kept
				if zeros == nil {
					zeros = map[string]op.BlockMask{"first": "", "last": ""}
				}
				dense := plan(nil)
				copy(p.Store().Params(), dense.Store().Params())
				got, want := map[string][]float32{}, map[string][]float32{}
				if out, all := runSparse(t, p, zeros, got), runSparse(t, dense, zeros, want); !slices.Equal(out, all) {
					t.Errorf("masks %d: another output than by dense kernels", i)
				}
				for name, d := range want {
					_, shape, _ := p.Store().Get(name)
					step.gradients[name].Clear(d, shape)
					if !slices.Equal(got[name], d) {
						t.Errorf("masks %d: another gradient of %s than by dense kernels", i, name)
					}
				}
				if sparse, all := p.FLOPs(), dense.FLOPs(); (sparse < all) != (step.kept != nil) {
					t.Errorf("masks %d: %d of %d operations", i, sparse, all)
				}
			}
		})
	}
}

// TestGradientMasks verifies that the gradients of filters can keep more blocks than the filters, and replaced masks of
// both kinds.
func TestGradientMasks(t *testing.T) {
	g, kept := pruned(t)
	wider := map[string]op.BlockMask{"first": "011" + "110" + "010" + "011"}
	o := engine.Options{Device: engine.Device{Threads: 2}, Numerics: engine.Numerics{UseHeuristics: true, Winograd: true, BlockMasks: kept, GradientMasks: wider, MasksChange: true},
		Reuse: engine.Reuse{Store: engine.NewStore(), Timings: sparseTimings(t, kept)}}
	p := compile(t, g, o)
	o.Store, o.BlockMasks, o.GradientMasks, o.MasksChange = engine.NewStore(), nil, nil, false
	dense := compile(t, g, o)
	for i, gradients := range []map[string]op.BlockMask{
		{"first": wider["first"], "last": kept["last"]},
		{"first": "110" + "110" + "010" + "101", "last": kept["last"]},
		nil,
	} {
		if i > 0 {
			if err := p.SetBlockMasks(kept, gradients); err != nil {
				t.Fatal(err)
			}
		}
		got, want := map[string][]float32{}, map[string][]float32{}
		if !slices.Equal(runSparse(t, p, kept, got), runSparse(t, dense, kept, want)) {
			t.Errorf("masks %d: another output than by dense kernels", i)
		}
		for name, d := range want {
			_, shape, _ := p.Store().Get(name)
			if gradients[name].Clear(d, shape); !slices.Equal(got[name], d) {
				t.Errorf("masks %d: another gradient of %s than by dense kernels", i, name)
			}
		}
	}
	if err := p.SetBlockMasks(kept, kept); exit.CodeOf(err) != exit.Usage {
		t.Errorf("gradients of fewer blocks: %v", err)
	}
	o.BlockMasks, o.GradientMasks = kept, map[string]op.BlockMask{"first": "01"}
	if _, err := engine.Compile(g, o); !errors.Is(err, op.ErrShape) {
		t.Errorf("%v, want %v", err, op.ErrShape)
	}
}

func TestMasksThatDoNotFitThePlan(t *testing.T) {
	g, kept := pruned(t)
	more := map[string]op.BlockMask{"first": "110" + "100" + "000" + "011"}
	for _, c := range []struct {
		change bool
		masks  map[string]op.BlockMask
		want   string
	}{
		{false, kept, "its masks are fixed"},
		{true, more, "it keeps 5 of 12 blocks, that of the plan 4 of 12"},
		{true, map[string]op.BlockMask{"other": "10"}, "that of the plan 0 of 0"},
	} {
		p := compile(t, g, engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{BlockMasks: kept, MasksChange: c.change}})
		if err := p.SetBlockMasks(c.masks, nil); exit.CodeOf(err) != exit.Usage || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestZeroBlocks verifies that sparse kernels are used where the timings favour
// them, and nowhere else. Outputs and gradients have the bits of dense kernels,
// with zeros in masked blocks, and only non-zero blocks count as work.
func TestZeroBlocks(t *testing.T) {
	_, kept := pruned(t)
	dense, out, grads := sparseStep(t, engine.Options{})
	same := func(what string, o []float32, g map[string][]float32) {
		t.Helper()
		if !slices.Equal(o, out) {
			t.Errorf("%s: another output than by dense kernels", what)
		}
		for name := range grads {
			if !slices.Equal(g[name], grads[name]) {
				t.Errorf("%s: another gradient of %s than by dense kernels", what, name)
			}
		}
	}
	measured := tune.Open(t.TempDir(), cpu.Machine(2), nil)
	sparseStep(t, engine.Options{Numerics: engine.Numerics{BlockMasks: kept, UseHeuristics: true}, Reuse: engine.Reuse{Timings: measured}})
	raced := 0
	// favouring returns timings in which sparse kernels take a tenth of the time of
	// dense ones, or ten times their time.
	favouring := func(faster bool) *tune.Table {
		table := tune.Open(t.TempDir(), cpu.Machine(2), nil)
		for _, key := range keys(measured) {
			e, _ := measured.Lookup(key)
			if strings.Contains(key, " kept ") {
				raced++
				e.Skipped = nil
				for i, c := range e.Candidates {
					if e.Candidates[i].CPU = 1e9; strings.HasPrefix(c.Name, "wino sparse") == faster {
						e.Candidates[i].CPU = 1e8
					}
				}
			}
			table.Record(key, e)
		}
		return table
	}
	count := func(p *engine.Plan) int { return strings.Count(strings.Join(kernelNames(p), " "), "wino sparse") }
	for _, c := range []struct {
		what  string
		table *tune.Table
		want  int
	}{{"without a table", nil, 0}, {"by a table where they win", favouring(true), 5}, {"by a table where they lose", favouring(false), 0}} {
		p, o, g := sparseStep(t, engine.Options{Numerics: engine.Numerics{BlockMasks: kept, UseHeuristics: true}, Reuse: engine.Reuse{Timings: c.table}})
		same(c.what, o, g)
		if n := count(p); n != c.want {
			t.Errorf("%s %d kernels leave blocks out, want %d: %v", c.what, n, c.want, kernelNames(p))
		}
		var work, all int64
		for i, m := range p.Movement(engine.Peaks{}) {
			if m.Class == engine.Contraction {
				work += m.FLOPs
				all += dense.Movement(engine.Peaks{})[i].FLOPs
			}
		}
		// forward and both gradients: 5 of 12 blocks of a filter, without the data
		// gradient of the first, and 5 of 28, without that of the channels of x
		if ratio := float64(work) / float64(all); ratio < 0.2 || ratio > 0.3 {
			t.Errorf("%s: %.3f of the work of dense kernels", c.what, ratio)
		}
	}
	if raced != 10 {
		t.Errorf("%d passes were timed in two tables, want 10:\n%s", raced, measured)
	}
}

func TestZeroBlocksOfAnotherShape(t *testing.T) {
	g, kept := pruned(t)
	kept["last"] = kept["last"][1:]
	_, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{BlockMasks: kept}})
	if exit.CodeOf(err) != exit.Usage || !errors.Is(err, op.ErrShape) || !strings.Contains(fmt.Sprint(err), "last") {
		t.Errorf("%v, want a usage error that names the filter", err)
	}
}
