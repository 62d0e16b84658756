package input

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Absurd values of a variable outside the vocabulary are found by their distance from members and other times, in
// whatever unit. Seasons, storms that the members agree on, wet days of a dry climate, and trends are no faults.
func TestOutliers(t *testing.T) {
	type field = []float32
	smooth := func(day, member, p int, r *rand.Rand) float64 {
		return 280 + 10*math.Sin(float64(p)) + 12*math.Sin(float64(day)/6) + r.NormFloat64()
	}
	rain := func(wet float64) func(day, member, p int, r *rand.Rand) float64 {
		return func(day, member, p int, r *rand.Rand) float64 {
			if p == 0 || r.Float64() > wet {
				return 0
			}
			return math.Exp(3 * r.NormFloat64())
		}
	}
	set := func(value float64, members ...int) func(x [][]field) {
		return func(x [][]field) {
			for _, m := range members {
				x[5][m][7] = float32(value)
			}
		}
	}
	for _, c := range []struct {
		name   string
		value  func(day, member, p int, r *rand.Rand) float64
		days   int
		damage func(x [][]field)
		want   string // of the fault that ends a training; "" for none
	}{
		{"sound", smooth, 40, nil, ""},
		{"sound for one day", smooth, 1, nil, ""},
		{"1e30", smooth, 40, set(1e30, 0), "in 1 of 200 fields: the first has 1e+30; other members and times have 25"},
		{"-1e30", smooth, 40, set(-1e30, 3), "the first has -1e+30"},
		{"a number that a temperature could not be", smooth, 40, set(2000, 2), "in 1 of 200 fields"},
		{"two members", smooth, 40, set(1e6, 1, 2), "in 2 of 200 fields"},
		{"all members of a day", smooth, 40, set(1e6, 0, 1, 2, 3, 4), "in 5 of 200 fields"},
		{"a member of the only day", smooth, 6, func(x [][]field) { x[5][1][3] = 1e9 }, "in 1 of 30 fields"},
		{"a fifth of the days in another unit", smooth, 40, func(x [][]field) {
			for d := range 8 {
				for m := range x[d] {
					for p := range x[d][m] {
						x[d][m][p] *= 1000
					}
				}
			}
		}, "in 40 of 200 fields"},
		{"tiny values", func(day, m, p int, r *rand.Rand) float64 { return 1e-30 * smooth(day, m, p, r) }, 40, set(1, 0), "the first has 1; "},
		{"a storm in most members", smooth, 40, set(1500, 0, 1, 3), ""},
		{"rain", rain(0.5), 40, nil, ""},
		{"rain of a dry climate", rain(0.002), 400, nil, ""},
		{"no rain but on one day", rain(0), 40, set(30, 1), ""},
		{"rain and 1e30", rain(0.5), 40, set(1e30, 1), "in 1 of 200 fields"},
		{"the same value everywhere", func(int, int, int, *rand.Rand) float64 { return 7 }, 40, nil, ""},
		{"missing values", func(day, m, p int, r *rand.Rand) float64 {
			if p%3 == 0 {
				return math.NaN()
			}
			return smooth(day, m, p, r)
		}, 40, set(1e20, 4), "in 1 of 200 fields"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			x := make([][]field, c.days)
			var entries []ensemble.Entry
			for d := range x {
				for m := range 5 {
					f := make(field, 40)
					for p := range f {
						f[p] = float32(c.value(d, m, p, r))
					}
					x[d] = append(x[d], f)
					entries = append(entries, ensemble.Entry{Key: ensemble.Key{Variable: "foo", Level: ensemble.PressureLevel(850), Init: ensemble.Init{Time: time.Date(2000, 1, 1+d, 0, 0, 0, 0, time.UTC)},
						Lead: ensemble.Lead(24 * time.Hour), Member: ensemble.Member(m)}, Kind: &ensemble.Kind{Unit: "1"}})
				}
			}
			if c.damage != nil {
				c.damage(x)
			}
			all := NewValueStats(entries)
			for i := range entries {
				all.Add(i, x[i/5][i%5])
			}
			var texts []string
			for _, f := range all.Faults() {
				if f.Kind == FaultImplausible && f.Code == exit.BadData {
					texts = append(texts, fmt.Sprintf("%s: %s", f.What, f.Why))
				}
			}
			if text := strings.Join(texts, "\n"); (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
				t.Errorf("%q, want %q", text, c.want)
			}
		})
	}
}
