package rng

import (
	"math"
	"testing"
)

// TestSplitMix64 compares with the published stream of seed 1234567 (Vigna's
// reference program, prng.di.unimi.it/splitmix64.c).
func TestSplitMix64(t *testing.T) {
	want := []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821}
	for i, w := range want {
		if got := Bits(1234567, uint64(i)); got != w {
			t.Errorf("Bits(1234567, %d) = %d, want %d", i, got, w)
		}
	}
}

// TestMoments checks mean and variance of 10⁵ draws within five standard errors
// of the exact values.
func TestMoments(t *testing.T) {
	const n = 100000
	for _, c := range []struct {
		name       string
		draw       func(k, i uint64) float64
		mean, vari float64
		kurt       float64
	}{
		{"uniform", Uniform, 0.5, 1. / 12, 1.8},
		{"normal", Normal, 0, 1, 3},
	} {
		var s, ss float64
		key := Key(1, Hash(c.name))
		for i := range uint64(n) {
			v := c.draw(key, i) - c.mean
			s += v
			ss += v * v
		}
		if se := math.Sqrt(c.vari / n); math.Abs(s/n) > 5*se {
			t.Errorf("%s: mean is off by %g, five standard errors are %g", c.name, s/n, 5*se)
		}
		if se := c.vari * math.Sqrt((c.kurt-1)/n); math.Abs(ss/n-c.vari) > 5*se {
			t.Errorf("%s: variance %g, want %g ± %g", c.name, ss/n, c.vari, 5*se)
		}
	}
}

// TestKeyOrder verifies that all parts of a key and their order matter.
func TestKeyOrder(t *testing.T) {
	keys := map[uint64]string{}
	for name, k := range map[string]uint64{"1,2": Key(1, 2), "2,1": Key(2, 1), "1": Key(1), "2": Key(2), "1,2,0": Key(1, 2, 0)} {
		if other, ok := keys[k]; ok {
			t.Errorf("Key(%s) = Key(%s)", name, other)
		}
		keys[k] = name
	}
}
