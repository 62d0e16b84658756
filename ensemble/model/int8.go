package model

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// checkInt8 tells why scales of a file are not those of a model that predicts in int8.
func (f *Description) checkInt8() error {
	for name, q := range f.Int8 {
		if q == nil || len(q.Channels) == 0 || len(q.ZeroPoints) == 0 || len(q.Factors) != len(q.ZeroPoints) || q.OutScales != nil {
			return fmt.Errorf("int8 scales of %s are not whole", name)
		}
	}
	if f.Int8 != nil && f.Spec.Staged() {
		return errors.New("int8 scales of a model of stages")
	}
	return nil
}

// int8Scales are the scales of the model's networks in a prediction of this process.
//
// Errors: exit.Usage for ranks that share a field.
func (m *Model) int8Scales() (map[string]*op.Int8Scales, error) {
	if m.Int8 != nil && m.Ranks != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "ranks cannot predict in int8", Why: "its convolutions read no field of which parts lie on other ranks",
			Fix: "predict without --mesh, or with the training that was quantised"}
	}
	return m.Int8, nil
}
