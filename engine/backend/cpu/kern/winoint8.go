//go:build cgo && linux

package kern

/*
#cgo noescape ens_wino_int8
#cgo nocallback ens_wino_int8
#cgo noescape ens_quantise
#cgo nocallback ens_quantise
#cgo noescape ens_int8_max_pool
#cgo nocallback ens_int8_max_pool
#cgo noescape ens_int8_upsample
#cgo nocallback ens_int8_upsample
#include "kern.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// HasVNNI reports whether the instruction set in use has dot products of bytes
// (AVX512_VNNI). Without them int8 convolutions give the same bits but are slow.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, VPDPBUSD.
func HasVNNI() bool { return C.ens_has_vnni() == 1 }

// WinoInt8Spec describes an int8 convolution: uint8 values, a filter of 3×3 or 3×3×3,
// zero or periodic padding that keeps the size.
//
// A real value is (q − zero point)·scale for a stored value q.
//
// Source: Lavin and Gray 2016, doi:10.1109/CVPR.2016.435 (F(4×4, 3×3)); Andri et al.
// 2022, arXiv:2209.12982 (one scale for each point of a tile).
type WinoInt8Spec struct {
	WinoSpec
	// InScales are the scales of the input channels.
	InScales []float32
	// ZeroPoints are the zero points of the parts of the input: 0 or 128.
	ZeroPoints [2]int
	// Factors scale the points of a transformed tile of each part to eight bits, in units
	// of 2⁻¹⁵, from 1 to 32767. Points of one depth product follow each other.
	Factors [2][]int16
	// OutScales are the scales of the result channels, with zero point 0; nil for a float
	// result.
	OutScales []float32
}

// WinoInt8Points returns the number of points of a transformed tile; 0 if the
// convolution is not supported.
func WinoInt8Points(s WinoSpec) int {
	s.BF16 = true // which keeps to the schemes that codes have
	name, ok := scheme(s)
	if !ok || !SupportsWino(s) || s.Side != 3 || s.Flip || s.Before != [3]int{} || s.After != [3]int{} || s.Halo != [4]int{} {
		return 0
	}
	c := winoSchemes[name]
	return c.points() * c.points() * c.products
}

// WinoInt8 is a prepared int8 convolution.
type WinoInt8 struct {
	pool          *Pool
	spec          WinoInt8Spec
	geom          []C.long
	scratch       int          // float32 values
	out           []float32    // 1/OutScales
	units         [2][]float32 // transformed units of InScales for each point
	params        C.ens_quantisation
	pin           runtime.Pinner
	x, y          [2]int // lengths of the inputs
	filter, tiles int
	kept          blockList // of a sparse variant
	direct        direct    // of a direct variant; 0 for others
}

// DefaultWinoInt8 is the variant of an int8 convolution that multiplies all blocks of a filter.
var DefaultWinoInt8 = WinoVariant{Tiles: 14}

// WinoSparseInt8Variants are the variants that multiply only the kept blocks of a masked
// filter (SupportsSparseWino). All variants give the same bits.
var WinoSparseInt8Variants = []WinoVariant{{Tiles: 14, Sparse: true}, {Tiles: 28, Sparse: true}}

// NewWinoInt8 prepares a convolution in a variant.
//
// Memory: it pins the slices of s until Close.
// Errors: ErrUnsupported.
func NewWinoInt8(p *Pool, s WinoInt8Spec, v WinoVariant) (*WinoInt8, error) {
	points := WinoInt8Points(s.WinoSpec)
	if points == 0 || v.Whole || v.Direct && !SupportsDirectInt8(s.WinoSpec) || v.Sparse && !SupportsSparseWino(s.WinoSpec) {
		return nil, ErrUnsupported
	}
	g := s.WinoSpec
	g.BF16, g.Mask = false, ""
	w, err := newWino(p, g, WinoVariant{Tiles: max(v.Tiles, 1)}, false)
	if err != nil {
		return nil, err
	}
	h := s.WinoSpec
	h.BF16 = true
	name, _ := scheme(h)
	w.geom[19] = C.long(winoSchemes[name].number) // W_SCHEME
	j := &WinoInt8{pool: p, spec: s, geom: w.geom, filter: w.filter, tiles: v.Tiles}
	if v.Sparse {
		j.kept = s.Mask.list(s.WinoSpec)
	}
	want("channel scales", len(s.InScales), s.Parts[0]+s.Parts[1])
	if s.OutScales != nil {
		want("result scales", len(s.OutScales), s.K)
		for _, v := range s.OutScales {
			j.out = append(j.out, 1/v)
		}
	}
	for i, f := range s.Factors {
		if s.Parts[i] == 0 {
			continue
		}
		want("factors", len(f), points)
		for _, v := range f {
			if v < 1 {
				panic(fmt.Sprintf("kern: a factor of %d", v))
			}
			j.units[i] = append(j.units[i], float32(float64(1<<13)/float64(v)))
		}
		j.x[i] = s.N * blocks(s.Parts[i]) * volume(s.Size) * Block
	}
	j.scratch = j.scratchLen(points)
	if v.Direct {
		j.setDirect(s.divide(codeSize, p.Threads()))
	}
	j.pinMemory()
	return j, nil
}

// scratchLen returns the number of float32 values of scratch for that many points of a
// transformed tile.
func (j *WinoInt8) scratchLen(points int) int {
	s, columns := j.spec, ceil(j.spec.K, columnBlock)
	row := Block * (blocks(s.Parts[0]) + blocks(s.Parts[1])) // bytes of a transformed tile
	filters := columns * columnBlock * row
	if j.kept.list != nil {
		row, filters = Block*j.kept.read, j.kept.kept*Block*Block
	}
	shared := points * (filters + 8*columns*columnBlock)
	own := points * (j.tiles*row + 64 + 4*(j.tiles*columnBlock+16))
	return (shared+j.pool.Threads()*own)/4 + 16
}

// setDirect makes a prepared convolution a direct one.
func (j *WinoInt8) setDirect(d direct) {
	j.direct, j.geom = d, d.geometry(j.geom)
	j.scratch = d.words(j.spec.WinoSpec, codeSize, j.pool.Threads())
}

// pinMemory pins the Go memory that the parameters in C point to, until Close.
func (j *WinoInt8) pinMemory() {
	fix := func(x []float32) *C.float {
		if len(x) > 0 {
			j.pin.Pin(unsafe.SliceData(x))
		}
		return f32(x)
	}
	j.params.channels, j.params.out = fix(j.spec.InScales), fix(j.out)
	for i, f := range j.spec.Factors {
		j.params.zero[i] = C.long(j.spec.ZeroPoints[i])
		j.params.units[i] = fix(j.units[i])
		if len(f) > 0 {
			j.pin.Pin(unsafe.SliceData(f))
			j.params.factors[i] = (*C.int16_t)(unsafe.Pointer(unsafe.SliceData(f)))
		}
	}
}

// Close unpins the memory.
func (j *WinoInt8) Close() { j.pin.Unpin() }

// ScratchLen returns the number of float32 values of scratch that a run needs.
func (j *WinoInt8) ScratchLen() int { return j.scratch }

// Run computes y = conv(x, w) + bias (ReLU), as uint8 to y8 if OutScales is set, else
// to y. bias may be nil. Padding channels of the result become zero.
//
// Shape: x0, x1, y blocked; w plain [K · kD 3 3]; bias [K].
func (j *WinoInt8) Run(y8 []uint8, y Stored, x0, x1 []uint8, w, bias, scratch []float32) {
	n := j.spec.N * blocks(j.spec.K) * volume(j.spec.Size) * Block
	want("x0", len(x0), j.x[0])
	want("x1", len(x1), j.x[1])
	atLeast("filter", len(w), j.filter)
	atLeast("scratch", len(scratch), j.scratch)
	if bias != nil {
		want("bias", len(bias), j.spec.K)
	}
	to := unsafe.Pointer(unsafe.SliceData(y8))
	if j.spec.OutScales != nil {
		want("y8", len(y8), n)
	} else {
		want("y", y.n, n)
		to = y.ptr
	}
	if j.direct.height > 0 {
		j.runDirect(to, y.storage(), x0, x1, w, bias, scratch)
		return
	}
	vnni := C.int(0)
	if HasVNNI() {
		vnni = 1
	}
	C.ens_wino_int8(j.pool.ptr(), y.storage(), to, unsafe.Pointer(unsafe.SliceData(x0)), unsafe.Pointer(unsafe.SliceData(x1)), f32(w), f32(bias),
		unsafe.Pointer(unsafe.SliceData(scratch)), &j.geom[0], &j.params, unsafe.SliceData(j.kept.list), vnni)
}

// Quantise computes round(x/scale + zero) of a blocked x, to nearest, ties to even,
// clipped to 0 … 255.
//
// Shape: x, y of shape b; scales [C].
// Source: Jacob et al. 2018, arXiv:1712.05877, equation 1.
func (p *Pool) Quantise(y []uint8, x Stored, scales []float32, zero int, b Blocked) {
	x.want("x", b.Len(), x)
	p.quantise(y, x, scales, zero, b, 0)
}

// QuantisePlain is Quantise of a plain x.
//
// Shape: x [N C D H W]; y of shape b; scales [C].
func (p *Pool) QuantisePlain(y []uint8, x, scales []float32, zero int, b Blocked) {
	want("x", len(x), b.Plain())
	p.quantise(y, Float32(x), scales, zero, b, b.C)
}

// quantise is Quantise of an x that is blocked, or plain with that many channels.
func (p *Pool) quantise(y []uint8, x Stored, scales []float32, zero int, b Blocked, plain int) {
	want("y", len(y), b.Len())
	want("scales", len(scales), b.C)
	inverse := make([]float32, b.Blocks()*Block)
	for i, s := range scales {
		inverse[i] = 1 / s
	}
	C.ens_quantise(p.ptr(), x.storage(), u8(y), x.ptr, f32(inverse), C.long(zero), C.long(b.N), C.long(b.Blocks()), C.long(b.Cells()), C.long(plain))
}

// Int8MaxPool computes the maximum over disjoint windows k of a blocked field of uint8,
// as BlockedWindow. The maximum of stored values is that of real ones, since a scale is
// positive and one channel has one scale.
func (p *Pool) Int8MaxPool(y, x []uint8, b Blocked, k [3]int) {
	want("x", len(x), b.Len())
	want("y", len(y), b.windows(k).Len())
	in, ck := want3(b.S), want3(k)
	C.ens_int8_max_pool(p.ptr(), u8(y), u8(x), C.long(b.N*b.Blocks()), &in[0], &ck[0])
}

// Int8Upsample is BlockedUpsample of uint8 values, by a factor of 2 in latitude and
// longitude, rounded to nearest, ties up.
func (p *Pool) Int8Upsample(y, x []uint8, b Blocked, wrap bool) {
	want("coarse", len(x), b.Len())
	want("fine", len(y), 4*b.Len())
	in := want3(b.S)
	C.ens_int8_upsample(p.ptr(), u8(y), u8(x), C.long(b.N*b.Blocks()*b.S[0]), &in[0], flag(wrap))
}

// u8 returns the address of the first value.
func u8(x []uint8) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(x))) }
