package pass

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// checkShapes refuses graphs that are legal but that no plan can execute, and
// training without a loss.
func checkShapes(u *Unit) error {
	if err := u.Graph.Check(); err != nil {
		return err
	}
	for _, n := range u.Graph.Nodes {
		if n.DType != graph.Float32 || !n.Distribution.Replicated() {
			return &exit.Error{Code: exit.NoDevice, At: n.At,
				What: fmt.Sprintf("value %s of type %v, %v over ranks, cannot be executed", n.Label(), n.DType, n.Distribution),
				Why:  "plans hold replicated values of type f32",
				Fix:  "leave the type and the distribution at their defaults"}
		}
	}
	if !u.Infer && u.Graph.Loss < 0 {
		return &exit.Error{Code: exit.Usage, What: "a plan for training needs a loss",
			Why: "the graph marks none", Fix: "call Loss on the builder, or compile for inference"}
	}
	return nil
}
