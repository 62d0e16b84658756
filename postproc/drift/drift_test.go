package drift

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// weather makes fields of one variable: a climate that depends on place and season, waves of the day and
// members around them.
type weather struct {
	grid *ensemble.Grid
	rng  *rand.Rand
}

func newWeather(seed uint64) *weather {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 48, NY: 25}
	for j := range g.NY {
		g.Lat = append(g.Lat, 90-7.5*float64(j))
	}
	for i := range g.NX {
		g.Lon = append(g.Lon, 7.5*float64(i))
	}
	return &weather{g, rand.New(rand.NewPCG(seed, 1))}
}

// day gives mean and spread over the members of one day.
func (w *weather) day(t time.Time) (mean, std []float32) {
	mean, std = make([]float32, w.grid.Size()), make([]float32, w.grid.Size())
	sin, cos := math.Sincos(ensemble.SeasonAngle(t))
	var size, turn [8]float64
	for k := range size {
		size[k], turn[k] = 2*w.rng.NormFloat64(), w.rng.Float64()*2*math.Pi
	}
	spread := math.Exp(0.1 * w.rng.NormFloat64())
	for j := range w.grid.NY {
		lat := w.grid.Lat[j] * math.Pi / 180
		for i := range w.grid.NX {
			lon := w.grid.Lon[i] * math.Pi / 180
			climate := 300 - 45*math.Sin(lat)*math.Sin(lat) + 20*math.Sin(lat) - 10*math.Sin(lat)*cos + sin
			wave := 0.1 * size[0]
			for k := range size {
				wave += math.Cos(lat) * size[k] * math.Sin(float64(k+1)*lon+float64(k%3)*2*lat+turn[k])
			}
			mean[j*w.grid.NX+i] = float32(climate + wave)
			std[j*w.grid.NX+i] = float32(spread * (1 + 0.3*math.Abs(lat)))
		}
	}
	return mean, std
}

func (w *weather) fit(t *testing.T, b *Boxes, n, every int) Field {
	t.Helper()
	var starts []Summary
	var valid []time.Time
	for i := range n {
		day := time.Date(2001, 1, 1+i*every, 0, 0, 0, 0, time.UTC)
		starts, valid = append(starts, b.Summarise(w.day(day))), append(valid, day)
	}
	f, err := Fit(b, starts, valid)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Inits from the training climate have small drift scores; injected faults have large ones, of the right component.
func TestDistances(t *testing.T) {
	w := newWeather(1)
	b := NewBoxes(w.grid)
	if b.Len() != maxRows*maxColumns {
		t.Fatalf("%d boxes", b.Len())
	}
	f := w.fit(t, b, 150, 5)
	const limit = 6
	flip := func(x []float32) []float32 {
		out := make([]float32, len(x))
		for j := range w.grid.NY {
			copy(out[j*w.grid.NX:], x[(w.grid.NY-1-j)*w.grid.NX:][:w.grid.NX])
		}
		return out
	}
	scaled := func(x []float32, by, shift float32) []float32 {
		out := make([]float32, len(x))
		for p := range x {
			out[p] = by*x[p] + shift
		}
		return out
	}
	for _, c := range []struct {
		name, of string // the number that must be beyond the limit; "" for none
		change   func(mean, std []float32) ([]float32, []float32)
	}{
		{"as it was", "", func(m, s []float32) ([]float32, []float32) { return m, s }},
		{"degrees Celsius", "mean", func(m, s []float32) ([]float32, []float32) { return scaled(m, 1, -273.15), s }},
		{"a bias of 3 K", "mean", func(m, s []float32) ([]float32, []float32) { return scaled(m, 1, 3), s }},
		{"rows from the south", "pattern", func(m, s []float32) ([]float32, []float32) { return flip(m), flip(s) }},
		{"members that are too similar", "spread", func(m, s []float32) ([]float32, []float32) { return m, scaled(s, 0.3, 0) }},
		{"no spread", "spread", func(m, s []float32) ([]float32, []float32) { return m, scaled(s, 0, 0) }},
		{"spread as variance", "spread", func(m, s []float32) ([]float32, []float32) { return m, scaled(s, 3, 0) }},
		{"half a year late", "pattern", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := range 40 {
				day := time.Date(2004, 1, 3+i*9, 0, 0, 0, 0, time.UTC)
				valid := day
				var m, s []float32
				if c.change == nil {
					day = time.Date(2004, 1, 10, 0, 0, 0, 0, time.UTC)
					valid = time.Date(2004, 7, 10, 0, 0, 0, 0, time.UTC)
					m, s = w.day(day)
				} else {
					m, s = c.change(w.day(day))
				}
				d := f.Distance(b, b.Summarise(m, s), valid)
				size, what := d.Largest()
				switch by := map[string]float64{"mean": d.Mean, "pattern": d.Pattern, "spread": d.Spread}; {
				case c.of == "" && size > limit:
					t.Fatalf("%s: %s %.1f", day, what, size)
				case c.of != "" && !(math.Abs(by[c.of]) > limit):
					t.Fatalf("%s: %+v", day, d)
				}
			}
		})
	}
}

// For normal numbers without season the distances of new inits are standard normal, up to the
// sampling error of few training inits.
func TestFewStarts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, n := range []int{MinInits, 20, 200} {
		var squares float64
		const trials = 400
		for range trials {
			values := make([]float64, n)
			phases := make([][3]float64, n)
			for i := range values {
				values[i] = 5e4 + 3*rng.NormFloat64()
				phases[i] = [3]float64{1}
			}
			s, _ := fitSeasonalCycle(1, phases, values)
			d := (5e4 + 3*rng.NormFloat64() - s.at([3]float64{1})) / s.SD
			squares += d * d / trials
		}
		// The square of Student's t with few degrees of freedom has a mean above 1.
		if sd := math.Sqrt(squares); sd < 0.85 || sd > 1.25 {
			t.Errorf("%d starts: distances have a standard deviation of %.2f", n, sd)
		}
	}
}

// A season is found only where the year is covered, and exactly where there is nothing else.
func TestSeason(t *testing.T) {
	var year, winter []time.Time
	for i := range 24 {
		year = append(year, time.Date(2001, 1, 1+15*i, 0, 0, 0, 0, time.UTC))
		winter = append(winter, time.Date(2001+i/4, 1, 1+20*(i%4), 0, 0, 0, 0, time.UTC))
	}
	if !coversYear(year) || coversYear(winter) || coversYear(year[:14]) || !coversYear(year[:20]) {
		t.Error("parts of the year")
	}
	want := SeasonalCycle{Coefficients: [3]float64{5, -2, 3}}
	phases, values := make([][3]float64, len(year)), make([]float64, len(year))
	for i, d := range year {
		phases[i], values[i] = phase(d), want.At(d)
	}
	got, held := fitSeasonalCycle(3, phases, values)
	for k := range want.Coefficients {
		if math.Abs(got.Coefficients[k]-want.Coefficients[k]) > 1e-9 || math.Abs(held[k]) > 1e-9 {
			t.Errorf("coefficient %d: %g, residual %g", k, got.Coefficients[k], held[k])
		}
	}
}

// Points and fields without values are left out, and lists of points and grids smaller than the boxes have boxes too.
func TestMissing(t *testing.T) {
	w := newWeather(5)
	b := NewBoxes(w.grid)
	mean, std := w.day(time.Date(2001, 5, 1, 0, 0, 0, 0, time.UTC))
	nan := float32(math.NaN())
	whole := b.Summarise(mean, std)
	for p := range mean {
		if b.boxOf[p] == 7 {
			mean[p], std[p] = nan, nan
		}
	}
	part := b.Summarise(mean, std)
	if part.Pattern[7] == part.Pattern[7] || part.Pattern[8] != whole.Pattern[8] || math.IsNaN(part.Mean) || part.Mean == whole.Mean {
		t.Errorf("%+v", part)
	}
	f := w.fit(t, b, 60, 6)
	if d := f.Distance(b, part, time.Date(2001, 5, 1, 0, 0, 0, 0, time.UTC)); math.IsNaN(d.Pattern) || math.Abs(d.Pattern) > 6 {
		t.Errorf("%+v", d)
	}
	one := f.Distance(b, b.Summarise(mean, make32(len(mean), nan)), time.Date(2001, 5, 1, 0, 0, 0, 0, time.UTC))
	if one.Spread != 0 {
		t.Errorf("the spread of one member is %g off", one.Spread)
	}
	if _, err := Fit(b, make([]Summary, MinInits-1), make([]time.Time, MinInits-1)); err == nil {
		t.Error("too few starts are fitted")
	}
	if n := NewBoxes(&ensemble.Grid{Kind: ensemble.Points, NX: 5, NY: 1, Lat: make([]float64, 5), Lon: make([]float64, 5)}).Len(); n != 5 {
		t.Errorf("%d boxes of 5 points", n)
	}
}

func make32(n int, x float32) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = x
	}
	return out
}

// Dry days, on which all members are equal, are part of the climate of rain and no drift; they do not hide a spread that is
// too large. Of temperature, equal members are a drift.
func TestEqualMembers(t *testing.T) {
	w := newWeather(5)
	b := NewBoxes(w.grid)
	var inits []Summary
	var valid []time.Time
	for i := range 120 {
		day := time.Date(2001, 1, 1+3*i, 0, 0, 0, 0, time.UTC)
		s := b.Summarise(w.day(day))
		if i%10 == 3 {
			s.Spread = math.Log(minSpread)
		}
		inits, valid = append(inits, s), append(valid, day)
	}
	f, err := Fit(b, inits, valid)
	if err != nil {
		t.Fatal(err)
	}
	if d := f.Distance(b, inits[3], valid[3]); math.Abs(d.Spread) > 6 {
		t.Errorf("a dry day: %.1f standard deviations", d.Spread)
	}
	wide := inits[4]
	wide.Spread += math.Log(10000)
	if d := f.Distance(b, wide, valid[4]); d.Spread < 6 {
		t.Errorf("ten thousand times the spread: %.1f standard deviations", d.Spread)
	}
	all := w.fit(t, b, 60, 5)
	day := time.Date(2002, 3, 1, 0, 0, 0, 0, time.UTC)
	s := b.Summarise(w.day(day))
	s.Spread = math.Log(minSpread)
	d := all.Distance(b, s, day)
	if want := "all members of t are equal: no spread (" + fmt.Sprintf("%.1f", math.Abs(d.Spread)) + " standard deviations)"; d.Describe("t", "K") != want {
		t.Errorf("%q, want %q", d.Describe("t", "K"), want)
	}
}

// TestDescribe: a drift is stated in the unit of the variable, or as a ratio of spreads.
func TestDescribe(t *testing.T) {
	cycle := func(mean, sd float64) SeasonalCycle {
		return SeasonalCycle{Coefficients: [3]float64{mean}, SD: sd}
	}
	f := &Field{Mean: cycle(280, 0.5), Spread: cycle(math.Log(1.5), 0.1), LeastSpread: math.Log(0.015), Departure: [2]float64{0, 1}}
	valid := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for want, s := range map[string]Summary{
		"mean t is 8.0 K above what training saw (16.0 standard deviations)":            {Mean: 288, Spread: math.Log(1.5)},
		"mean t is 2.5 K below what training saw (5.0 standard deviations)":             {Mean: 277.5, Spread: math.Log(1.5)},
		"spread of t is 2 times what training saw (6.9 standard deviations)":            {Mean: 280, Spread: math.Log(3)},
		"spread of t is 0.333 times what training saw (11.0 standard deviations)":       {Mean: 280, Spread: math.Log(0.5)},
		"mean t is 1000000.0 K above what training saw (1000000.0 standard deviations)": {Mean: 1000280, Spread: math.NaN()},
		"spread of t is 2.72 times what training saw (10.0 standard deviations)":        {Mean: math.NaN(), Spread: math.Log(1.5) + 1},
	} {
		d := f.Distance(&Boxes{}, s, valid)
		if math.IsNaN(d.Pattern) || d.Pattern != 0 {
			d.Pattern = 0 // no boxes
		}
		if got := d.Describe("t", "K"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
