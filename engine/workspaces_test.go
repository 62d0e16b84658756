package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/engine/pass/workspace"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// wide has convolutions with enough work for timing their variants: one on a
// field of many tiles, and one on a field of few.
func wide(t testing.TB) *graph.Graph {
	t.Helper()
	b := graph.New(7)
	x := b.Input("x", graph.Shape{2, 40, 2, 32, 48})
	y := b.Input("y", graph.Shape{2, 36, 2, 8, 12})
	layer := func(name string, v graph.Value, out int) graph.Value {
		in := v.Dim(1)
		w := b.Param(name+".weight", graph.Shape{out, in, 3, 3, 3}, graph.HeNormal(in*27))
		return op.ReLU(b, op.Bias(b, op.Conv3D(b, v, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)}), b.Param(name+".bias", graph.Shape{out}, graph.Zeros())))
	}
	v := op.MaxPool(b, layer("first", x, 48), [3]int{1, 4, 4})
	v = layer("last", layer("inner", v, 160), 36)
	b.Output("out", v)
	b.Loss(op.L1(b, v, y))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// kernelNames lists the kernels of a plan.
func kernelNames(p *engine.Plan) (out []string) {
	for _, m := range p.Movement(engine.Peaks{}) {
		out = append(out, m.Kernel)
	}
	return out
}

// TestWorkspace verifies that a limit is respected, that the smallest limit of
// the error succeeds, that one byte less is rejected with the layer and this
// limit, and that no limit changes a bit.
func TestWorkspace(t *testing.T) {
	run := func(workspace int64) *engine.Plan {
		p := compile(t, wide(t), engine.Options{Device: engine.Device{Threads: 2}, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}, Memory: engine.Memory{Workspace: workspace}})
		train(t, p, 2)
		return p
	}
	free := run(0)
	want, all := bits(free.Store()), free.ScratchBytes()
	_, err := engine.Compile(wide(t), engine.Options{Device: engine.Device{Threads: 2}, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}, Memory: engine.Memory{Workspace: 1}})
	var small *pass.WorkspaceError
	if exit.CodeOf(err) != exit.Usage || !errors.As(err, &small) || !errors.Is(err, workspace.ErrLimit) {
		t.Fatalf("a workspace of one byte: %v", err)
	}
	if !strings.Contains(err.Error(), "inner.weight") && !strings.Contains(err.Error(), "last.weight") {
		t.Errorf("the error names no layer: %v", err)
	}
	if small.Smallest >= all {
		t.Errorf("the least workspace is %d bytes, without a limit %d are used", small.Smallest, all)
	}
	for _, limit := range []int64{small.Smallest, (small.Smallest + all) / 2, all, 1 << 40} {
		p := run(limit)
		if got := p.ScratchBytes(); got > limit || got <= 0 {
			t.Errorf("a limit of %d bytes: %d are used", limit, got)
		}
		if bits(p.Store()) != want {
			t.Errorf("a limit of %d bytes changes bits", limit)
		}
	}
	if _, err := engine.Compile(wide(t), engine.Options{Device: engine.Device{Threads: 2}, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}, Memory: engine.Memory{Workspace: small.Smallest - 1}}); !errors.Is(err, workspace.ErrLimit) {
		t.Errorf("one byte less than the least: %v", err)
	}
	if _, err := engine.Compile(wide(t), engine.Options{Memory: engine.Memory{Workspace: -1}}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("a negative workspace: %v", err)
	}
	var text strings.Builder
	if err := free.Explain(&text); err != nil || !strings.Contains(text.String(), "scratch KiB") || !strings.Contains(text.String(), "; scratch ") {
		t.Errorf("the printed plan lacks the scratch: %v\n%s", err, text.String())
	}
}

// TestLeastWorkspace verifies that the smallest workspace of an error succeeds,
// although the kernel that needs it has a single variant.
func TestLeastWorkspace(t *testing.T) {
	b := graph.New(7)
	x := b.Input("x", graph.Shape{1, 20, 2, 24, 36})
	layer := func(name string, v graph.Value, out int, a op.Conv) graph.Value {
		w := b.Param(name, graph.Shape{out, v.Dim(1), 3, 3, 3}, graph.HeNormal(v.Dim(1)*27))
		return op.ReLU(b, op.Conv3D(b, v, w, a))
	}
	v := layer("first", x, 18, op.Conv{Pad: op.SameGlobal(3, 3, 3)})
	v = layer("strided", op.Upsample(b, v, [3]int{1, 8, 12}, true), 33, op.Conv{Pad: op.SameGlobal(3, 3, 3), Stride: [3]int{1, 2, 2}})
	b.Output("out", v)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Mode: engine.Infer, Device: engine.Device{Threads: 2}, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}, Memory: engine.Memory{Workspace: 1}}
	_, err = engine.Compile(g, o)
	var small *pass.WorkspaceError
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: ", err)
	}
	if !errors.As(err, &small) || !strings.Contains(err.Error(), "strided") || !strings.Contains(err.Error(), fmt.Sprintf("set the workspace to %d bytes", small.Smallest)) {
		t.Fatalf("a workspace of one byte: %v", err)
	}
	o.Workspace = small.Smallest
	p := compile(t, g, o)
	if p.ScratchBytes() != small.Smallest {
		t.Errorf("the least workspace is %d bytes, %d are used", small.Smallest, p.ScratchBytes())
	}
	o.Workspace--
	if _, err := engine.Compile(g, o); !errors.Is(err, workspace.ErrLimit) {
		t.Errorf("one byte less than the least: %v", err)
	}
}

// TestMemoryLimit verifies that arena and scratch memory share the limit.
// Slower variants are used before results are recomputed, the smallest limit of
// an error succeeds, and no limit changes a bit.
func TestMemoryLimit(t *testing.T) {
	for _, mode := range []engine.Mode{engine.Train, engine.Infer} {
		options := func(limit int64) engine.Options {
			return engine.Options{Device: engine.Device{Threads: 2}, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}, Mode: mode, Memory: engine.Memory{Limit: limit}}
		}
		bitsOf := func(p *engine.Plan) string {
			train(t, p, 2)
			return bits(p.Store()) + fmt.Sprint(p.Output("out"))
		}
		free := compile(t, wide(t), options(0))
		want, all := bitsOf(free), free.ArenaBytes()+free.ScratchBytes()
		_, err := engine.Compile(wide(t), options(1))
		var small *pass.MemoryLimitError
		if exit.CodeOf(err) != exit.NoDevice || !errors.As(err, &small) {
			t.Fatalf("mode %v, a limit of one byte: %v", mode, err)
		}
		if _, err := engine.Compile(wide(t), options(small.Smallest-1)); exit.CodeOf(err) != exit.NoDevice || !errors.As(err, &small) {
			t.Errorf("mode %v, one byte less than the least: %v", mode, err)
		}
		for _, limit := range []int64{small.Smallest, all - 1, all} {
			p := compile(t, wide(t), options(limit))
			arena, scratch := p.ArenaBytes(), p.ScratchBytes()
			if arena+scratch > limit {
				t.Errorf("mode %v, a limit of %d bytes: arena %d, scratch %d", mode, limit, arena, scratch)
			}
			if limit > small.Smallest && arena != free.ArenaBytes() || limit == all && scratch != free.ScratchBytes() {
				t.Errorf("mode %v, a limit of %d bytes, all is %d: arena %d, without limit %d; scratch %d, without limit %d", mode, limit, all,
					arena, free.ArenaBytes(), scratch, free.ScratchBytes())
			}
			if bitsOf(p) != want {
				t.Errorf("mode %v: a limit of %d bytes changes bits", mode, limit)
			}
		}
	}
}

// TestTimings verifies that variants are measured once and reused. Other
// timings change the kernels, but no bit.
func TestTimings(t *testing.T) {
	dir := t.TempDir()
	run := func(table *tune.Table) *engine.Plan {
		p := compile(t, wide(t), engine.Options{Device: engine.Device{Threads: 2}, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}, Reuse: engine.Reuse{Timings: table}})
		train(t, p, 2)
		return p
	}
	want := bits(run(nil).Store())
	table := tune.Open(dir, cpu.Machine(2), nil)
	first := run(table)
	if err := table.Save(); err != nil {
		t.Fatal(err)
	}
	known := tune.Open(dir, cpu.Machine(2), nil)
	if n := strings.Count(known.String(), "wino "); n < 4 {
		t.Fatalf("the table holds %d lines of variants:\n%s", n, known)
	}
	second := run(known)
	if known.String() != table.String() {
		t.Errorf("what was known was measured again:\n%s\nbefore:\n%s", known, table)
	}
	if bits(first.Store()) != want || bits(second.Store()) != want {
		t.Error("measured variants change bits")
	}
	// The same timings with the slowest variants made the fastest.
	other := tune.Open(t.TempDir(), cpu.Machine(2), nil)
	for _, key := range keys(table) {
		e, _ := table.Lookup(key)
		last := len(e.Candidates) - 1
		for i := range e.Candidates {
			e.Candidates[i].CPU = 1e12
		}
		e.Candidates[last].CPU = 1
		e.Candidates[0], e.Candidates[last] = e.Candidates[last], e.Candidates[0]
		e.Choice = e.Candidates[0].Name
		other.Record(key, e)
	}
	third := run(other)
	if a, b := strings.Join(kernelNames(second), " "), strings.Join(kernelNames(third), " "); a == b {
		t.Errorf("the other table gives the same kernels: %s", a)
	}
	if bits(third.Store()) != want {
		t.Error("other variants change bits")
	}
}

// TestTimedForms verifies that kernels of plain convolutions, whose bits
// differ, are timed once and then chosen by the timings.
func TestTimedForms(t *testing.T) {
	table := tune.Open(t.TempDir(), cpu.Machine(1), nil)
	first := compile(t, unet(t, 2, 1), engine.Options{Reuse: engine.Reuse{Timings: table}})
	before := table.String()
	if len(keys(table)) == 0 && len(first.Choices()) > 0 {
		t.Skip("skipped: without oneDNN every convolution has one form")
	}
	second := compile(t, unet(t, 2, 1), engine.Options{Reuse: engine.Reuse{Timings: table}})
	if table.String() != before {
		t.Errorf("timed again:\n%s\nbefore:\n%s", table, before)
	}
	train(t, first, 2)
	train(t, second, 2)
	if a, b := first.Choices(), second.Choices(); !maps.Equal(a, b) || bits(first.Store()) != bits(second.Store()) {
		t.Errorf("two plans of one table differ: %v, %v", a, b)
	}
}

// keys lists the entries of a timing table.
func keys(table *tune.Table) (out []string) {
	for _, line := range strings.Split(table.String(), "\n") {
		if i := strings.LastIndex(line, ": "); i > 0 && !strings.HasPrefix(line, " ") {
			out = append(out, line[:i])
		}
	}
	return out
}
