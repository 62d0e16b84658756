package network

import (
	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// Stage is what a network learns. The zero value is all at once, where there are no stages,
// else what the last of them learns.
type Stage int

const (
	BiasStage   Stage = iota + 1 // B: the correction of the members' mean
	SpreadStage                  // U: the spread of the full ensemble
	SigmaStage                   // C: the spread of the analysis around the corrected mean
)

// Staged tells whether the networks are trained in stages.
func (s Spec) Staged() bool { return s.Method == config.StagesMethod }

// ForStage is the network of a stage.
func (s Spec) ForStage(g Stage) Spec {
	s.stage = g
	return s
}
