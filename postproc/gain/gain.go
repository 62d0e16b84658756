// Package gain splits what a model gains over a raw ensemble into what needs no model:
// the cost of few members, bias, dispersion, and the rest, which is information.
//
// Source: the steps are those of EMOS (Gneiting et al. 2005, doi:10.1175/MWR2904.1) taken
// one by one; the cost of M members is Ferro et al. 2008, doi:10.1002/met.45.
package gain

// Split are mean CRPS of ever more calibrated forecasts of the same cases, M members with
// mean m and standard deviation s (divisor M−1). All steps are fitted on other dates than
// they are scored on.
//
// Unit: that of the variable.
type Split struct {
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
	Chance           float64 `json:"chance"`
	FairUnbiased     float64 `json:"fair_unbiased"`
	FairCalibrated   float64 `json:"fair_calibrated"`
	ChanceCalibrated float64 `json:"chance_calibrated"`
	Expected         float64 `json:"expected"`
}

// Shares are parts of the reference's score: the first four add up to Total exactly.
type Shares struct {
	FiniteSize  float64 `json:"finite_size"`
	Bias        float64 `json:"bias"`
	Dispersion  float64 `json:"dispersion"`
	Information float64 `json:"information"`
	Total       float64 `json:"total"`
	// BeyondMembers is what the model gains over infinitely many raw members.
	BeyondMembers float64 `json:"beyond_members"`
	// DispersionFirst and BiasSecond are the shares in the other order.
	DispersionFirst float64 `json:"dispersion_first"`
	BiasSecond      float64 `json:"bias_second"`
}

// Shares splits the gain of the model over the reference.
func (s Split) Shares() Shares {
	r := s.Reference
	return Shares{FiniteSize: (r - s.FiniteSize) / r, Bias: (s.FiniteSize - s.Unbiased) / r, Dispersion: (s.Unbiased - s.Calibrated) / r,
		Information: (s.Calibrated - s.Model) / r, Total: (r - s.Model) / r, BeyondMembers: (s.Fair - s.Model) / r,
		DispersionFirst: (s.FiniteSize - s.Dispersed) / r, BiasSecond: (s.Dispersed - s.Calibrated) / r}
}

// list is a split as numbers, in the order of its fields.
func (s Split) list() []float64 {
	return []float64{s.Reference, s.FiniteSize, s.Unbiased, s.Calibrated, s.Model, s.Fair, s.Dispersed,
		s.Chance, s.FairUnbiased, s.FairCalibrated, s.ChanceCalibrated, s.Expected}
}

func splitOf(v []float64) Split {
	return Split{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11]}
}

// Interval is a value with the interval of resampled dates.
type Interval struct{ Value, Low, High float64 }

// Report is a split with the intervals of its shares.
type Report struct {
	Split
	Members int
	Dates   int
	Shares  []Share // in the order of Shares
	// Yardsticks are in the order of the list of that name.
	Yardsticks []YardstickValue
}

// Share is one row of a report.
type Share struct {
	ID, Name string
	CRPS     float64 // of the forecast after the step; of infinitely many raw members for beyond_members
	Interval
}
