package baseline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/simd"
)

// Link is the function that relates the scale of a Regression to the spread S.
type Link string

// The links. With the linear one the mean CRPS of a normal or logistic distribution is
// convex, so the minimum is unique.
const (
	LinearScale    Link = "linear"    // scale = C + D·S,  C > 0, D ≥ 0
	QuadraticScale Link = "quadratic" // scale² = C + D·S²,  C > 0, D ≥ 0
	LogScale       Link = "log"       // log scale = C + D·log S

	softplusScale Link = "softplus" // scale = sp(C) + sp(D)·S, of GridEMOS
)

const (
	maxHarmonics = 2
	// Seasonal selects one harmonic if the dates determine it, otherwise none.
	Seasonal   = -1
	scaleTerms = 2
	maxTerms   = simd.MaxTerms // constant, ensemble mean, sines and cosines, two of the scale
	// minSpread is the least spread relative to the mean spread of a point: identical
	// members have no logarithm of their spread.
	minSpread = 1e-3
)

// RegressionOptions configure FitRegression. The zero value is a normal distribution with a
// linear scale and no season.
type RegressionOptions struct {
	Family    *dist.Family // a location-scale family; nil: dist.Normal
	Link      Link         // "": LinearScale
	Harmonics int          // seasonal harmonics of the location: 0, 1 (annual), 2 (also semi-annual) or Seasonal
	ScaleOnly bool         // fix the location at the ensemble mean
	Pooled    bool         // fit one set of coefficients for all points, with their weights
}

// check sets defaults and returns the first invalid option.
func (o *RegressionOptions) check() error {
	if o.Family == nil {
		o.Family = dist.Normal
	}
	if o.Link == "" {
		o.Link = LinearScale
	}
	row := regressionFamilyOf(o.Family)
	if row == nil {
		return fmt.Errorf("regression: family %q is not a location-scale family", o.Family.ID)
	}
	switch o.Link {
	case LinearScale, QuadraticScale, LogScale:
	default:
		return fmt.Errorf("regression: link %q, want %s, %s or %s", o.Link, LinearScale, QuadraticScale, LogScale)
	}
	if o.ScaleOnly && o.Harmonics != 0 {
		return fmt.Errorf("regression: %d harmonics, but the location is not fitted (ScaleOnly)", o.Harmonics)
	}
	if row.moments && (o.ScaleOnly || o.Harmonics > 0) {
		return fmt.Errorf("regression: family %q: ScaleOnly and Harmonics are not possible, since its mean could be negative", o.Family.ID)
	}
	if o.ScaleOnly && o.Pooled {
		return errors.New("regression: ScaleOnly and Pooled cannot be combined")
	}
	if o.Harmonics < Seasonal || o.Harmonics > maxHarmonics {
		return fmt.Errorf("regression: %d harmonics of the year, want 0 to %d", o.Harmonics, maxHarmonics)
	}
	return nil
}

// Regression is EMOS with coefficients at every point (or one set if Pooled). With m the
// ensemble mean, S the spread and τ the phase of the year at the valid time:
//
//	location = A + B·m + Σ_h ( P_h sin hτ + Q_h cos hτ ),  scale = link(C, D; S)
//
// Location and scale are the first two parameters of the family; for distributions
// truncated or censored at 0 those of the parent; for the log-normal distribution its mean
// and standard deviation, with A > 0, B ≥ 0, no season, and only cases with a non-negative
// ensemble mean.
//
// Shape: Location [point][A B P₁ Q₁ …], Scale [point][C D]; Steps [point]; one point if
// Pooled.
// Unit: A, P, Q that of the variable; C that, its square or the logarithm, by the link.
// Missing: NaN at a point with fewer than twice as many complete cases as coefficients,
// with a constant ensemble mean, without spread, or whose dates do not determine a season.
// Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1; Messner, Mayr and Zeileis
// 2016, doi:10.32614/RJ-2016-012, for links and truncated and censored families.
type Regression struct {
	Family    *dist.Family `json:"-"`
	Link      Link         `json:"link"`
	Harmonics int          `json:"harmonics"`
	Pooled    bool         `json:"pooled"`
	Location  []float64    `json:"-"`
	Scale     []float64    `json:"-"`
	Steps     []int        `json:"-"` // Newton steps of the fit; 0: no fit
}

// FitRegression finds at every point the coefficients of least mean CRPS.
//
// It uses damped Newton steps with exact second derivatives, within the bounds of the
// link. A fit ends when the predicted decrease is less than 1e-13 in units of the residual
// standard deviation, or after a step that predicted less than 1e-9. The result is
// therefore never worse, on the training cases, than the initial coefficients: the
// least-squares line with a constant scale.
//
// Points are fitted in groups on all processors. The weights of points are used only if
// Pooled.
//
// Errors: wrong shapes, invalid options, ErrNoCases if no point could be fitted.
func FitRegression(s *Set, o RegressionOptions) (*Regression, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := s.check("regression", true); err != nil {
		return nil, err
	}
	if o.Harmonics == Seasonal {
		o.Harmonics = 0
		if coversSeasons(s.Valid) && !regressionFamilyOf(o.Family).moments {
			o.Harmonics = 1
		}
	}
	n := s.Points()
	if o.Pooled {
		n = 1
	}
	r := &Regression{Family: o.Family, Link: o.Link, Harmonics: o.Harmonics, Pooled: o.Pooled, Scale: make([]float64, scaleTerms*n), Steps: make([]int, n)}
	r.Location = make([]float64, r.locationTerms()*n)
	season := seasonTable(s.Valid, o.Harmonics)
	if o.Pooled {
		return r, r.fitPooled(s, season)
	}
	incomplete := make([]bool, n)
	// One fitter per run of groups bounds the allocated memory.
	s.each(s.points("points", groupRun, 3), func(_, lo, hi int) {
		f := newFitter(r, len(s.Valid), season)
		f.scaleOnly = o.ScaleOnly
		for p := lo; p < hi; p += lanes {
			end := min(hi, p+lanes)
			f.fit(s, p, end)
			for l := range end - p {
				incomplete[p+l] = int(f.group.cases[l]) < len(s.Valid)
			}
		}
	})
	if r.Harmonics > 0 {
		r.dropUndetermined(s, incomplete)
	}
	if !slices.ContainsFunc(r.Scale, func(c float64) bool { return c == c }) {
		return nil, fmt.Errorf("regression: no point has %d complete cases with a varying ensemble mean and with spread: %w", 2*(r.locationTerms()+scaleTerms), ErrNoCases)
	}
	return r, nil
}

// dropUndetermined removes the coefficients of the incomplete points whose complete dates do not determine a seasonal
// cycle.
func (r *Regression) dropUndetermined(s *Set, incomplete []bool) {
	n, k := s.Points(), r.locationTerms()
	s.each(s.points("points with missing values", 64, 3), func(_, lo, hi int) {
		for p := lo; p < hi; p++ {
			if !incomplete[p] {
				continue
			}
			var complete []time.Time
			for i, t := range s.Valid {
				if x := s.Mean[i*n+p] + s.Std[i*n+p] + s.Obs[i*n+p]; x == x {
					complete = append(complete, t)
				}
			}
			if coversSeasons(complete) {
				continue
			}
			for i := range k {
				r.Location[p*k+i] = math.NaN()
			}
			for i := range scaleTerms {
				r.Scale[p*scaleTerms+i] = math.NaN()
			}
		}
	})
}

// locationTerms is the number of coefficients of the location.
func (r *Regression) locationTerms() int { return 2 + 2*r.Harmonics }

// Predict fills location and scale of the forecast at a valid time.
//
// Shape: all [point]. Missing: NaN gives NaN.
func (r *Regression) Predict(location, scale, mean, std []float32, valid time.Time) {
	season := seasonTable([]time.Time{valid}, r.Harmonics)
	k, moments := r.locationTerms(), r.row().moments
	for p := range mean {
		at := p
		if r.Pooled {
			at = 0
		}
		a, c := r.Location[at*k:(at+1)*k], r.Scale[at*scaleTerms:]
		mu := a[0] + a[1]*float64(mean[p])
		for h, f := range season {
			mu += a[2+h] * f
		}
		sd := float64(std[p])
		var sigma float64
		switch r.Link {
		case LinearScale:
			sigma = c[0] + c[1]*sd
		case QuadraticScale:
			sigma = math.Sqrt(c[0] + c[1]*sd*sd)
		case LogScale:
			sigma = math.Exp(c[0] + c[1]*math.Log(sd))
		}
		if moments {
			mu, sigma = dist.LogNormalFromMoments(mu, sigma)
		}
		location[p], scale[p] = float32(mu), float32(sigma)
	}
}

// coversSeasons reports whether dates determine an annual cycle in addition to the mean.
func coversSeasons(valid []time.Time) bool {
	terms := make([][harmonics]float64, len(valid))
	for i, t := range valid {
		terms[i] = seasonTerms(t)
	}
	_, err := determineCycle(terms, annual, nil)
	return err == nil
}

// seasonTable returns sin τ, cos τ, sin 2τ, cos 2τ, … of every date, for count harmonics.
//
// Shape: [date][2·count].
func seasonTable(valid []time.Time, count int) []float64 {
	out := make([]float64, 0, 2*count*len(valid))
	for _, t := range valid {
		for h := range count {
			sin, cos := math.Sincos(float64(h+1) * ensemble.SeasonAngle(t))
			out = append(out, sin, cos)
		}
	}
	return out
}
