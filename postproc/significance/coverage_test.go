package significance

import (
	"math"
	"math/rand/v2"
	"testing"
)

// simulated is a function of sums over dates, of series whose dates depend on each other like an autoregressive series,
// with its true value.
type simulated struct {
	name  string
	of    func(sums []float64) float64
	want  float64
	skill bool // of is a ratio, want the skill score
}

// factor is the true ratio of the two scores.
const factor = 0.8

// simulations are the kinds of values whose intervals are tested. The sums of a date are the scores of two systems, and 1.
var simulations = []simulated{
	{"mean", func(s []float64) float64 { return s[0] / s[2] }, factor, false},
	{"paired difference", func(s []float64) float64 { return (s[1] - s[0]) / s[2] }, 1 - factor, false},
	{"ratio", func(s []float64) float64 { return math.Sqrt(s[0] / s[1]) }, math.Sqrt(factor), false},
	{"skill score", func(s []float64) float64 { return s[0] / s[1] }, 1 - factor, true},
}

// interval is that of the value of sums over dates.
func (s *simulated) interval(b Bootstrap, rows [][]float64) (low, high float64, err error) {
	if s.skill {
		_, low, high, err = b.SkillOverSeeds([][][]float64{rows}, s.of)
	} else {
		_, low, high, err = b.Interval(rows, s.of)
	}
	return low, high, err
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
// of 0.7 between the systems; the true means are factor and 1. trend is the change of the logarithm of their ratio from
// the first to the last date, which leaves that of the mean unchanged.
func scoresOf(r *rand.Rand, n int, rho, trend float64) [][]float64 {
	const width = 0.4
	both, one, other := autoregressive(r, n, rho), autoregressive(r, n, rho), autoregressive(r, n, rho)
	rows := make([][]float64, n)
	for i := range rows {
		score := func(own float64) float64 {
			return math.Exp(width*(math.Sqrt(0.7)*both[i]+math.Sqrt(0.3)*own) - width*width/2)
		}
		change := math.Exp(trend * (float64(i)/float64(n-1) - 0.5))
		rows[i] = []float64{factor * score(one[i]) * change, score(other[i]), 1}
	}
	return rows
}

// covered is how often intervals contain the true value, of those that are not withheld, and how often they are.
type covered struct{ share, withheld float64 }

// coverage measures intervals by kind, and how often Diebold and Mariano's test rejects a true difference at 5 %.
func coverage(t *testing.T, n, trials int, rho float64) (of []covered, alarms float64) {
	r := rand.New(rand.NewPCG(uint64(n), math.Float64bits(rho)))
	of = make([]covered, len(simulations))
	for k := range trials {
		rows := scoresOf(r, n, rho, 0)
		for i, s := range simulations {
			low, high, err := s.interval(Bootstrap{Resamples: 300, Seed: uint64(k)}, rows)
			if err != nil {
				t.Error(err)
			}
			if math.IsNaN(low) {
				of[i].withheld++
			} else if low <= s.want && s.want <= high {
				of[i].share++
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
	for i := range of {
		of[i].share /= float64(trials) - of[i].withheld
		of[i].withheld /= float64(trials)
	}
	return of, alarms
}

// The intervals of correlated dates are as wide as they should be. The sampling error of 300
// trials is 1.3 %.
func TestIntervalsOfCorrelatedDates(t *testing.T) {
	for _, rho := range []float64{0, 0.8} {
		of, alarms := coverage(t, 60, 300, rho)
		for i, s := range simulations {
			if of[i].share < 0.90 || of[i].withheld > 0.1 {
				t.Errorf("60 dates, correlation %g: coverage of a %s %.3f, withheld %.3f", rho, s.name, of[i].share, of[i].withheld)
			}
		}
		if alarms > 0.09 {
			t.Errorf("60 dates, correlation %g: false alarms %.3f", rho, alarms)
		}
	}
}

// A trend over 20 dates cannot be told from memory that lasts longer than they do. Intervals are wide then, but
// bounded, and an interval of the skill score that would state nothing is withheld. The trend is the change of the
// logarithm of the ratio of scores: 2 is a factor of 7.
func TestIntervalsOfATrend(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 1))
	const trials = 200
	for _, trend := range []float64{0.5, 1, 2, 4, 8} {
		of, widest := make([]covered, len(simulations)), 0.0
		for k := range trials {
			rows := scoresOf(r, 20, 0, trend)
			for i, s := range simulations {
				low, high, err := s.interval(Bootstrap{Resamples: 300, Seed: uint64(k)}, rows)
				switch {
				case err != nil:
					t.Fatal(err)
				case math.IsNaN(low):
					of[i].withheld += 1. / trials
				case s.skill:
					widest = max(widest, high-low)
				}
			}
		}
		if withheld := of[len(of)-1].withheld; of[0].withheld > 0 || widest > 4 || (withheld > 0.9) != (trend >= 2) {
			t.Errorf("trend %g: withheld %+v, widest skill score interval %.2f", trend, of, widest)
		}
		t.Logf("trend %g: %.0f %% of skill scores withheld, widest interval %.2f", trend, 100*of[len(of)-1].withheld, widest)
	}
}
