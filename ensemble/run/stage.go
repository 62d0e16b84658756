package run

import (
	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// stage is what a network learns. The zero value is all at once, where there are no stages,
// else what the last of them learns.
type stage int

const (
	biasStage   stage = iota + 1 // B: the correction of the members' mean
	spreadStage                  // U: the spread of the full ensemble
	sigmaStage                   // C: the spread of the analysis around the corrected mean
)

// staged tells whether the networks are trained in stages.
func (s Spec) staged() bool { return s.Method == config.StagesMethod }

// of is the network of a stage.
func (s Spec) of(g stage) Spec {
	s.stage = g
	return s
}
