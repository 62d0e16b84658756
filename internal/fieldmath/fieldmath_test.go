package fieldmath

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// sizes are below, at and beyond vectors and the pieces that kernels work in.
var sizes = []int{0, 1, 7, 8, 9, 255, 256, 257, 1000, 2048 + 13}

// noise has values of all sizes and, if asked for, some that are missing, infinite and
// zeros of both signs.
func noise(rng *rand.Rand, n int, odd bool) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * math.Pow(10, 6*rng.Float64()-3))
		if odd && rng.IntN(50) == 0 {
			x[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0, float32(math.Copysign(0, -1))}[rng.IntN(5)]
		}
	}
	return x
}

func sameBits(a, b []float32) error {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) && !(a[i] != a[i] && b[i] != b[i]) {
			return fmt.Errorf("point %d of %d: %v, want %v", i, len(a), a[i], b[i])
		}
	}
	return nil
}

// The kernels give the bits of the plain loops.
func TestKernels(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range sizes {
		for _, odd := range []bool{false, true} {
			for members := 1; members <= 6; members++ {
				x := make([][]float32, members)
				for m := range x {
					x[m] = noise(rng, n, odd)
				}
				for ddof := range min(members, 2) {
					got, want := [2][]float32{make([]float32, n), make([]float32, n)}, [2][]float32{make([]float32, n), make([]float32, n)}
					MeanStd(got[0], got[1], x, ddof)
					plainMeanStd(want[0], want[1], x, float64(members-ddof))
					for i, name := range []string{"mean", "std"} {
						if err := sameBits(got[i], want[i]); err != nil {
							t.Errorf("%s of %d members, ddof %d: %v", name, members, ddof, err)
						}
					}
				}
			}
			x, mean, scale := noise(rng, n, odd), make([]float64, n), make([]float64, n)
			for i := range mean {
				mean[i], scale[i] = rng.NormFloat64(), rng.Float64()
			}
			got, want := make([]float32, n), make([]float32, n)
			Standardise(got, x, mean, scale)
			plainStandardise(want, x, mean, scale)
			if err := sameBits(got, want); err != nil {
				t.Error("standardised: ", err)
			}
			Scale(got, x, 0.3)
			plainScale(want, x, 0.3)
			if err := sameBits(got, want); err != nil {
				t.Error("scaled: ", err)
			}
			have := TallyOf(x)
			var l [lanes]lane
			plain := Tally{Points: n, Min: math.Inf(1), Max: math.Inf(-1)}
			for k := range l {
				l[k] = lane{min: math.Inf(1), max: math.Inf(-1), hash: uint64(n + k)}
			}
			plainCount(&plain, &l, x)
			for _, x := range l {
				plain.Min, plain.Max, plain.Sum, plain.Squares = min(plain.Min, x.min), max(plain.Max, x.max), plain.Sum+x.sum, plain.Squares+x.squares
				plain.Hash = Mix(plain.Hash, x.hash)
			}
			if plain.Hash |= 1; have != plain {
				t.Errorf("tally of %d values: %+v, want %+v", n, have, plain)
			}
		}
	}
}

func TestTallyOf(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	x := slices.Repeat([]float32{1, -3, nan, inf, 2, 0, -inf, nan}, 40)
	got := TallyOf(x)
	got.Hash = 0
	if want := (Tally{Points: 320, Missing: 80, Infinite: 80, Min: -3, Max: 2, Sum: 0, Squares: 40 * 14}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	// Every place counts in the hash, and the order of values.
	for i := range x {
		y := slices.Clone(x)
		if y[i] = 7; TallyOf(y).Hash == TallyOf(x).Hash {
			t.Errorf("value %d is not in the hash", i)
		}
	}
	y := slices.Clone(x)
	y[0], y[8*3+1] = y[8*3+1], y[0]
	if TallyOf(y).Hash == TallyOf(x).Hash {
		t.Error("two values that change places have one hash")
	}
	// What compares equal is equal.
	y = slices.Clone(x)
	y[5], y[2] = float32(math.Copysign(0, -1)), math.Float32frombits(0x7fc00001)
	if TallyOf(y).Hash != TallyOf(x).Hash {
		t.Error("zeros or NaN of two kinds have two hashes")
	}
}

func BenchmarkTallyOf(b *testing.B) {
	x := noise(rand.New(rand.NewPCG(1, 1)), 352*704, false)
	b.SetBytes(4 * int64(len(x)))
	for b.Loop() {
		TallyOf(x)
	}
}

func BenchmarkMeanStd(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := make([][]float32, 5)
	for m := range x {
		x[m] = noise(rng, 352*704, false)
	}
	mean, std := make([]float32, len(x[0])), make([]float32, len(x[0]))
	b.SetBytes(4 * int64(len(x)*len(mean)))
	for b.Loop() {
		MeanStd(mean, std, x, 1)
	}
}

func BenchmarkStandardise(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := noise(rng, 352*704, false)
	mean, scale, dst := make([]float64, len(x)), slices.Repeat([]float64{2}, len(x)), make([]float32, len(x))
	b.SetBytes(4 * int64(len(x)))
	for b.Loop() {
		Standardise(dst, x, mean, scale)
	}
}
