package pass

import "github.com/ensemble-weather/ensemble/engine/op"

// addGradients extends the graph by reverse accumulation.
func addGradients(u *Unit) error {
	if u.Infer || len(u.Graph.Grads) > 0 {
		return nil
	}
	return u.Graph.AddGradients(op.Add)
}
