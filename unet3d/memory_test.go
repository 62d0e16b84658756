package unet3d

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// networks lists networks that must train with less memory.
var networks = map[string]func() (*graph.Graph, error){
	"unet3d": func() (*graph.Graph, error) {
		return lossOf(3, graph.Shape{2, 3, 2, 8, 16}, func(b *graph.Builder, x graph.Value) graph.Value {
			return UNet{Base: 4, Stages: 3, Periodic: true, Dropout: 0.2}.Build(b, x)
		})
	},
	"resnet2d_simple": func() (*graph.Graph, error) {
		return lossOf(3, graph.Shape{2, 3, 1, 6, 10}, func(b *graph.Builder, x graph.Value) graph.Value {
			return ResNet2D{Widths: []int{4, 6, 4, 8, 4}, Reinject: 1}.Build(b, x)
		})
	},
}

// lossOf is the training graph of a network with one output channel.
func lossOf(seed uint64, in graph.Shape, build func(b *graph.Builder, x graph.Value) graph.Value) (*graph.Graph, error) {
	b := graph.New(seed)
	z := build(b, b.Input("x", in))
	b.Output("z", z)
	b.Loss(op.MSE(b, z, b.Input("y", z.Shape())))
	return b.Build()
}

// trained runs three steps of gradient descent and returns losses, output, parameters, gradients
// and states.
func trained(t *testing.T, p *engine.Plan) [][]float32 {
	t.Helper()
	s := p.Store()
	var out [][]float32
	for step := range uint64(3) {
		for i, name := range []string{"x", "y"} {
			for k := range p.Input(name) {
				p.Input(name)[k] = float32(rng.Normal(rng.Key(step, uint64(i)), uint64(k)))
			}
		}
		if err := p.Run(context.Background(), step); err != nil {
			t.Fatal(err)
		}
		out = append(out, []float32{float32(p.Loss())}, slices.Clone(p.Output("z")), slices.Clone(s.Grads()), slices.Clone(s.States()))
		for i, g := range s.Grads() {
			s.Params()[i] -= 0.05 * g
		}
	}
	return append(out, s.Params())
}

func sameBits(x, y []float32) bool {
	return slices.EqualFunc(x, y, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })
}

// TestSameBitsInLessMemory: three steps with less memory give the same bits as with all results
// kept, on every device, with the smallest possible memory and a quarter above it. Running averages
// are updated once, dropout drops the same values. Less memory is refused.
func TestSameBitsInLessMemory(t *testing.T) {
	for name, build := range networks {
		g, err := build()
		if err != nil {
			t.Fatal(err)
		}
		for _, backend := range backends(t) {
			o := engine.Options{Device: engine.Device{Backend: backend, Threads: 2}, Numerics: engine.Numerics{Winograd: true}}
			all, err := engine.Compile(g, o)
			if err != nil {
				t.Fatal(err)
			}
			defer all.Close()
			want := trained(t, all)
			o.Choices = all.Choices() // the same kernels

			o.Memory.Limit = 1
			_, err = engine.Compile(g, o)
			var small *pass.MemoryLimitError
			if !errors.As(err, &small) || exit.CodeOf(err) != exit.NoDevice {
				t.Fatalf("%s on %s in one byte: error %v", name, backend, err)
			}
			least, arena := small.Smallest, int64(0)
			o.Memory.Limit = least - 1
			if _, err = engine.Compile(g, o); exit.CodeOf(err) != exit.NoDevice {
				t.Errorf("%s on %s in one byte less than the least, %d: error %v", name, backend, least, err)
			}
			for _, share := range []int64{0, 1} { // quarters between the smallest memory and that of all results
				o.Memory.Limit = least + share*(all.ArenaBytes()-arena)/4
				p, err := engine.Compile(g, o)
				if err != nil {
					t.Fatalf("%s on %s in %d of %d bytes: %v", name, backend, o.Memory.Limit, all.ArenaBytes(), err)
				}
				defer p.Close()
				if share == 0 {
					arena = p.ArenaBytes()
				}
				if 10*arena > 8*all.ArenaBytes() {
					t.Errorf("%s on %s: the least arena is %d of %d bytes", name, backend, arena, all.ArenaBytes())
				}
				if p.ArenaBytes()+p.ScratchBytes() > o.Memory.Limit || p.FLOPs() != all.FLOPs() {
					t.Errorf("%s on %s: arena %d and scratch %d of %d bytes, %d useful operations of %d", name, backend,
						p.ArenaBytes(), p.ScratchBytes(), o.Memory.Limit, p.FLOPs(), all.FLOPs())
				}
				var text strings.Builder
				if err := p.Explain(&text); err != nil || !strings.Contains(text.String(), "are recomputed") {
					t.Errorf("%s on %s: error %v, or the printed plan does not report recomputation", name, backend, err)
				}
				for i, got := range trained(t, p) {
					if !sameBits(got, want[i]) {
						t.Errorf("%s on %s in %d of %d bytes: part %d differs", name, backend, o.Memory.Limit, all.ArenaBytes(), i)
					}
				}
			}
		}
	}
}
