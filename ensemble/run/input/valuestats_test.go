package input

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Values that are normal at a single point or on a dry day are not faults there, but are in a complete field.
func TestFewPointsAndDryDays(t *testing.T) {
	rain := func(points int, drop float32) []float32 {
		x := make([]float32, points)
		x[0], x[1] = drop, drop/2
		return x
	}
	wet := func(points int, of float32) []float32 {
		x := make([]float32, points)
		for i := range x {
			x[i] = of + float32(i)
		}
		return x
	}
	filled := func(points int, v float32) []float32 { return slices.Repeat([]float32{v}, points) }
	for _, c := range []struct {
		name     string
		variable string
		days     [][]float32
		want     string // of the first fault; "" for none but warnings
	}{
		{"drops on two days", "tp", [][]float32{rain(40, 0.02), wet(40, 5), wet(40, 7), rain(40, 0.02)}, ""},
		{"one wet day twice", "tp", [][]float32{wet(40, 6), wet(40, 5), wet(40, 7), wet(40, 6)}, "has the values of initialisation"},
		{"a station", "2t", [][]float32{{280}, {281}, {282}, {280}}, ""},
		{"five stations", "2t", [][]float32{wet(5, 280), wet(5, 281), wet(5, 0.1), wet(5, 280)}, "outside"},
		{"five stations twice", "2t", [][]float32{wet(5, 280), wet(5, 281), wet(5, 280)}, ""},
		{"a constant field", "2t", [][]float32{wet(40, 280), filled(40, 281), wet(40, 282)}, "with the same value at all points"},
	} {
		v, _ := ensemble.VariableNamed(c.variable)
		var entries []ensemble.Entry
		for day := range c.days {
			at := ensemble.Init{Time: time.Date(2000, 1, 1+day, 0, 0, 0, 0, time.UTC)}
			entries = append(entries, ensemble.Entry{Key: ensemble.Key{Variable: c.variable, Level: v.Level, Init: at, Lead: ensemble.Lead(24 * time.Hour)}, Kind: &ensemble.Kind{Unit: v.Unit}})
		}
		all := NewValueStats(entries)
		for i, x := range c.days {
			all.Add(i, x)
		}
		faults := all.Faults()
		bad := slices.IndexFunc(faults, func(f Fault) bool { return f.Code != exit.OK })
		switch {
		case c.want == "" && bad >= 0:
			t.Errorf("%s: %s", c.name, faults[bad].What)
		case c.want != "" && (len(faults) == 0 || !strings.Contains(faults[0].What, c.want)):
			t.Errorf("%s: %v, want %q", c.name, faults, c.want)
		}
	}
}
