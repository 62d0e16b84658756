package baseline

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Predictors is the part of the raw ensemble that a baseline uses as predictors.
type Predictors uint8

// The predictors.
const (
	NoPredictors         Predictors = iota // none but the season
	MomentPredictors                       // mean and spread of the members
	FullMomentPredictors                   // mean and spread of the full ensemble, of which the network reads a part
	MemberPredictors                       // all members
)

// Method defines a baseline that can be fitted in a training and scored in a verification: one row of Methods.
type Method struct {
	ID         string // name in configurations and results
	Name       string // name for display
	Formula    string
	Doc        string // strengths and requirements, one or two sentences
	Source     string
	Predictors Predictors
	// Family of the forecast distributions; nil: the forecast consists of members.
	Family *dist.Family
	Fit    func(*Set) (Fit, error)
	// Cost is the time of a fit on one processor with AVX-512, in nanoseconds a case (point and date), rounded: fits are
	// distributed over ranks by it. On more points than take part in a cross-validation emos_grid is cheaper.
	// Source: BenchmarkMethods, processor time of one fit at 16384 points on 200 dates, Go 1.26.
	Cost int64
	// Empty returns a Fit into which arrays and JSON text can be read.
	Empty func() Fit
	// File is the prefix of the names of its arrays in files; "": the ID.
	File string
}

// ArrayName is the name of an array in files.
func (m *Method) ArrayName(a Array) string {
	if m.File != "" {
		return m.File + "_" + a.Name
	}
	return m.ID + "_" + a.Name
}

// Fit is a fitted baseline. Its JSON text holds everything except the arrays.
type Fit interface {
	// Forecast returns the parameters of the method's family, or members.
	//
	// Shape: [parameter or member][point]. Missing: NaN where the fit or the ensemble is NaN.
	Forecast(r Raw) [][]float32
	// Arrays returns the fitted values of all points.
	Arrays() []Array
}

// Warner is a Fit that succeeded with a warning: the dates did not determine all coefficients.
type Warner interface{ Warning() string }

// Raw is the raw ensemble of one date, with as many members as in the fit, which FullMomentPredictors take from the full
// ensemble. Fields that are not predictors of the method may be nil.
//
// Shape: Mean, Std (divisor M−1) [point], Members [member][point].
// Unit: that of the variable.
type Raw struct {
	Valid     time.Time // valid time, for the season
	Mean, Std []float32
	Members   [][]float32
}

// Array is one array of a fit: Terms numbers for each point, or, if Pooled, for all points together.
type Array struct {
	Name   string // unique within the fit
	Terms  int    // numbers per point
	Pooled bool   // one set of numbers for all points
	Data   any    // *[]float64 or *[]float32, the field of the fit
}

// Methods lists all baselines that can be selected, in the order of results. The raw ensemble is always
// compared in addition.
var Methods = slices.Concat([]*Method{
	{
		ID: "emos", Name: "EMOS for all points",
		Formula: "N(a + b m, c^2 + d^2 s^2), one a, b, c, d for all points and dates, of least area-weighted CRPS",
		Doc:     "One bias and spread correction for the whole area; needs few dates.",
		Source:  "doi:10.1175/MWR2904.1", Predictors: MomentPredictors, Family: dist.Normal,
		Fit:   func(s *Set) (Fit, error) { return fitted(FitEMOS(s, EMOSOptions{})) },
		Cost:  91,
		Empty: func() Fit { return &EMOS{} },
	},
	{
		ID: "emos_grid", Name: "EMOS by point, shrunk towards EMOS for all points",
		Formula: "N(m + a + a1 sin t + a2 cos t + e (m - <m>), (sp(p) + sp(q) s)^2) at each point, of least CRPS + L |theta - theta_all|^2",
		Doc:     "Local, seasonal bias and local spread, shrunk towards the fit for all points. The penalty L is selected by cross-validation over years. Needs at least eight dates.",
		Source:  "doi:10.1175/MWR2904.1", Predictors: MomentPredictors, Family: dist.Normal,
		Fit:   func(s *Set) (Fit, error) { return fitted(FitGridEMOS(s, GridEMOSOptions{})) },
		Cost:  370,
		Empty: func() Fit { return &GridEMOS{} }, File: "emos",
	},
	{
		ID: "emos_grid_full", Name: "EMOS by point of the full ensemble",
		Formula: "as `emos_grid`, with mean and spread of all members of `data.members.full`",
		Doc:     "What the members cost that the network does not read. Not scored where these members are absent, and no fallback.",
		Source:  "doi:10.1175/MWR2904.1", Predictors: FullMomentPredictors, Family: dist.Normal,
		Fit:   func(s *Set) (Fit, error) { return fitted(FitGridEMOS(s, GridEMOSOptions{})) },
		Cost:  370,
		Empty: func() Fit { return &GridEMOS{} },
	},
}, regressionMethods(true), []*Method{
	{
		ID: "emos_csg", Name: "EMOS for all points, censored shifted gamma",
		Formula: "gamma of mean a + b m and variance c + d m, shifted left by 0 <= q <= mean y and censored at 0, one a, b, c, d, q for all points and dates, of least area-weighted CRPS",
		Doc:     "For precipitation. About 100 microseconds per case: for stations and small areas.",
		Source:  "doi:10.1002/env.2391", Predictors: MomentPredictors, Family: dist.CSGamma,
		Fit:   func(s *Set) (Fit, error) { return fitted(FitGammaEMOS(s)) },
		Cost:  70000,
		Empty: func() Fit { return &GammaEMOS{} },
	},
	{
		ID: "samos", Name: "EMOS of standardised anomalies",
		Formula: "N(y0 + sy (a + b (m - m0)/sm), (sy exp(c + d log(s/sm)))^2), one a, b, c, d for all points; y0, sy and m0, sm: climatology of analyses and of ensemble means",
		Doc:     "Local, seasonal bias from one fit for all points. Needs dates of a whole year.",
		Source:  "doi:10.1002/qj.2975", Predictors: MomentPredictors, Family: dist.Normal,
		Fit:   func(s *Set) (Fit, error) { return fitted(FitSAMOS(s)) },
		Cost:  210,
		Empty: func() Fit { return newSAMOS() },
	},
}, regressionMethods(false), []*Method{
	{
		ID: "mbm", Name: "member-by-member post-processing, by moments",
		Formula: "x_i' = a + b m + t (x_i - m) at each point; a, b by least squares, t^2 = mean (a + b m - y)^2 / ((1 + 1/M) mean s^2)",
		Doc:     "Members keep rank order and spatial patterns and get a calibrated mean spread.",
		Source:  "doi:10.1002/qj.2397", Predictors: MemberPredictors,
		Fit:   func(s *Set) (Fit, error) { return fitted(FitMembersByPoint(s, FitMemberMoments)) },
		Cost:  220,
		Empty: func() Fit { return &MembersByPoint{} },
	},
	{
		ID: "mbm_crps", Name: "member-by-member post-processing, by CRPS",
		Formula: "x_i' = a + b m + t (x_i - m), t >= 0, at each point, of least plain CRPS: a linear program, solved exactly",
		Doc:     "As mbm, more robust to outliers; milliseconds per point.",
		Source:  "doi:10.1002/qj.2397", Predictors: MemberPredictors,
		Fit: func(s *Set) (Fit, error) {
			return fitted(FitMembersByPoint(s, func(x, y []float64) (MemberByMember, error) { return FitMemberCRPS(x, y, dist.Plain) }))
		},
		Cost:  8600,
		Empty: func() Fit { return &MembersByPoint{} },
	},
	{
		ID: "quantile_map", Name: "quantile mapping",
		Formula: "x_i' = Q_y(F_x(x_i)) at each point, between 50 quantiles, with the shift of the outermost beyond them",
		Doc:     "Gives members the climate of the analyses; ignores forecast skill. Needs 50 dates from all seasons to be forecast.",
		Source:  "doi:10.1002/joc.1602", Predictors: MemberPredictors,
		Fit: func(s *Set) (Fit, error) {
			if _, err := s.members("quantile map"); err != nil {
				return nil, err
			}
			return fitted(s.fitQuantileMap(s.Members, s.Obs, s.Points(), mapLevels))
		},
		Cost:  620,
		Empty: func() Fit { return &QuantileMap{Levels: mapLevels} },
	},
	{
		ID: "climatology", Name: "climatology",
		Formula: "N(c0 + c1 sin t + c2 cos t + c3 sin 2t + c4 cos 2t, s^2) at each point, by least squares",
		Doc:     "Local, seasonal normal distribution, independent of the forecast. Needs dates of a whole year.",
		Source:  "doi:10.1016/C2017-0-03921-6, ch. 3", Predictors: NoPredictors, Family: dist.Normal,
		Fit:   func(s *Set) (Fit, error) { return fitted(FitClimatology(s)) },
		Cost:  22,
		Empty: func() Fit { return &Climatology{} },
	},
})

// mapLevels is the number of quantiles of the method quantile_map.
const mapLevels = 50

// fitted converts the result of a fit function to a Fit, and to nil on errors.
func fitted[F Fit](f F, err error) (Fit, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

// MethodByID returns the method with an id, or nil.
func MethodByID(id string) *Method {
	i := slices.IndexFunc(Methods, func(m *Method) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return Methods[i]
}

// regressionMethods returns the regressions of all location-scale families, for all points or
// by point. The normal family for all points is the method emos.
func regressionMethods(pooled bool) []*Method {
	var out []*Method
	for _, m := range regressionFamilies {
		if pooled && m.Family == dist.Normal {
			continue
		}
		o := RegressionOptions{Family: m.Family, Pooled: pooled}
		source := "doi:10.32614/RJ-2016-012"
		id, name, cost := "emos", "EMOS for all points", m.pooledCost
		formula := m.Family.Name + ", location a + b m, scale c + d s, c > 0, d >= 0"
		if m.moments {
			source = "doi:10.1002/qj.2521"
			formula = m.Family.Name + ", mean a + b m, standard deviation c + d s, a, c > 0, b, d >= 0"
		}
		// id, name and formula differ between pooled and local fits, and for families with mean
		// and standard deviation as parameters.
		where := ", one a, b, c, d for all points and dates, of least area-weighted CRPS"
		if !pooled {
			id, name, where, cost = "emos_point", "EMOS by point", ", at each point, of least CRPS", m.pointCost
			if !m.moments {
				o.Harmonics = Seasonal
				formula = m.Family.Name + ", location a + b m + p sin t + q cos t, scale c + d s, c > 0, d >= 0"
				where += "; p = q = 0 if the dates are of one season"
			}
		}
		if m.Family != dist.Normal {
			id += "_" + m.Family.ID
		}
		out = append(out, &Method{
			ID: id, Name: name + ", " + m.Family.Name, Formula: formula + where, Doc: m.doc,
			Source: source, Predictors: MomentPredictors, Family: m.Family,
			Fit:   func(s *Set) (Fit, error) { return fitted(fitWithFallback(s, o)) },
			Cost:  cost,
			Empty: func() Fit { return &Regression{Family: o.Family, Link: LinearScale} },
		})
	}
	return out
}

// fitWithFallback is FitRegression; a point that cannot be fitted gets the coefficients of a
// pooled fit with the same number of harmonics, so that every point has a forecast.
func fitWithFallback(s *Set, o RegressionOptions) (*Regression, error) {
	r, err := FitRegression(s, o)
	if err != nil || !slices.ContainsFunc(r.Scale, math.IsNaN) {
		return r, err
	}
	o.Pooled, o.Harmonics = true, r.Harmonics
	all, err := FitRegression(s, o)
	if err != nil {
		return nil, err
	}
	k := r.locationTerms()
	for p := range s.Points() {
		if c := r.Scale[p*scaleTerms : (p+1)*scaleTerms]; math.IsNaN(c[0]) {
			copy(r.Location[p*k:(p+1)*k], all.Location)
			copy(c, all.Scale)
		}
	}
	return r, nil
}

// newParameterFields allocates two parameter fields.
func newParameterFields(points int) [][]float32 {
	return [][]float32{make([]float32, points), make([]float32, points)}
}

// Forecast returns mean and standard deviation (of the parent normal).
func (e *EMOS) Forecast(r Raw) [][]float32 {
	out := newParameterFields(len(r.Mean))
	e.Predict(out[0], out[1], r.Mean, r.Std)
	return out
}

// Arrays returns nil: the coefficients of all points are in the JSON text.
func (e *EMOS) Arrays() []Array { return nil }

// Forecast returns mean and standard deviation.
func (g *GridEMOS) Forecast(r Raw) [][]float32 {
	out := newParameterFields(len(r.Mean))
	g.Predict(out[0], out[1], r.Mean, r.Std, r.Valid)
	return out
}

// Arrays returns the coefficients and the training mean.
func (g *GridEMOS) Arrays() []Array {
	return []Array{{Name: "theta", Terms: gridTerms, Data: &g.Theta}, {Name: "mean", Terms: 1, Data: &g.MeanBar}}
}

// Forecast returns mean and standard deviation.
func (c *Climatology) Forecast(r Raw) [][]float32 {
	out := newParameterFields(len(c.Sigma))
	c.Predict(out[0], out[1], r.Valid)
	return out
}

// Arrays returns the cycle and the standard deviation about it.
func (c *Climatology) Arrays() []Array {
	return []Array{{Name: "cycle", Terms: harmonics, Data: &c.Cycle}, {Name: "sigma", Terms: 1, Data: &c.Sigma}}
}

// Forecast returns location and scale.
func (r *Regression) Forecast(raw Raw) [][]float32 {
	out := newParameterFields(len(raw.Mean))
	r.Predict(out[0], out[1], raw.Mean, raw.Std, raw.Valid)
	return out
}

// Arrays returns the coefficients of location and scale.
func (r *Regression) Arrays() []Array {
	return []Array{{"location", r.locationTerms(), r.Pooled, &r.Location}, {"scale", scaleTerms, r.Pooled, &r.Scale}}
}

// Forecast returns the mapped members.
func (q *QuantileMap) Forecast(r Raw) [][]float32 {
	out := make([][]float32, len(r.Members))
	for m, x := range r.Members {
		out[m] = make([]float32, len(x))
		q.Predict(out[m], x)
	}
	return out
}

// Arrays returns the quantiles of forecasts and observations.
func (q *QuantileMap) Arrays() []Array {
	return []Array{{Name: "from", Terms: q.Levels, Data: &q.From}, {Name: "to", Terms: q.Levels, Data: &q.To}}
}

// MembersByPoint is MemberByMember with its own coefficients at every point. A point that
// cannot be fitted keeps its members unchanged (A = 0, B = T = 1).
//
// Shape: ABT [point][A B T].
// Source: Van Schaeybroeck and Vannitsem 2015, doi:10.1002/qj.2397.
type MembersByPoint struct {
	ABT []float64 `json:"-"`
}

// FitMembersByPoint fits every point by a rule such as FitMemberMoments. Mean and Std of the
// set are not used.
//
// Shape: the rule receives x [date][member] in one slice and y [date] of one point.
// Errors: wrong shapes; a set without members; ErrNoCases if no point could be fitted.
func FitMembersByPoint(s *Set, rule func(x, y []float64) (MemberByMember, error)) (*MembersByPoint, error) {
	n := s.Points()
	members, err := s.members("member by member")
	if err != nil {
		return nil, err
	}
	b := &MembersByPoint{ABT: make([]float64, 3*n)}
	var fits atomic.Int64
	s.each(s.points("points", 16, 1+members), func(_, lo, hi int) {
		x, y := make([]float64, len(s.Valid)*members), make([]float64, len(s.Valid))
		for p := lo; p < hi; p++ {
			for i := range y {
				y[i] = float64(s.Obs[i*n+p])
				for m := range members {
					x[i*members+m] = float64(s.Members[(i*members+m)*n+p])
				}
			}
			at, err := rule(x, y)
			if err == nil {
				fits.Add(1)
			} else { // the identity
				at = MemberByMember{0, 1, 1}
			}
			b.ABT[3*p], b.ABT[3*p+1], b.ABT[3*p+2] = at.A, at.B, at.T
		}
	})
	if fits.Load() == 0 {
		return nil, fmt.Errorf("member by member: no point has three complete dates with a varying ensemble mean: %w", ErrNoCases)
	}
	return b, nil
}

// Forecast returns the corrected members.
func (b *MembersByPoint) Forecast(r Raw) [][]float32 {
	out := make([][]float32, len(r.Members))
	for m := range out {
		out[m] = make([]float32, len(r.Members[m]))
	}
	one, to := make([][]float32, len(out)), make([][]float32, len(out))
	for p := range len(b.ABT) / 3 {
		for m := range out {
			one[m], to[m] = r.Members[m][p:p+1], out[m][p:p+1]
		}
		MemberByMember{b.ABT[3*p], b.ABT[3*p+1], b.ABT[3*p+2]}.Predict(to, one)
	}
	return out
}

// Arrays returns A, B and T of all points.
func (b *MembersByPoint) Arrays() []Array { return []Array{{Name: "abt", Terms: 3, Data: &b.ABT}} }
