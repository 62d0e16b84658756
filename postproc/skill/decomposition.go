// Package skill splits what a model gains over a raw ensemble into what needs no model:
// the cost of few members, bias, dispersion, and the rest, which is information.
//
// Source: the steps are those of EMOS (Gneiting et al. 2005, doi:10.1175/MWR2904.1) taken
// one by one; the cost of M members is Ferro et al. 2008, doi:10.1002/met.45.
package skill

// Scores are mean CRPS of ever more calibrated forecasts of the same cases, M members with
// mean m and standard deviation s (divisor M−1). All steps are fitted on other dates than
// they are scored on.
//
// Unit: that of the variable.
type Scores struct {
	Reference  float64 `json:"reference"`   // S₀: the raw ensemble, plain
	FiniteSize float64 `json:"finite_size"` // S₁: N(m, s²(1+1/M)), nothing learned
	Unbiased   float64 `json:"unbiased"`    // S₂: the same, m less its local mean bias
	Calibrated float64 `json:"calibrated"`  // S₃: local EMOS, N(a+bm, c²+d²s²)
	Model      float64 `json:"model"`       // S₄
	// Fair is the fair CRPS of the members, F: what infinitely many of them would score.
	Fair float64 `json:"fair"`
	// Dispersed is the step from S₁ that corrects dispersion first, N(m, c²+d²s²): bias and
	// dispersion interact, and the other order shows how much.
	Dispersed float64 `json:"dispersed"`

	// The yardsticks, see Yardsticks.
	PerfectModel           float64 `json:"perfect_model"`
	FairUnbiased           float64 `json:"fair_unbiased"`
	FairCalibrated         float64 `json:"fair_calibrated"`
	PerfectModelCalibrated float64 `json:"perfect_model_calibrated"`
	Expected               float64 `json:"expected"`
}

// Components are parts of the reference's score: the first four add up to Total exactly.
type Components struct {
	FiniteSize  float64 `json:"finite_size"`
	Bias        float64 `json:"bias"`
	Dispersion  float64 `json:"dispersion"`
	Information float64 `json:"information"`
	Total       float64 `json:"total"`
	// OverInfiniteEnsemble is what the model gains over infinitely many raw members.
	OverInfiniteEnsemble float64 `json:"over_infinite_ensemble"`
	// DispersionFirst and BiasSecond are the shares in the other order.
	DispersionFirst float64 `json:"dispersion_first"`
	BiasSecond      float64 `json:"bias_second"`
}

// Components splits the gain of the model over the reference.
func (s Scores) Components() Components {
	r := s.Reference
	return Components{FiniteSize: (r - s.FiniteSize) / r, Bias: (s.FiniteSize - s.Unbiased) / r, Dispersion: (s.Unbiased - s.Calibrated) / r,
		Information: (s.Calibrated - s.Model) / r, Total: (r - s.Model) / r, OverInfiniteEnsemble: (s.Fair - s.Model) / r,
		DispersionFirst: (s.FiniteSize - s.Dispersed) / r, BiasSecond: (s.Dispersed - s.Calibrated) / r}
}

// values is a split as numbers, in the order of its fields.
func (s Scores) values() []float64 {
	return []float64{s.Reference, s.FiniteSize, s.Unbiased, s.Calibrated, s.Model, s.Fair, s.Dispersed,
		s.PerfectModel, s.FairUnbiased, s.FairCalibrated, s.PerfectModelCalibrated, s.Expected}
}

func scoresOf(v []float64) Scores {
	return Scores{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11]}
}

// Interval is a value with the interval of resampled dates.
type Interval struct{ Value, Low, High float64 }

// Report is a split with the intervals of its shares.
type Report struct {
	Scores
	Members    int
	Dates      int
	Components []Component // in the order of Shares
	// IdealScores are in the order of the list of that name.
	IdealScores []IdealScoreValue
}

// Component is one row of a report.
type Component struct {
	ID, Name string
	CRPS     float64 // of the forecast after the step; of infinitely many raw members for beyond_members
	Interval
}
