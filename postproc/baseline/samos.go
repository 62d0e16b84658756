package baseline

import (
	"fmt"
	"math"
	"time"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// SAMOS is EMOS of standardised anomalies, with one set of coefficients for all points and
// seasons. With μ and σ the climatology of the analyses (o) and of the ensemble mean (f) at
// the point and season:
//
//	mu = μ_o + σ_o ( a + b (m − μ_f)/σ_f ),  sigma = σ_o exp( c + d log(s/σ_f) )
//
// Source: Dabernig, Mayr, Messner and Zeileis 2017, doi:10.1002/qj.2975.
type SAMOS struct {
	Obs            *Climatology `json:"-"`                // climatology of the analyses
	Mean           *Climatology `json:"-"`                // climatology of the ensemble mean
	Regression     *Regression  `json:"regression"`       // of standardised anomalies, pooled
	MinSpreadRatio float64      `json:"min_spread_ratio"` // least s/σ_f, since 0 has no logarithm
}

// Warning is that of the climatology.
func (b *SAMOS) Warning() string { return b.Obs.Warning() }

// FitSAMOS fits both climatologies, and the coefficients of least weighted mean CRPS.
//
// Missing: a point without a climatology has NaN. Errors: as FitClimatology.
// Memory: three fields per date in addition to the set.
func FitSAMOS(s *Set) (*SAMOS, error) {
	if err := s.check("samos", true); err != nil {
		return nil, err
	}
	b := &SAMOS{}
	var err error
	if b.Obs, err = FitClimatology(s); err != nil {
		return nil, fmt.Errorf("samos: %w", err)
	}
	if b.Mean, err = FitClimatology(&Set{Valid: s.Valid, Obs: s.Mean, Space: s.Space, Watch: s.Watch}); err != nil {
		return nil, fmt.Errorf("samos: %w", err)
	}
	n := s.Points()
	a, err := s.newSet(s.Valid)
	if err != nil {
		return nil, fmt.Errorf("samos: %w", err)
	}
	defer a.Close()
	field := func() []float32 { return make([]float32, n) }
	climMean, climStd, mean, std, obs := field(), field(), field(), field(), field()
	var sum, count float64 // of the standardised spread
	for i, t := range s.Valid {
		row := func(x []float32) []float32 { return x[i*n : (i+1)*n] }
		b.Obs.Predict(climMean, climStd, t)
		standardise(obs, row(s.Obs), climMean, climStd)
		b.anomalies(mean, std, row(s.Mean), row(s.Std), t)
		for _, v := range std {
			if v == v {
				sum += float64(v)
				count++
			}
		}
		if err := a.put(i, mean, std, obs); err != nil {
			return nil, fmt.Errorf("samos: %w", err)
		}
		s.Space.Read(3 * 4 * int64(n))
	}
	b.MinSpreadRatio = minSpread * sum / count
	b.Regression, err = FitRegression(a, RegressionOptions{Link: LogScale, Pooled: true})
	if err != nil {
		return nil, fmt.Errorf("samos: %w", err)
	}
	return b, nil
}

// standardise fills dst with (x − climMean)/climStd; NaN where climStd is 0.
func standardise(dst, x, climMean, climStd []float32) {
	for p, v := range x {
		if dst[p] = (v - climMean[p]) / climStd[p]; climStd[p] == 0 {
			dst[p] = float32(math.NaN())
		}
	}
}

// anomalies fills mean and spread of the standardised ensemble of a date:
//
//	(m − μ_f)/σ_f,   s/σ_f
func (b *SAMOS) anomalies(mean, std, m, s []float32, valid time.Time) {
	climMean, climStd := make([]float32, len(m)), make([]float32, len(m))
	b.Mean.Predict(climMean, climStd, valid)
	standardise(mean, m, climMean, climStd)
	clear(climMean) // a spread is divided by σ_f only
	standardise(std, s, climMean, climStd)
}

// Forecast returns mean and standard deviation.
func (b *SAMOS) Forecast(r Raw) [][]float32 {
	n := len(r.Mean)
	mean, std, climMean, climStd := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	b.anomalies(mean, std, r.Mean, r.Std, r.Valid)
	for p, v := range std {
		std[p] = max(v, float32(b.MinSpreadRatio))
	}
	out := newParameterFields(n)
	b.Regression.Predict(out[0], out[1], mean, std, r.Valid)
	b.Obs.Predict(climMean, climStd, r.Valid)
	for p := range n {
		out[0][p] = climMean[p] + climStd[p]*out[0][p]
		out[1][p] *= climStd[p]
	}
	return out
}

// Arrays returns the arrays of both climatologies and of the regression.
func (b *SAMOS) Arrays() []Array {
	var out []Array
	for _, c := range []struct {
		name string
		of   *Climatology
	}{{"obs_", b.Obs}, {"mean_", b.Mean}} {
		for _, a := range c.of.Arrays() {
			a.Name = c.name + a.Name
			out = append(out, a)
		}
	}
	return append(out, b.Regression.Arrays()...)
}

// newSAMOS returns a SAMOS into which arrays can be read.
func newSAMOS() *SAMOS {
	return &SAMOS{Obs: &Climatology{}, Mean: &Climatology{}, Regression: &Regression{Family: dist.Normal, Link: LogScale, Pooled: true}}
}
