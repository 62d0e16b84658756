package grib

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// surfaces returns section 4 of edition 2 with two fixed surfaces: type, scale factor
// and scaled value of each.
func surfaces(first, factor int, value uint32, second, factor2 int, value2 uint32) Octets {
	o := make(Octets, 34)
	o[22], o[23], o[28], o[29] = byte(first), byte(factor), byte(second), byte(factor2)
	binary.BigEndian.PutUint32(o[24:], value)
	binary.BigEndian.PutUint32(o[30:], value2)
	return o
}

// TestLevels: both editions have the same levels, with both bounds of layers as
// decimals.
func TestLevels(t *testing.T) {
	const none = math.MaxUint32
	height, depth, other := ensemble.HeightAboveSoil, ensemble.DepthBelowLand, ensemble.OtherLevel
	for _, c := range []struct {
		name  string
		two   Octets
		one   [3]byte // type and octets 11 and 12 of edition 1; 0 without
		want  ensemble.Level
		codes string // of edition 2
	}{
		{"surface", surfaces(1, 255, none, 255, 255, none), [3]byte{1}, ensemble.Level{}, ""},
		{"pressure", surfaces(100, 0, 85000, 255, 255, none), [3]byte{100, 850 >> 8, 850 & 255}, ensemble.PressureLevel(850), "surface100"},
		{"half a hPa", surfaces(100, 0, 50, 255, 255, none), [3]byte{}, ensemble.PressureLevel(0.5), "surface100"},
		{"1.5 m", surfaces(103, 1, 15, 255, 255, none), [3]byte{}, ensemble.Level{Kind: height, Value: 1.5}, "surface103"},
		{"2 m", surfaces(103, 0, 2, 255, 255, none), [3]byte{105, 0, 2}, ensemble.Level{Kind: height, Value: 2}, "surface103"},
		{"cm of height", surfaces(103, 1, 15, 255, 255, none), [3]byte{125, 0, 150}, ensemble.Level{Kind: height, Value: 1.5}, "surface103"},
		{"top layer of the soil", surfaces(106, 0, 0, 106, 1, 1), [3]byte{112, 0, 10}, ensemble.Layer(depth, 0, 0.1), "surface106"},
		{"soil from the surface", surfaces(1, 255, none, 106, 1, 1), [3]byte{}, ensemble.Layer(depth, 0, 0.1), "surface106"},
		{"7 to 28 cm", surfaces(106, 2, 7, 106, 2, 28), [3]byte{112, 7, 28}, ensemble.Layer(depth, 0.07, 0.28), "surface106"},
		{"depth", surfaces(106, 2, 5, 255, 255, none), [3]byte{111, 0, 5}, ensemble.Level{Kind: depth, Value: 0.05}, "surface106"},
		{"layer of heights, the upper first", surfaces(103, 0, 3000, 103, 0, 0), [3]byte{106, 30, 0}, ensemble.Layer(height, 0, 3000), "surface103"},
		{"layer of pressures", surfaces(100, 0, 85000, 100, 0, 50000), [3]byte{101, 85, 50}, ensemble.Layer(ensemble.Pressure, 50000, 85000), "surface100"},
		{"sigma", surfaces(104, 3, 995, 255, 255, none), [3]byte{}, ensemble.Level{Kind: other, Value: 0.995}, "surface104"},
		{"hybrid level", surfaces(105, 0, 137, 255, 255, none), [3]byte{109, 0, 137}, ensemble.Level{Kind: other, Value: 137}, "surface105"},
		{"whole column", surfaces(1, 255, none, 8, 255, none), [3]byte{}, ensemble.Level{Kind: other}, "surface1-8"},
		{"layer of sigma", surfaces(104, 2, 44, 104, 2, 72), [3]byte{108, 44, 72}, ensemble.Layer(other, 0.44, 0.72), "surface104"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &Field{}
			f.level2(c.two, 0)
			if f.Level != c.want || f.LevelType != c.codes || f.LevelReason != "" {
				t.Errorf("edition 2: %+v %q %q, want %+v %q", f.Level, f.LevelType, f.LevelReason, c.want, c.codes)
			}
			if c.one[0] == 0 {
				return
			}
			o := make(Octets, 28)
			copy(o[9:], c.one[:])
			g := &Field{}
			g.level1(o)
			if c.want.Kind == other { // its values are those of the octets
				g.Level, c.want = ensemble.Level{Kind: g.Level.Kind, IsLayer: g.Level.IsLayer}, ensemble.Level{Kind: other, IsLayer: c.want.IsLayer}
			}
			if g.Level != c.want {
				t.Errorf("edition 1: %+v, want %+v", g.Level, c.want)
			}
		})
	}
	f := &Field{}
	if f.level2(surfaces(100, 255, none, 255, 255, none), 0); f.LevelReason == "" {
		t.Error("a pressure level without a value is not refused")
	}
}
