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

// pretrainedWeights are pretrained weights, which replace random initial values. The zero value is none.
type pretrainedWeights struct {
	path    string
	weights model.Weights
}

// readPretrained reads the safetensors file of model.pretrained; an empty path gives none.
//
// Errors: exit 66 if it is missing; 65 if it is not a safetensors file.
func readPretrained(path string) (pretrainedWeights, error) {
	if path == "" {
		return pretrainedWeights{}, nil
	}
	tensors, _, err := ckpt.ReadFile(path)
	return pretrainedWeights{path, exchange.SelectWeights(tensors)}, err
}

// copyTo copies every tensor whose name the network has. Other parameters of the network keep their random
// values, and other tensors of the file are ignored: a new head can follow a pretrained body.
//
// Errors: exit 65 if a shape differs, or if no name matches.
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
				Fix: "set model.base, model.stages, data.variables, data.features and data.targets as for the pretrained network, or remove the tensor from the file"}
		}
		if !slices.Equal(t.Shape, []int(shape)) {
			return bad(fmt.Sprintf("its shape is %v, that of the network %v", t.Shape, shape))
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
		return &exit.Error{Code: exit.BadData, What: "no pretrained tensor has a name that the network uses", At: s.path,
			Why: fmt.Sprintf("the network has %d tensors, the first is %q", len(store.Names()), store.Names()[0]),
			Fix: "give weights of a network of the same model.kind"}
	}
	return nil
}
