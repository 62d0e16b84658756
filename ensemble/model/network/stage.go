package network

import (
	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// Stage is the quantity that a network predicts in a training with stages. The zero value means all
// at once or, with stages, the last one.
type Stage int

// The stages and their letters.
const (
	BiasStage   Stage = iota + 1 // B: correction of the members' mean
	SpreadStage                  // U: spread of the full ensemble
	SigmaStage                   // C: spread of the analysis around the corrected mean
)

// Staged reports whether the networks are trained in stages.
//
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092.
func (s Spec) Staged() bool { return s.Method == config.StagesMethod }

// ForStage returns the spec of the network of a stage.
func (s Spec) ForStage(g Stage) Spec {
	s.stage = g
	return s
}
