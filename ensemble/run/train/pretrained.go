package train

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/exchange"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// pretrainedWeights are weights that networks start from instead of random ones. The
// zero value is none.
type pretrainedWeights struct {
	path    string
	weights model.Weights
}

// readPretrained reads the file of model.start; the empty path gives none.
//
// Errors: 66 if it is not there, 65 if it is no safetensors file.
func readPretrained(path string) (pretrainedWeights, error) {
	if path == "" {
		return pretrainedWeights{}, nil
	}
	tensors, _, err := ckpt.ReadFile(path)
	return pretrainedWeights{path, exchange.SelectWeights(tensors)}, err
}

// copyTo takes over every parameter and state that the network has under the same
// name. Others of the network keep their random start, others of the file are
// left: a new head goes onto an old body.
//
// Errors: exit 65 if a shape differs, naming both, or if no name is shared.
func (s pretrainedWeights) copyTo(store *engine.Store) error {
	if s.path == "" {
		return nil
	}
	taken := 0
	for _, t := range s.weights {
		_, shape, ok := store.Get(t.Name)
		if !ok {
			continue
		}
		bad := func(why string) error {
			return &exit.Error{Code: exit.BadData, What: fmt.Sprintf("tensor %q does not fit the network to be trained", t.Name), At: s.path, Why: why,
				Fix: "set model.base, model.stages, data.variables, data.features and data.targets as the weights have them, or take that tensor out of the file"}
		}
		if !slices.Equal(t.Shape, []int(shape)) {
			return bad(fmt.Sprintf("it has shape %v, the network %v", t.Shape, shape))
		}
		v, err := t.Float32()
		if err != nil {
			return bad(err.Error())
		}
		if err := store.Set(t.Name, v); err != nil {
			return bad(err.Error())
		}
		taken++
	}
	if taken == 0 {
		return &exit.Error{Code: exit.BadData, What: "no weight to start from has a name of the network", At: s.path,
			Why: fmt.Sprintf("the network has %d, %q first", len(store.Names()), store.Names()[0]),
			Fix: "name the weights of the same kind of network, as model.kind says"}
	}
	return nil
}
