package topk

import (
	"fmt"
	"slices"
)

// State is what a Reducer keeps between steps. All but the local threshold, residual,
// velocity and squares are equal on all ranks.
type State struct {
	Step          int64
	Keep          int64     // k, entries to keep
	Local, Global float32   // thresholds
	Bounds        []int64   // P+1 boundaries of regions; empty before the first step
	Residual      []float32 // not yet sent
	Velocity      []float32 // of momentum correction, or first moments of updates; nil without
	Squares       []float32 // second moments of updates; nil without
}

// State returns the state, which shares memory with the Reducer.
func (r *Reducer) State() State { return r.state }

// SetState continues from a state, which is copied. The next Sum has the bits that it
// would have had after the steps of that state.
//
// Errors: another length, or momentum correction or updates in only one of them.
func (r *Reducer) SetState(s State) error {
	if len(s.Residual) != r.Len() || len(s.Velocity) != len(r.state.Velocity) || len(s.Squares) != len(r.state.Squares) {
		return fmt.Errorf("state of a sparse sum has residuals of %d values, velocities of %d and squares of %d, want %d, %d and %d",
			len(s.Residual), len(s.Velocity), len(s.Squares), r.Len(), len(r.state.Velocity), len(r.state.Squares))
	}
	copy(r.state.Residual, s.Residual)
	copy(r.state.Velocity, s.Velocity)
	copy(r.state.Squares, s.Squares)
	s.Residual, s.Velocity, s.Squares, s.Bounds = r.state.Residual, r.state.Velocity, r.state.Squares, slices.Clone(s.Bounds)
	r.state = s
	return nil
}
