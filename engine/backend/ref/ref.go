// Package ref is the reference backend. It runs the reference kernel of each operation,
// plain loops in Go with storage and sums in float64. Other backends are compared with
// it (package conformance).
package ref

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Options configures New. The zero value keeps results in float64.
type Options struct {
	// RoundFloat32 rounds the result of every operation to float32, as a backend that
	// stores float32 does. Gradient checks need unrounded results.
	RoundFloat32 bool
}

// Backend is the reference backend. The zero value is ready to use.
type Backend struct{ o Options }

// New returns a reference backend.
func New(o Options) *Backend { return &Backend{o} }

// Name is "ref".
func (*Backend) Name() string { return "ref" }

// Elem is Float64.
func (*Backend) Elem() graph.DType { return graph.Float64 }

// Do calls f and returns its error.
func (*Backend) Do(f func() error) error { return f() }

// Close does nothing.
func (*Backend) Close() error { return nil }

// Prepare binds the reference kernel of the operation to the memory of the request.
func (r *Backend) Prepare(q backend.Request) (backend.Kernel, error) {
	call := graph.Call{InShape: q.InShapes(), Out: q.Out.F64, OutShape: q.Out.Shape, Seed: q.Seed}
	for _, t := range q.In {
		call.In = append(call.In, t.F64)
	}
	op, attrs, round := q.Op, q.Attrs, r.o.RoundFloat32
	return backend.Kernel{Name: "ref", Run: func() error {
		if q.Step != nil {
			call.Step = *q.Step
		}
		op.Ref(call, attrs)
		if round {
			for i, v := range call.Out {
				call.Out[i] = float64(float32(v))
			}
		}
		return nil
	}}, nil
}
