package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// checkLeads reports whether the rows of x are whole trajectories of the given number of leads. The
// leads of a sample, or of each of its members, are consecutive rows, [N·T C D H W]. The parameters
// of networks over leads have the same shapes for every T ≥ 2.
func checkLeads(b *graph.Builder, what string, x graph.Value, leads int) bool {
	if x.Valid() && (leads < 2 || len(x.Shape()) != 5 || x.Dim(0)%leads != 0) {
		b.Fail(what, fmt.Errorf("input %v with %d leads, want [N·%d C D H W] and at least 2 leads: %w", x.Shape(), leads, leads, graph.ErrShape))
	}
	return b.Err() == nil
}

// splitLeads splits rows by lead.
//
// Shape: x [N·T C D H W] → T values [N C D H W].
func splitLeads(b *graph.Builder, x graph.Value, leads int) []graph.Value {
	s, out := x.Shape(), make([]graph.Value, leads)
	if !x.Valid() {
		return out
	}
	side := op.Reshape(b, x, graph.Shape{s[0] / leads, leads * s[1], s[2], s[3], s[4]})
	for t := range out {
		out[t] = op.Slice(b, side, 1, t*s[1], (t+1)*s[1])
	}
	return out
}

// joinLeads is the inverse of splitLeads.
func joinLeads(b *graph.Builder, of []graph.Value) graph.Value {
	side := op.Concat(b, 1, of...)
	if !side.Valid() {
		return side
	}
	s := side.Shape()
	return op.Reshape(b, side, graph.Shape{s[0] * len(of), s[1] / len(of), s[2], s[3], s[4]})
}
