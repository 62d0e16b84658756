package significance

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// weeksOf returns weekly pairs with a mean skill score of 0.2, an annual cycle, noise, and a change per year.
func weeksOf(n int, perYear, noise float64, r *rand.Rand) []PairedDate {
	out := make([]PairedDate, n)
	for i := range out {
		t := float64(7*i) / daysInYear
		gain := 0.2 + perYear*(t-float64(7*(n-1))/daysInYear/2) + 0.1*math.Cos(2*math.Pi*t+1)
		// The reference is constant, so that the skill score of a date is its gain.
		out[i] = PairedDate{Time: time.Date(2000, 1, 1+7*i, 0, 0, 0, 0, time.UTC), Weight: 3, Score: 2 * (1 - gain - noise*r.NormFloat64()), Reference: 2}
	}
	return out
}

// Without noise the trend is found exactly, whatever the annual cycle; a linear fit would see the cycle.
func TestTrendIsExact(t *testing.T) {
	for _, want := range []float64{0, 0.03, -0.05} {
		dates := weeksOf(130, want, 0, rand.New(rand.NewPCG(1, 2)))
		got, low, high, err := Bootstrap{}.SkillTrend([][]PairedDate{dates})
		if err != nil || math.Abs(got-want) > 1e-9 || math.Abs(low-want) > 1e-9 || math.Abs(high-want) > 1e-9 {
			t.Errorf("%g to %g: %g, %v, want %g", low, high, got, err, want)
		}
		for i := range dates { // weights and units do not matter
			dates[i].Weight *= 5
			dates[i].Score, dates[i].Reference = 9.80665*dates[i].Score, 9.80665*dates[i].Reference
		}
		if scaled, _, _, err := (Bootstrap{}).SkillTrend([][]PairedDate{dates}); err != nil || math.Abs(scaled-want) > 1e-9 {
			t.Errorf("scaled: %g, %v, want %g", scaled, err, want)
		}
	}
}

// The interval contains 0 at about its level if there is no trend, and excludes 0 if there is a clear one.
func TestTrendInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	false0, found := 0, 0
	const series = 60
	for range series {
		for _, c := range []struct {
			perYear float64
			count   *int
		}{{0, &false0}, {0.06, &found}} {
			_, low, high, err := Bootstrap{Resamples: 400}.SkillTrend([][]PairedDate{weeksOf(156, c.perYear, 0.1, r)})
			if err != nil {
				t.Fatal(err)
			}
			if low > 0 || high < 0 {
				*c.count++
			}
		}
	}
	// 5 % of 60 are 3; the standard error of a change per year is 0.1/√156/0.87 = 0.0092, of which 0.06 are more than six.
	if false0 > 8 || found < series-1 {
		t.Errorf("of %d series %d without trend and %d with one are significant", series, false0, found)
	}
}

func TestTrendOfFewDates(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	if v, low, high, err := (Bootstrap{}).SkillTrend([][]PairedDate{weeksOf(78, 0.1, 0, r)}); err != nil || v == v || low == low || high == high {
		t.Errorf("of a year and a half: %g, %g to %g, %v", v, low, high, err)
	}
	once := weeksOf(130, 0.1, 0, r) // one date of each year determines no cycle
	if v, _, _, err := (Bootstrap{}).SkillTrend([][]PairedDate{{once[0], once[52], once[104]}}); err != nil || v == v {
		t.Errorf("of three dates: %g, %v", v, err)
	}
	if _, _, _, err := (Bootstrap{}).SkillTrend(nil); err == nil {
		t.Error("no dates")
	}
	if _, _, _, err := (Bootstrap{}).SkillScore(nil); err == nil {
		t.Error("a skill score of no dates")
	}
}

// The pooled skill score is that of the means, not the mean of the dates' skill scores.
func TestSkillScoreOfDates(t *testing.T) {
	dates := []PairedDate{{Weight: 1, Score: 1, Reference: 2}, {Weight: 3, Score: 1, Reference: 1}}
	v, low, _, err := Bootstrap{}.SkillScore([][]PairedDate{dates})
	if want := 1 - (1+3.)/(2+3.); err != nil || math.Abs(v-want) > 1e-15 || low == low {
		t.Errorf("%g from %g, %v, want %g", v, low, err, want)
	}
}
