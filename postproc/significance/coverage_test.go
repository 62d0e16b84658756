package significance

import (
	"math"
	"math/rand/v2"
	"testing"
)

// simulated is a function of sums over dates, of series whose dates depend on each other like an autoregressive series,
// with its true value.
type simulated struct {
	name string
	of   func(sums []float64) float64
	want float64
}

// factor is the true ratio of the two scores.
const factor = 0.8

// simulations are the kinds of values whose intervals are tested. The sums of a date are the scores of two systems, and 1.
var simulations = []simulated{
	{"mean", func(s []float64) float64 { return s[0] / s[2] }, factor},
	{"paired difference", func(s []float64) float64 { return (s[1] - s[0]) / s[2] }, 1 - factor},
	{"ratio", func(s []float64) float64 { return math.Sqrt(s[0] / s[1]) }, math.Sqrt(factor)},
	{"skill score", func(s []float64) float64 { return 1 - s[0]/s[1] }, 1 - factor},
}

// autoregressive is a series of unit variance with correlation rho of neighbours.
func autoregressive(r *rand.Rand, n int, rho float64) []float64 {
	x := []float64{r.NormFloat64()}
	for len(x) < n {
		x = append(x, rho*x[len(x)-1]+math.Sqrt(1-rho*rho)*r.NormFloat64())
	}
	return x
}

// scoresOf are the scores of two systems by date. They are log-normal, as scores of dates are about, with a correlation
// of 0.7 between the systems; the true means are factor and 1.
func scoresOf(r *rand.Rand, n int, rho float64) [][]float64 {
	const width = 0.4
	both, one, other := autoregressive(r, n, rho), autoregressive(r, n, rho), autoregressive(r, n, rho)
	rows := make([][]float64, n)
	for i := range rows {
		score := func(own float64) float64 {
			return math.Exp(width*(math.Sqrt(0.7)*both[i]+math.Sqrt(0.3)*own) - width*width/2)
		}
		rows[i] = []float64{factor * score(one[i]), score(other[i]), 1}
	}
	return rows
}

// coverage measures how often intervals contain the true value, by kind, and how often Diebold and Mariano's test
// rejects a true difference at 5 %.
func coverage(t *testing.T, n, trials int, rho float64) (share []float64, alarms float64) {
	r := rand.New(rand.NewPCG(uint64(n), math.Float64bits(rho)))
	share = make([]float64, len(simulations))
	for k := range trials {
		rows := scoresOf(r, n, rho)
		for i, s := range simulations {
			_, low, high, err := Bootstrap{Resamples: 300, Seed: uint64(k)}.Interval(rows, s.of)
			if err != nil {
				t.Fatal(err)
			}
			if low <= s.want && s.want <= high {
				share[i] += 1 / float64(trials)
			}
		}
		d := make([]float64, n)
		for i, row := range rows {
			d[i] = row[1] - row[0] - (1 - factor)
		}
		if DieboldMariano(d, 0).P < 0.05 {
			alarms += 1 / float64(trials)
		}
	}
	return share, alarms
}

// The intervals of correlated dates are as wide as they should be. The sampling error of 300
// trials is 1.3 %.
func TestIntervalsOfCorrelatedDates(t *testing.T) {
	for _, rho := range []float64{0, 0.8} {
		share, alarms := coverage(t, 60, 300, rho)
		for i, s := range simulations {
			if share[i] < 0.90 {
				t.Errorf("60 dates, correlation %g: coverage of a %s %.3f", rho, s.name, share[i])
			}
		}
		if alarms > 0.09 {
			t.Errorf("60 dates, correlation %g: false alarms %.3f", rho, alarms)
		}
	}
}
