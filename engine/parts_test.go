package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Forward parts of several batches, then their backward parts, give the bits of runs of one batch after the other: outputs, losses,
// gradients and states.
func TestPartsHaveTheBitsOfRuns(t *testing.T) {
	const batches = 3
	g := unet(t, 2, 3)
	for _, name := range available(t) {
		whole := compile(t, g, engine.Options{Device: engine.Device{Backend: name}, Numerics: engine.Numerics{UseHeuristics: true}})
		parts := compile(t, g, engine.Options{Device: engine.Device{Backend: name}, Numerics: engine.Numerics{UseHeuristics: true}, Forward: []string{"spread"}})
		if n := parts.SavedBytes(); n <= 0 || n >= parts.ArenaBytes() {
			t.Errorf("%s: %d bytes of %d are saved", name, n, parts.ArenaBytes())
		}
		feed := func(p *engine.Plan, batch int) {
			fill(p.Input("x"), rng.Key(1, uint64(batch)))
			fill(p.Input("y"), rng.Key(2, uint64(batch)))
		}
		var want []string // stores after each batch
		var losses []float64
		var outputs [][]float32
		for batch := range batches {
			feed(whole, batch)
			if err := whole.Run(t.Context(), uint64(batch)); err != nil {
				t.Fatal(err)
			}
			want, losses, outputs = append(want, bits(whole.Store())), append(losses, whole.Loss()), append(outputs, slices.Clone(whole.Output("spread")))
		}
		saved := make([]*engine.Activations, batches)
		for batch := range batches {
			feed(parts, batch)
			if err := parts.RunForward(t.Context(), uint64(batch)); err != nil {
				t.Fatal(err)
			}
			if parts.Loss() != losses[batch] || !slices.Equal(parts.Output("spread"), outputs[batch]) {
				t.Errorf("%s: batch %d has loss %v after its forward part, want %v, or another output", name, batch, parts.Loss(), losses[batch])
			}
			var err error
			if saved[batch], err = parts.NewActivations(); err == nil {
				err = parts.Save(saved[batch])
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := parts.Load(saved[1]); err != nil {
			t.Fatal(err)
		}
		if err := parts.Swap(saved[0]); err != nil { // now that of batch 1
			t.Fatal(err)
		}
		saved[0], saved[1] = nil, saved[0]
		for batch := range batches {
			if saved[batch] != nil {
				if err := parts.Load(saved[batch]); err != nil {
					t.Fatal(err)
				}
			}
			feed(parts, batch)
			if err := parts.RunBackward(t.Context(), uint64(batch)); err != nil {
				t.Fatal(err)
			}
			if bits(parts.Store()) != want[batch] {
				t.Errorf("%s: batch %d has other gradients or states", name, batch)
			}
		}
		feed(parts, 0)
		if err := parts.Run(t.Context(), 0); err != nil || parts.Loss() != losses[0] {
			t.Errorf("%s: a run of both parts has loss %v, want %v: %v", name, parts.Loss(), losses[0], err)
		}
	}
}

// What a kernel of the forward part has started is complete at the end of that part, although only the backward part reads it.
func TestForwardPartIsFinished(t *testing.T) {
	b := graph.New(1)
	w := b.Param("w", graph.Shape{3}, graph.Fill(2))
	x := b.Input("x", graph.Shape{3})
	y := b.Node(later, nil, x)
	b.Output("y", y)
	seed := b.Input("seed", graph.Shape{3})
	b.Output("late", op.Mul(b, y, seed))
	b.Loss(op.Mean(b, w))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	finished := 0
	p := compile(t, g, engine.Options{Device: engine.Device{Backend: "ref"}, Forward: []string{"y"}, Extension: kernels{of: map[string]func(backend.Request) (backend.Kernel, error){
		later.Name: func(q backend.Request) (backend.Kernel, error) {
			return backend.Kernel{Name: "later", Run: func() error { return nil }, Finish: func() error { finished++; copy(q.Out.F64, q.In[0].F64); return nil }}, nil
		}}}})
	copy(p.Input("x"), []float32{1, 2, 3})
	copy(p.Input("seed"), []float32{10, 10, 10})
	if err := p.RunForward(context.Background(), 0); err != nil || finished != 1 || !slices.Equal(p.Output("y"), []float32{1, 2, 3}) {
		t.Errorf("after the forward part %d results are finished, y is %v: %v", finished, p.Output("y"), err)
	}
	if err := p.RunBackward(context.Background(), 0); err != nil || finished != 1 || !slices.Equal(p.Output("late"), []float32{10, 20, 30}) {
		t.Errorf("after the backward part %d results are finished, late is %v: %v", finished, p.Output("late"), err)
	}
	if err := p.Run(context.Background(), 0); err != nil || finished != 2 {
		t.Errorf("after a run %d results are finished: %v", finished, err)
	}
}

func TestPartsAreRefused(t *testing.T) {
	g := unet(t, 1, 3)
	_, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}, Forward: []string{"mean"}})
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), `no output "mean"`) {
		t.Errorf("an output that the graph does not have: %v", err)
	}
}
