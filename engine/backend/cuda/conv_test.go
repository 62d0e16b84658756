//go:build cgo && linux

package cuda_test

import (
	"fmt"
	"math"
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
	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/internal/float16"
)

func emulatedGPU(t testing.TB) *cuda.Backend {
	t.Helper()
	return gpuOf(t, func() (device.Device, error) { return emulate.Open(1 << 30) })
}

func gpuOf(t testing.TB, open func() (device.Device, error)) *cuda.Backend {
	t.Helper()
	b, err := cuda.New(open)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// rounded returns the nearest value with the given bits of mantissa: bfloat16 8, tf32 11.
func rounded(x float64, bits int) float64 {
	frac, exp := math.Frexp(x)
	return math.Ldexp(math.RoundToEven(math.Ldexp(frac, bits)), exp-bits)
}

// convCase is one request with fields that have their channels last.
type convCase struct {
	name string
	op   string
	in   []graph.Shape
	a    any
	edit func(operand int, x []float64) // nil keeps the drawn values
	cut  string
	late []*backend.Region // ready regions of operands; other values are NaN until the kernel has started
}

// convCasesOf are a convolution of parts with its two gradients, in the forms with all that
// the kernels do besides.
func convCasesOf(name string, parts []graph.Shape, w graph.Shape, a op.Conv) []convCase {
	x := parts[0].Clone()
	x[1] = w[1]
	y, err := op.Find("conv3d").Shape([]graph.Shape{x, w}, a)
	if err != nil {
		panic(err)
	}
	whole := w.Clone()
	whole[1] += 5
	part := op.FusedConvGrad{ConvGrad: op.ConvGrad{Conv: a, To: x}, Lo: 3, HasAddend: true, HasGate: true}
	return []convCase{
		{name: name, op: "conv3d_fused", in: append(slices.Clone(parts), w, graph.Shape{w[0]}), a: op.FusedConv{Conv: a, ReLU: true}},
		{name: name, op: "conv3d_fused_grad_data", in: []graph.Shape{whole, y, x, x}, a: part},
		{name: name, op: "conv3d_fused_grad_filter", in: append(slices.Clone(parts), y), a: op.ConvGrad{Conv: a, To: w}},
	}
}

// largerCases have several tiles along rows and columns, with remainders.
func largerCases() []convCase {
	global := op.Conv{Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}, Pad: op.SameGlobal(3, 3, 3)}
	zero := global
	zero.Pad = op.Same(3, 3, 3)
	stride := zero
	stride.Stride = [3]int{1, 2, 2}
	apart := stride
	apart.Pad = op.Same(1, 1, 1)
	return slices.Concat(
		convCasesOf("42 channels, periodic", []graph.Shape{{1, 42, 2, 7, 37}}, graph.Shape{70, 42, 3, 3, 3}, global),
		convCasesOf("odd parts, two samples", []graph.Shape{{2, 13, 3, 6, 19}, {2, 6, 3, 6, 19}}, graph.Shape{21, 19, 3, 3, 3}, global),
		convCasesOf("one result", []graph.Shape{{1, 33, 2, 9, 31}}, graph.Shape{1, 33, 3, 3, 3}, zero),
		convCasesOf("boxes, remainders", []graph.Shape{{1, 35, 2, 31, 47}}, graph.Shape{7, 35, 3, 3, 3}, global),
		convCasesOf("strides", []graph.Shape{{1, 20, 2, 13, 22}}, graph.Shape{9, 20, 3, 3, 3}, stride),
		convCasesOf("points that no filter reaches", []graph.Shape{{1, 7, 1, 9, 14}}, graph.Shape{5, 7, 1, 1, 1}, apart),
	)
}

// TestLargerConvs compares convolutions of several tiles with the reference, in every
// arithmetic that devices have, each in every second case. (All: TestLongLargerConvs.)
func TestLargerConvs(t *testing.T) { largerConvs(t, 2) }

// largerConvs computes in each arithmetic every so-manieth case. What is multiplied is
// rounded beforehand, so that what remains is the order of the sums.
func largerConvs(t *testing.T, every int) {
	b := emulatedGPU(t)
	for i, arithmetic := range []string{"bf16", "f16", "float32", "tf32"} {
		for k, c := range largerCases() {
			if (i+k)%every > 0 {
				continue
			}
			t.Run(arithmetic+"/"+c.op+"/"+c.name, func(t *testing.T) { compareConv(t, b, c, arithmetic) })
		}
	}
}

// older is a device of a compute capability without tensor cores for bfloat16.
type older struct {
	*emulate.Device
	architecture int
}

func (d older) Properties() device.Properties {
	p := d.Device.Properties()
	p.Architecture = d.architecture
	return p
}

// TestConvsOfOlderDevices: types without tensor cores are multiplied as float32.
func TestConvsOfOlderDevices(t *testing.T) {
	for _, k := range []struct {
		architecture     int
		arithmetic, name string
	}{{70, "bf16", "bf16 plain"}, {75, "f16", "f16 f16"}, {70, "f16", "f16 quads"}} {
		b := gpuOf(t, func() (device.Device, error) {
			d, err := emulate.Open(1 << 30)
			return older{d, k.architecture}, err
		})
		for _, c := range largerCases()[3:6] {
			t.Run(fmt.Sprintf("%d/%s/%s", k.architecture, k.arithmetic, c.op), func(t *testing.T) {
				if name, _ := compareConv(t, b, c, k.arithmetic); !strings.Contains(name, k.name) {
					t.Errorf("kernel %s, want %s", name, k.name)
				}
			})
		}
	}
}

// TestTapsOutside: taps that no point of a field has along the first axis are not multiplied,
// not even by zero.
func TestTapsOutside(t *testing.T) {
	b := emulatedGPU(t)
	a := op.Conv{Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}, Pad: op.SameGlobal(3, 3, 3)}
	for _, c := range convCasesOf("one level", []graph.Shape{{1, 9, 1, 8, 20}}, graph.Shape{6, 9, 3, 3, 3}, a)[:2] {
		c.edit = func(k int, x []float64) {
			for i := range x {
				if s := c.in[k]; len(s) == 5 && s[2] == 3 && i/9%3 != 1 {
					x[i] = math.NaN()
				}
			}
		}
		for _, arithmetic := range []string{"bf16", "float32"} {
			t.Run(c.op+"/"+arithmetic, func(t *testing.T) { compareConv(t, b, c, arithmetic) })
		}
	}
}

// compareConv runs a case on the device and compares it with the reference. It gives the
// name of the kernel and the bits.
func compareConv(t *testing.T, b *cuda.Backend, c convCase, arithmetic string) (name string, got []float32) {
	t.Helper()
	o := op.Find(c.op)
	out, err := o.Shape(c.in, c.a)
	if err != nil {
		t.Fatal(err)
	}
	ways := b.LayoutOptions(o, c.a, c.in, out)
	w := ways[len(ways)-1]
	if len(ways) < 2 {
		t.Fatal("no way with channels last")
	}
	bits := map[string]int{"bf16": 8, "f16": float16.MantissaBits, "float32": 24, "tf32": 11}[arithmetic]
	half := 0.0 // relative error of what is stored
	stored := map[string]graph.DType{"bf16": graph.BFloat16, "f16": graph.Float16}[arithmetic]
	if stored != graph.Float32 {
		half = math.Ldexp(1, -bits)
	}
	b.AllowTF32(arithmetic == "tf32")
	defer b.AllowTF32(false)
	call := graph.Call{InShape: c.in, Out: make([]float64, out.Size()), OutShape: out}
	q := backend.Request{Op: o, Attrs: c.a, Variant: c.cut, Ready: c.late}
	do := func(f func() error) {
		t.Helper()
		if err := b.Do(f); err != nil {
			t.Fatal(err)
		}
	}
	var memory [][]float32
	var arrive []func() error
	tensor := func(x []float64, s graph.Shape, l graph.Layout, late *backend.Region) (there backend.Tensor) {
		n := l.Elems(s)
		none := make([]float32, n)
		narrow := stored != graph.Float32 && l == graph.ChannelsLast
		words := make([]float32, n)
		halves := unsafe.Slice((*uint16)(unsafe.Pointer(&words[0])), n)
		missing := unsafe.Slice((*uint16)(unsafe.Pointer(&none[0])), n)
		p := s[2:].Size()
		for i, v := range x {
			on := late == nil || inside(i, s, late)
			if l == graph.ChannelsLast {
				i = (i/p/s[1]*p+i%p)*l.PaddedChannels(s[1]) + i/p%s[1]
			}
			if narrow && stored == graph.Float16 {
				halves[i] = float16.ToBits(v)
			} else if narrow {
				halves[i] = uint16(math.Float32bits(float32(v)) >> 16)
			} else {
				words[i] = float32(v)
			}
			switch {
			case on && narrow:
				missing[i] = halves[i]
			case on:
				none[i] = words[i]
			case narrow:
				missing[i] = 0x7fff // no number in either type
			default:
				none[i] = float32(math.NaN())
			}
		}
		there = backend.Tensor{Shape: s, Layout: l}
		do(func() error {
			m, err := b.Alloc(n)
			if err != nil {
				return err
			}
			memory = append(memory, m)
			if there.F32 = m; narrow {
				there.F32, there.DType, there.U16 = nil, stored, unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(m))), n)
			}
			arrive = append(arrive, func() error { return b.Copy(m, words) })
			return b.Copy(m, none)
		})
		return there
	}
	for k, s := range c.in {
		x := make([]float64, s.Size())
		for i := range x {
			x[i] = rounded(2*rng.Uniform(rng.Key(rng.Hash(c.name), uint64(k)), uint64(i))-1, bits)
		}
		if c.edit != nil {
			c.edit(k, x)
		}
		call.In = append(call.In, x)
		if len(s) < 5 {
			q.In = append(q.In, tensor(x, graph.Shape{s[0], 1, 1, 1, 1}, graph.Plain, nil))
			q.In[k].Shape = s
			continue
		}
		var late *backend.Region
		if c.late != nil {
			late = c.late[k]
		}
		q.In = append(q.In, tensor(x, s, w.In[k], late))
	}
	fill := make([]float64, out.Size())
	for i := range fill {
		fill[i] = math.NaN()
	}
	q.Out = tensor(fill, out, w.Out, nil)
	arrive = arrive[:len(q.In)]
	o.Ref(call, c.a)
	var k backend.Kernel
	do(func() (err error) {
		if k, err = b.Prepare(q); err != nil {
			return err
		}
		m, err := b.Alloc(int(k.Scratch / 4))
		if err != nil {
			return err
		}
		memory = append(memory, m)
		if err := k.SetScratch(m); err != nil {
			return err
		}
		if k.RunEarly != nil {
			if err := k.RunEarly(); err != nil {
				return err
			}
		}
		if c.late != nil {
			for _, f := range arrive {
				if err := f(); err != nil {
					return err
				}
			}
		}
		return k.Run()
	})
	n := w.Out.Elems(out)
	got = make([]float32, n)
	do(func() error {
		if err := b.Copy(got, memory[len(q.In)]); err != nil {
			return err
		}
		if k.Close != nil {
			k.Close()
		}
		for _, m := range memory {
			if err := b.Free(m); err != nil {
				return err
			}
		}
		return nil
	})
	value := func(i int) float64 { return float64(got[i]) }
	if q.Out.U16 != nil {
		halves := unsafe.Slice((*uint16)(unsafe.Pointer(&got[0])), n)
		value = func(i int) float64 { return float64(math.Float32frombits(uint32(halves[i]) << 16)) }
		if stored == graph.Float16 {
			value = func(i int) float64 { return float16.FromBits(halves[i]) }
		}
	} else {
		half = 0
	}
	// Sums of m products of up to 1 in float32, of either sign: each rounds by at most 2⁻²⁴
	// of a sum that is about √m.
	m := float64(o.FLOPs(c.in, out, c.a)) / float64(out.Size()) / 2
	tolerance := 0x1p-24 * 4 * (m + 8)
	lanes, p := w.Out.PaddedChannels(out[1]), out[2:].Size()
	for i := range n {
		want := 0.0
		at := i
		if w.Out == graph.ChannelsLast {
			c := i % lanes
			at = (i/lanes/p*out[1]+c)*p + i/lanes%p
			if c < out[1] {
				want = call.Out[at]
			}
		} else {
			want = call.Out[i]
		}
		if v := value(i); !(math.Abs(v-want) <= tolerance+half*math.Abs(want)) {
			t.Fatalf("%s: element %d (of the reference %d) of %v is %v, want %v ± %.2g", k.Name, i, at, out, v, want, tolerance)
		}
	}
	return k.Name, got
}

// tiled are sizes of tiles, of gradients of filters or other convolutions, and what they multiply.
type tiled struct {
	list       *[]kernels.Tile
	filter     bool
	arithmetic []string
}

// everyTile computes in each size of tiles, of convolutions, adjoints and gradients of filters.
func everyTile(t *testing.T, b *cuda.Backend, cases []convCase) {
	inTiles(t, b, cases, []tiled{
		{&kernels.ConvTiles, false, []string{"bf16", "f16", "tf32"}},
		{&kernels.PlainConvTiles, false, []string{"float32"}},
		{&kernels.FilterTiles, true, []string{"bf16", "f16", "tf32"}},
		{&kernels.PlainFilterTiles, true, []string{"float32"}},
	})
}

func inTiles(t *testing.T, b *cuda.Backend, cases []convCase, lists []tiled) {
	for _, tiles := range lists {
		all := *tiles.list
		for _, tile := range all {
			architecture := b.Device().Properties().Architecture
			if *tiles.list = []kernels.Tile{tile}; !tile.Supports(architecture) || architecture < 75 && tile.WarpColumns%16 > 0 {
				continue // products of quads are wider
			}
			for _, c := range cases {
				if (c.op == "conv3d_fused_grad_filter") != tiles.filter {
					continue
				}
				for _, a := range tiles.arithmetic {
					wide := tiles.filter && a == "tf32" && tile.FilterShared([3]int{3, 3, 3}, 4) > b.Device().Properties().SharedBytes
					if wide || tile.Warpgroups && a == "tf32" {
						continue // other tiles compute it
					}
					t.Run(fmt.Sprintf("%s/%s/%s/%s", tile, c.op, a, c.name), func(t *testing.T) { compareConv(t, b, c, a) })
				}
			}
		}
		*tiles.list = all
	}
}

// TestWarpgroups computes in tiles of warpgroups, which only compute capability 9.0 has: a
// case of each operation, and all in TestLongWarpgroups.
func TestWarpgroups(t *testing.T) {
	cases := largerCases()
	inWarpgroups(t, []convCase{cases[0], cases[4], cases[8]}, 3)
}

// inWarpgroups computes cases in every so-manieth tile of warpgroups.
func inWarpgroups(t *testing.T, cases []convCase, every int) {
	b := gpuOf(t, func() (device.Device, error) {
		d, err := emulate.Open(1 << 30)
		return older{d, 90}, err
	})
	for _, list := range []*[]kernels.Tile{&kernels.ConvTiles, &kernels.FilterTiles} {
		all := *list
		var some []kernels.Tile
		for i, tile := range all {
			if tile.Warpgroups && i%every == 0 {
				some = append(some, tile)
			}
		}
		*list = some
		inTiles(t, b, cases, []tiled{{list, list == &kernels.FilterTiles, []string{"bf16", "f16"}}})
		*list = all
	}
}

// TestConvIsTheSameAgain: equal operands give equal bits, also if parts are summed separately.
func TestConvIsTheSameAgain(t *testing.T) {
	b := emulatedGPU(t)
	x, dy := graph.Shape{1, 8, 2, 24, 40}, graph.Shape{1, 5, 2, 24, 40}
	a := op.ConvGrad{Conv: op.Conv{Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}, Pad: op.SameGlobal(3, 3, 3)}, To: graph.Shape{5, 8, 3, 3, 3}}
	c := convCase{name: "again", op: "conv3d_grad_filter", in: []graph.Shape{x, dy}, a: a}
	name, first := compareConv(t, b, c, "bf16")
	if !strings.HasSuffix(name, " 3 parts") {
		t.Errorf("kernel %s, want 3 parts", name)
	}
	if _, second := compareConv(t, b, c, "bf16"); !slices.Equal(first, second) {
		t.Error("other bits the second time")
	}
}
