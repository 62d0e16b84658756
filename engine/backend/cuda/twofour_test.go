//go:build cgo && linux

package cuda_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

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

// choosePair returns the lower and upper place of the two kept values of quad q of a row.
func choosePair(row, q int) [2]int {
	pairs := [6][2]int{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}
	return pairs[rng.Bits(5, uint64(row*8+q))%6]
}

// TestSparseWarpProducts puts matrices and metadata into registers as the PTX ISA draws them ("Matrix
// Fragments for sparse mma.m16n8k32 with .f16 and .bf16 types") and compares with the product of the
// matrix with its zeros.
func TestSparseWarpProducts(t *testing.T) {
	for kernel, half := range map[string]func(x float64) uint16{
		"bf16_sparse": func(x float64) uint16 { return uint16(math.Float32bits(float32(x)) >> 16) }, "f16_sparse": float16.ToBits} {
		for selector := range 2 {
			value := func(n, i, j int) float64 { return rounded(2*rng.Uniform(uint64(7+n), uint64(i*64+j))-1, 8) }
			dense := [16][32]float64{}
			var words [32]uint32 // metadata: nibble of the quad: two bits of the lower place, then two of the upper one
			for row := range 16 {
				for q := range 8 {
					pair := choosePair(row, q)
					for n, place := range pair {
						dense[row][4*q+place] = value(0, row, 2*q+n)
					}
					// T0: [15..0] cells [0][0..15], [31..16] cells [8][0..15]; T1: columns 16 to 31; the next
					// rows in T4 and T5 …; with selector 1 in T2 and T3, T6 and T7 …
					lane := row%8*4 + 2*selector + q/4
					words[lane] |= uint32(pair[0]|pair[1]<<2) << (16*(row/8) + 4*(q%4))
				}
			}
			for lane := range 32 {
				if lane%4/2 != selector {
					words[lane] = 0xffffffff // not read
				}
			}
			a, b, c := make([]uint32, 128), make([]uint32, 128), make([]uint32, 128)
			for lane := range 32 {
				group, in := lane>>2, lane%4
				for i := range 8 { // as mma.m16n8k16, over the stored values
					row, column := group, in*2+i&1
					if i == 2 || i == 3 || i >= 6 {
						row += 8
					}
					if i >= 4 {
						column += 8
					}
					a[lane*4+i/2] |= uint32(half(value(0, row, column))) << (16 * (i & 1))
				}
				for i := range 8 { // bi: row = threadID·2 + (i & 1), + 8, 16 and 24 for every further two; column = groupID
					b[lane*4+i/2] |= uint32(half(value(1, in*2+i&1+i/2*8, group))) << (16 * (i & 1))
				}
				for i := range 4 {
					c[lane*4+i] = math.Float32bits(float32(value(2, group+i/2*8, in*2+i&1)))
				}
			}
			warp(t, fmt.Sprintf("%s%d", kernel, selector), a, b, words[:], c)
			for lane := range 32 {
				for i := range 4 {
					row, column := lane/4+i/2*8, lane%4*2+i&1
					want := value(2, row, column)
					for d := range 32 {
						want += dense[row][d] * value(1, d, column)
					}
					if got := float64(math.Float32frombits(c[lane*4+i])); !(math.Abs(got-want) <= 1e-5) {
						t.Errorf("%s, selector %d: row %d, column %d is %v, want %v", kernel, selector, row, column, got, want)
					}
				}
			}
			words[4+2*selector] = 0x5 // both places of quad 0 of row 1 are 1, which the document does not allow
			warp(t, fmt.Sprintf("%s%d", kernel, selector), a, b, words[:], c)
			for lane := range 32 {
				for i := range 4 {
					if bad := math.IsNaN(float64(math.Float32frombits(c[lane*4+i]))); bad != (lane/4 == 1) {
						t.Errorf("wrong metadata: lane %d, value %d is no number: %v", lane, i, bad)
					}
				}
			}
		}
	}
}

// filterOf draws a filter and keeps at most two of four neighbouring channels: none, one or two.
func filterOf(s graph.Shape, x []float64) {
	taps := s[2:].Size()
	for i := range x {
		o, c, tap := i/taps/s[1], i/taps%s[1], i%taps
		pair := choosePair(o, c/4+8*tap)
		kept := c%4 == pair[0] || c%4 == pair[1] && rng.Bits(3, uint64(i))%4 > 0
		if !kept || rng.Bits(4, uint64(o*997+c/4*31+tap))%8 == 0 {
			x[i] = 0
		}
	}
}

// sparseCases are convolutions whose channels are no multiples of tiles, of one to three levels.
func sparseCases() []convCase {
	global := op.Conv{Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}, Pad: op.SameGlobal(3, 3, 3), TwoFour: true}
	zero := global
	zero.Pad = op.Same(3, 3, 3)
	stride := zero
	stride.Stride = [3]int{1, 2, 2}
	point := global
	point.Pad = op.Same(1, 1, 1)
	flat := global
	flat.Pad = op.SameGlobal(1, 3, 3)
	var all []convCase
	for _, c := range []struct {
		name  string
		parts []graph.Shape
		w     graph.Shape
		a     op.Conv
	}{
		{"42 channels, periodic", []graph.Shape{{1, 42, 2, 7, 37}}, graph.Shape{70, 42, 3, 3, 3}, global},
		{"two samples of three levels", []graph.Shape{{2, 13, 3, 6, 19}}, graph.Shape{21, 13, 3, 3, 3}, zero},
		{"parts", []graph.Shape{{2, 12, 1, 9, 17}, {2, 7, 1, 9, 17}}, graph.Shape{33, 19, 3, 3, 3}, global},
		{"few channels", []graph.Shape{{1, 3, 1, 12, 31}}, graph.Shape{1, 3, 1, 3, 3}, flat},
		{"strides", []graph.Shape{{1, 20, 2, 13, 22}}, graph.Shape{9, 20, 3, 3, 3}, stride},
		{"points", []graph.Shape{{1, 40, 2, 8, 20}}, graph.Shape{24, 40, 1, 1, 1}, point},
		{"whole steps", []graph.Shape{{1, 64, 1, 16, 32}}, graph.Shape{64, 64, 1, 3, 3}, flat},
	} {
		k := convCasesOf(c.name, c.parts, c.w, c.a)[0]
		k.edit = func(operand int, x []float64) {
			if operand == len(c.parts) {
				filterOf(c.w, x)
			}
		}
		all = append(all, k)
	}
	return all
}

// TestTwoFourConvs compares the sparse kernel with the dense reference of the same filter: every tile in every third
// case.
func TestTwoFourConvs(t *testing.T) { twoFourConvs(t, emulatedGPU(t), 3) }

// twoFourConvs computes in every tile, each in every so-manieth case.
func twoFourConvs(t *testing.T, b *cuda.Backend, every int) {
	all := kernels.ConvTiles
	defer func() { kernels.ConvTiles = all }()
	for i, tile := range kernels.ConvTilesOf(kernels.TwoFour) {
		kernels.ConvTiles = []kernels.Tile{tile}
		for k, c := range sparseCases() {
			if (i+k)%every > 0 {
				continue
			}
			arithmetic := []string{"bf16", "f16"}[(i+k)/every%2]
			c.cut = fmt.Sprintf("conv %s 2:4 %s", arithmetic, tile)
			t.Run(fmt.Sprintf("%s/%s/%s", tile, arithmetic, c.name), func(t *testing.T) {
				if name, _ := compareConv(t, b, c, arithmetic); name != c.cut {
					t.Errorf("kernel %q, want %q", name, c.cut)
				}
			})
		}
	}
}

// TestPackTwoFour packs rows whose metadata were worked out by hand: four bits for a quad, the lower
// place in the lower two. A third value in a quad makes its values no numbers.
func TestPackTwoFour(t *testing.T) {
	rows := map[int][8]float32{
		1: {0, 5, 0, 7, 2, 0, 3, 0}, // places 1 and 3: 0b1101; 0 and 2: 0b1000
		9: {0, 0, 0, 4, 0, 6, 0, 0}, // place 3, after 2: 0b1110; 1, before 3: 0b1101
		2: {1, 1, 0, 1, 0, 0, 8, 9}, // three values; places 2 and 3: 0b1110
	}
	values := map[int][4]float32{1: {5, 7, 2, 3}, 9: {0, 4, 6, 0}}
	w := make([]uint32, 16*8)
	for r, row := range rows {
		for c, v := range row {
			w[r*8+c] = math.Float32bits(v)
		}
	}
	packed := packTwoFour(t, w)
	at := func(row, i int) float32 { return math.Float32frombits(packed[row*2+i/2] >> (16 * (i & 1)) << 16) }
	for r := range 16 {
		for i := range 4 {
			switch v := at(r, i); {
			case r == 2 && i < 2:
				if v == v {
					t.Errorf("row 2, value %d is %v of three values, want no number", i, v)
				}
			case r == 2:
				if v != float32(6+i) {
					t.Errorf("row 2, value %d is %v, want %d", i, v, 6+i)
				}
			case v != values[r][i]:
				t.Errorf("row %d, value %d is %v, want %v", r, i, v, values[r][i])
			}
		}
	}
	// Bytes of rows g and g + 8 side by side; those of rows without values are 0b1110 twice.
	packed[32+1] |= 0xf // the quad of three values may have any places
	for word, want := range []uint32{0xde8d_eeee, 0xeeee_eeef, 0xeeee_eeee, 0xeeee_eeee} {
		if packed[32+word] != want {
			t.Errorf("metadata word %d is %#x, want %#x", word, packed[32+word], want)
		}
	}
}

// packTwoFour packs a filter of 16 results, 8 channels and one tap: 8 bytes for each result, then a
// byte of metadata for each.
func packTwoFour(t *testing.T, w []uint32) []uint32 {
	t.Helper()
	d, check := emulatedDevice(t, 1<<20)
	m, err := d.Load(kernels.ConvPack("bf16", kernels.TwoFour, false))
	check(err)
	values, metadata := kernels.TwoFour.PackedBytes(1, 8, 16, 2)
	packed := make([]uint32, (values+metadata)/4)
	from, err := d.Alloc(int64(len(w)) * 4)
	check(err)
	to, err := d.Alloc(values + metadata)
	check(err)
	check(d.Copy(from, device.Pointer(&w[0]), int64(len(w))*4))
	c, err := m.Call("pack_filter", device.Size{Grid: [3]int{1, 2}, Block: [3]int{256}, Shared: 4 * 64}, from, to,
		int32(8), int32(1), int32(1), int32(0), int32(8), int32(8), int32(8), int32(16), int32(16))
	check(err)
	check(c.Run())
	check(d.Copy(device.Pointer(&packed[0]), to, values+metadata))
	return packed
}

// TestTwoFourBeginsWithTheInterior: a sparse kernel that begins before a row of the field is there gives the
// bits of one that waits.
func TestTwoFourBeginsWithTheInterior(t *testing.T) {
	b := emulatedGPU(t)
	c := sparseCases()[0]
	c.cut = fmt.Sprintf("conv bf16 2:4 %s", kernels.ConvTilesOf(kernels.TwoFour)[3])
	_, want := compareConv(t, b, c, "bf16")
	c.late = []*backend.Region{{Lo: graph.Shape{0, 0, 0, 1, 0}, Size: graph.Shape{1, 42, 2, 5, 37}}, nil, nil}
	name, got := compareConv(t, b, c, "bf16")
	if name != c.cut+", the interior first" || !slices.Equal(got, want) {
		t.Errorf("%s: other bits than of the whole: %v", name, !slices.Equal(got, want))
	}
}

// accelerating is a device on which each run is timed faster than the one before.
type accelerating struct {
	*emulate.Device
	runs int
}

func (a *accelerating) Time(f func() error) (seconds float64, err error) {
	a.runs++
	return 1 / float64(a.runs), f()
}

func (*accelerating) FreeBytes() (int64, error) { return 1 << 28, nil }

// TestTwoFourInTheRace: sparse kernels are timed with the others, and used if they are faster.
func TestTwoFourInTheRace(t *testing.T) {
	dev, err := emulate.Open(1 << 28)
	if err != nil {
		t.Fatal(err)
	}
	timed := &accelerating{Device: dev}
	b := gpuOf(t, func() (device.Device, error) { return timed, nil })
	c := sparseCases()[3]
	for _, first := range []bool{true, false} { // the second time from the times of the first
		before := timed.runs
		name, _ := compareConv(t, b, c, "bf16")
		if !strings.HasPrefix(name, "conv bf16 2:4 ") || (timed.runs > before) != first {
			t.Errorf("kernel %s, %d runs are timed", name, timed.runs-before)
		}
	}
}

// TestTwoFourIsRefused: other filters, devices, types and parts have no sparse kernel.
func TestTwoFourIsRefused(t *testing.T) {
	cases := sparseCases()
	small, dense, parts := cases[3], cases[3], cases[2]
	unmarked := dense.a.(op.FusedConv)
	unmarked.TwoFour = false
	dense.a = unmarked
	parts.in = slices.Clone(parts.in)
	parts.in[0], parts.in[1] = graph.Shape{2, 11, 1, 9, 17}, graph.Shape{2, 8, 1, 9, 17}
	for _, c := range []struct {
		name         string
		architecture int
		arithmetic   string
		convCase
		want bool
	}{{"2:4", 80, "bf16", small, true}, {"2:4 on 9.0", 90, "f16", small, true}, {"not 2:4", 80, "bf16", dense, false}, {"7.5", 75, "f16", small, false},
		{"float32", 80, "float32", small, false}, {"parts that divide a quad", 80, "bf16", parts, false}} {
		b := gpuOf(t, func() (device.Device, error) {
			d, err := emulate.Open(1 << 30)
			return older{d, c.architecture}, err
		})
		if got := hasTwoFour(t, b, c.convCase, c.arithmetic); got != c.want {
			t.Errorf("%s: sparse variants %v, want %v", c.name, got, c.want)
		}
		if got := b.HasTwoFourKernels(); got != (c.architecture >= 80) {
			t.Errorf("architecture %d: has 2:4 kernels %v", c.architecture, got)
		}
	}
}

// hasTwoFour reports whether a convolution has a sparse variant.
func hasTwoFour(t *testing.T, b *cuda.Backend, c convCase, arithmetic string) bool {
	t.Helper()
	for _, tile := range kernels.ConvTilesOf(kernels.TwoFour) {
		c.cut = fmt.Sprintf("conv %s 2:4 %s", arithmetic, tile)
		if name, _ := compareConv(t, b, c, arithmetic); strings.Contains(name, "2:4") {
			return true
		}
	}
	return false
}
