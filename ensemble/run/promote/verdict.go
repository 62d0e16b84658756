package promote

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Verdict compares a model that runs as a shadow with the one in use, on the starts that both forecast.
type Verdict struct {
	Schema  string          `json:"schema"`
	Model   string          `json:"model_checksum"`
	Against string          `json:"against"`
	Verdict string          `json:"verdict"` // "better", "worse" or "undecided"
	Inits   int             `json:"inits"`
	CRPSS   score.Number    `json:"crpss"` // relative gain of CRPS, mean over targets
	CILow   score.Number    `json:"ci_low"`
	CIHigh  score.Number    `json:"ci_high"`
	Targets []VerdictTarget `json:"targets"`
}

// VerdictTarget is the gain of one target.
type VerdictTarget struct {
	Variable string       `json:"variable"`
	Level    string       `json:"level"`
	Lead     string       `json:"lead"`
	CRPSS    score.Number `json:"crpss"`
	CILow    score.Number `json:"ci_low"`
	CIHigh   score.Number `json:"ci_high"`
}

const VerdictSchema = "ensemble.verdict/1"

// The verdicts.
const (
	VerdictBetter    = "better"
	VerdictWorse     = "worse"
	VerdictUndecided = "undecided"
)

// String says it in a line.
func (v *Verdict) String() string {
	return fmt.Sprintf("verdict on %d starts: %s; gain of CRPS %+.1f %% [%+.1f, %+.1f]", v.Inits, v.Verdict, 100*float64(v.CRPSS), 100*float64(v.CILow), 100*float64(v.CIHigh))
}
