package ensemble

import (
	"math"
	"testing"
)

// Heights of the 1976 standard atmosphere by its printed tables.
func TestStandardHeight(t *testing.T) {
	for _, c := range []struct{ hPa, height float64 }{{1013.25, 0}, {850, 1457}, {500, 5574}, {250, 10363}, {100, 16180}, {10, 31055}, {1, 47820}, {0.010525, 79006}} {
		if got := StandardHeight(100 * c.hPa); math.Abs(got-c.height) > 15+2e-3*c.height {
			t.Errorf("%g hPa: %.0f m, want %.0f", c.hPa, got, c.height)
		}
	}
}

// Every variable has a range, which holds usual values and none of a usual mistake.
func TestPlausible(t *testing.T) {
	usual := map[string][2]float64{"t": {190, 310}, "gh": {5000, 5900}, "z": {49_000, 58_000}, "u": {-60, 80}, "v": {-60, 60}, "w": {-10, 10}, "q": {0, 0.02}, "r": {0, 105},
		"d": {-1e-3, 1e-3}, "vo": {-1e-3, 1e-3}, "2t": {200, 320}, "2d": {190, 303}, "10u": {-50, 50}, "10v": {-50, 50}, "10si": {0, 60}, "10fg": {0, 80},
		"msl": {92_000, 106_000}, "sp": {50_000, 105_000}, "skt": {200, 345}, "tp": {0, 500},
		"cp": {0, 300}, "sst": {271, 307}, "tcw": {0, 90}, "tcwv": {0, 85}, "tcc": {0, 1}, "sund": {0, 60_000}}
	for _, v := range Variables {
		l := v.Level
		if v.OnManyLevels() {
			l = PressureLevel(500)
		}
		r, ok := v.Plausible(l)
		u := usual[v.Name]
		if !ok || u == [2]float64{} || !r.Contains(u[0]) || !r.Contains(u[1]) {
			t.Errorf("%s: range %v, %v; usual values %v", v.Name, r, ok, u)
		}
		if _, wrong := v.GuessUnit(l, u[0], u[1]); wrong {
			t.Errorf("%s: usual values %v are taken for a mistake", v.Name, u)
		}
		if v.Evolves(l) == v.IsPrescribed() || v.IsPrescribed() != (v.Name == "sst") {
			t.Errorf("%s at %s: evolves %v, prescribed %v", v.Name, l, v.Evolves(l), v.IsPrescribed())
		}
	}
	for name, reach := range ranges {
		if v, ok := VariableNamed(name); !ok || !(reach.Min < reach.Max) {
			t.Errorf("%q: range %v of %+v", name, reach, v)
		}
	}
	for _, c := range []struct {
		name   string
		level  Level
		lo, hi float64
		want   string
	}{
		{"t", PressureLevel(850), -30, 35, "degC"},
		{"2t", Level{Kind: HeightAboveSoil, Value: 2}, -40, 45, "degC"},
		{"gh", PressureLevel(500), 490, 592, "dam"},
		{"gh", PressureLevel(500), 49_000, 58_000, "m2 s-2 (geopotential)"},
		{"z", PressureLevel(500), 4900, 5900, "m (height)"},
		{"msl", Level{Kind: MeanSea}, 950, 1050, "hPa"},
		{"q", PressureLevel(850), 0.1, 18, "g kg-1"},
		{"u", PressureLevel(850), -4000, 3000, ""},
		{"t", PressureLevel(850), 250, 290, ""},
	} {
		v, _ := VariableNamed(c.name)
		if m, ok := v.GuessUnit(c.level, c.lo, c.hi); m.Unit != c.want || ok != (c.want != "") {
			t.Errorf("%s from %g to %g: %q, want %q", c.name, c.lo, c.hi, m.Unit, c.want)
		}
	}
	if v, _ := VariableNamed("z"); v.Evolves(Level{Kind: Surface}) {
		t.Error("the geopotential of the ground is said to evolve")
	}
	if (Range{0, 1}).Contains(math.NaN()) {
		t.Error("NaN lies in a range")
	}
}

// TestImplausible: values that no model has lie outside the range of each variable, on both sides. A limit that is several times too
// wide contains one of them.
func TestImplausible(t *testing.T) {
	for name, beyond := range map[string][2]float64{"t": {90, 360}, "u": {-300, 300}, "v": {-300, 300}, "w": {-200, 200}, "q": {-0.01, 0.08}, "r": {-40, 250}, "d": {-0.1, 0.1},
		"vo": {-0.1, 0.1}, "2t": {150, 360}, "2d": {110, 340}, "10u": {-200, 200}, "10v": {-200, 200}, "10si": {-2, 200}, "10fg": {-2, 250}, "msl": {80_000, 115_000}, "sp": {25_000, 120_000},
		"skt": {130, 450}, "tp": {-1, 12_000}, "cp": {-1, 12_000}, "sst": {260, 330}, "tcw": {-2, 200}, "tcwv": {-2, 200}, "tcc": {-0.1, 1.1}, "sund": {-100, 33 * 86400}} {
		v, _ := VariableNamed(name)
		if r, ok := v.Plausible(PressureLevel(500)); !ok || r.Contains(beyond[0]) || r.Contains(beyond[1]) {
			t.Errorf("%s: range %v, %v; it must not contain %v", name, r, ok, beyond)
		}
	}
	for hPa, beyond := range map[float64][2]float64{1000: {-1500, 1500}, 850: {-400, 3100}, 500: {2900, 8300}, 200: {7500, 16_100}, 10: {21_900, 40_200}} {
		for name, unit := range map[string]float64{"gh": 1, "z": StandardGravity} {
			v, _ := VariableNamed(name)
			if r, ok := v.Plausible(PressureLevel(hPa)); !ok || r.Contains(beyond[0]*unit) || r.Contains(beyond[1]*unit) {
				t.Errorf("%s at %v hPa: range %v, %v; it must not contain %v m", name, hPa, r, ok, beyond)
			}
		}
	}
}
