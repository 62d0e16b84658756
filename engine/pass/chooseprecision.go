package pass

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// ErrPrecision is wrapped by errors about types in which a backend does not
// store fields.
var ErrPrecision = errors.New("storage type not supported")

// choosePrecision stores the values that are not in the plain layout as
// u.Precision, in the forward and the backward pass. These are the fields
// inside the network, nearly all of its memory. Plain values stay float32:
// inputs, outputs, parameters and their gradients, states, channel statistics,
// the loss. int8 values keep their type.
//
// Operations compute in float32 and round once, when they store. Tensor cores
// of GPUs multiply filters that are rounded to this type too, and sum in
// float32. So statistics and sums over many points do not lose precision.
//
// Errors: exit.NoDevice if the backend does not store this type.
// Source: Micikevicius et al. 2018, arXiv:1710.03740 (mixed precision
// training).
func choosePrecision(u *Unit) error {
	if u.Precision == graph.Float32 {
		return nil
	}
	if u.Layouts == nil || !u.Layouts.CanStore(u.Precision) {
		return &exit.Error{Code: exit.NoDevice, What: fmt.Sprintf("precision %v is not supported", u.Precision),
			Why: "this backend does not store fields in this type", Fix: "use precision f32, or another backend: cpu and cuda store bf16, cuda stores f16", Err: ErrPrecision}
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
