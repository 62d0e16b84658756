package model

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// checkInt8 checks the int8 scales in model.json. No scales at all are those of a model that is not
// quantised.
func (f *Description) checkInt8() error {
	for name, q := range f.Int8 {
		if q == nil || len(q.Channels) == 0 || len(q.ZeroPoints) == 0 || len(q.Factors) != len(q.ZeroPoints) || q.OutScales != nil {
			return fmt.Errorf("int8 scales of %s are incomplete", name)
		}
	}
	if f.Int8 != nil && f.Spec.Staged() {
		return errors.New("int8 scales in a model that was trained in stages")
	}
	return nil
}

// int8Scales returns the int8 scales for prediction in this process; nil for a model that is not
// quantised.
//
// Errors: exit.Usage for ranks that share a field.
func (m *Model) int8Scales() (map[string]*op.Int8Scales, error) {
	if m.Int8 != nil && m.Ranks != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "int8 prediction does not work with several ranks", Why: "int8 convolutions cannot read a field that is distributed over ranks",
			Fix: "predict without --mesh, or use the model before quantisation"}
	}
	return m.Int8, nil
}
