package model

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// checkInt8 checks the int8 scales in model.json, the result of a calibration. A model without the key
// int8 is not quantised; an empty key is an error, since the network would predict in float32.
//
// Errors: exit.BadData for layers without all their scales; exit.Usage for a model of stages.
func (f *Description) checkInt8(path string) error {
	uncalibrated := func(why string) error {
		return &exit.Error{Code: exit.BadData, What: "an int8 model without calibration", At: path, Why: why,
			Fix: "run `ensemble quantise` on the original training: it finds the scales on training samples"}
	}
	if f.Int8 != nil && len(f.Int8) == 0 {
		return uncalibrated("int8 lists no layer with its scales")
	}
	for _, name := range slices.Sorted(maps.Keys(f.Int8)) {
		if q := f.Int8[name]; q == nil || len(q.Channels) == 0 || len(q.ZeroPoints) == 0 || len(q.Factors) != len(q.ZeroPoints) || q.OutScales != nil {
			return uncalibrated(fmt.Sprintf("int8 scales of %s are incomplete", name))
		}
	}
	if f.Int8 != nil && f.Spec.Staged() {
		return &exit.Error{Code: exit.Usage, What: "int8 scales in a model of three stages", At: path, Why: "its networks have no separate scales", Fix: "train with model.method: joint"}
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
