//go:build cgo && linux

package kern

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/allocs"
)

// tensor is a blocked tensor in either storage, between guard values.
type tensor struct {
	b   Blocked
	b16 bool
	f   []float32
	h   []uint16
	ok  func()
}

// newTensor is full of garbage: kernels must write every value.
func newTensor(t *testing.T, b Blocked, b16 bool) *tensor {
	t.Helper()
	x := &tensor{b: b, b16: b16}
	if !b16 {
		x.f, x.ok = guarded(t, b.Len())
		return x
	}
	const g = 17
	buf := slices.Repeat([]uint16{0xbeef}, b.Len()+2*g)
	x.h = buf[g : g+b.Len() : g+b.Len()]
	x.ok = func() {
		t.Helper()
		for i := range g {
			if buf[i] != 0xbeef || buf[len(buf)-1-i] != 0xbeef {
				t.Fatal("a value was written outside the slice")
			}
		}
	}
	return x
}

// tensorOf holds the plain values x, rounded to the storage, with zeros beyond them.
func tensorOf(t *testing.T, b Blocked, b16 bool, x []float32) *tensor {
	t.Helper()
	y := newTensor(t, b, b16)
	clear(y.f)
	clear(y.h)
	for i, v := range x {
		y.set(i, v)
	}
	return y
}

func (x *tensor) stored() Stored {
	if x.b16 {
		return BFloat16(x.h)
	}
	return Float32(x.f)
}

// index is where plain value i is stored.
func (x *tensor) index(i int) int {
	s := x.b.Cells()
	n, c := i/s/x.b.C, i/s%x.b.C
	return ((n*x.b.Blocks()+c/16)*s+i%s)*16 + c%16
}

func (x *tensor) raw(k int) float32 {
	if x.b16 {
		return math.Float32frombits(uint32(x.h[k]) << 16)
	}
	return x.f[k]
}

func (x *tensor) at(i int) float32 { return x.raw(x.index(i)) }

func (x *tensor) set(i int, v float32) {
	if x.b16 {
		x.h[x.index(i)] = nearest16(v)
	} else {
		x.f[x.index(i)] = v
	}
}

// plain are the values without padding.
func (x *tensor) plain() []float32 {
	y := make([]float32, x.b.Plain())
	for i := range y {
		y[i] = x.at(i)
	}
	return y
}

// padded checks the guards and that all padding is zero.
func (x *tensor) padded(what string) {
	x.ok()
	s := x.b.Cells()
	for k := range x.b.Len() {
		if c := k/16/s%x.b.Blocks()*16 + k%16; c >= x.b.C && x.raw(k) != 0 {
			panic(fmt.Sprintf("%s %+v: lane of channel %d holds %g", what, x.b, c, x.raw(k)))
		}
	}
}

// nearest16 is the bfloat16 nearest to x, by the distances to its two
// neighbours in float64; the even one of equals.
func nearest16(x float32) uint16 {
	u := math.Float32bits(x)
	if x != x {
		return uint16(u>>16 | 0x40)
	}
	value := func(h uint32) float64 { // that of the format, were its exponent not bounded
		if h&0x7fff == 0x7f80 {
			return math.Copysign(math.Ldexp(1, 128), float64(x))
		}
		return float64(math.Float32frombits(h << 16))
	}
	lo := u >> 16
	if math.IsInf(float64(x), 0) {
		return uint16(lo)
	}
	below, above := math.Abs(float64(x)-value(lo)), math.Abs(value(lo+1)-float64(x))
	if above < below || above == below && lo&1 == 1 {
		lo++
	}
	return uint16(lo)
}

// rounded fails unless got is want in the storage: half a unit of the last
// place of bfloat16 beside tol, the error before rounding.
func rounded(t *testing.T, what string, i int, b16 bool, got float32, want, tol float64) {
	if b16 {
		_, e := math.Frexp(want)
		tol += math.Ldexp(1, e-9) // 8 bits: units of 2^(e-8)
	}
	if math.IsNaN(want) && got != got {
		return
	}
	if !(math.Abs(float64(got)-want) <= tol) {
		t.Helper() // not above: it costs more than the comparison
		t.Fatalf("%s [%d]: got %g, want %g", what, i, got, want)
	}
}

// everyStorage runs a test everywhere in both storages. keep checks that what
// was written does not depend on the number of threads.
func everyStorage(t *testing.T, f func(t *testing.T, p *Pool, b16 bool, keep func(key string, x *tensor))) {
	t.Helper()
	seen := map[string][]uint32{}
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, b16 := range []bool{false, true} {
			f(t, p, b16, func(key string, x *tensor) {
				t.Helper()
				x.padded(key)
				key = fmt.Sprint(ISA(), b16, key)
				bits := make([]uint32, x.b.Len())
				for k := range bits {
					bits[k] = math.Float32bits(x.raw(k))
				}
				if was, ok := seen[key]; ok && !slices.Equal(was, bits) {
					t.Errorf("%s: other bits with %d threads", key, p.Threads())
				}
				seen[key] = bits
			})
		}
	})
}

// Shapes with one channel, with full and with nearly empty blocks, with a
// single cell and with more cells than an item takes.
var blockedShapes = []Blocked{
	{1, 1, [3]int{1, 1, 1}}, {2, 1, [3]int{1, 5, 7}}, {1, 15, [3]int{3, 5, 6}}, {2, 16, [3]int{2, 4, 8}},
	{3, 17, [3]int{2, 7, 3}}, {1, 40, [3]int{1, 9, 11}}, {2, 17, [3]int{2, 23, 31}}, {1, 33, [3]int{3, 20, 36}},
}

func TestBlock(t *testing.T) {
	everyStorage(t, func(t *testing.T, p *Pool, b16 bool, keep func(string, *tensor)) {
		for _, b := range blockedShapes {
			for _, r := range [][2]int{{0, b.C}, {0, b.C / 16 * 16}, {(b.C - 1) / 16 * 16, b.C}, {16, b.C}, {0, 0}} {
				c0, c1 := r[0], r[1]
				if c0 > b.C {
					continue
				}
				s, w := b.Cells(), c1-c0
				x := random(1, b.N*w*s, -1, 1)
				y := newTensor(t, b, b16)
				was := y.plain()
				p.Block(y.stored(), b, x, c0, c1)
				y.ok()
				for i := range b.Plain() {
					n, c := i/s/b.C, i/s%b.C
					want := was[i]
					if c >= c0 && c < c1 {
						want = x[(n*w+c-c0)*s+i%s]
						if b16 {
							want = math.Float32frombits(uint32(nearest16(want)) << 16)
						}
					}
					if y.at(i) != want {
						t.Fatalf("block %+v %v [%d]: got %g, want %g", b, r, i, y.at(i), want)
					}
				}
				back, ok := guarded(t, len(x))
				p.Unblock(back, y.stored(), b, c0, c1)
				ok()
				for i, v := range back {
					n, c := i/s/max(w, 1), i/s%max(w, 1)
					if want := y.at((n*b.C+c0+c)*s + i%s); v != want {
						t.Fatalf("unblock %+v %v [%d]: got %g, want %g", b, r, i, v, want)
					}
				}
				if c1 == b.C && c0 == 0 {
					keep(fmt.Sprint(b), y)
				}
			}
			// A range that ends inside a block can be read.
			x := tensorOf(t, b, b16, random(2, b.Plain(), -1, 1))
			c1 := (b.C + 1) / 2
			back, ok := guarded(t, b.N*c1*b.Cells())
			p.Unblock(back, x.stored(), b, 0, c1)
			ok()
			for i, v := range back {
				n, rest := i/(c1*b.Cells()), i%(c1*b.Cells())
				if want := x.at(n*b.C*b.Cells() + rest); v != want {
					t.Fatalf("unblock %+v to %d [%d]: got %g, want %g", b, c1, i, v, want)
				}
			}
		}
	})
}

func TestMoveChannels(t *testing.T) {
	everyStorage(t, func(t *testing.T, p *Pool, b16 bool, keep func(string, *tensor)) {
		for _, s := range [][3]int{{1, 1, 1}, {1, 3, 5}, {3, 2, 7}, {1, 33, 32}} {
			for _, c := range []struct{ yC, yc, xC, xc, n int }{
				{1, 0, 1, 0, 1}, {64, 32, 40, 0, 32}, {48, 16, 32, 0, 32}, {40, 16, 24, 0, 24}, {40, 0, 40, 0, 40},
				{40, 15, 25, 0, 25}, {40, 0, 17, 0, 17}, {15, 0, 40, 25, 15}, {33, 31, 9, 7, 2}, {17, 16, 33, 32, 1},
				{50, 1, 50, 0, 49}, {50, 0, 50, 1, 49}, {50, 3, 60, 40, 20}, {20, 5, 20, 5, 10}, {40, 7, 40, 7, 0},
			} {
				n := 2
				if s[1] == 33 { // more cells than an item takes
					n = 1
				}
				yb, xb := Blocked{n, c.yC, s}, Blocked{n, c.xC, s}
				x := tensorOf(t, xb, b16, random(1, xb.Plain(), -1, 1))
				for _, add := range []bool{false, true} {
					old := random(2, yb.Plain(), -1, 1)
					y := tensorOf(t, yb, b16, old)
					if add {
						p.AddChannels(y.stored(), yb, c.yc, x.stored(), xb, c.xc, c.n)
					} else {
						if c.yc+c.n == c.yC { // the end of y: padding was never written
							for k := range y.b.Len() {
								if ch := k / 16 / yb.Cells() % yb.Blocks() * 16; ch+k%16 >= c.yC && c.n > 0 {
									y.spoil(k)
								}
							}
						}
						p.CopyChannels(y.stored(), yb, c.yc, x.stored(), xb, c.xc, c.n)
					}
					what := fmt.Sprintf("%+v of %v, add %v", c, s, add)
					keep(what, y)
					q := yb.Cells()
					was := tensorOf(t, yb, b16, old)
					for i := range old {
						ch := i / q % c.yC
						want := float64(was.at(i))
						if ch >= c.yc && ch < c.yc+c.n {
							v := float64(x.at((i/q/c.yC*c.xC+ch-c.yc+c.xc)*q + i%q))
							if add {
								want += v
							} else {
								want = v
							}
						}
						if add {
							rounded(t, what, i, b16, y.at(i), want, 1.2e-7)
						} else if float64(y.at(i)) != want {
							t.Fatalf("%s [%d]: got %g, want %g", what, i, y.at(i), want)
						}
					}
				}
			}
		}
	})
}

// spoil puts a number at stored place k.
func (x *tensor) spoil(k int) {
	if x.b16 {
		x.h[k] = 0x4242
	} else {
		x.f[k] = 42
	}
}

// Rounding to bfloat16 against the nearest neighbour: every bfloat16, the
// midpoints between two with the values next to them, and random bits.
func TestConvert(t *testing.T) {
	var x []float32
	for h := range uint32(1 << 16) {
		for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			x = append(x, math.Float32frombits(h<<16|low))
		}
	}
	for _, v := range random(1, 20000, 0, 1) {
		x = append(x, math.Float32frombits(uint32(float64(v)*math.MaxUint32)))
	}
	x = append(x, 1, 2, 3) // an odd length
	want := make([]uint16, len(x))
	for i, v := range x {
		want[i] = nearest16(v)
	}
	everywhere(t, func(t *testing.T, p *Pool) {
		y := make([]uint16, len(x))
		p.Convert(BFloat16(y), Float32(x))
		for i := range x {
			if y[i] != want[i] {
				t.Fatalf("%g (%08x): got %04x, want %04x", x[i], math.Float32bits(x[i]), y[i], want[i])
			}
		}
		z := make([]float32, len(x))
		p.Convert(Float32(z), BFloat16(y))
		for i := range x {
			if math.Float32bits(z[i]) != uint32(y[i])<<16 {
				t.Fatalf("%04x: got %08x", y[i], math.Float32bits(z[i]))
			}
		}
		// Kernels that store whole vectors round in the same way.
		b := Blocked{1, 16, [3]int{1, 1, len(x) / 16}}
		x := x[:b.Len()]
		p.Block(BFloat16(y[:b.Len()]), b, x, 0, 16)
		for i, v := range x {
			if got := y[i%b.Cells()*16+i/b.Cells()]; got != want[i] {
				t.Fatalf("%g in a block: got %04x, want %04x", v, got, want[i])
			}
		}
	})
}

func TestAddStored(t *testing.T) {
	everyStorage(t, func(t *testing.T, p *Pool, b16 bool, keep func(string, *tensor)) {
		for _, s := range []Blocked{{1, 16, [3]int{1, 1, 1}}, {1, 17, [3]int{1, 3, 7}}, {2, 40, [3]int{1, 20, 23}}} {
			a, b, g := random(1, s.Plain(), -1, 1), random(2, s.Plain(), -1, 1), random(3, s.Plain(), -1, 1)
			for i := range g {
				g[i] = max(g[i], 0)
			}
			a[len(a)/2] = float32(math.NaN())
			ta, tb, tg := tensorOf(t, s, b16, a), tensorOf(t, s, b16, b), tensorOf(t, s, b16, g)
			for _, c := range []struct {
				name          string
				b, gate, relu bool
			}{{"copy", false, false, false}, {"relu", false, false, true}, {"gate", false, true, false}, {"add", true, false, false},
				{"add, relu", true, false, true}, {"add, gate", true, true, false}} {
				sum := StoredSum{A: ta.stored(), ReLU: c.relu}
				if c.b {
					sum.B = tb.stored()
				}
				if c.gate {
					sum.Gate = tg.stored()
				}
				z := newTensor(t, s, b16)
				p.AddStored(z.stored(), sum)
				keep(fmt.Sprint(c.name, s), z)
				for i := range a {
					want := float64(ta.at(i))
					if c.b {
						want += float64(tb.at(i))
					}
					if c.gate && tg.at(i) == 0 || c.relu && want < 0 {
						want = 0
					}
					rounded(t, c.name, i, b16, z.at(i), want, 1.2e-7)
				}
				// In place.
				in := tensorOf(t, s, b16, a)
				sum.A = in.stored()
				p.AddStored(in.stored(), sum)
				for k := range s.Len() {
					if math.Float32bits(in.raw(k)) != math.Float32bits(z.raw(k)) {
						t.Fatalf("%s in place [%d]: got %g, want %g", c.name, k, in.raw(k), z.raw(k))
					}
				}
			}
		}
	})
}

// A kernel call allocates nothing, in either storage.
func TestBlockedNoAllocation(t *testing.T) {
	p, err := NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b, small := Blocked{1, 40, [3]int{2, 16, 32}}, Blocked{1, 40, [3]int{2, 8, 16}}
	k := [3]int{1, 2, 2}
	x := tensorOf(t, b, true, random(1, b.Plain(), -1, 1))
	y, s := newTensor(t, b, true), newTensor(t, small, true)
	plain, ch := make([]float32, b.Plain()), make([]float32, b.C)
	got := allocs.PerRun(20, func() {
		p.Unblock(plain, x.stored(), b, 0, b.C)
		p.Block(y.stored(), b, plain, 0, b.C)
		p.CopyChannels(y.stored(), b, 3, x.stored(), b, 0, 20)
		p.AddStored(y.stored(), StoredSum{A: x.stored(), B: y.stored()})
		p.BlockedWindow(Maximum, s.stored(), x.stored(), b, k)
		p.BlockedWindowGrad(Maximum, y.stored(), s.stored(), x.stored(), b, k, Accumulate|Gated)
		p.BlockedUpsample(y.stored(), s.stored(), small, k, true)
		p.BlockedUpsampleGrad(s.stored(), y.stored(), Stored{}, small, k, true, 0)
		p.BlockedSums(ch, nil, x.stored(), Stored{}, Gate{}, b)
		p.BlockedMoments(ch, ch, x.stored(), b)
		p.BlockedAffine(y.stored(), x.stored(), ch, ch, b, true)
		p.BlockedCombine(y.stored(), x.stored(), y.stored(), Gate{}, ch, ch, ch, b)
	})
	if got != 0 {
		t.Errorf("allocations per run: got %v, want 0", got)
	}
}

// Broken shapes panic before any value is touched.
func TestBlockedPanics(t *testing.T) {
	var p *Pool
	b := Blocked{1, 20, [3]int{1, 4, 6}}
	x, h, plain := make([]float32, b.Len()), make([]uint16, b.Len()), make([]float32, b.Plain())
	f := Float32(x)
	for what, call := range map[string]func(){
		"short plain tensor":     func() { p.Block(f, b, plain[1:], 0, 20) },
		"short blocked tensor":   func() { p.Block(Float32(x[16:]), b, plain, 0, 20) },
		"begin inside a block":   func() { p.Block(f, b, plain[:12*24], 8, 20) },
		"end inside a block":     func() { p.Block(f, b, plain[:8*24], 0, 8) },
		"read inside a block":    func() { p.Unblock(plain[:12*24], f, b, 8, 20) },
		"channels beyond":        func() { p.Unblock(plain, f, b, 0, 21) },
		"move beyond":            func() { p.CopyChannels(f, b, 5, f, b, 0, 16) },
		"move between shapes":    func() { p.AddChannels(f, b, 0, f, Blocked{1, 20, [3]int{1, 6, 4}}, 0, 20) },
		"two storages":           func() { p.AddStored(f, StoredSum{A: BFloat16(h)}) },
		"gate and ReLU":          func() { p.AddStored(f, StoredSum{A: f, Gate: f, ReLU: true}) },
		"same storage":           func() { p.Convert(f, f) },
		"no window":              func() { p.BlockedWindow(Maximum, f, f, b, [3]int{0, 1, 1}) },
		"window without x":       func() { p.BlockedWindowGrad(Maximum, f, f, Stored{}, b, [3]int{1, 1, 1}, 0) },
		"gate without x":         func() { p.BlockedUpsampleGrad(f, f, Stored{}, b, [3]int{1, 1, 1}, false, Gated) },
		"factor beyond the rows": func() { p.BlockedUpsample(f, f, b, [3]int{33, 1, 1}, false) },
		"sums without z":         func() { p.BlockedSums(plain[:20], plain[:20], f, Stored{}, Gate{}, b) },
		"moments of nothing":     func() { p.BlockedMoments(plain[:20], plain[:20], Float32(nil), Blocked{0, 20, b.S}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			call()
		}()
	}
}
