//go:build cgo && linux

package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// blockedOf stores logical values [n c s] in the blocked layout.
func blockedOf(x []float64, n, c, s int) []float32 {
	y := make([]float32, n*blocks(c)*s*Block)
	for i := range n {
		for k := range c {
			for p := range s {
				y[((i*blocks(c)+k/Block)*s+p)*Block+k%Block] = float32(x[(i*c+k)*s+p])
			}
		}
	}
	return y
}

// logicalOf is the inverse of blockedOf; it fails if a padding lane is not zero.
func logicalOf(t *testing.T, y []float32, n, c, s int) []float64 {
	t.Helper()
	x := make([]float64, n*c*s)
	for i := range n {
		for k := range blocks(c) * Block {
			for p := range s {
				v := y[((i*blocks(c)+k/Block)*s+p)*Block+k%Block]
				if k < c {
					x[(i*c+k)*s+p] = float64(v)
				} else if v != 0 {
					t.Fatalf("padding lane %d of item %d at %d holds %g", k, i, p, v)
				}
			}
		}
	}
	return x
}

// winoCase is a convolution and its plain float64 results.
type winoCase struct {
	spec           WinoSpec // forward
	x, w, dy       []float64
	y, dx, dw      []float64
	c, s, filterIn int
}

func newWinoCase(seed uint64, s WinoSpec) *winoCase {
	rng := rand.New(rand.NewPCG(seed, 1))
	random := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(float32(rng.Float64() - 0.5))
		}
		return v
	}
	k := &winoCase{spec: s, c: s.Parts[0] + s.Parts[1], s: s.Size[0] * s.Size[1] * s.Size[2], filterIn: s.FilterIn}
	taps := s.KD * s.Side * s.Side
	k.x, k.w, k.dy = random(s.N*k.c*k.s), random(s.K*s.FilterIn*taps), random(s.N*s.K*k.s)
	k.y, k.dx, k.dw = make([]float64, len(k.dy)), make([]float64, len(k.x)), make([]float64, len(k.w))
	d, h, w := s.Size[0], s.Size[1], s.Size[2]
	for n := range s.N {
		for o := range s.K {
			for c := range k.c {
				for p := range k.s {
					pd, ph, pw := p/(h*w), p/w%h, p%w
					for t := range taps {
						id, ih, iw := pd+t/(s.Side*s.Side)-s.KD/2, ph+t/s.Side%s.Side-s.Side/2, pw+t%s.Side-s.Side/2
						if s.Wrap {
							iw = (iw + w) % w
						}
						if id < 0 || id >= d || ih < 0 || ih >= h || iw < 0 || iw >= w {
							continue
						}
						xi, wi, yi := (n*k.c+c)*k.s+(id*h+ih)*w+iw, (o*s.FilterIn+s.FilterLo+c)*taps+t, (n*s.K+o)*k.s+p
						k.y[yi] += k.x[xi] * k.w[wi]
						k.dx[xi] += k.dy[yi] * k.w[wi]
						k.dw[wi] += k.dy[yi] * k.x[xi]
					}
				}
			}
		}
	}
	return k
}

// parts are the source's tensors in the blocked layout.
func (k *winoCase) parts() (x0, x1 []float32) {
	s := k.spec
	cut := func(lo, hi int) []float64 {
		var v []float64
		for n := range s.N {
			v = append(v, k.x[(n*k.c+lo)*k.s:(n*k.c+hi)*k.s]...)
		}
		return v
	}
	x0 = blockedOf(cut(0, s.Parts[0]), s.N, s.Parts[0], k.s)
	if s.Parts[1] > 0 {
		x1 = blockedOf(cut(s.Parts[0], k.c), s.N, s.Parts[1], k.s)
	}
	return x0, x1
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

var winoSpecs = []WinoSpec{
	{N: 1, Parts: [2]int{5, 0}, K: 7, Size: [3]int{2, 9, 11}, KD: 3, Side: 3},
	{N: 2, Parts: [2]int{20, 0}, K: 40, Size: [3]int{2, 12, 16}, KD: 3, Side: 3},
	{N: 2, Parts: [2]int{17, 21}, K: 33, Size: [3]int{2, 5, 6}, KD: 3, Side: 3, Wrap: true},
	{N: 1, Parts: [2]int{16, 3}, K: 1, Size: [3]int{2, 4, 4}, KD: 3, Side: 3},
	{N: 1, Parts: [2]int{64, 0}, K: 48, Size: [3]int{1, 8, 7}, KD: 3, Side: 3},
	{N: 2, Parts: [2]int{9, 0}, K: 18, Size: [3]int{3, 6, 5}, KD: 1, Side: 3, Wrap: true},
	{N: 1, Parts: [2]int{12, 8}, K: 20, Size: [3]int{5, 7, 9}, KD: 3, Side: 3},
	{N: 2, Parts: [2]int{33, 0}, K: 16, Size: [3]int{4, 3, 2}, KD: 3, Side: 3, Wrap: true},
	{N: 1, Parts: [2]int{3, 0}, K: 2, Size: [3]int{2, 1, 2}, KD: 3, Side: 3},
	{N: 2, Parts: [2]int{1, 18}, K: 8, Size: [3]int{1, 9, 10}, KD: 1, Side: 5},
	{N: 1, Parts: [2]int{20, 0}, K: 35, Size: [3]int{1, 12, 11}, KD: 1, Side: 7, Wrap: true},
	{N: 2, Parts: [2]int{17, 16}, K: 5, Size: [3]int{2, 6, 7}, KD: 1, Side: 1},
	{N: 1, Parts: [2]int{6, 0}, K: 20, Size: [3]int{2, 8, 9}, KD: 3, Side: 5, Wrap: true},
	{N: 1, Parts: [2]int{4, 0}, K: 3, Size: [3]int{3, 5, 5}, KD: 3, Side: 9},
}

// everyISA runs f under every instruction set of this machine.
func everyISA(t *testing.T, f func(t *testing.T)) {
	was := ISA()
	defer useISA(was)
	for _, isa := range []string{"avx512", "avx2", "base"} {
		if useISA(isa) {
			t.Run(isa, f)
		}
	}
}

func TestWinogradAgreesWithPlainSums(t *testing.T) {
	pool, err := NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	everyISA(t, func(t *testing.T) {
		for i, s := range winoSpecs {
			s.FilterIn, s.FilterLo = s.Parts[0]+s.Parts[1]+3, 2
			k := newWinoCase(uint64(i), s)
			x0, x1 := k.parts()
			dy := blockedOf(k.dy, s.N, s.K, k.s)
			t.Run(fmt.Sprintf("%v", s), func(t *testing.T) {
				var forward, data, filter []float32 // of the first way, for equal bits
				for _, way := range WinoWays {
					for _, p := range []*Pool{nil, pool} {
						y := make([]float32, len(dy))
						run := func(s WinoSpec, y, x0, x1 []float32) {
							j, err := NewWino(p, s, way)
							if err != nil {
								t.Fatal(err)
							}
							j.Run(y, x0, x1, floats(k.w), nil, nil, nil, make([]float32, j.ScratchLen()))
						}
						run(s, y, x0, x1)
						if e := relative(logicalOf(t, y, s.N, s.K, k.s), k.y); e > winoTolerance {
							t.Errorf("forward %+v: error %.2e", way, e)
						}
						if forward == nil {
							forward = y
						} else if !slices.Equal(forward, y) {
							t.Errorf("forward %+v gives other bits than %+v", way, WinoWays[0])
						}
						back := s
						back.Parts, back.K, back.Flip = [2]int{s.K, 0}, k.c, true
						dx := make([]float32, s.N*blocks(k.c)*k.s*Block)
						run(back, dx, dy, nil)
						if e := relative(logicalOf(t, dx, s.N, k.c, k.s), k.dx); e > winoTolerance {
							t.Errorf("data %+v: error %.2e", way, e)
						}
						if data == nil {
							data = dx
						} else if !slices.Equal(data, dx) {
							t.Errorf("data %+v gives other bits than %+v", way, WinoWays[0])
						}
					}
				}
				for _, way := range WinoFilterWays {
					for _, p := range []*Pool{nil, pool} {
						j, err := NewWinoFilter(p, s, way)
						if err != nil {
							t.Fatal(err)
						}
						dw := make([]float32, len(k.w))
						j.RunFilter(dw, x0, x1, dy, make([]float32, j.ScratchLen()))
						got := make([]float64, len(dw))
						for i, v := range dw {
							got[i] = float64(v)
						}
						if e := relative(got, k.dw); e > winoTolerance {
							t.Errorf("filter %+v: error %.2e", way, e)
						}
						if filter == nil {
							filter = dw
						} else if !slices.Equal(filter, dw) {
							t.Errorf("filter %+v gives other bits than %+v", way, WinoFilterWays[0])
						}
					}
				}
			})
		}
	})
}

// What follows the products: bias, ReLU, a value to add, a gate.
func TestWinogradEpilogues(t *testing.T) {
	s := WinoSpec{N: 2, Parts: [2]int{6, 0}, K: 21, Size: [3]int{2, 6, 9}, KD: 3, Side: 3, FilterIn: 6}
	k := newWinoCase(9, s)
	rng := rand.New(rand.NewPCG(4, 4))
	random := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(float32(rng.Float64() - 0.5))
		}
		return v
	}
	x0, _ := k.parts()
	bias, plus, gate := random(s.K), random(len(k.y)), random(len(k.y))
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
		j, err := NewWino(nil, s, WinoWay{Tiles: 5})
		if err != nil {
			t.Fatal(err)
		}
		y := blockedOf(plus, s.N, s.K, k.s)
		j.Run(y, x0, nil, floats(k.w), floats(bias), blockedOf(gate, s.N, s.K, k.s), y, make([]float32, j.ScratchLen()))
		if e := relative(logicalOf(t, y, s.N, s.K, k.s), want); e > winoTolerance {
			t.Errorf("relu %v: error %.2e", relu, e)
		}
	}
}

func TestWinogradRefusesWhatItDoesNotServe(t *testing.T) {
	for _, s := range []WinoSpec{{N: 1, Parts: [2]int{1, 0}, K: 1, Size: [3]int{4, 4, 4}, KD: 5, Side: 3}, {N: 1, Parts: [2]int{1, 0}, K: 1, Size: [3]int{4, 4, 4}, KD: 3, Side: 4}, {N: 1, Parts: [2]int{1, 0}, K: 1, Size: [3]int{4, 4, 1}, KD: 3, Side: 3, Wrap: true}} {
		if _, err := NewWino(nil, s, WinoWays[0]); err != ErrNotServed {
			t.Errorf("%+v: %v, want ErrNotServed", s, err)
		}
	}
}
