// Package skill decomposes the skill score of a model relative to a raw ensemble into
// contributions that need no model (finite ensemble size, bias, dispersion, season) and
// the rest, which is information.
//
// Each step corrects one more defect of the raw ensemble and computes the CRPS again:
//
//	S₀  raw members, empirical distribution
//	S₁  N(m, s²(1+1/M))       finite size; no fit
//	S₂  N(m−b, s²(1+1/M))     local mean bias b
//	S₃  N(a+bm, c²+d²s²)      local EMOS: dispersion, and a slope
//	S₄  baseline.GridEMOS     EMOS with a seasonal bias, shrunk towards the fit for all points
//	S₅  the model
//
// The differences of consecutive steps divided by S₀ add up to the skill score
// 1 − S₅/S₀. Information is therefore what no statistics of the members and the season at a
// point explain: GridEMOS is the baseline with both, and its shrinkage is selected by
// cross-validation on training dates. Package skill also computes the CRPS of idealised ensembles, to which that
// of a model can be compared.
//
// Source: the steps are those of EMOS (Gneiting et al. 2005, doi:10.1175/MWR2904.1),
// applied one by one; the effect of M members is that of Ferro et al. 2008,
// doi:10.1002/met.45.
package skill

// Scores holds the mean CRPS of forecasts with increasing calibration on the same cases.
// The ensemble has M members with mean m and standard deviation s (divisor M−1). All
// steps are fitted on other dates than those they are scored on.
//
// Unit: that of the variable.
type Scores struct {
	Reference  float64 `json:"reference"`   // S₀: plain CRPS of the raw ensemble
	FiniteSize float64 `json:"finite_size"` // S₁: N(m, s²(1+1/M)), without a fit
	Unbiased   float64 `json:"unbiased"`    // S₂: as S₁ without the local mean bias
	Calibrated float64 `json:"calibrated"`  // S₃: local EMOS, N(a+bm, c²+d²s²)
	Seasonal   float64 `json:"seasonal"`    // S₄: baseline.GridEMOS, with season and shrinkage
	Model      float64 `json:"model"`       // S₅: the model
	// Fair is the fair CRPS of the members, that of an infinite raw ensemble.
	Fair float64 `json:"fair"`
	// Dispersed corrects dispersion before bias, N(m, c²+d²s²). Bias and dispersion
	// interact; the reverse order shows by how much.
	Dispersed float64 `json:"dispersed"`

	// The CRPS of idealised ensembles, see IdealScores.
	PerfectModel           float64 `json:"perfect_model"`
	FairUnbiased           float64 `json:"fair_unbiased"`
	FairCalibrated         float64 `json:"fair_calibrated"`
	PerfectModelCalibrated float64 `json:"perfect_model_calibrated"`
	Expected               float64 `json:"expected"`
}

// Components holds the contributions as fractions of the reference CRPS. The first five add up to Total.
type Components struct {
	FiniteSize  float64 `json:"finite_size"`
	Bias        float64 `json:"bias"`
	Dispersion  float64 `json:"dispersion"`
	Season      float64 `json:"season"`
	Information float64 `json:"information"`
	Total       float64 `json:"total"`
	// OverInfiniteEnsemble is the reduction in CRPS relative to an infinite raw ensemble.
	OverInfiniteEnsemble float64 `json:"over_infinite_ensemble"`
	// DispersionFirst and BiasSecond are dispersion and bias in the reverse order.
	DispersionFirst float64 `json:"dispersion_first"`
	BiasSecond      float64 `json:"bias_second"`
}

// Components computes the contributions: differences of consecutive steps, divided by the reference CRPS.
func (s Scores) Components() Components {
	r := s.Reference
	return Components{FiniteSize: (r - s.FiniteSize) / r, Bias: (s.FiniteSize - s.Unbiased) / r, Dispersion: (s.Unbiased - s.Calibrated) / r,
		Season: (s.Calibrated - s.Seasonal) / r, Information: (s.Seasonal - s.Model) / r, Total: (r - s.Model) / r, OverInfiniteEnsemble: (s.Fair - s.Model) / r,
		DispersionFirst: (s.FiniteSize - s.Dispersed) / r, BiasSecond: (s.Dispersed - s.Calibrated) / r}
}

// values returns the fields as numbers, in their order.
func (s Scores) values() []float64 {
	return []float64{s.Reference, s.FiniteSize, s.Unbiased, s.Calibrated, s.Seasonal, s.Model, s.Fair, s.Dispersed,
		s.PerfectModel, s.FairUnbiased, s.FairCalibrated, s.PerfectModelCalibrated, s.Expected}
}

// scoresOf is the inverse of list.
func scoresOf(v []float64) Scores {
	return Scores{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12]}
}

// Interval is a value with its bootstrap interval.
type Interval struct{ Value, Low, High float64 }

// Report holds Scores with the bootstrap intervals of the contributions.
type Report struct {
	Scores
	Members    int
	Dates      int
	Components []Component // in the order of Shares
	// IdealScores are in the order of the variable of that name.
	IdealScores []IdealScoreValue
}

// Component is one contribution in a Report.
type Component struct {
	ID, Name string
	CRPS     float64 // CRPS after the step; for over_infinite_ensemble that of an infinite raw ensemble
	Interval
}
