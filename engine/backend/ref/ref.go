// Package ref is the reference backend, the judge of all others: the loops that
// stand with each operation, in plain Go, with storage and sums in float64.
package ref

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Options of the reference backend.
type Options struct {
	// RoundFloat32 rounds the result of every operation to float32, as a backend that
	// stores float32 does; otherwise results stay float64, as gradient checks
	// need.
	RoundFloat32 bool
}

// Backend is the reference backend.
type Backend struct{ o Options }

// New opens the reference backend; it needs nothing.
func New(o Options) *Backend { return &Backend{o} }

// Name is "ref".
func (*Backend) Name() string { return "ref" }

// Elem is Float64.
func (*Backend) Elem() graph.DType { return graph.Float64 }

// Do calls f.
func (*Backend) Do(f func() error) error { return f() }

// Close does nothing.
func (*Backend) Close() error { return nil }

// Prepare binds the reference kernel of the operation.
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
