//go:build cgo && linux

package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// winoCase is a convolution and its plain float64 results.
type winoCase struct {
	spec           WinoSpec // forward
	x, w, dy       []float64
	y, dx, dw      []float64
	c, s, filterIn int // s is the cells of the result, from those of the source
	from           int
}

// newWinoCase draws numbers that bfloat16 holds, so that both storage types are compared
// with the same sums.
func newWinoCase(seed uint64, s WinoSpec) *winoCase {
	rng := rand.New(rand.NewPCG(seed, 1))
	random := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(math.Float32frombits(uint32(nearest16(float32(rng.Float64()-0.5))) << 16))
		}
		return v
	}
	k := &winoCase{spec: s, c: s.Parts[0] + s.Parts[1], s: volume(s.Size), filterIn: s.FilterIn, from: volume(s.Source())}
	taps := s.KD * s.Side * s.Side
	k.x, k.w, k.dy = random(s.N*k.c*k.from), random(s.K*s.FilterIn*taps), random(s.N*s.K*k.s)
	k.drop(k.w)
	k.y, k.dx, k.dw = make([]float64, len(k.dy)), make([]float64, len(k.x)), make([]float64, len(k.w))
	h, w := s.Size[1], s.Size[2]
	source := s.Source()
	for n := range s.N {
		for o := range s.K {
			for c := range k.c {
				for p := range k.s {
					pd, ph, pw := p/(h*w), p/w%h, p%w
					for t := range taps {
						id := pd + t/(s.Side*s.Side) - s.KD/2 + s.Before[0]
						ih, iw := ph+t/s.Side%s.Side-s.Side/2+s.Before[1], pw+t%s.Side-s.Side/2+s.Before[2]
						if s.Wrap {
							iw = (iw + w) % w
						}
						if id < 0 || id >= source[0] || ih < 0 || ih >= source[1] || iw < 0 || iw >= source[2] {
							continue
						}
						xi, wi, yi := (n*k.c+c)*k.from+(id*source[1]+ih)*source[2]+iw, (o*s.FilterIn+s.FilterLo+c)*taps+t, (n*s.K+o)*k.s+p
						k.y[yi] += k.x[xi] * k.w[wi]
						k.dx[xi] += k.dy[yi] * k.w[wi]
						k.dw[wi] += k.dy[yi] * k.x[xi]
					}
				}
			}
		}
	}
	k.drop(k.dw)
	return k
}

// field is a tensor of c channels of a field of that size with the values v, or of
// garbage if v is nil.
func (k *winoCase) field(t *testing.T, v []float64, c int, size [3]int, b16 bool) *tensor {
	t.Helper()
	b := Blocked{k.spec.N, c, size}
	if v == nil {
		return newTensor(t, b, b16)
	}
	return tensorOf(t, b, b16, floats(v))
}

// parts are the tensors of the input without its halo.
func (k *winoCase) parts(t *testing.T, b16 bool) (x0, x1 Stored) {
	t.Helper()
	return k.pieces(t, b16, k.spec.Inner(), func(north, south, west, east bool) bool { return !(north || south || west || east) })
}

// halos are those of the source's tensors; none if the case has none.
func (k *winoCase) halos(t *testing.T, b16 bool) (f0, f1 Stored) {
	t.Helper()
	s := k.spec
	if s.Halo == [4]int{} {
		return Stored{}, Stored{}
	}
	cells := s.HaloLen(Block) / Block / s.N / s.Source()[0]
	return k.pieces(t, b16, [3]int{s.Source()[0], cells, 1}, nil)
}

// pieces are the tensors of the source with the cells that are wanted, or without wanted
// those of the halo: all in the north, all in the south, then west and east by rows.
func (k *winoCase) pieces(t *testing.T, b16 bool, size [3]int, wanted func(north, south, west, east bool) bool) (x0, x1 Stored) {
	t.Helper()
	s, n := k.spec, k.spec.Source()
	cut := func(lo, hi int) Stored {
		var v []float64
		for plane := range s.N * (hi - lo) * n[0] {
			at := plane / ((hi - lo) * n[0]) * k.c * n[0]
			x := k.x[(at+lo*n[0]+plane%((hi-lo)*n[0]))*n[1]*n[2]:]
			pick := func(wanted func(north, south, west, east bool) bool) {
				for y := range n[1] {
					for c := range n[2] {
						if wanted(y < s.Halo[0], y >= n[1]-s.Halo[1], c < s.Halo[2], c >= n[2]-s.Halo[3]) {
							v = append(v, x[y*n[2]+c])
						}
					}
				}
			}
			if wanted != nil {
				pick(wanted)
				continue
			}
			pick(func(north, _, _, _ bool) bool { return north })
			pick(func(_, south, _, _ bool) bool { return south })
			pick(func(north, south, west, east bool) bool { return !north && !south && (west || east) })
		}
		return k.field(t, v, hi-lo, size, b16).stored()
	}
	x0 = cut(0, s.Parts[0])
	if s.Parts[1] > 0 {
		x1 = cut(s.Parts[0], k.c)
	}
	return x0, x1
}

// logical are the values of a result; its padding must be zero and nothing
// written beside it.
func (k *winoCase) logical(t *testing.T, y *tensor) []float64 {
	t.Helper()
	y.padded("result")
	x := make([]float64, y.b.Plain())
	for i := range x {
		x[i] = float64(y.at(i))
	}
	return x
}

func floats(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// relative is the relative distance in the L2 norm.
func relative(got, want []float64) float64 {
	var d, n float64
	for i := range want {
		d += (got[i] - want[i]) * (got[i] - want[i])
		n += want[i] * want[i]
	}
	return math.Sqrt(d / n)
}

// winoTolerance bounds the relative L2 error for up to 64 channels: twice what
// was seen, which is twice the error of a plain float32 sum.
const winoTolerance = 2e-6

// winoToleranceEight is the same for tiles of eight points: twice what was seen, 3.1e-6 for filters of 5×5 and 5.1e-6 for wider ones.
const winoToleranceEight = 1e-5

// winoTolerance16 is the same for results that are rounded to bfloat16: by less
// than 2⁻⁸ of each, and in the root mean square by less than 2⁻⁸/√3.
const winoTolerance16 = 0x1p-8 / 1.73

// winoToleranceHalf is the same for products of bfloat16, whatever the result is
// rounded to: some more than what was seen, 1.1e-2 to 3.2e-2. Rounding the operands of
// a plain sum makes 2.4e-3; the transforms of the result multiply what rounding
// theirs makes.
const winoToleranceHalf = 4e-2

func winoBound(s WinoSpec, b16 bool) float64 {
	switch {
	case s.BF16:
		return winoToleranceHalf
	case b16:
		return winoTolerance16
	case s.Points() == 8:
		return winoToleranceEight
	}
	return winoTolerance
}

var winoSpecs = []WinoSpec{
	{N: 1, Parts: [2]int{5, 0}, K: 7, Size: [3]int{2, 9, 11}, KD: 3, Side: 3},
	{N: 2, Parts: [2]int{20, 0}, K: 40, Size: [3]int{2, 12, 16}, KD: 3, Side: 3},
	{N: 2, Parts: [2]int{17, 21}, K: 33, Size: [3]int{2, 5, 6}, KD: 3, Side: 3, Wrap: true},
	{N: 1, Parts: [2]int{16, 3}, K: 1, Size: [3]int{2, 4, 4}, KD: 3, Side: 3},
	{N: 1, Parts: [2]int{64, 0}, K: 48, Size: [3]int{1, 8, 7}, KD: 3, Side: 3},
	{N: 2, Parts: [2]int{9, 0}, K: 18, Size: [3]int{3, 6, 5}, KD: 1, Side: 3, Wrap: true},
	{N: 1, Parts: [2]int{12, 8}, K: 20, Size: [3]int{5, 7, 9}, KD: 3, Side: 3},
	{N: 2, Parts: [2]int{33, 0}, K: 16, Size: [3]int{4, 3, 2}, KD: 3, Side: 3, Wrap: true},
	{N: 1, Parts: [2]int{7, 9}, K: 18, Size: [3]int{6, 5, 6}, KD: 3, Side: 3},
	{N: 1, Parts: [2]int{18, 0}, K: 9, Size: [3]int{11, 6, 4}, KD: 3, Side: 3, Wrap: true},
	{N: 1, Parts: [2]int{3, 0}, K: 2, Size: [3]int{2, 1, 2}, KD: 3, Side: 3},
	{N: 2, Parts: [2]int{1, 18}, K: 8, Size: [3]int{1, 9, 10}, KD: 1, Side: 5},
	{N: 1, Parts: [2]int{20, 0}, K: 35, Size: [3]int{1, 12, 11}, KD: 1, Side: 7, Wrap: true},
	{N: 1, Parts: [2]int{64, 0}, K: 17, Size: [3]int{2, 9, 13}, KD: 1, Side: 5, Wrap: true},
	{N: 2, Parts: [2]int{16, 5}, K: 9, Size: [3]int{1, 9, 12}, KD: 3, Side: 7},
	{N: 1, Parts: [2]int{6, 0}, K: 20, Size: [3]int{1, 9, 11}, KD: 1, Side: 9},
	{N: 1, Parts: [2]int{9, 0}, K: 20, Size: [3]int{1, 17, 19}, KD: 1, Side: 7, Before: [3]int{0, 3, 3}, After: [3]int{0, 3, 3}, Halo: [4]int{3, 3, 3, 3}},
	{N: 2, Parts: [2]int{5, 0}, K: 8, Size: [3]int{1, 21, 22}, KD: 1, Side: 5, Before: [3]int{0, 2, 0}, After: [3]int{0, 2, 0}, Wrap: true, Halo: [4]int{2, 2, 0, 0}},
	{N: 2, Parts: [2]int{17, 16}, K: 5, Size: [3]int{2, 6, 7}, KD: 1, Side: 1},
	{N: 1, Parts: [2]int{6, 0}, K: 20, Size: [3]int{2, 8, 9}, KD: 3, Side: 5, Wrap: true},
	{N: 1, Parts: [2]int{4, 0}, K: 3, Size: [3]int{3, 5, 5}, KD: 3, Side: 9},
	{N: 2, Parts: [2]int{9, 5}, K: 18, Size: [3]int{2, 6, 9}, KD: 3, Side: 3, Before: [3]int{0, 1, 1}, After: [3]int{0, 1, 1}},
	{N: 2, Parts: [2]int{17, 5}, K: 18, Size: [3]int{2, 6, 9}, KD: 3, Side: 3, Before: [3]int{0, 1, 1}, After: [3]int{0, 1, 1}, Halo: [4]int{1, 1, 1, 1}},
	{N: 2, Parts: [2]int{3, 2}, K: 4, Size: [3]int{2, 17, 22}, KD: 3, Side: 3, Before: [3]int{0, 1, 1}, After: [3]int{0, 1, 1}, Halo: [4]int{1, 1, 0, 1}},
	{N: 1, Parts: [2]int{9, 0}, K: 20, Size: [3]int{3, 7, 5}, KD: 3, Side: 5, Before: [3]int{0, 0, 2}, After: [3]int{0, 0, 2}, Halo: [4]int{0, 0, 2, 1}},
	{N: 1, Parts: [2]int{4, 0}, K: 6, Size: [3]int{2, 8, 8}, KD: 3, Side: 3, Before: [3]int{0, 1, 0}, After: [3]int{0, 1, 0}, Wrap: true, Halo: [4]int{1, 1, 0, 0}},
	{N: 1, Parts: [2]int{8, 0}, K: 17, Size: [3]int{2, 5, 8}, KD: 3, Side: 3, Wrap: true, Before: [3]int{1, 1, 0}, After: [3]int{1, 0, 0}},
	{N: 1, Parts: [2]int{8, 0}, K: 4, Size: [3]int{1, 7, 5}, KD: 3, Side: 3, Before: [3]int{1, 0, 2}, After: [3]int{1, -1, 0}},
	{N: 1, Parts: [2]int{3, 0}, K: 20, Size: [3]int{4, 9, 8}, KD: 3, Side: 5, Before: [3]int{-1, -2, -2}, After: [3]int{-1, -2, 0}},
}

// everyISA runs f under every instruction set of this machine.
func everyISA(t *testing.T, f func(t *testing.T)) {
	was := ISA()
	defer useISA(was)
	for _, isa := range []string{"avx512bf16", "avx512", "avx2", "base"} {
		if useISA(isa) {
			t.Run(isa, f)
		}
	}
}

func TestWinogradInnerNeedsNoHalo(t *testing.T) {
	s := WinoSpec{N: 1, Parts: [2]int{3, 0}, K: 4, Size: [3]int{2, 17, 22}, KD: 3, Side: 3, FilterIn: 3,
		Before: [3]int{0, 1, 0}, After: [3]int{0, 1, 0}, Halo: [4]int{1, 1, 0, 0}}
	for _, c := range []struct {
		halo         [4]int
		tiles        int
		inner, outer int
	}{
		{[4]int{1, 1, 0, 0}, 6, 3, 2}, {[4]int{1, 0, 0, 0}, 6, 4, 1}, {[4]int{0, 0, 0, 0}, 6, 5, 0}, {[4]int{1, 1, 0, 0}, 64, 0, 1},
	} {
		s.Halo = c.halo
		j, err := NewWino(nil, s, WinoVariant{Tiles: c.tiles})
		if err != nil {
			t.Fatal(err)
		}
		if len(j.inner) != c.inner || len(j.outer) != c.outer {
			t.Errorf("halo %v, blocks of %d tiles: %d without it and %d with it, want %d and %d", c.halo, c.tiles, len(j.inner), len(j.outer), c.inner, c.outer)
		}
	}
}

func TestWinogradAgreesWithPlainSums(t *testing.T) { winogradAgrees(t, inTurn) }

// inTurn selects for every set of instructions a third of the cases. Long tests run all.
func inTurn(i, set int) bool { return (i+set)%3 == 0 }

func winogradAgrees(t *testing.T, take func(i, set int) bool) {
	pool, err := NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	set := 0
	everyISA(t, func(t *testing.T) {
		set++
		for i, s := range winoSpecs {
			if !take(i, set) {
				continue
			}
			s.FilterIn, s.FilterLo = s.Parts[0]+s.Parts[1]+3, 2
			k := newWinoCase(uint64(i), s)
			for _, b16 := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v bf16 %v", s, b16), func(t *testing.T) { k.agrees(t, pool, b16) })
			}
			if HasBF16() {
				k.spec.BF16 = true
				t.Run(fmt.Sprintf("%v halves", s), func(t *testing.T) { k.agrees(t, pool, true) })
			}
		}
	})
}

// adjoint is the convolution of dy that gives dx.
func (k *winoCase) adjoint() WinoSpec {
	s, back := k.spec, k.spec
	back.Parts, back.K, back.Flip, back.Mask = [2]int{s.K, 0}, k.c, true, k.transposed()
	back.Size, back.Halo = s.Source(), [4]int{}
	for i := range back.Before { // seen from the source, the result has fewer
		back.Before[i], back.After[i] = -s.Before[i], -s.After[i]
	}
	return back
}

// agrees runs all passes of k in every way, on one thread and on those of the
// pool: each agrees with the plain sums, and all have the same bits.
func (k *winoCase) agrees(t *testing.T, pool *Pool, b16 bool) {
	s := k.spec
	x0, x1 := k.parts(t, b16)
	f0, f1 := k.halos(t, b16)
	dy := k.field(t, k.dy, s.K, s.Size, b16).stored()
	first := map[string][]float32{}
	same := func(pass string, way WinoVariant, bits []float32) {
		t.Helper()
		if was, ok := first[pass]; ok && !slices.Equal(was, bits) {
			t.Errorf("%s %+v: other bits than the first way", pass, way)
		}
		first[pass] = bits
	}
	ways, filterWays := WinoVariants, slices.Concat(WinoFilterVariants(s, 2), []WinoVariant{{Tiles: 16, Rows: 2}, {Tiles: 4, Rows: 1}})
	if SupportsSparseWino(s) {
		ways, filterWays = append(ways[:1:1], WinoSparseVariants[:2]...), append(filterWays[:1:1], WinoSparseFilterVariants[:2]...)
	}
	for _, way := range ways {
		for _, p := range []*Pool{nil, pool} {
			run := func(pass string, s WinoSpec, want []float64, y16 bool, x0, x1 Stored) {
				t.Helper()
				j, err := NewWino(p, s, way)
				if err != nil {
					t.Fatal(err)
				}
				y := k.field(t, nil, s.K, s.Size, y16)
				if s.Halo != [4]int{} {
					j.SetHalos(f0, f1)
				}
				scratch := make([]float32, j.ScratchLen())
				j.Run(WinoValues{Y: y.stored(), X0: x0, X1: x1, Filter: floats(k.w), Scratch: scratch})
				if j.HasInner() {
					first := slices.Clone(k.logical(t, y))
					y = k.field(t, nil, s.K, s.Size, y16)
					for _, part := range []WinoPart{Inner, Outer} {
						j.RunPart(part, WinoValues{Y: y.stored(), X0: x0, X1: x1, Filter: floats(k.w), Scratch: scratch})
					}
					if !slices.Equal(first, k.logical(t, y)) {
						t.Errorf("%s %+v: other bits in two parts", pass, way)
					}
				}
				if e := relative(k.logical(t, y), want); e > winoBound(s, y16) {
					t.Errorf("%s %+v: error %.2e", pass, way, e)
				}
				same(pass, way, y.plain())
			}
			run("forward", s, k.y, b16, x0, x1)
			run("forward to the other storage", s, k.y, !b16, x0, x1)
			back := k.adjoint()
			run("data", back, k.dx, b16, dy, Stored{})
		}
	}
	for _, way := range filterWays {
		for _, p := range []*Pool{nil, pool} {
			j, err := NewWinoFilter(p, s, way)
			if err != nil {
				t.Fatal(err)
			}
			dw := make([]float32, len(k.w))
			if s.Halo != [4]int{} {
				j.SetHalos(f0, f1)
			}
			j.RunFilter(dw, x0, x1, dy, make([]float32, j.ScratchLen()))
			got := make([]float64, len(dw))
			for i, v := range dw {
				got[i] = float64(v)
			}
			if !way.Sparse { // dense variants compute masked blocks, too
				k.drop(got)
				for i, v := range got {
					dw[i] = float32(v)
				}
			}
			if e := relative(got, k.dw); e > winoBound(s, false) {
				t.Errorf("filter %+v: error %.2e", way, e)
			}
			same("filter", way, dw)
		}
	}
}

// What follows the products: bias, ReLU, a value to add, a gate.
func TestWinogradEpilogues(t *testing.T) {
	s := WinoSpec{N: 2, Parts: [2]int{6, 0}, K: 21, Size: [3]int{2, 6, 9}, KD: 3, Side: 3, FilterIn: 6}
	k := newWinoCase(9, s)
	other := newWinoCase(4, s) // for numbers
	bias, plus, gate := other.w[:s.K], other.y, other.dy
	for i, v := range floats(plus) {
		plus[i] = float64(math.Float32frombits(uint32(nearest16(v)) << 16))
	}
	everyISA(t, func(t *testing.T) {
		for _, b16 := range []bool{false, true} {
			for _, relu := range []bool{false, true} {
				s.ReLU = relu
				want := make([]float64, len(k.y))
				for i := range want {
					want[i] = k.y[i] + bias[i/k.s%s.K]
					if relu {
						want[i] = max(want[i], 0)
					}
					want[i] += plus[i]
					if gate[i] <= 0 {
						want[i] = 0
					}
				}
				j, err := NewWino(nil, s, WinoVariant{Tiles: 5})
				if err != nil {
					t.Fatal(err)
				}
				x0, _ := k.parts(t, b16)
				y := k.field(t, plus, s.K, s.Size, b16)
				j.Run(WinoValues{Y: y.stored(), X0: x0, Filter: floats(k.w), Bias: floats(bias), Gate: k.field(t, gate, s.K, s.Size, b16).stored(), Plus: y.stored(), Scratch: make([]float32, j.ScratchLen())})
				if e := relative(k.logical(t, y), want); e > winoBound(s, b16) {
					t.Errorf("bf16 %v, relu %v: error %.2e", b16, relu, e)
				}
			}
		}
	})
}

func TestWinogradRefusesWhatItDoesNotServe(t *testing.T) {
	for _, s := range []WinoSpec{{N: 1, Parts: [2]int{1, 0}, K: 1, Size: [3]int{4, 4, 4}, KD: 5, Side: 3}, {N: 1, Parts: [2]int{1, 0}, K: 1, Size: [3]int{4, 4, 4}, KD: 3, Side: 4}, {N: 1, Parts: [2]int{1, 0}, K: 1, Size: [3]int{4, 4, 1}, KD: 3, Side: 3, Wrap: true}} {
		if _, err := NewWino(nil, s, WinoVariants[0]); err != ErrUnsupported {
			t.Errorf("%+v: %v, want ErrNotServed", s, err)
		}
	}
}

// TestDefaultFilterVariants: two threads take rows of points through fields of more than 32 tiles, unless many channels make all tiles
// at once faster.
func TestDefaultFilterVariants(t *testing.T) {
	whole := WinoVariant{Tiles: 14, Whole: true}
	for _, c := range []struct {
		source, result, side, threads int
		want                          WinoVariant
	}{
		{64, 32, 32, 1, whole}, {64, 32, 32, 2, WinoVariant{Tiles: 32, Rows: 3}}, {64, 32, 32, 4, whole},
		{80, 48, 16, 2, whole}, {240, 160, 32, 2, whole}, {256, 256, 32, 2, WinoVariant{Tiles: 32, Rows: 3}},
		{32, 16, 128, 1, WinoVariant{Tiles: 64}}, {32, 16, 128, 2, WinoVariant{Tiles: 32, Rows: 3}},
	} {
		s := WinoSpec{N: 1, Parts: [2]int{c.source, 0}, K: c.result, Size: [3]int{2, c.side, c.side}, KD: 3, Side: 3, FilterIn: c.source}
		if got := DefaultWinoFilter(s, c.threads); got != c.want {
			t.Errorf("%d→%d channels on %d², %d threads: got %+v, want %+v", c.source, c.result, c.side, c.threads, got, c.want)
		}
	}
}
