package ensemble

import "testing"

// TestParseVariableAt: variables with and without level, and their text.
func TestParseVariableAt(t *testing.T) {
	for s, want := range map[string]string{"t@850hPa": "t@850hPa", "2t": "2t", "t2m": "2t", "own.name": "own.name", "sot@depth0.1-0.4m": "sot@depth0.1-0.4m", "2t@1.5m": "2t@1.5m", "tp": "tp",
		"t850": "t@850hPa", "z500": "z@500hPa", "u10": "10u", "10u": "10u", "t0": "t0", "msl850": "msl850", "own850": "own850"} {
		v, err := ParseVariableAt(s)
		if err != nil || v.String() != want {
			t.Errorf("%s: %s, %v; want %s", s, v, err, want)
		}
		if again, err := ParseVariableAt(v.String()); err != nil || again != v {
			t.Errorf("%s is printed as %s: %+v, %v", s, v, again, err)
		}
	}
	for _, s := range []string{"", "t 850", "t@", "t@850", "@850hPa", "2t@850hPa", "tp@single", "msl@2m"} {
		if v, err := ParseVariableAt(s); err == nil {
			t.Errorf("%q is %s", s, v)
		}
	}
}

// TestMatches: a name without a level means all levels; SingleLevel is the level of the variable.
func TestMatches(t *testing.T) {
	for _, c := range []struct {
		name, variable string
		level          Level
		want           bool
	}{{"t850", "t", PressureLevel(850), true}, {"t850", "t", PressureLevel(500), false}, {"t", "t", PressureLevel(500), true}, {"t", "gh", PressureLevel(500), false},
		{"2t@2m", "2t", SingleLevel, true}, {"2t", "2t", SingleLevel, true}} {
		v, err := ParseVariableAt(c.name)
		if err != nil || v.Matches(c.variable, c.level) != c.want {
			t.Errorf("%s for %s at %s: %v, want %v, %v", c.name, c.variable, c.level, !c.want, c.want, err)
		}
	}
}
