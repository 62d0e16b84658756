//go:build cgo && linux

package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// manyChannels is a chain of convolutions whose workspaces are as large as several of their results: all get a place in the arena, as those of wide do not.
func manyChannels(t *testing.T) *graph.Graph {
	t.Helper()
	b := graph.New(5)
	x, y := b.Input("x", graph.Shape{1, 3, 1, 16, 24}), b.Input("y", graph.Shape{1, 1, 1, 16, 24})
	v := x
	for i := range 6 {
		v = op.Conv3D(b, v, b.Param(fmt.Sprint("w", i), graph.Shape{64, v.Dim(1), 1, 3, 3}, graph.HeNormal(v.Dim(1)*9)), op.Conv{Pad: op.Same(1, 3, 3)})
		v = op.Sigmoid(b, op.Mul(b, v, v))
	}
	z := op.Conv3D(b, v, b.Param("out", graph.Shape{1, v.Dim(1), 1, 1, 1}, graph.Ones()), op.Conv{})
	b.Output("z", z)
	b.Loss(op.MSE(b, z, y))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// From the least limit that an error names on, a plan fits in every limit: a workspace that has a place in the arena counts once.
func TestEveryLimitAboveTheLeast(t *testing.T) {
	o := engine.Options{Numerics: engine.Numerics{UseHeuristics: true}}
	all := compile(t, manyChannels(t), o).MemoryBytes()
	least := int64(0)
	for i := range int64(40) {
		o.Memory.Limit = all * (40 + 3*i) / 100
		p, err := engine.Compile(manyChannels(t), o)
		var small *pass.MemoryLimitError
		switch {
		case errors.As(err, &small):
			least = small.Smallest
			if o.Memory.Limit >= least {
				t.Errorf("%d bytes are refused, %d suffice: %v", o.Memory.Limit, least, err)
			}
		case err != nil:
			t.Errorf("in %d bytes, of which %d suffice: %v", o.Memory.Limit, least, err)
		default:
			if p.MemoryBytes() > o.Memory.Limit {
				t.Errorf("%d bytes in %d", p.MemoryBytes(), o.Memory.Limit)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
