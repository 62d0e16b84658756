package pass

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// checkShapes rejects valid graphs that no plan can execute, and training
// without a loss.
//
// Errors: *exit.Error: exit.NoDevice for types and distributions, exit.Usage
// for a missing loss.
func checkShapes(u *Unit) error {
	if err := u.Graph.Check(); err != nil {
		return err
	}
	for _, n := range u.Graph.Nodes {
		if n.DType != graph.Float32 || !n.Distribution.Replicated() {
			return &exit.Error{Code: exit.NoDevice, At: n.At,
				What: fmt.Sprintf("cannot execute value %s of type %v, distribution %v", n.Label(), n.DType, n.Distribution),
				Why:  "plans execute replicated values of type f32",
				Fix:  "use the default type and distribution"}
		}
	}
	if !u.Infer && u.Graph.Loss < 0 {
		return &exit.Error{Code: exit.Usage, What: "a training plan needs a loss",
			Why: "the graph has none", Fix: "call Builder.Loss, or compile for inference"}
	}
	return nil
}
