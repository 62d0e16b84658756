package promote

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Verdict compares a candidate model (a shadow run) with the model in use, on common initialisations.
type Verdict struct {
	Schema  string          `json:"schema"`
	Model   string          `json:"model_checksum"` // checksum of the candidate
	Against string          `json:"against"`        // checksum of the model in use
	Verdict string          `json:"verdict"`        // "better", "worse" or "undecided"
	Inits   int             `json:"inits"`          // common to both models
	CRPSS   score.Number    `json:"crpss"`          // CRPSS of the candidate against the model in use, of the geometric mean of the ratios of targets
	CILow   score.Number    `json:"ci_low"`         // confidence interval of CRPSS
	CIHigh  score.Number    `json:"ci_high"`
	Targets []VerdictTarget `json:"targets"`
}

// VerdictTarget is the CRPSS for one target.
type VerdictTarget struct {
	Variable string       `json:"variable"`
	Level    string       `json:"level"`
	Lead     string       `json:"lead"`
	CRPSS    score.Number `json:"crpss"`
	CILow    score.Number `json:"ci_low"`
	CIHigh   score.Number `json:"ci_high"`
}

// VerdictSchema is the schema of the file.
const VerdictSchema = "ensemble.verdict/1"

// Values of Verdict.Verdict.
const (
	VerdictBetter    = "better"
	VerdictWorse     = "worse"
	VerdictUndecided = "undecided"
)

// String returns the verdict as one line. v may be nil.
func (v *Verdict) String() string {
	if v == nil {
		return "no verdict"
	}
	interval := "no interval"
	if v.CILow == v.CILow {
		interval = fmt.Sprintf("%+.1f, %+.1f", 100*float64(v.CILow), 100*float64(v.CIHigh))
	}
	return fmt.Sprintf("verdict on %d initialisations: %s; CRPSS %+.1f %% [%s]", v.Inits, v.Verdict, 100*float64(v.CRPSS), interval)
}
