package fieldmath

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// sizes are below, at and above the lengths of vectors and of the blocks of
// kernels.
var sizes = []int{0, 1, 7, 8, 9, 255, 256, 257, 1000, 2048 + 13}

// noise returns values of all magnitudes; on request some are NaN, infinite or zero
// of either sign.
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

// Kernels have the bits of their references.
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
			have := StatsOf(x)
			var l [lanes]lane
			plain := Stats{Points: n, Min: math.Inf(1), Max: math.Inf(-1)}
			for k := range l {
				l[k] = lane{min: math.Inf(1), max: math.Inf(-1), hash: uint64(n + k)}
			}
			plainStats(&plain, &l, x)
			for _, x := range l {
				plain.Min, plain.Max, plain.Sum, plain.Squares = min(plain.Min, x.min), max(plain.Max, x.max), plain.Sum+x.sum, plain.Squares+x.squares
				plain.Hash = HashMix(plain.Hash, x.hash)
			}
			if plain.Hash |= 1; have != plain {
				t.Errorf("tally of %d values: %+v, want %+v", n, have, plain)
			}
		}
	}
}

// The bits of mean and standard deviation do not depend on the order of members,
// and the loss of precision is far below that of a float32.
func TestOrderOfMembers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for members := 2; members <= 9; members++ {
		x := make([][]float32, members)
		for m := range x {
			x[m] = noise(rng, 300, false)
		}
		for p := range 40 { // cancelling sums, whose remainder depends on the order
			x[0][p], x[1][p] = 1e10, -1e10
		}
		var first [2][]float32
		for range 10 {
			got := [2][]float32{make([]float32, 300), make([]float32, 300)}
			MeanStd(got[0], got[1], x, 1)
			if first[0] == nil {
				first = got
			}
			for i := range got {
				if err := sameBits(got[i], first[i]); err != nil {
					t.Fatalf("%d members: %v", members, err)
				}
			}
			rng.Shuffle(members, func(i, j int) { x[i], x[j] = x[j], x[i] })
		}
		for p := 40; p < 300; p++ {
			var sum, size, squares float64
			for _, f := range x {
				sum, size = sum+float64(f[p]), size+math.Abs(float64(f[p]))
			}
			for _, f := range x {
				squares += math.Pow(float64(f[p])-sum/float64(members), 2)
			}
			std := math.Sqrt(squares / float64(members-1))
			if math.Abs(float64(first[0][p])-sum/float64(members)) > 1e-7*size || math.Abs(float64(first[1][p])-std) > 1e-7*std {
				t.Fatalf("%d members, point %d: %g and %g, want %g and %g", members, p, first[0][p], first[1][p], sum/float64(members), std)
			}
		}
	}
	terms := make([]float64, 7)
	for range 2000 { // in double precision, which the root of squares does not show
		for i := range terms {
			terms[i] = math.Pow(2, -40*rng.Float64())
		}
		want := sumOf(terms, 1)
		rng.Shuffle(7, func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
		if got := sumOf(terms, 1); got != want {
			t.Fatalf("the sum is %v, in another order %v", want, got)
		}
	}
}

func TestTallyOf(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	x := slices.Repeat([]float32{1, -3, nan, inf, 2, 0, -inf, nan}, 40)
	got := StatsOf(x)
	got.Hash = 0
	if want := (Stats{Points: 320, Missing: 80, Infinite: 80, Min: -3, Max: 2, Sum: 0, Squares: 40 * 14}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	// The hash depends on every position, and on the order of values.
	for i := range x {
		y := slices.Clone(x)
		if y[i] = 7; StatsOf(y).Hash == StatsOf(x).Hash {
			t.Errorf("value %d is not in the hash", i)
		}
	}
	y := slices.Clone(x)
	y[0], y[8*3+1] = y[8*3+1], y[0]
	if StatsOf(y).Hash == StatsOf(x).Hash {
		t.Error("two values that change places have one hash")
	}
	// Values that compare equal have equal hashes.
	y = slices.Clone(x)
	y[5], y[2] = float32(math.Copysign(0, -1)), math.Float32frombits(0x7fc00001)
	if StatsOf(y).Hash != StatsOf(x).Hash {
		t.Error("zeros or NaN of two kinds have two hashes")
	}
}

func BenchmarkTallyOf(b *testing.B) {
	x := noise(rand.New(rand.NewPCG(1, 1)), 352*704, false)
	b.SetBytes(4 * int64(len(x)))
	for b.Loop() {
		StatsOf(x)
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
