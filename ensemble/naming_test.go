package ensemble

import (
	"testing"
	"time"
)

// TestNamingScope: a key of the scope of the files has precedence, one of another scope does not count.
func TestNamingScope(t *testing.T) {
	n := Naming{Units: map[string]string{"x": "K", "analyses:x": "degC", "forecasts:y": "Pa"}}
	for _, c := range []struct{ scope, name, want string }{{ForecastFiles, "x", "K"}, {AnalysisFiles, "x", "degC"}, {"", "x", "K"}, {ForecastFiles, "y", "Pa"}, {AnalysisFiles, "y", ""}, {"", "y", ""}} {
		in := n.In(c.scope)
		if got, _, _ := Find(in, in.Units, "group/"+c.name, c.name); got != c.want {
			t.Errorf("%s in %q: %q, want %q", c.name, c.scope, got, c.want)
		}
	}
	if both := (Naming{Units: map[string]string{"x": "Pa"}}).Over(n); both.Units["x"] != "Pa" || both.Units["forecasts:y"] != "Pa" || n.Units["x"] != "K" {
		t.Errorf("%v over %v", both, n)
	}
}

// TestLeadOf: the longest pattern that matches the end of a path states the lead; analyses have none.
func TestLeadOf(t *testing.T) {
	hours := func(h int) Lead { return Lead(time.Duration(h) * time.Hour) }
	n := Naming{Leads: map[string]Lead{"*": hours(6), "*_024h.nc": hours(24), "late/*.nc": hours(48)}}
	for _, c := range []struct {
		scope, file string
		want        Lead
	}{{"", "a/b.nc", hours(6)}, {ForecastFiles, "a/t_024h.nc", hours(24)}, {"", "x/late/b.nc", hours(48)}, {"", "late/t_024h.nc", hours(24)}, {"", "later/b.nc", hours(6)}, {AnalysisFiles, "b.nc", 0}} {
		if got, _, ok := n.In(c.scope).LeadOf(c.file); got != c.want || ok != (c.scope != AnalysisFiles) {
			t.Errorf("%s of %q: %s, %v, want %s", c.file, c.scope, got, ok, c.want)
		}
	}
	if both := (Naming{Leads: map[string]Lead{"*": hours(12)}}).Over(n); both.Leads["*"] != hours(12) || len(both.Leads) != 3 || n.Leads["*"] != hours(6) || both.IsZero() {
		t.Errorf("%v over %v", both, n)
	}
}
