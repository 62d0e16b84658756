package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// later is a copy whose result is available only after Finish.
var later = &graph.Op{
	Name: "later", NoGrad: "for a test", Ordered: true,
	Shape:   func(in []graph.Shape, _ any) (graph.Shape, error) { return in[0], nil },
	Window:  func([]graph.Shape, any) graph.Window { return graph.Window{} },
	FLOPs:   func([]graph.Shape, graph.Shape, any) int64 { return 0 },
	Bytes:   func(_ []graph.Shape, out graph.Shape, _ any) int64 { return 8 * int64(out.Size()) },
	InPlace: func(int, any) bool { return false },
}

// kernels is an extension with operations of the test.
type kernels struct {
	engine.NoExtension
	of map[string]func(backend.Request) (backend.Kernel, error)
}

func (k kernels) Kernels() map[string]func(backend.Request) (backend.Kernel, error) { return k.of }

func TestResultsAreFinishedBeforeTheyAreRead(t *testing.T) {
	for _, fails := range []bool{false, true} {
		b := graph.New(1)
		x := b.Input("x", graph.Shape{3})
		unread := b.Node(later, nil, x)
		y := op.Add(b, b.Node(later, nil, op.Square(b, x)), op.Exp(b, x))
		b.Output("y", y)
		b.Output("unread", unread)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		var begun, ended int
		p, err := engine.Compile(g, engine.Options{Mode: engine.Infer, Device: engine.Device{Backend: "ref"}, Extension: kernels{of: map[string]func(backend.Request) (backend.Kernel, error){
			later.Name: func(q backend.Request) (backend.Kernel, error) {
				return backend.Kernel{Name: "later",
					Run: func() error { begun++; return nil },
					Finish: func() error {
						ended++
						copy(q.Out.F64, q.In[0].F64)
						if fails {
							return errLost
						}
						return nil
					}}, nil
			}}}})
		if err != nil {
			t.Fatal(err)
		}
		copy(p.Input("x"), []float32{1, 2, 3})
		err = p.Run(context.Background(), 0)
		if fails != errors.Is(err, errLost) {
			t.Fatalf("fails %v: error %v", fails, err)
		}
		if fails {
			continue
		}
		if begun != 2 || ended != 2 {
			t.Errorf("%d begun, %d ended, want 2", begun, ended)
		}
		if got, want := p.Output("y")[1], float32(4+7.389056); got-want > 1e-5 || want-got > 1e-5 {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := p.Output("unread")[2]; got != 3 {
			t.Errorf("what no kernel reads is %v, want 3", got)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

var errLost = errors.New("lost")
