package baseline

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Predictors says what of the raw ensemble a baseline looks at, to be fitted and to forecast.
type Predictors uint8

// From nothing to everything.
const (
	NoPredictors     Predictors = iota // the season only
	MomentPredictors                   // mean and spread of the members
	MemberPredictors                   // the members themselves
)

// Method is a baseline that a training can fit and a verification score: one row of Methods.
type Method struct {
	ID         string // the name in configurations and results, never changed
	Name       string // for people
	Formula    string
	Doc        string // when it is hard to beat, and what it needs
	Source     string
	Predictors Predictors
	// Family is that of the distributions it forecasts; nil: it forecasts members.
	Family *dist.Family
	Fit    func(*Set) (Fit, error)
	// Empty is a Fit that its arrays and its JSON text can be read into.
	Empty func() Fit
	// File begins the names of its arrays in files; "" stands for the ID.
	File string
}

// ArrayName is the name of an array in files.
func (m *Method) ArrayName(a Array) string {
	if m.File != "" {
		return m.File + "_" + a.Name
	}
	return m.ID + "_" + a.Name
}

// Fit is a fitted baseline. Its JSON text holds all but the arrays.
type Fit interface {
	// Forecast gives the parameters of the method's family, or members.
	//
	// Shape: [parameter or member][point]. Missing: NaN where the fit or the ensemble is.
	Forecast(r Raw) [][]float32
	// Arrays are what the fit holds for each point.
	Arrays() []Array
}

// Warner is a Fit that can tell what the dates did not suffice for, though it was fitted.
type Warner interface{ Warning() string }

// Raw is the ensemble of one date, of as many members as the baseline was fitted with.
// What its method does not look at may be nil.
//
// Shape: Mean, Std (divisor M−1) [point], Members [member][point].
type Raw struct {
	Valid     time.Time
	Mean, Std []float32
	Members   [][]float32
}

// Array is one of the arrays of a fit: Terms numbers for each point, or if Pooled so many
// for all points together.
type Array struct {
	Name   string
	Terms  int
	Pooled bool
	Data   any // *[]float64 or *[]float32
}

// Methods lists all baselines that can be asked for by name, in the order in which results
// have them. The raw ensemble stands beside them always.
var Methods = slices.Concat([]*Method{
	{
		ID: "emos", Name: "EMOS for all points",
		Formula: "N(a + b m, c^2 + d^2 s^2), one a, b, c, d for all points and dates, of least area-weighted CRPS",
		Doc:     "One bias and spread correction for the whole area; needs few dates.",
		Source:  "doi:10.1175/MWR2904.1", Predictors: MomentPredictors, Family: dist.Normal,
		Fit:   func(s *Set) (Fit, error) { return fitted(FitEMOS(s, EMOSOptions{})) },
		Empty: func() Fit { return &EMOS{} },
	},
	{
		ID: "emos_grid", Name: "EMOS by point, drawn to that for all",
		Formula: "N(m + a + a1 sin t + a2 cos t + e (m - <m>), (sp(p) + sp(q) s)^2) at each point, of least CRPS + L |theta - theta_all|^2",
		Doc:     "Local, seasonal bias and local spread, shrunk towards the fit for all points. The penalty L is chosen by leaving years out. Needs at least eight dates.",
		Source:  "doi:10.1175/MWR2904.1", Predictors: MomentPredictors, Family: dist.Normal,
		Fit:   func(s *Set) (Fit, error) { return fitted(FitGridEMOS(s, GridEMOSOptions{})) },
		Empty: func() Fit { return &GridEMOS{} }, File: "emos",
	},
}, regressionMethods(true), []*Method{
	{
		ID: "emos_csg", Name: "EMOS for all points, censored shifted gamma",
		Formula: "gamma of mean a + b m and variance c + d m, shifted left by 0 <= q <= mean y and censored at 0, one a, b, c, d, q for all points and dates, of least area-weighted CRPS",
		Doc:     "For precipitation. Some 100 microseconds a case: for stations and small areas.",
		Source:  "doi:10.1002/env.2391", Predictors: MomentPredictors, Family: dist.CSGamma,
		Fit:   func(s *Set) (Fit, error) { return fitted(FitGammaEMOS(s)) },
		Empty: func() Fit { return &GammaEMOS{} },
	},
	{
		ID: "samos", Name: "EMOS of standardised anomalies",
		Formula: "N(y0 + sy (a + b (m - m0)/sm), (sy exp(c + d log(s/sm)))^2), one a, b, c, d for all points; y0, sy and m0, sm: climatology of analyses and of ensemble means",
		Doc:     "Local, seasonal bias from one fit for all points. Needs dates of a whole year.",
		Source:  "doi:10.1002/qj.2975", Predictors: MomentPredictors, Family: dist.Normal,
		Fit:   func(s *Set) (Fit, error) { return fitted(FitSAMOS(s)) },
		Empty: func() Fit { return newSAMOS() },
	},
}, regressionMethods(false), []*Method{
	{
		ID: "mbm", Name: "members corrected one by one, by moments",
		Formula: "x_i' = a + b m + t (x_i - m) at each point; a, b by least squares, t^2 = mean (a + b m - y)^2 / ((1 + 1/M) mean s^2)",
		Doc:     "Members keep order and patterns and get the right mean spread.",
		Source:  "doi:10.1002/qj.2397", Predictors: MemberPredictors,
		Fit:   func(s *Set) (Fit, error) { return fitted(FitMembersByPoint(s, FitMemberMoments)) },
		Empty: func() Fit { return &MembersByPoint{} },
	},
	{
		ID: "mbm_crps", Name: "members corrected one by one, by CRPS",
		Formula: "x_i' = a + b m + t (x_i - m), t >= 0, at each point, of least plain CRPS: a linear program, solved exactly",
		Doc:     "As mbm, more robust to outliers; milliseconds a point.",
		Source:  "doi:10.1002/qj.2397", Predictors: MemberPredictors,
		Fit: func(s *Set) (Fit, error) {
			return fitted(FitMembersByPoint(s, func(x, y []float64) (MemberByMember, error) { return FitMemberCRPS(x, y, dist.Plain) }))
		},
		Empty: func() Fit { return &MembersByPoint{} },
	},
	{
		ID: "quantile_map", Name: "quantile mapping",
		Formula: "x_i' = Q_y(F_x(x_i)) at each point, between 50 quantiles, with the shift of the outermost beyond them",
		Doc:     "Gives members the climate of the analyses; ignores forecast skill. Needs 50 dates, of all seasons that it is used for.",
		Source:  "doi:10.1002/joc.1602", Predictors: MemberPredictors,
		Fit: func(s *Set) (Fit, error) {
			if _, err := s.members("quantile map"); err != nil {
				return nil, err
			}
			return fitted(FitQuantileMap(s.Members, s.Obs, s.Points(), mapLevels))
		},
		Empty: func() Fit { return &QuantileMap{Levels: mapLevels} },
	},
	{
		ID: "climatology", Name: "climatology",
		Formula: "N(c0 + c1 sin t + c2 cos t + c3 sin 2t + c4 cos 2t, s^2) at each point, by least squares",
		Doc:     "Local, seasonal normal distribution without any forecast. Needs dates of a whole year.",
		Source:  "doi:10.1016/C2017-0-03921-6, ch. 3", Predictors: NoPredictors, Family: dist.Normal,
		Fit:   func(s *Set) (Fit, error) { return fitted(FitClimatology(s)) },
		Empty: func() Fit { return &Climatology{} },
	},
})

// mapLevels is the number of quantiles of the method quantile_map.
const mapLevels = 50

// fitted makes a Fit of what a fit function gives, and nil of what failed.
func fitted[F Fit](f F, err error) (Fit, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

// MethodByID finds a method of the table, or nil.
func MethodByID(id string) *Method {
	i := slices.IndexFunc(Methods, func(m *Method) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return Methods[i]
}

// regressionMethods are the regressions of all families of location and scale, for all points
// or by point. That of the normal family for all points is emos.
func regressionMethods(pooled bool) []*Method {
	var out []*Method
	for _, m := range []struct {
		family *dist.Family
		doc    string
	}{
		{dist.Normal, "Independent fit at each point: needs many dates. Convex."},
		{dist.Logistic, "As the normal one with heavier tails. Convex."},
		{dist.TruncatedNormal, "For values above 0, seldom near it: wind speed."},
		{dist.TruncatedLogistic, "As the truncated normal one with heavier tails: gusts."},
		{dist.CensoredNormal, "For values often exactly 0: precipitation, best as its square root."},
		{dist.CensoredLogistic, "As the censored normal one with heavier tails."},
		{dist.LogNormal, "For skewed values above 0: wind speed. Cases with an ensemble mean below 0 are left out."},
	} {
		if pooled && m.family == dist.Normal {
			continue
		}
		o := RegressionOptions{Family: m.family, Pooled: pooled}
		source := "doi:10.32614/RJ-2016-012"
		id, name := "emos", "EMOS for all points"
		formula := m.family.Name + ", location a + b m, scale c + d s, c > 0, d >= 0"
		if hasMomentParameters(m.family) {
			source = "doi:10.1002/qj.2521"
			formula = m.family.Name + ", mean a + b m, standard deviation c + d s, a, c > 0, b, d >= 0"
		}
		where := ", one a, b, c, d for all points and dates, of least area-weighted CRPS"
		if !pooled {
			id, name, where = "emos_point", "EMOS by point", ", at each point, of least CRPS"
			if !hasMomentParameters(m.family) {
				o.Harmonics = Seasonal
				formula = m.family.Name + ", location a + b m + p sin t + q cos t, scale c + d s, c > 0, d >= 0"
				where += "; p = q = 0 if the dates are of one season"
			}
		}
		if m.family != dist.Normal {
			id += "_" + m.family.ID
		}
		out = append(out, &Method{
			ID: id, Name: name + ", " + m.family.Name, Formula: formula + where, Doc: m.doc,
			Source: source, Predictors: MomentPredictors, Family: m.family,
			Fit:   func(s *Set) (Fit, error) { return fitted(fitWithFallback(s, o)) },
			Empty: func() Fit { return &Regression{Family: o.Family, Link: LinearScale} },
		})
	}
	return out
}

// fitWithFallback is FitRegression, with the coefficients of all points where a point has no
// fit of its own.
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

// newParameterFields makes room for two parameters of each point.
func newParameterFields(points int) [][]float32 {
	return [][]float32{make([]float32, points), make([]float32, points)}
}

// Forecast gives mean and spread.
func (e *EMOS) Forecast(r Raw) [][]float32 {
	out := newParameterFields(len(r.Mean))
	e.Predict(out[0], out[1], r.Mean, r.Std)
	return out
}

// Arrays are none: all points have the same coefficients, which are in the JSON text.
func (e *EMOS) Arrays() []Array { return nil }

// Forecast gives mean and spread.
func (g *GridEMOS) Forecast(r Raw) [][]float32 {
	out := newParameterFields(len(r.Mean))
	g.Predict(out[0], out[1], r.Mean, r.Std, r.Valid)
	return out
}

// Arrays are coefficients and the mean forecast.
func (g *GridEMOS) Arrays() []Array {
	return []Array{{Name: "theta", Terms: gridTerms, Data: &g.Theta}, {Name: "mean", Terms: 1, Data: &g.MeanBar}}
}

// Forecast gives mean and spread.
func (c *Climatology) Forecast(r Raw) [][]float32 {
	out := newParameterFields(len(c.Sigma))
	c.Predict(out[0], out[1], r.Valid)
	return out
}

// Arrays are the cycle and the scatter about it.
func (c *Climatology) Arrays() []Array {
	return []Array{{Name: "cycle", Terms: harmonics, Data: &c.Cycle}, {Name: "sigma", Terms: 1, Data: &c.Sigma}}
}

// Forecast gives location and scale.
func (r *Regression) Forecast(raw Raw) [][]float32 {
	out := newParameterFields(len(raw.Mean))
	r.Predict(out[0], out[1], raw.Mean, raw.Std, raw.Valid)
	return out
}

// Arrays are the coefficients of location and scale.
func (r *Regression) Arrays() []Array {
	return []Array{{"location", r.locationTerms(), r.Pooled, &r.Location}, {"scale", scaleTerms, r.Pooled, &r.Scale}}
}

// Forecast gives members.
func (q *QuantileMap) Forecast(r Raw) [][]float32 {
	out := make([][]float32, len(r.Members))
	for m, x := range r.Members {
		out[m] = make([]float32, len(x))
		q.Predict(out[m], x)
	}
	return out
}

// Arrays are the quantiles of forecasts and observations.
func (q *QuantileMap) Arrays() []Array {
	return []Array{{Name: "from", Terms: q.Levels, Data: &q.From}, {Name: "to", Terms: q.Levels, Data: &q.To}}
}

// MembersByPoint is member by member with its own three numbers at every point. A point
// that cannot be fitted keeps its members as they are.
//
// Shape: ABT [point][A B T].
type MembersByPoint struct {
	ABT []float64 `json:"-"`
}

// FitMembersByPoint fits every point by a rule such as FitMemberMoments.
//
// Shape: Mean and Std are not looked at. Errors: shapes, a set without members, ErrNoCases
// if no point could be fitted.
func FitMembersByPoint(s *Set, rule func(x, y []float64) (MemberByMember, error)) (*MembersByPoint, error) {
	n := s.Points()
	members, err := s.members("member by member")
	if err != nil {
		return nil, err
	}
	b := &MembersByPoint{ABT: make([]float64, 3*n)}
	var fits atomic.Int64
	parallel(n, 16, func(_, lo, hi int) {
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
			} else {
				at = MemberByMember{0, 1, 1}
			}
			b.ABT[3*p], b.ABT[3*p+1], b.ABT[3*p+2] = at.A, at.B, at.T
		}
	})
	if fits.Load() == 0 {
		return nil, fmt.Errorf("member by member: no point has three complete dates with means that change: %w", ErrNoCases)
	}
	return b, nil
}

// Forecast gives members.
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

// Arrays are A, B and T.
func (b *MembersByPoint) Arrays() []Array { return []Array{{Name: "abt", Terms: 3, Data: &b.ABT}} }
