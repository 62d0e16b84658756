//go:build cgo && linux

package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/float16"
)

// laneOf is the place of element i of a value in memory.
func laneOf(i int, s graph.Shape, l graph.Layout) int {
	if l == graph.Plain {
		return i
	}
	p := s[2:].Size()
	return (i/p/s[1]*p+i%p)*l.PaddedChannels(s[1]) + i/p%s[1]
}

// field is a value in memory of a backend.
type field struct {
	backend.Tensor
	memory []float32
}

// upload puts x into memory; padding channels of codes are not 0, since no kernel may depend on them.
func upload(t *testing.T, b *cuda.Backend, x []float64, s graph.Shape, l graph.Layout, d graph.DType) (f field) {
	t.Helper()
	n := l.Elems(s)
	words := make([]float32, n)
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 4*n)
	halves := unsafe.Slice((*uint16)(unsafe.Pointer(&words[0])), 2*n)
	if d == graph.UInt8 {
		for i := range bytes {
			bytes[i] = 77
		}
	}
	for i, v := range x {
		switch i := laneOf(i, s, l); d {
		case graph.UInt8:
			bytes[i] = byte(v)
		case graph.BFloat16:
			halves[i] = uint16(math.Float32bits(float32(v)) >> 16)
		case graph.Float16:
			halves[i] = float16.ToBits(v)
		default:
			words[i] = float32(v)
		}
	}
	doOn(t, b, func() (err error) {
		if f.memory, err = b.Alloc(n); err != nil {
			return err
		}
		return b.Copy(f.memory, words)
	})
	f.Tensor = backend.Tensor{Shape: s, Layout: l, DType: d}
	switch p := unsafe.Pointer(&f.memory[0]); d {
	case graph.UInt8:
		f.U8 = unsafe.Slice((*uint8)(p), n)
	case graph.BFloat16, graph.Float16:
		f.U16 = unsafe.Slice((*uint16)(p), n)
	default:
		f.F32 = f.memory
	}
	return f
}

func doOn(t *testing.T, b *cuda.Backend, f func() error) {
	t.Helper()
	if err := b.Do(f); err != nil {
		t.Fatal(err)
	}
}

// download gives the values of a field, and checks that its padding channels are 0.
func (f field) download(t *testing.T, b *cuda.Backend) []float64 {
	t.Helper()
	words := make([]float32, len(f.memory))
	doOn(t, b, func() error { return b.Copy(words, f.memory) })
	value := func(i int) float64 {
		switch p := unsafe.Pointer(&words[0]); f.DType {
		case graph.UInt8:
			return float64(unsafe.Slice((*uint8)(p), len(words))[i])
		case graph.BFloat16:
			return float64(math.Float32frombits(uint32(unsafe.Slice((*uint16)(p), len(words))[i]) << 16))
		case graph.Float16:
			return float16.FromBits(unsafe.Slice((*uint16)(p), len(words))[i])
		}
		return float64(words[i])
	}
	x, padding := make([]float64, f.Shape.Size()), map[int]bool{}
	for i := range words {
		padding[i] = true
	}
	for i := range x {
		at := laneOf(i, f.Shape, f.Layout)
		x[i] = value(at)
		delete(padding, at)
	}
	for i := range padding {
		if value(i) != 0 {
			t.Fatalf("padding element %d is %v", i, value(i))
		}
	}
	return x
}

// runOn runs an operation on a device, with results of the given type and the channels last.
func runOn(t *testing.T, b *cuda.Backend, name string, attrs any, in []field, d graph.DType) (kernel string, got []float64) {
	t.Helper()
	q := backend.Request{Op: op.Find(name), Attrs: attrs}
	for _, f := range in {
		q.In = append(q.In, f.Tensor)
	}
	s, err := q.Op.Shape(q.InShapes(), attrs)
	if err != nil {
		t.Fatal(err)
	}
	garbage := make([]float64, s.Size())
	for i := range garbage {
		garbage[i] = 99
	}
	out := upload(t, b, garbage, s, graph.ChannelsLast, d)
	q.Out = out.Tensor
	doOn(t, b, func() error {
		k, err := b.Prepare(q)
		if err != nil {
			return err
		}
		kernel = k.Name
		scratch, err := b.Alloc(int(k.Scratch / 4))
		if err != nil {
			return err
		}
		if k.SetScratch != nil {
			if err := k.SetScratch(scratch); err != nil {
				return err
			}
		}
		if err := k.Run(); err != nil {
			return err
		}
		if k.Close != nil {
			k.Close()
		}
		return b.Free(scratch)
	})
	got = out.download(t, b)
	doOn(t, b, func() error {
		for _, f := range append(in, out) {
			if err := b.Free(f.memory); err != nil {
				return err
			}
		}
		return nil
	})
	return kernel, got
}

// int8Case is a convolution of codes whose filter has blocks of zeros.
type int8Case struct {
	name  string
	parts []graph.Shape
	w     graph.Shape
	mask  op.BlockMask
	wrap  bool
	relu  bool
	zeros []int
}

// int8Cases have channels, rows and points that no block divides, two samples, one to three levels, two parts,
// panels without any block, and an odd number of runs, which is padded.
func int8Cases() []int8Case {
	return []int8Case{
		{"42 channels, periodic", []graph.Shape{{1, 42, 2, 7, 37}}, graph.Shape{70, 42, 3, 3, 3}, "100" + "010" + "000" + "001" + "110", true, true, []int{0}},
		{"two samples of three levels", []graph.Shape{{2, 13, 3, 6, 19}}, graph.Shape{21, 13, 3, 3, 3}, "0" + "1", false, false, []int{128}},
		{"two parts", []graph.Shape{{2, 32, 1, 9, 17}, {2, 7, 1, 9, 17}}, graph.Shape{33, 39, 3, 3, 3}, "001" + "100" + "011", true, true, []int{0, 128}},
		{"few channels", []graph.Shape{{1, 3, 1, 12, 31}}, graph.Shape{1, 3, 1, 3, 3}, "", true, true, []int{0}},
		{"whole blocks", []graph.Shape{{1, 64, 1, 16, 32}}, graph.Shape{32, 64, 1, 3, 3}, "0100" + "1011", false, true, []int{0}},
		{"nothing but zeros", []graph.Shape{{1, 16, 2, 5, 9}}, graph.Shape{20, 16, 3, 3, 3}, "0" + "0", true, false, []int{128}},
		{"one column", []graph.Shape{{1, 24, 2, 5, 1}}, graph.Shape{17, 24, 1, 3, 3}, "01" + "10", true, true, []int{128}},
	}
}

// conv gives the attributes of a case; the scales of the source are powers of 2 where exact is set.
func (c int8Case) conv(rng *rand.Rand, exact bool) op.Int8Conv {
	a := op.Int8Conv{FusedConv: op.FusedConv{Conv: op.Conv{Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}, Pad: op.Same(c.w[2], 3, 3), Mask: c.mask}, ReLU: c.relu},
		Scales: &op.Int8Scales{ZeroPoints: c.zeros}, Direct: true}
	a.Pad[2].Periodic = c.wrap
	for range c.w[1] {
		s := float32(1)
		if !exact {
			s = 0.002 + 0.01*rng.Float32()
		}
		a.Scales.Channels = append(a.Scales.Channels, s)
	}
	for _, p := range c.parts {
		a.Scales.Factors = append(a.Scales.Factors, slices.Repeat([]int16{1}, op.Int8WinogradPoints(p[2], c.w, a.Conv)))
	}
	return a
}

// operands draws codes, among them many at the ends of their range, a filter with the zeros of the mask, and a bias.
// An exact filter has whole numbers up to 127, which each row has, so that it is not rounded.
func (c int8Case) operands(rng *rand.Rand, exact bool) (x [][]float64) {
	for _, p := range c.parts {
		codes := make([]float64, p.Size())
		for i := range codes {
			if codes[i] = float64(rng.IntN(256)); rng.IntN(4) == 0 {
				codes[i] = float64(rng.IntN(2) * 255)
			}
		}
		x = append(x, codes)
	}
	w, bias := make([]float32, c.w.Size()), make([]float64, c.w[0])
	for i := range w {
		if w[i] = rng.Float32()*2 - 1; exact {
			w[i] = float32(rng.IntN(255) - 127)
		}
	}
	c.mask.Clear(w, c.w)
	each := c.w[1:].Size()
	for o := range bias {
		if bias[o] = float64(float32(rng.NormFloat64())); !exact {
			continue
		}
		bias[o] = float64(o - 3)
		for i := range each { // the first value of a kept block
			if at := o*each + i; c.mask.Keeps(o, i/c.w[2:].Size(), c.w[1]) {
				w[at] = 127 - 254*float32(o%2)
				break
			}
		}
	}
	wide := make([]float64, len(w))
	for i, v := range w {
		wide[i] = float64(v)
	}
	return append(x, wide, bias)
}

// run runs a case on a device with results of a type, codes with those scales, and gives the values of the
// reference too.
func (c int8Case) run(t *testing.T, b *cuda.Backend, a op.Int8Conv, x [][]float64, d graph.DType) (kernel string, got, want []float64) {
	t.Helper()
	in := append(slices.Clone(c.parts), c.w, graph.Shape{c.w[0]})
	var fields []field
	for i, s := range in {
		if i < len(c.parts) {
			fields = append(fields, upload(t, b, x[i], s, graph.ChannelsLast, graph.UInt8))
			continue
		}
		fields = append(fields, upload(t, b, x[i], s, graph.Plain, graph.Float32))
	}
	o := op.Find("conv3d_int8")
	s, err := o.Shape(in, a)
	if err != nil {
		t.Fatal(err)
	}
	call := graph.Call{In: x, InShape: in, Out: make([]float64, s.Size()), OutShape: s}
	o.Ref(call, a)
	kernel, got = runOn(t, b, "conv3d_int8", a, fields, d)
	return kernel, got, call.Out
}

// outScales are scales of the results, of which neighbours differ by a factor that rounds nothing.
func outScales(scale float32, channels int) (all []float32) {
	for o := range channels {
		all = append(all, scale/float32(int(1)<<(o%3)))
	}
	return all
}

// inInt8Tiles calls f with each number of points of a block alone.
func inInt8Tiles(f func(points int)) {
	all := kernels.Int8Points
	defer func() { kernels.Int8Points = all }()
	for _, points := range all {
		kernels.Int8Points = []int{points}
		f(points)
	}
}

// TestSparseInt8Convs compares sparse convolutions of codes with the dense reference: where nothing is rounded, its bits.
func TestSparseInt8Convs(t *testing.T) { sparseInt8Convs(t, emulatedGPU(t)) }

func sparseInt8Convs(t *testing.T, b *cuda.Backend) {
	inInt8Tiles(func(points int) {
		for i, c := range int8Cases() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			a, x := c.conv(rng, true), c.operands(rng, true)
			for _, d := range []graph.DType{graph.Float32, graph.UInt8, graph.BFloat16, graph.Float16} {
				a := a
				if d == graph.UInt8 && !c.relu {
					continue
				} else if d == graph.UInt8 {
					q := *a.Scales
					q.OutScales = outScales(4096, c.w[0])
					a.Scales = &q
				} else if d == graph.Float16 { // sums are up to 65504 there
					x = slices.Clone(x)
					for k := range c.parts {
						x[k] = slices.Clone(x[k])
						for j := range x[k] {
							x[k][j] = min(x[k][j], 3)
							if c.zeros[k] == 128 {
								x[k][j] += 126
							}
						}
					}
				}
				t.Run(fmt.Sprintf("%d points/%s/%s", points, c.name, d), func(t *testing.T) {
					name, got, want := c.run(t, b, a, x, d)
					if name != fmt.Sprintf("conv int8 sparse, %d points", points) {
						t.Fatalf("kernel %q", name)
					}
					most := 0.0
					for k, v := range want {
						v = float64(float32(v))
						if d == graph.BFloat16 {
							v = rounded(v, 8)
						} else if d == graph.Float16 {
							v = float16.Round(v)
						}
						if most = max(most, math.Abs(v)); got[k] != v {
							t.Fatalf("element %d of %d is %v, want %v", k, len(want), got[k], v)
						}
					}
					if most == 0 {
						t.Error("all results are 0")
					}
				})
			}
		}
	})
}

// TestSparseInt8Rounding: filters and scales that are rounded agree with the reference, values to float32's
// rounding, codes but for ties.
func TestSparseInt8Rounding(t *testing.T) {
	b := emulatedGPU(t)
	for i, c := range int8Cases()[:5] {
		rng := rand.New(rand.NewPCG(uint64(i), 2))
		a, x := c.conv(rng, false), c.operands(rng, false)
		_, got, want := c.run(t, b, a, x, graph.Float32)
		most := max(slices.Max(want), -slices.Min(want))
		for k := range want {
			if math.Abs(got[k]-want[k]) > 1e-6*most {
				t.Fatalf("%s: value %d is %v, want %v ± %.2g", c.name, k, got[k], want[k], 1e-6*most)
			}
		}
		if !c.relu {
			continue
		}
		a.Scales.OutScales = outScales(float32(most/300), c.w[0]) // the largest values are clamped
		_, got, want = c.run(t, b, a, x, graph.UInt8)
		other := 0
		for k := range want {
			if e := math.Abs(got[k] - want[k]); e > 1 {
				t.Fatalf("%s: code %d is %v, want %v", c.name, k, got[k], want[k])
			} else if e > 0 {
				other++
			}
		}
		if slices.Max(got) != 255 || other > 1+len(want)/1000 {
			t.Errorf("%s: %d of %d codes differ, the largest is %v", c.name, other, len(want), slices.Max(got))
		}
	}
}

// TestSparseInt8RandomShapes draws shapes, masks, zero points and levels.
func TestSparseInt8RandomShapes(t *testing.T) {
	b := emulatedGPU(t)
	for i := range 12 {
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		levels, kd := 1+rng.IntN(4), 1+2*rng.IntN(2)
		s := graph.Shape{1 + rng.IntN(2), 1 + rng.IntN(50), levels, 1 + rng.IntN(9), 1 + rng.IntN(23)}
		c := int8Case{name: "random", parts: []graph.Shape{s}, wrap: rng.IntN(2) == 0, relu: rng.IntN(2) == 0, zeros: []int{128 * rng.IntN(2)}}
		c.w = graph.Shape{1 + rng.IntN(50), s[1], kd, 3, 3}
		if rng.IntN(2) == 0 {
			s[1] = 16 * (1 + s[1]/16)
			other := s.Clone()
			other[1] = 1 + rng.IntN(20)
			c.parts, c.zeros, c.w[1] = append(c.parts, other), append(c.zeros, 128*rng.IntN(2)), s[1]+other[1]
		}
		var mask strings.Builder
		for range (c.w[0] + 15) / 16 * ((c.w[1] + 15) / 16) {
			mask.WriteByte("01"[rng.IntN(2)])
		}
		c.mask = op.BlockMask(mask.String())
		a, x := c.conv(rng, true), c.operands(rng, true)
		_, got, want := c.run(t, b, a, x, graph.Float32)
		for k, v := range want {
			if got[k] != float64(float32(v)) {
				t.Fatalf("%v with %v, mask %s: element %d is %v, want %v", c.parts, c.w, c.mask, k, got[k], v)
			}
		}
	}
}

// TestSparseInt8NaN: a filter with a value that is no number has no results that are numbers, as in float32.
func TestSparseInt8NaN(t *testing.T) {
	b, c, rng := emulatedGPU(t), int8Cases()[3], rand.New(rand.NewPCG(1, 7))
	a, x := c.conv(rng, true), c.operands(rng, true)
	x[1][2] = math.NaN()
	_, got, _ := c.run(t, b, a, x, graph.Float32)
	if slices.ContainsFunc(got, func(v float64) bool { return !math.IsNaN(v) }) {
		t.Error("some results are numbers")
	}
}

// TestSparseInt8Sums: the largest sums that are accepted are exact in int32, and larger ones are refused.
func TestSparseInt8Sums(t *testing.T) {
	b := emulatedGPU(t)
	const most = math.MaxInt32 / (127 * 255) / 9
	for _, channels := range []int{most, most + 1} {
		c := int8Case{parts: []graph.Shape{{1, channels, 1, 3, 3}}, w: graph.Shape{1, channels, 1, 3, 3}, zeros: []int{0}}
		a := c.conv(nil, true)
		if accepted := hasInt8(b, c, a); accepted != (channels == most) {
			t.Errorf("%d channels: accepted %v", channels, accepted)
		} else if !accepted {
			continue
		}
		x := [][]float64{slices.Repeat([]float64{255}, c.parts[0].Size()), slices.Repeat([]float64{127}, c.w.Size()), {0}}
		_, got, _ := c.run(t, b, a, x, graph.Float32)
		if want := float64(float32(9 * 127 * 255 * channels)); got[4] != want {
			t.Errorf("the sum is %v, want %v", got[4], want)
		}
	}
}

// hasInt8 reports whether a convolution has a kernel, of codes with the channels last.
func hasInt8(b *cuda.Backend, c int8Case, a op.Int8Conv) bool {
	q := backend.Request{Op: op.Find("conv3d_int8"), Attrs: a, Out: backend.Tensor{Shape: append(graph.Shape{c.parts[0][0], c.w[0]}, c.parts[0][2:]...), Layout: graph.ChannelsLast}}
	for _, s := range c.parts {
		q.In = append(q.In, backend.Tensor{Shape: s, Layout: graph.ChannelsLast, DType: graph.UInt8})
	}
	q.In = append(q.In, backend.Tensor{Shape: c.w}, backend.Tensor{Shape: graph.Shape{c.w[0]}})
	all, err := b.Variants(q)
	return err == nil && len(all) > 0
}

// oracle is a matrix of 4×8 and its values in panels of two rows and tiles of four slots, worked out by hand.
var (
	oracle       = []float32{0, 3, 0, 0, 5, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 7, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, -1, 0, 0, 6, 0, 0}
	oraclePacked = []int8{3, 5, 1, 0, 2, 0, 7, 0, 4, 0, 0, 0, -1, 6, 0, 0}
)

// TestPackOracle packs that matrix by the program that packs filters, in runs of one column; sums over the zero point are
// those of its rows.
func TestPackOracle(t *testing.T) {
	f := kernels.SRBCRSForm{Vector: 2, Run: 1, Stride: 4}
	got, minus := packInt8(t, f, oracle, 4, 8, 1, 128)
	if !slices.Equal(got, oraclePacked) {
		t.Errorf("values %v, want %v", got, oraclePacked)
	}
	if want := []int32{128 * 9, 128 * 9, 128 * 4, 128 * 5}; !slices.Equal(minus, want) {
		t.Errorf("sums %v, want %v", minus, want)
	}
}

// TestPackTies: values halfway between two integers become the even one, as by the reference.
func TestPackTies(t *testing.T) {
	f := kernels.SRBCRSForm{Vector: 1, Run: 1, Stride: 8}
	got, _ := packInt8(t, f, []float32{0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.75, 127}, 1, 8, 1, 0)
	if want := []int8{0, 2, 2, 0, -2, -2, 4, 127}; !slices.Equal(got, want) {
		t.Errorf("values %v, want %v", got, want)
	}
}

// keptRuns is the pattern of the non-zero values of a filter [rows channels taps].
func keptRuns(f kernels.SRBCRSForm, w []float32, rows, channels, taps int) func(panel, run int) bool {
	return func(panel, run int) bool {
		for r := panel * f.Vector; r < min((panel+1)*f.Vector, rows); r++ {
			for c := run / taps * f.Run; c < min((run/taps+1)*f.Run, channels); c++ {
				if w[(r*channels+c)*taps+run%taps] != 0 {
					return true
				}
			}
		}
		return false
	}
}

// packInt8 packs a filter with values up to 127, without a scale.
func packInt8(t *testing.T, f kernels.SRBCRSForm, w []float32, rows, channels, taps, zero int) (values []int8, minus []int32) {
	t.Helper()
	d, check := emulatedDevice(t, 1<<24)
	put := func(from unsafe.Pointer, bytes int) device.Pointer {
		t.Helper()
		p, err := d.Alloc(int64(max(bytes, 8)))
		check(err)
		if from != nil && bytes > 0 {
			check(d.Copy(p, device.Pointer(from), int64(bytes)))
		}
		return p
	}
	panels, runs := (rows+f.Vector-1)/f.Vector, (channels+f.Run-1)/f.Run*taps
	s := f.NewSRBCRS(panels, runs, keptRuns(f, w, rows, channels, taps))
	values, minus = make([]int8, f.Values(s)), make([]int32, panels*f.Vector)
	scales, most := slices.Repeat([]float32{1}, channels), slices.Repeat([]float64{127}, rows)
	s.Col = append(s.Col, 0) // never empty
	packed, sums := put(nil, len(values)), put(nil, 4*len(minus))
	m, err := d.Load(kernels.ConvInt8Pack(f))
	check(err)
	c, err := m.Call("pack_filter", device.Size{Grid: [3]int{panels * f.Vector}, Block: [3]int{kernels.Int8PackThreads}},
		put(unsafe.Pointer(&w[0]), 4*len(w)), put(unsafe.Pointer(&scales[0]), 4*channels), put(unsafe.Pointer(&most[0]), 8*rows),
		put(unsafe.Pointer(&s.Ptr[0]), 4*len(s.Ptr)), put(unsafe.Pointer(&s.Col[0]), 4*len(s.Col)), packed, put(nil, 4*len(minus)), sums,
		int32(rows), int32(channels), int32(taps), int32(runs), int32(zero), int32(zero))
	check(err)
	check(c.Run())
	if len(values) > 0 {
		check(d.Copy(device.Pointer(&values[0]), packed, int64(len(values))))
	}
	check(d.Copy(device.Pointer(&minus[0]), sums, int64(4*len(minus))))
	return values, minus
}

// TestPackRoundTrip: filters that are packed and unpacked come back, in several forms.
func TestPackRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, f := range []kernels.SRBCRSForm{{Vector: 2, Run: 1, Stride: 4}, {Vector: 8, Run: 1, Stride: 16}, kernels.Int8Form} {
		for range 4 {
			rows, channels, taps := 1+rng.IntN(40), 1+rng.IntN(40), []int{1, 9}[rng.IntN(2)]
			w := make([]float32, rows*channels*taps)
			for i := range w {
				if r, c := i/taps/channels/f.Vector, i/taps%channels/f.Run; (r*7+c*3+i%taps)%4 == 0 && r != 1 { // panel 1 has none
					w[i] = float32(rng.IntN(255) - 127)
				}
			}
			values, _ := packInt8(t, f, w, rows, channels, taps, 0)
			s := f.NewSRBCRS((rows+f.Vector-1)/f.Vector, (channels+f.Run-1)/f.Run*taps, keptRuns(f, w, rows, channels, taps))
			back := make([]float32, len(w))
			for p := range len(s.Ptr) / 2 {
				for slot := int(s.Ptr[2*p]); slot < int(s.Ptr[2*p+1]); slot++ {
					run := int(s.Col[slot/f.Run]) / f.Run
					for r := range f.Vector {
						v := values[slot/f.Stride*f.Stride*f.Vector+r*f.Stride+slot%f.Stride]
						if o, c := p*f.Vector+r, run/taps*f.Run+slot%f.Run; o < rows && c < channels {
							back[(o*channels+c)*taps+run%taps] = float32(v)
						} else if v != 0 {
							t.Fatalf("row %d, channel %d beyond the filter is %d", o, c, v)
						}
					}
				}
			}
			if !slices.Equal(back, w) {
				t.Errorf("%v: a filter of %d×%d×%d does not come back", f, rows, channels, taps)
			}
		}
	}
}

// TestProductOracle multiplies the matrix by B[k][n] = 2k + n − 7, of 8×2: codes with zero point 128, at the middle tap, beside
// a channel of zeros whose weight of 127 makes the scale 1.
func TestProductOracle(t *testing.T) {
	b := emulatedGPU(t)
	c := int8Case{parts: []graph.Shape{{1, 9, 1, 1, 2}}, w: graph.Shape{4, 9, 1, 3, 3}, zeros: []int{128}}
	x, w := make([]float64, 18), make([]float64, 4*9*9)
	for k := range 9 {
		for n := range 2 {
			if x[2*k+n] = 128; k < 8 {
				x[2*k+n] += float64(2*k + n - 7)
			}
		}
		for o := range 4 {
			if w[(o*9+k)*9+4] = 127; k < 8 {
				w[(o*9+k)*9+4] = float64(oracle[o*8+k])
			}
		}
	}
	_, got, _ := c.run(t, b, c.conv(nil, true), [][]float64{x, w, make([]float64, 4)}, graph.Float32)
	if want := []float64{-3, 6, 39, 48, -12, -8, 21, 26}; !slices.Equal(got, want) {
		t.Errorf("product %v, want %v", got, want)
	}
}

// TestQuantiseFields: fields of each type and layout become the codes of the reference, but for ties; 0, 0.31, −0.74 and 1.27
// with scale 0.01 are 0, 31, −74 and 127.
func TestQuantiseFields(t *testing.T) {
	b := emulatedGPU(t)
	a := op.Quantisation{Scales: &op.Int8Scales{Channels: []float32{0.01}}, ZeroPoint: 128}
	s := graph.Shape{1, 1, 1, 1, 4}
	_, got := runOn(t, b, "quantise", a, []field{upload(t, b, []float64{0, 0.31, -0.74, 1.27}, s, graph.Plain, graph.Float32)}, graph.UInt8)
	if want := []float64{128, 128 + 31, 128 - 74, 255}; !slices.Equal(got, want) {
		t.Errorf("codes %v, want %v", got, want)
	}
	rng := rand.New(rand.NewPCG(1, 9))
	for _, k := range []struct {
		l graph.Layout
		d graph.DType
	}{{graph.Plain, graph.Float32}, {graph.ChannelsLast, graph.Float32}, {graph.ChannelsLast, graph.BFloat16}, {graph.ChannelsLast, graph.Float16}} {
		for _, zero := range []int{0, 128} {
			s := graph.Shape{2, 19, 2, 3, 5}
			x := make([]float64, s.Size())
			for i := range x {
				x[i] = rounded(4*rng.Float64()-2, 8)
			}
			a := op.Quantisation{Scales: &op.Int8Scales{}, ZeroPoint: zero}
			for range s[1] {
				a.Scales.Channels = append(a.Scales.Channels, 0.005+0.01*rng.Float32())
			}
			_, got := runOn(t, b, "quantise", a, []field{upload(t, b, x, s, k.l, k.d)}, graph.UInt8)
			call := graph.Call{In: [][]float64{x}, InShape: []graph.Shape{s}, Out: make([]float64, len(x)), OutShape: s}
			op.Find("quantise").Ref(call, a)
			other := 0
			for i, v := range call.Out {
				if got[i] != v {
					other++
				}
				if math.Abs(got[i]-v) > 1 {
					t.Fatalf("%v %v, zero point %d: code %d is %v, want %v", k.l, k.d, zero, i, got[i], v)
				}
			}
			if other > 1 {
				t.Errorf("%v %v, zero point %d: %d codes differ", k.l, k.d, zero, other)
			}
		}
	}
}

// TestCodesOfWindows: pooling and upsampling of codes give the codes of the reference.
func TestCodesOfWindows(t *testing.T) {
	b := emulatedGPU(t)
	s := graph.Shape{2, 21, 2, 6, 8}
	x := make([]float64, s.Size())
	rng := rand.New(rand.NewPCG(1, 8))
	for i := range x {
		x[i] = float64(rng.IntN(256))
	}
	for _, c := range []struct {
		name string
		a    any
	}{{"max_pool", op.Pool{Size: [3]int{1, 2, 2}, Stride: [3]int{1, 2, 2}}}, {"upsample_int8", op.Upsampling{Scale: [3]int{1, 2, 2}, WrapLon: true}}} {
		o := op.Find(c.name)
		out, err := o.Shape([]graph.Shape{s}, c.a)
		if err != nil {
			t.Fatal(err)
		}
		call := graph.Call{In: [][]float64{x}, InShape: []graph.Shape{s}, Out: make([]float64, out.Size()), OutShape: out}
		o.Ref(call, c.a)
		f := upload(t, b, x, s, graph.ChannelsLast, graph.UInt8)
		zeroPadding(t, b, f)
		if _, got := runOn(t, b, c.name, c.a, []field{f}, graph.UInt8); !slices.Equal(got, call.Out) {
			t.Errorf("%s: other codes", c.name)
		}
	}
}

// zeroPadding makes padding channels 0, as the kernels leave them: pooling and upsampling keep what they have.
func zeroPadding(t *testing.T, b *cuda.Backend, f field) {
	t.Helper()
	words := make([]float32, len(f.memory))
	doOn(t, b, func() error { return b.Copy(words, f.memory) })
	lanes := f.Layout.PaddedChannels(f.Shape[1])
	for i, codes := 0, unsafe.Slice((*uint8)(unsafe.Pointer(&words[0])), len(words)); i < len(codes); i++ {
		if i%lanes >= f.Shape[1] {
			codes[i] = 0
		}
	}
	doOn(t, b, func() error { return b.Copy(f.memory, words) })
}

// slowing is a device on which each run is timed slower than the one before.
type slowing struct{ accelerating }

func (s *slowing) Time(f func() error) (seconds float64, err error) {
	seconds, err = s.accelerating.Time(f)
	return 1 / seconds, err
}

// TestWhichConvolutionsRunInInt8: those with at most 0.3 of their blocks, on devices with the instruction; where it is timed, those
// that are faster than dense ones, and none where they cannot be timed.
func TestWhichConvolutionsRunInInt8(t *testing.T) {
	sparse := int8Case{parts: []graph.Shape{{1, 64, 1, 5, 9}}, w: graph.Shape{32, 64, 1, 3, 3}, mask: "0100" + "1000", zeros: []int{0}}
	denser, unmasked, straddling, whole := sparse, sparse, sparse, sparse
	denser.mask, unmasked.mask = "0100"+"1010", ""
	most, more := sparse, sparse
	large := sparse
	large.parts = []graph.Shape{{1, 64, 1, 1 << 15, 1 << 15}}
	most.parts, most.w, most.mask = []graph.Shape{{1, 80, 1, 5, 9}}, graph.Shape{32, 80, 1, 3, 3}, "01000"+"10010"
	more.parts, more.w, more.mask = []graph.Shape{{1, 48, 1, 5, 9}}, graph.Shape{48, 48, 1, 3, 3}, "010"+"100"+"001"
	straddling.parts, straddling.zeros = []graph.Shape{{1, 40, 1, 5, 9}, {1, 24, 1, 5, 9}}, []int{0, 0}
	whole.parts, whole.zeros = []graph.Shape{{1, 48, 1, 5, 9}, {1, 16, 1, 5, 9}}, []int{0, 0}
	emulated := func(memory int64) *emulate.Device {
		d, err := emulate.Open(memory)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	plain := func() device.Device { return emulated(1 << 26) }
	for _, c := range []struct {
		name string
		open func() device.Device
		int8Case
		want bool
	}{
		{"a quarter of the blocks", plain, sparse, true}, {"3 of 8 blocks", plain, denser, false}, {"3 of 10 blocks", plain, most, true}, {"3 of 9 blocks", plain, more, false}, {"all blocks", plain, unmasked, false},
		{"2³⁰ points", plain, large, false},
		{"a block in two parts", plain, straddling, false}, {"parts of whole blocks", plain, whole, true},
		{"9.0", func() device.Device { return older{emulated(1 << 26), 90} }, sparse, true},
		{"7.5", func() device.Device { return older{emulated(1 << 26), 75} }, sparse, false},
		{"dense is faster", func() device.Device { return &accelerating{Device: emulated(1 << 28)} }, sparse, false},
		{"sparse is faster", func() device.Device { return &slowing{accelerating{Device: emulated(1 << 28)}} }, sparse, true},
		{"sparse is faster, 3 of 8 blocks", func() device.Device { return &slowing{accelerating{Device: emulated(1 << 28)}} }, denser, false},
		{"no memory to time them", func() device.Device { return &slowing{accelerating{Device: emulated(1 << 15)}} }, sparse, false},
	} {
		b := gpuOf(t, func() (device.Device, error) { return c.open(), nil })
		a := c.conv(nil, true)
		in := append(slices.Clone(c.parts), c.w, graph.Shape{c.w[0]})
		out, err := op.Find("conv3d_int8").Shape(in, a)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.RunsInt8(a, in, out, graph.BFloat16); got != c.want {
			t.Errorf("%s: in int8 %v", c.name, got)
		}
	}
}
