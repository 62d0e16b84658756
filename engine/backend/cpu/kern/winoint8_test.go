//go:build cgo && linux

package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// int8Case is an int8 convolution with its operands.
type int8Case struct {
	spec  WinoInt8Spec
	x     [2][]float64 // plain
	w     []float32
	bias  []float32
	attrs op.Int8Conv
}

func newInt8Case(seed uint64, s WinoSpec, zero [2]int, out bool) *int8Case {
	rng := rand.New(rand.NewPCG(seed, 9))
	s.FilterIn = s.Parts[0] + s.Parts[1]
	k := &int8Case{spec: WinoInt8Spec{WinoSpec: s, ZeroPoints: zero}}
	q := &op.Int8Scales{}
	for i, c := range s.Parts {
		if c == 0 {
			continue
		}
		k.x[i] = make([]float64, s.N*c*volume(s.Size))
		for j := range k.x[i] {
			k.x[i][j] = math.Min(255, math.Floor(rng.ExpFloat64()*60))
		}
		f := make([]int16, WinoInt8Points(s))
		for p := range f {
			f[p] = int16(200 + rng.IntN(1500))
		}
		k.spec.Factors[i] = f
		q.ZeroPoints, q.Factors = append(q.ZeroPoints, zero[i]), append(q.Factors, f)
	}
	for range s.FilterIn {
		q.Channels = append(q.Channels, 0.01+0.01*rng.Float32())
	}
	for range s.K * s.FilterIn * s.KD * 9 {
		k.w = append(k.w, float32(rng.NormFloat64()/math.Sqrt(float64(9*s.KD*s.FilterIn))))
	}
	for range s.K {
		k.bias = append(k.bias, rng.Float32()-0.5)
		if out {
			q.OutScales = append(q.OutScales, 0.01+0.01*rng.Float32())
		}
	}
	k.spec.InScales, k.spec.OutScales = q.Channels, q.OutScales
	a := op.Conv{Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}, Pad: op.Same(s.KD, 3, 3)}
	a.Pad[2].Periodic = s.Wrap
	k.attrs = op.Int8Conv{FusedConv: op.FusedConv{Conv: a, ReLU: s.ReLU}, Scales: q}
	return k
}

func wider(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// want is what the reference of the operation gives.
func (k *int8Case) want() []float64 {
	s := k.spec
	var c graph.Call
	for i, x := range k.x {
		if s.Parts[i] > 0 {
			c.In, c.InShape = append(c.In, x), append(c.InShape, graph.Shape{s.N, s.Parts[i], s.Size[0], s.Size[1], s.Size[2]})
		}
	}
	c.In = append(c.In, wider(k.w), wider(k.bias))
	c.InShape = append(c.InShape, graph.Shape{s.K, s.FilterIn, s.KD, 3, 3}, graph.Shape{s.K})
	c.OutShape = graph.Shape{s.N, s.K, s.Size[0], s.Size[1], s.Size[2]}
	c.Out = make([]float64, c.OutShape.Size())
	o := op.Find("conv3d_int8")
	if _, err := o.Shape(c.InShape, k.attrs); err != nil {
		panic(err)
	}
	o.Ref(c, k.attrs)
	return c.Out
}

// blockInt8 and unblock bring fields into the blocked layout and back.
func blockInt8(x []float64, b Blocked) []uint8 {
	y := make([]uint8, b.Len())
	for i, v := range x {
		cell, c, n := i%b.Cells(), i/b.Cells()%b.C, i/b.Cells()/b.C
		y[((n*b.Blocks()+c/Block)*b.Cells()+cell)*Block+c%Block] = uint8(v)
	}
	return y
}

func unblock[T uint8 | float32](x []T, b Blocked) []float64 {
	y := make([]float64, b.Plain())
	for i := range y {
		cell, c, n := i%b.Cells(), i/b.Cells()%b.C, i/b.Cells()/b.C
		y[i] = float64(x[((n*b.Blocks()+c/Block)*b.Cells()+cell)*Block+c%Block])
	}
	return y
}

func (k *int8Case) run(t testing.TB, p *Pool, v WinoVariant) []float64 {
	t.Helper()
	s := k.spec
	j, err := NewWinoInt8(p, s, v)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	return k.with(j, make([]float32, j.ScratchLen()))
}

// with is what a prepared convolution gives.
func (k *int8Case) with(j *WinoInt8, scratch []float32) []float64 {
	s := k.spec
	b := Blocked{s.N, s.K, s.Size}
	y, y8 := make([]float32, b.Len()), make([]uint8, b.Len())
	var x [2][]uint8
	for i := range x {
		x[i] = blockInt8(k.x[i], Blocked{s.N, s.Parts[i], s.Size})
	}
	j.Run(y8, Float32(y), x[0], x[1], k.w, k.bias, scratch)
	if s.OutScales != nil {
		return unblock(y8, b)
	}
	return unblock(y, b)
}

var int8Specs = []WinoSpec{
	{N: 2, Parts: [2]int{3, 0}, K: 5, Size: [3]int{1, 6, 7}, KD: 3, Side: 3, ReLU: true},
	{N: 1, Parts: [2]int{17, 5}, K: 33, Size: [3]int{2, 9, 12}, KD: 3, Side: 3, Wrap: true, ReLU: true},
	{N: 1, Parts: [2]int{16, 20}, K: 40, Size: [3]int{2, 22, 21}, KD: 3, Side: 3, ReLU: true},
	{N: 1, Parts: [2]int{4, 0}, K: 20, Size: [3]int{5, 5, 6}, KD: 3, Side: 3, ReLU: true},
	{N: 1, Parts: [2]int{7, 0}, K: 3, Size: [3]int{3, 8, 8}, KD: 1, Side: 3, Wrap: true, ReLU: true},
}

// Convolutions of codes agree with the reference, which computes in whole numbers, on every
// instruction set, in any cut and on any number of threads: float32 to the rounding of their
// transforms, codes but for ties.
func TestInt8AgreeWithTheReference(t *testing.T) {
	pool, err := NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for i, s := range int8Specs {
		for _, out := range []bool{false, true} {
			k := newInt8Case(uint64(i), s, [2]int{128 * (i % 2), 128}, out)
			want := k.want()
			most := slices.Max(want)
			everyISA(t, func(t *testing.T) {
				for _, tiles := range []int{14, 5} {
					got := k.run(t, pool, WinoVariant{Tiles: tiles})
					other := 0
					for i := range got {
						e := math.Abs(got[i] - want[i])
						if out && e > 1 || !out && e > 1e-2*most {
							t.Fatalf("%+v: value %d is %v, want %v", s, i, got[i], want[i])
						}
						if out && e > 0 || !out && e > 2e-6*most {
							other++ // a filter or a result beside a tie
						}
					}
					if other > 1+len(got)/200 {
						t.Fatalf("%+v with %d tiles, codes %v: %d of %d values differ", s, tiles, out, other, len(got))
					}
				}
			})
		}
	}
}

// Sums of bytes at the ends of their range do not overflow.
func TestInt8AtTheEndsOfTheirRange(t *testing.T) {
	for _, zero := range []int{0, 128} {
		s := WinoSpec{N: 1, Parts: [2]int{32, 0}, K: 16, Size: [3]int{2, 8, 8}, KD: 3, Side: 3}
		k := newInt8Case(1, s, [2]int{zero}, false)
		for i := range k.x[0] { // the signs of the point with the largest coefficients
			k.x[0][i] = 255 * float64((i/8+1)/2%2*(i%8+1)/2%2)
		}
		for p := range k.spec.Factors[0] {
			k.spec.Factors[0][p] = 150
		}
		want := k.want()
		most := max(slices.Max(want), -slices.Min(want))
		everyISA(t, func(t *testing.T) {
			for i, v := range k.run(t, nil, WinoVariant{Tiles: 14}) {
				if math.Abs(v-want[i]) > 1e-3*most {
					t.Fatalf("value %d is %v, want %v", i, v, want[i])
				}
			}
		})
	}
}

// BenchmarkInt8 is a convolution of a large field of codes beside the same of float32 and of
// bfloat16, in turn on one thread: useful GFLOP/s of each, by the least time.
func BenchmarkInt8(b *testing.B) {
	p, err := NewPool(1)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for _, c := range [][3]int{{64, 0, 64}, {128, 48, 128}, {128, 0, 64}, {320, 0, 192}} {
		b.Run(fmt.Sprint(c), func(b *testing.B) {
			s := WinoSpec{N: 1, Parts: [2]int{c[0], c[1]}, K: c[2], Size: [3]int{2, 176, 176}, KD: 3, Side: 3, ReLU: true, FilterIn: c[0] + c[1]}
			flops := 2 * float64(s.FilterIn*s.K) * 9 * 4 * 176 * 176
			k := &int8Case{spec: WinoInt8Spec{WinoSpec: s}, w: random(1, s.K*s.FilterIn*27, -0.1, 0.1)}
			k.spec.InScales, k.spec.OutScales = random(2, s.FilterIn, 0.01, 0.02), random(2, s.K, 0.01, 0.02)
			for i := range s.Parts {
				if s.Parts[i] > 0 {
					k.spec.Factors[i] = slices.Repeat([]int16{300}, 108)
				}
			}
			var runs []func()
			var x8 [2][]uint8
			var xf, xh [2]Stored
			for i := range x8 {
				n := Blocked{1, s.Parts[i], s.Size}.Len()
				x8[i] = make([]uint8, n)
				for j := range x8[i] {
					x8[i][j] = uint8(j * 7)
				}
				if n > 0 {
					xf[i], xh[i] = Float32(random(3, n, 0, 1)), BFloat16(make([]uint16, n))
				}
			}
			y := Blocked{1, s.K, s.Size}.Len()
			y8, yf, yh := make([]uint8, y), make([]float32, y), make([]uint16, y)
			bias := random(3, s.K, 0, 1)
			for _, tiles := range []int{14, 28, 42} {
				j, err := NewWinoInt8(p, k.spec, WinoVariant{Tiles: tiles})
				if err != nil {
					b.Fatal(err)
				}
				defer j.Close()
				scratch := make([]float32, j.ScratchLen())
				runs = append(runs, func() { j.Run(y8, Stored{}, x8[0], x8[1], k.w, bias, scratch) })
			}
			for _, half := range []bool{false, true} {
				s.BF16 = half
				j, err := NewWino(p, s, WinoVariant{Tiles: 14})
				if err != nil {
					b.Skip(err)
				}
				scratch := make([]float32, j.ScratchLen())
				runs = append(runs, func() {
					if half {
						j.Run(WinoValues{Y: BFloat16(yh), X0: xh[0], X1: xh[1], Filter: k.w, Bias: bias, Scratch: scratch})
					} else {
						j.Run(WinoValues{Y: Float32(yf), X0: xf[0], X1: xf[1], Filter: k.w, Bias: bias, Scratch: scratch})
					}
				})
			}
			least := make([]time.Duration, len(runs))
			for b.Loop() {
				for i, run := range runs {
					start := time.Now()
					run()
					if d := time.Since(start); least[i] == 0 || d < least[i] {
						least[i] = d
					}
				}
			}
			b.ReportMetric(0, "ns/op")
			for i, name := range []string{"int8-14", "int8-28", "int8-42", "f32", "bf16"} {
				b.ReportMetric(flops/float64(least[i].Nanoseconds()), name)
			}
		})
	}
}
