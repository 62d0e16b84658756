package baseline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/simd"
)

// Link says how the scale of a Regression follows the spread S.
type Link string

// The links. The linear one makes the mean CRPS of a normal or a logistic
// distribution convex: what is found then is the only minimum.
const (
	LinearScale    Link = "linear"    // scale = C + D·S,  C > 0, D ≥ 0
	QuadraticScale Link = "quadratic" // scale² = C + D·S²,  C > 0, D ≥ 0
	LogScale       Link = "log"       // log scale = C + D·log S
)

const (
	maxHarmonics = 2
	// Seasonal asks for one harmonic if the dates determine it, else for none.
	Seasonal   = -1
	scaleTerms = 2
	maxTerms   = simd.MaxTerms // level, ensemble mean, sines and cosines, two of the scale
	// minSpread is the part of a point's mean spread below which a spread is
	// taken to be: equal members have no logarithm of their spread.
	minSpread = 1e-3
)

// RegressionOptions steer FitRegression. The zero value is a normal distribution
// with a linear scale and no season.
type RegressionOptions struct {
	Family    *dist.Family // of location and scale; nil means dist.Normal
	Link      Link         // "" means LinearScale
	Harmonics int          // of the year in the location: 0, 1 (annual), 2 (semi-annual too) or Seasonal
	ScaleOnly bool         // the location is the ensemble mean itself, without a season
	Pooled    bool         // one set of coefficients for all points, by their weights
}

func (o *RegressionOptions) check() error {
	if o.Family == nil {
		o.Family = dist.Normal
	}
	if o.Link == "" {
		o.Link = LinearScale
	}
	if locationScaleCRPS(o.Family) == nil {
		return fmt.Errorf("regression: family %q is not one of location and scale", o.Family.ID)
	}
	switch o.Link {
	case LinearScale, QuadraticScale, LogScale:
	default:
		return fmt.Errorf("regression: link %q, want %s, %s or %s", o.Link, LinearScale, QuadraticScale, LogScale)
	}
	if o.ScaleOnly && o.Harmonics != 0 {
		return fmt.Errorf("regression: %d harmonics of a location that is not fitted", o.Harmonics)
	}
	if hasMomentParameters(o.Family) && (o.ScaleOnly || o.Harmonics > 0) {
		return fmt.Errorf("regression: a mean of family %q that is not fitted, or follows the season, may fall below 0", o.Family.ID)
	}
	if o.ScaleOnly && o.Pooled {
		return errors.New("regression: only a scale, and one for all points, is not made")
	}
	if o.Harmonics < Seasonal || o.Harmonics > maxHarmonics {
		return fmt.Errorf("regression: %d harmonics of the year, want 0 to %d", o.Harmonics, maxHarmonics)
	}
	return nil
}

// Regression is EMOS with coefficients of its own at every point. With m the
// ensemble mean, S the spread and τ the season's angle at the valid time:
//
//	location = A + B·m + Σ_h ( P_h sin hτ + Q_h cos hτ ),  scale = link(C, D; S)
//
// Location and scale are the first and second parameter of the family, those of
// the parent where it is cut at 0; of a log-normal distribution its mean and standard
// deviation, with A > 0, B ≥ 0 and no season, of cases whose ensemble mean is not below 0.
//
// Shape: Location [point][A B P₁ Q₁ …], Scale [point][C D]; Steps [point]; one point if
// Pooled.
// Unit: A, P, Q that of the variable; C that, its square or the logarithm.
// Missing: a point with fewer than twice as many complete cases as coefficients,
// with an ensemble mean that never changes, or with no spread at all, has NaN.
// Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1; Messner, Mayr and Zeileis
// 2016, doi:10.32614/RJ-2016-012, for links and cut families.
type Regression struct {
	Family    *dist.Family `json:"-"`
	Link      Link         `json:"link"`
	Harmonics int          `json:"harmonics"`
	Pooled    bool         `json:"pooled"`
	Location  []float64    `json:"-"`
	Scale     []float64    `json:"-"`
	Steps     []int        `json:"-"` // Newton steps that the fit took; 0 where there is none
}

// FitRegression finds at every point the coefficients of least mean CRPS.
//
// Newton steps with the exact curvature are damped until they lower the score, and
// kept within the bounds of the link; a fit ends where the next step promises less
// than 1e-13 of the scatter, or after one that promised less than 1e-9. So no fit is worse
// on its own cases than its start, the least-squares line with one scale for all dates.
//
// Points are fitted in groups on all processors; weights of points play no part unless
// Pooled.
//
// Errors: shapes, options, ErrNoCases if no point could be fitted.
func FitRegression(s *Set, o RegressionOptions) (*Regression, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := s.check("regression", true); err != nil {
		return nil, err
	}
	if o.Harmonics == Seasonal {
		o.Harmonics = 0
		if coversSeasons(s.Valid) && !hasMomentParameters(o.Family) {
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
	// One fitter for each run of groups bounds what is allocated.
	const run = 16 * lanes
	parallel(n, run, func(_, lo, hi int) {
		f := newFitter(r, len(s.Valid), season)
		f.scaleOnly = o.ScaleOnly
		for p := lo; p < hi; p += lanes {
			f.fit(s, p, min(hi, p+lanes))
		}
	})
	if !slices.ContainsFunc(r.Scale, func(c float64) bool { return c == c }) {
		return nil, fmt.Errorf("regression: no point has %d complete cases, with means that change and with spread: %w", 2*(r.locationTerms()+scaleTerms), ErrNoCases)
	}
	return r, nil
}

func (r *Regression) locationTerms() int { return 2 + 2*r.Harmonics }

// Predict fills location and scale of the forecast distribution at a valid time.
//
// Shape: all [point]. Missing: NaN gives NaN.
func (r *Regression) Predict(location, scale, mean, std []float32, valid time.Time) {
	season := seasonTable([]time.Time{valid}, r.Harmonics)
	k := r.locationTerms()
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
		if hasMomentParameters(r.Family) {
			mu, sigma = dist.LogNormalFromMoments(mu, sigma)
		}
		location[p], scale[p] = float32(mu), float32(sigma)
	}
}

// coversSeasons says whether dates determine an annual sine and cosine beside a mean: those
// of half a year do (condition number 20), those of a quarter do not (400).
func coversSeasons(valid []time.Time) bool {
	normal := mat.NewSymDense(3, nil)
	for _, t := range valid {
		terms := seasonTerms(t)
		normal.SymRankOne(normal, 1, mat.NewVecDense(3, terms[:3]))
	}
	var ch mat.Cholesky
	return ch.Factorize(normal) && ch.Cond() < 100
}

// seasonTable holds sin τ, cos τ, sin 2τ, … of every date.
//
// Shape: [date][2·harmonics].
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
