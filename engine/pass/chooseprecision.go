package pass

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// ErrPrecision marks a type in which a backend stores no fields.
var ErrPrecision = errors.New("fields are not stored so")

// choosePrecision has the values that are not plain stored in u.Precision, those of the
// forward pass and of the backward pass alike. They are the fields inside the
// network, nearly all of its memory. Everything plain stays float32: inputs and
// outputs, parameters and their gradients, states, statistics of channels, the
// loss. Operations compute in float32 and round once, as they store; matrix units of GPUs
// multiply filters that are rounded to this type too, and sum in float32.
//
// Errors: exit.NoDevice if the backend does not store values in this type.
func choosePrecision(u *Unit) error {
	if u.Precision == graph.Float32 {
		return nil
	}
	if u.Layouts == nil || !u.Layouts.CanStore(u.Precision) {
		return &exit.Error{Code: exit.NoDevice, What: fmt.Sprintf("precision %v is not available", u.Precision),
			Why: "this backend does not store values so", Fix: "use precision f32, or backend cpu or cuda, of which cuda alone stores f16", Err: ErrPrecision}
	}
	values := 0
	var before, after int64
	for _, n := range u.Graph.Nodes {
		if n.Layout == graph.Plain || n.DType == graph.UInt8 {
			continue
		}
		before += int64(n.Elems()) * int64(n.DType.Bytes())
		n.DType = u.Precision
		after += int64(n.Elems()) * int64(n.DType.Bytes())
		values++
	}
	u.Graph.Notes = append(u.Graph.Notes, fmt.Sprintf("%d values are stored as %v, in %.1f MiB instead of %.1f MiB",
		values, u.Precision, float64(after)/(1<<20), float64(before)/(1<<20)))
	return nil
}
