//go:build cgo && linux

package cuda_test

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/internal/float16"
)

// warpKernels give registers to what mma.cuh does, and take them back. A warp has registers
// [lane][number].
const warpKernels = `
#define SPARSE_OPERANDS const uint32_t *a, const uint32_t *b, const uint32_t *metadata, float *c
#define SPARSE_REGISTERS c + threadIdx.x * 4, a + threadIdx.x * 4, b + threadIdx.x * 4, metadata[threadIdx.x]
KERNEL bf16_product(const uint32_t *a, const uint32_t *b, float *c) {
	uint32_t fa[1][4], fb[1][2];
	float fc[1][1][4];
	for (int i = 0; i < 4; i++) fa[0][i] = a[threadIdx.x * 4 + i], fc[0][0][i] = c[threadIdx.x * 4 + i];
	for (int i = 0; i < 2; i++) fb[0][i] = b[threadIdx.x * 2 + i];
	products(of_bf16(), fc, fa, fb);
	for (int i = 0; i < 4; i++) c[threadIdx.x * 4 + i] = fc[0][0][i];
}
KERNEL f16_product(const uint32_t *a, const uint32_t *b, float *c) {
	uint32_t fa[1][4], fb[1][2];
	float fc[1][1][4];
	for (int i = 0; i < 4; i++) fa[0][i] = a[threadIdx.x * 4 + i], fc[0][0][i] = c[threadIdx.x * 4 + i];
	for (int i = 0; i < 2; i++) fb[0][i] = b[threadIdx.x * 2 + i];
	products(of_f16(), fc, fa, fb);
	for (int i = 0; i < 4; i++) c[threadIdx.x * 4 + i] = fc[0][0][i];
}
KERNEL tf32_product(const uint32_t *a, const uint32_t *b, float *c) {
	uint32_t fa[1][4], fb[1][2];
	float fc[1][1][4];
	for (int i = 0; i < 4; i++) fa[0][i] = a[threadIdx.x * 4 + i], fc[0][0][i] = c[threadIdx.x * 4 + i];
	for (int i = 0; i < 2; i++) fb[0][i] = b[threadIdx.x * 2 + i];
	products(of_tf32(), fc, fa, fb);
	for (int i = 0; i < 4; i++) c[threadIdx.x * 4 + i] = fc[0][0][i];
}
KERNEL u8_product(const uint32_t *a, const uint32_t *b, int32_t *c) {
	uint32_t fa[4], fb[1][2];
	int32_t fc[1][4];
	for (int i = 0; i < 4; i++) fa[i] = a[threadIdx.x * 4 + i], fc[0][i] = c[threadIdx.x * 4 + i];
	for (int i = 0; i < 2; i++) fb[0][i] = b[threadIdx.x * 2 + i];
	integer_products(fc, fa, fb);
	for (int i = 0; i < 4; i++) c[threadIdx.x * 4 + i] = fc[0][i];
}
KERNEL bf16_sparse0(SPARSE_OPERANDS) { sparse_product<0>(of_bf16(), SPARSE_REGISTERS); }
KERNEL bf16_sparse1(SPARSE_OPERANDS) { sparse_product<1>(of_bf16(), SPARSE_REGISTERS); }
KERNEL f16_sparse0(SPARSE_OPERANDS) { sparse_product<0>(of_f16(), SPARSE_REGISTERS); }
KERNEL f16_sparse1(SPARSE_OPERANDS) { sparse_product<1>(of_f16(), SPARSE_REGISTERS); }
KERNEL quad_product(const uint2 *a, const uint2 *b, float *c) {
	const uint2 fa[1] = {a[threadIdx.x]}, fb[1] = {b[threadIdx.x]};
	float fc[1][1][8];
	for (int i = 0; i < 8; i++) fc[0][0][i] = c[threadIdx.x * 8 + i];
	quads<false>(fc, fa, fb);
	for (int i = 0; i < 8; i++) c[threadIdx.x * 8 + i] = fc[0][0][i];
}
KERNEL turned_product(const uint2 *a, const uint2 *b, float *c) {
	const uint2 fa[1] = {a[threadIdx.x]}, fb[1] = {b[threadIdx.x]};
	float fc[1][1][8];
	for (int i = 0; i < 8; i++) fc[0][0][i] = c[threadIdx.x * 8 + i];
	quads<true>(fc, fa, fb);
	for (int i = 0; i < 8; i++) c[threadIdx.x * 8 + i] = fc[0][0][i];
}
KERNEL quad_places(int32_t *rows, int32_t *columns) {
	for (int i = 0; i < 8; i++) {
		rows[threadIdx.x * 8 + i] = sum_row(threadIdx.x, i);
		columns[threadIdx.x * 8 + i] = sum_column(threadIdx.x, i);
	}
}
KERNEL matrices(const uint32_t *rows, uint32_t *straight, uint32_t *turned) {
	__shared__ unit tile[32];
	for (int i = 0; i < 4; i++) reinterpret_cast<uint32_t *>(tile + threadIdx.x)[i] = rows[threadIdx.x * 4 + i];
	__syncthreads();
	load_matrices(*reinterpret_cast<uint32_t(*)[4]>(straight + threadIdx.x * 4), tile + threadIdx.x);
	load_turned(*reinterpret_cast<uint32_t(*)[4]>(turned + threadIdx.x * 4), tile + threadIdx.x);
}
KERNEL round_f16(const float *x, uint32_t *y, float *back) {
	for (int i = 0; i < 64; i++) {
		int at = 64 * threadIdx.x + i;
		f16 h;
		store(&h, x[at]);
		y[at] = h.bits;
		back[at] = load(&h);
	}
}
KERNEL round_tf32(const uint32_t *x, uint32_t *y) { y[threadIdx.x] = to_tf32(x[threadIdx.x]); }
`

// emulatedDevice opens an emulated device for a test, with memory of the given bytes, and returns what ends the test at an error.
func emulatedDevice(t *testing.T, bytes int64) (d *emulate.Device, check func(error)) {
	t.Helper()
	d, err := emulate.Open(bytes)
	check = func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	t.Cleanup(func() { d.Close() })
	return d, check
}

// warp runs a kernel of warpKernels by one warp over copies of words.
func warp(t *testing.T, kernel string, words ...[]uint32) {
	t.Helper()
	d, check := emulatedDevice(t, 1<<24)
	source := kernels.Program("common.cuh").Source + kernels.Program("mma.cuh").Source + warpKernels
	m, err := d.Load(device.Program{Name: "warp.cu", Source: source})
	check(err)
	var args []any
	for _, w := range words {
		p, err := d.Alloc(int64(len(w)) * 4)
		check(err)
		check(d.Copy(p, device.Pointer(&w[0]), int64(len(w))*4))
		args = append(args, p)
	}
	c, err := m.Call(kernel, device.Size{Block: [3]int{32}}, args...)
	check(err)
	check(c.Run())
	for i, w := range words {
		check(d.Copy(device.Pointer(&w[0]), args[i].(device.Pointer), int64(len(w))*4))
	}
}

// TestWarpProducts puts matrices into registers as the PTX ISA draws them ("Matrix Fragments
// for mma.m16n8k16", with .bf16 and .f16, and "mma.m16n8k8", with .tf32) and compares with the product.
func TestWarpProducts(t *testing.T) {
	for _, k := range []struct {
		kernel string
		depth  int
		bits   int // of a value
		half   func(x float64) uint16
	}{{"bf16_product", 16, 8, func(x float64) uint16 { return uint16(math.Float32bits(float32(x)) >> 16) }},
		{"f16_product", 16, float16.MantissaBits, float16.ToBits}, {"tf32_product", 8, 11, nil}} {
		value := func(n, i, j int) float64 {
			return rounded(2*rng.Uniform(rng.Key(rng.Hash(k.kernel), uint64(n)), uint64(i*64+j))-1, k.bits)
		}
		bits := func(x float64) uint32 { return math.Float32bits(float32(x)) }
		a, b, c := make([]uint32, 128), make([]uint32, 64), make([]uint32, 128)
		for lane := range 32 {
			group, in := lane>>2, lane%4 // groupID and threadID_in_group of the document
			if k.half != nil {
				for i := range 8 { // ai: row = groupID, + 8 for i of 2, 3, 6, 7; column = threadID·2 + (i & 1), + 8 for i ≥ 4
					row, column := group, in*2+i&1
					if i == 2 || i == 3 || i >= 6 {
						row += 8
					}
					if i >= 4 {
						column += 8
					}
					a[lane*4+i/2] |= uint32(k.half(value(0, row, column))) << (16 * (i & 1))
				}
				for i := range 4 { // bi: row = threadID·2 + (i & 1), + 8 for i ≥ 2; column = groupID
					row := in*2 + i&1
					if i >= 2 {
						row += 8
					}
					b[lane*2+i/2] |= uint32(k.half(value(1, row, group))) << (16 * (i & 1))
				}
			} else {
				for i := range 4 { // ai: row = groupID, + 8 for a1 and a3; column = threadID, + 4 for a2 and a3
					a[lane*4+i] = bits(value(0, group+i%2*8, in+i/2*4))
				}
				for i := range 2 { // bi: row = threadID + 4i; column = groupID
					b[lane*2+i] = bits(value(1, in+4*i, group))
				}
			}
			for i := range 4 { // ci: row = groupID, + 8 for i ≥ 2; column = threadID·2 + (i & 1)
				c[lane*4+i] = bits(value(2, group+i/2*8, in*2+i&1))
			}
		}
		warp(t, k.kernel, a, b, c)
		for lane := range 32 {
			for i := range 4 {
				row, column := lane/4+i/2*8, lane%4*2+i&1
				want := value(2, row, column)
				for d := range k.depth {
					want += value(0, row, d) * value(1, d, column)
				}
				if got := float64(math.Float32frombits(c[lane*4+i])); math.Abs(got-want) > 1e-5 {
					t.Errorf("%s: row %d, column %d is %v, want %v", k.kernel, row, column, got, want)
				}
			}
		}
	}
}

// TestIntegerProducts puts matrices into registers as the PTX ISA draws them ("Matrix Fragments for mma.m16n8k32",
// with .u8 and .s8) and compares with the product, exactly, with both ends of both ranges.
func TestIntegerProducts(t *testing.T) {
	value := func(n, i, j int) int {
		v := int(rng.Bits(uint64(21+n), uint64(i*64+j)) % 256)
		if (i+j)%5 == 0 {
			v = v % 2 * 255
		}
		return []int{v - 128, v}[n] // A is signed
	}
	a, b, c := make([]uint32, 128), make([]uint32, 64), make([]uint32, 128)
	for lane := range 32 {
		group, in := lane>>2, lane%4
		for i := range 16 { // ai: row = groupID, or + 8 for i from 4 to 7 and from 12 on; column = threadID·4 + (i & 3), + 16 for i from 8 on
			row, column := group, in*4+i&3
			if i >= 4 && i < 8 || i >= 12 {
				row += 8
			}
			if i >= 8 {
				column += 16
			}
			a[lane*4+i/4] |= uint32(uint8(value(0, row, column))) << (8 * (i & 3))
		}
		for i := range 8 { // bi: row = threadID·4 + (i & 3), + 16 for i from 4 on; column = groupID
			row := in*4 + i&3
			if i >= 4 {
				row += 16
			}
			b[lane*2+i/4] |= uint32(value(1, row, group)) << (8 * (i & 3))
		}
		for i := range 4 { // ci: row = groupID, + 8 for i from 2 on; column = threadID·2 + (i & 1)
			c[lane*4+i] = uint32(1000*lane - 7*i)
		}
	}
	warp(t, "u8_product", a, b, c)
	for lane := range 32 {
		for i := range 4 {
			row, column := lane/4, lane%4*2+i&1
			if i >= 2 {
				row += 8
			}
			want := 1000*lane - 7*i
			for k := range 32 {
				want += value(0, row, k) * value(1, k, column)
			}
			if got := int(int32(c[lane*4+i])); got != want {
				t.Errorf("row %d, column %d is %d, want %d", row, column, got, want)
			}
		}
	}
}

// TestQuadProducts puts four pairs of matrices into registers as the PTX ISA draws them ("Matrix Fragments for mma.m8n8k4
// with .f16 floating point type", of either order), and compares with the four products; in the places of their
// accumulators they are the quarters of one of 16×16.
func TestQuadProducts(t *testing.T) {
	value := func(n, q, i, j int) float64 {
		return float16.Round(2*rng.Uniform(rng.Key(11, uint64(n), uint64(q)), uint64(i*8+j)) - 1)
	}
	rows, columns := make([]uint32, 256), make([]uint32, 256)
	warp(t, "quad_places", rows, columns)
	for _, kernel := range []string{"quad_product", "turned_product"} {
		turned := kernel == "turned_product"
		a, b, c := make([]uint32, 64), make([]uint32, 64), make([]uint32, 256)
		// Quads of one row of the product of 16×16 share their A, those of one column their B.
		left := func(q, row, k int) float64 { return value(0, q%2, row, k) }
		right := func(q, k, column int) float64 { return value(1, q/2, k, column) }
		for lane := range 32 {
			computation, high := lane%16/4, 0
			if lane >= 16 {
				high = 4
			}
			for i := range 4 {
				va, vb := left(computation, lane%4+high, i), right(computation, i, lane%4+high)
				if turned { // A column major, B row major
					va, vb = left(computation, i+high, lane%4), right(computation, lane%4, i+high)
				}
				a[lane*2+i/2] |= uint32(float16.ToBits(va)) << (16 * (i & 1))
				b[lane*2+i/2] |= uint32(float16.ToBits(vb)) << (16 * (i & 1))
			}
			for i := range 8 {
				c[lane*8+i] = math.Float32bits(float32(lane + i))
			}
		}
		warp(t, kernel, a, b, c)
		for lane := range 32 {
			for i := range 8 {
				computation, row, column := lane%16/4, lane&1+i&2, i&4+lane&2+i&1
				if lane >= 16 {
					row += 4
				}
				want := float64(lane + i)
				for k := range 4 {
					want += left(computation, row, k) * right(computation, k, column)
				}
				if got := float64(math.Float32frombits(c[lane*8+i])); math.Abs(got-want) > 1e-5 {
					t.Errorf("%s: row %d, column %d of product %d is %v, want %v", kernel, row, column, computation, got, want)
				}
				if r, c := computation%2*8+row, computation/2*8+column; rows[lane*8+i] != uint32(r) || columns[lane*8+i] != uint32(c) {
					t.Errorf("lane %d, value %d lies in row %d, column %d, want %d, %d", lane, i, rows[lane*8+i], columns[lane*8+i], r, c)
				}
			}
		}
	}
}

// TestWarpMatrices: "ldmatrix" gives lane l the elements 2(l%4) and 2(l%4) + 1 of row l/4 of
// every matrix, and with .trans those rows of column l/4.
func TestWarpMatrices(t *testing.T) {
	rows, straight, turned := make([]uint32, 128), make([]uint32, 128), make([]uint32, 128)
	element := func(matrix, row, column int) uint32 { return uint32(matrix<<8 | row<<4 | column) }
	for i := range rows {
		matrix, row, column := i/32, i/4%8, i%4*2
		rows[i] = element(matrix, row, column) | element(matrix, row, column+1)<<16
	}
	warp(t, "matrices", rows, straight, turned)
	for lane := range 32 {
		for m := range 4 {
			g, c := lane/4, lane%4*2
			if got, want := straight[lane*4+m], element(m, g, c)|element(m, g, c+1)<<16; got != want {
				t.Errorf("lane %d, matrix %d: %#x, want %#x", lane, m, got, want)
			}
			if got, want := turned[lane*4+m], element(m, c, g)|element(m, c+1, g)<<16; got != want {
				t.Errorf("lane %d, matrix %d turned: %#x, want %#x", lane, m, got, want)
			}
		}
	}
}

// TestRoundF16: float32 becomes the nearest number of 16 bits, of all sizes, and those become themselves.
func TestRoundF16(t *testing.T) {
	x, y, back := make([]uint32, 2048), make([]uint32, 2048), make([]uint32, 2048)
	edges := []float64{0, math.Copysign(0, -1), 1, 65504, 65519.99, 65520, -1e30, math.Inf(1), math.Inf(-1), 0x1p-14, 0x1p-14 - 0x1p-26, 0x1p-24, 0x1p-25, 0x1.8p-25, -0x1.8p-24, 0x1p-140}
	for i := range x {
		v := math.Ldexp(2*rng.Uniform(7, uint64(i))-1, i%44-26) // from beyond the least to beyond the largest
		if i < len(edges) {
			v = edges[i]
		} else if i%5 == 0 { // between two numbers
			if h := float16.ToBits(v); h&0x7fff < 0x7bff {
				v = (float16.FromBits(h) + float16.FromBits(h+1)) / 2
			}
		}
		x[i] = math.Float32bits(float32(v))
	}
	x[len(x)-1] = math.Float32bits(float32(math.NaN()))
	warp(t, "round_f16", x, y, back)
	for i := range x[:len(x)-1] {
		v := float64(math.Float32frombits(x[i]))
		if want := float16.ToBits(v); y[i] != uint32(want) || float64(math.Float32frombits(back[i])) != float16.FromBits(want) {
			t.Errorf("%g becomes %#x, and back %g, want %#x, %g", v, y[i], math.Float32frombits(back[i]), want, float16.FromBits(want))
		}
	}
	if v := back[len(x)-1]; !math.IsNaN(float64(math.Float32frombits(v))) {
		t.Errorf("no number becomes %#x", v)
	}
}

// TestRoundTF32: to the nearest value with 11 bits, ties away from zero.
func TestRoundTF32(t *testing.T) {
	x, y := make([]uint32, 32), make([]uint32, 32)
	cases := []struct{ x, want float32 }{
		{1, 1}, {1 + 0x1p-11, 1 + 0x1p-10}, {1 + 0x1p-12, 1}, {-1 - 0x1p-11, -1 - 0x1p-10}, {1 + 3*0x1p-12, 1 + 0x1p-10},
		{2 - 0x1p-12, 2}, {0, 0}, {float32(math.Inf(-1)), float32(math.Inf(-1))},
	}
	for i, c := range cases {
		x[i] = math.Float32bits(c.x)
	}
	warp(t, "round_tf32", x, y)
	for i, c := range cases {
		if got := math.Float32frombits(y[i]); got != c.want {
			t.Errorf("%v becomes %v, want %v", c.x, got, c.want)
		}
	}
}
