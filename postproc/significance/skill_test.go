package significance

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Exchanging the systems exchanges the ends of the interval: limits 1 − r become 1 − 1/r.
func TestSkillOfExchangedSystems(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	rows, exchanged := scoresOf(r, 40, 0.5, 0), make([][]float64, 40)
	for i, row := range rows {
		exchanged[i] = []float64{row[1], row[0]}
	}
	ratio := func(s []float64) float64 { return s[0] / s[1] }
	value, low, high, err := Bootstrap{}.SkillOverSeeds([][][]float64{rows}, ratio)
	other, least, most, err2 := Bootstrap{}.SkillOverSeeds([][][]float64{exchanged}, ratio)
	if err != nil || err2 != nil || !(low < value && value < high && high < 1) {
		t.Fatalf("%g from %g to %g, %v, %v", value, low, high, err, err2)
	}
	for _, c := range [][2]float64{{value, other}, {low, most}, {high, least}} {
		if math.Abs((1-c[0])*(1-c[1])-1) > 0.01 { // quantiles of both ends are interpolated
			t.Errorf("%g to %g, exchanged %g to %g", low, high, least, most)
		}
	}
}

// Why there is no interval: too few dates, a score of 0, and an interval that is too wide.
func TestReasonsForNoInterval(t *testing.T) {
	of := func(n int, ratio func(i int) float64) Reason {
		b, err := Bootstrap{}.Resolved(n)
		if err != nil {
			t.Fatal(err)
		}
		without := make([]float64, n)
		var sum float64
		for i := range n {
			sum += ratio(i)
		}
		for i := range n {
			without[i] = (sum - ratio(i)) / float64(n-1)
		}
		b = b.WithMemory(n, nil)
		values := []float64{sum / float64(n)}
		for _, times := range b.Draws(n) {
			var v float64
			for i, c := range times {
				v += float64(c) * ratio(i) / float64(n)
			}
			values = append(values, v)
		}
		e := b.EstimateSkill(values, without)
		if (e.NoInterval == "") == (math.IsNaN(e.Low) || math.IsNaN(e.High)) || e.NoInterval == TooWide && !(e.Independent < 4 && e.Lag1 > 0.5) {
			t.Errorf("%d dates: %+v", n, e)
		}
		return e.NoInterval
	}
	for _, c := range []struct {
		n     int
		ratio func(i int) float64
		want  Reason
	}{
		{40, func(i int) float64 { return 1 + 0.1*float64(i*i%7) }, ""},
		{MinDates - 1, func(i int) float64 { return 1 + 0.1*float64(i*i%7) }, FewDates},
		{20, func(i int) float64 { return float64(i / 19) }, Undefined},             // 0 in resamples without the last date
		{20, func(i int) float64 { return math.Exp(0.4 * float64(i-10)) }, TooWide}, // a trend
	} {
		if got := of(c.n, c.ratio); got != c.want {
			t.Errorf("%d dates: %q, want %q", c.n, got, c.want)
		}
	}
}

// TestPValueOfSkill: the p-value is below 5 % where the interval of 95 % does not contain 0, at that rate without a
// difference, and falls with the difference.
func TestPValueOfSkill(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	ratio := func(s []float64) float64 { return s[0] / s[1] }
	draw := func(n int, gain float64) [][][]float64 {
		rows := make([][]float64, n)
		for i := range rows {
			rows[i] = []float64{10 - gain + r.NormFloat64(), 10 + r.NormFloat64()}
		}
		return [][][]float64{rows}
	}
	const trials = 200
	small := 0
	for range trials {
		rows := draw(40, 0)
		p, err := Bootstrap{}.PValueOfSkill(rows, ratio)
		_, low, high, errInterval := Bootstrap{}.SkillOverSeeds(rows, ratio)
		if err != nil || errInterval != nil {
			t.Fatal(err, errInterval)
		}
		if !(p > 0 && p <= 1) || (p < 0.0495) && !(low > 0 || high < 0) || (p > 0.0505) && (low > 0 || high < 0) {
			t.Errorf("p %g, interval %g to %g", p, low, high)
		}
		if p < 0.05 {
			small++
		}
	}
	if small < 3 || small > 20 {
		t.Errorf("%d of %d p-values are below 5 %%", small, trials)
	}
	some, _ := Bootstrap{}.PValueOfSkill(draw(40, 0.6), ratio)
	clear, _ := Bootstrap{}.PValueOfSkill(draw(40, 5), ratio)
	if clear != 1.0/2000 || !(some < 0.2 && some > clear) {
		t.Errorf("p %g and %g of a small and a large difference", some, clear)
	}
	few, err := Bootstrap{}.PValueOfSkill(draw(MinDates-1, 5), ratio)
	if err != nil || !math.IsNaN(few) {
		t.Errorf("p %g of few dates, %v", few, err)
	}
}
