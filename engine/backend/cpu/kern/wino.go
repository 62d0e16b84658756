//go:build cgo && linux

package kern

/*
#cgo noescape ens_wino
#cgo nocallback ens_wino
#cgo noescape ens_wino_filter
#cgo nocallback ens_wino_filter
#include "kern.h"
*/
import "C"

import "unsafe"

// Block is the number of channels that lie together in the blocked layout.
const Block = 16

func ceil(n, d int) int { return (n + d - 1) / d }

// blocks of c channels.
func blocks(c int) int { return ceil(c, Block) }

// WinoSpec describes a convolution on the blocked layout by Winograd's
// products: filters of kD×k×k, kD 1 or 3, k odd up to 9, stride 1. Beyond the source
// there are zeros, or it is periodic in longitude.
type WinoSpec struct {
	N int
	// Parts are the channels of the source, which may be two tensors that are
	// taken one behind the other.
	Parts [2]int
	K     int    // channels of the result
	Size  [3]int // levels, latitudes, longitudes of the result
	// Before and Behind are the levels, latitudes and longitudes that the source has
	// more than the result, whose field is Size, at either end; less than 0 where it
	// has fewer. With 0 the field is kept.
	Before, After [3]int
	// Halo is the rows in the north and south and the columns in the west and east of
	// the source that lie apart, in frames (SetHalos).
	Halo [4]int
	KD   int  // levels of the filter, 1 or 3
	Side int  // of the filter in latitude and longitude, odd
	Wrap bool // longitudes are periodic
	// FilterIn is the second axis of the filter and FilterLo the first channel on
	// it that is meant: that of the source, or of the result if Flip is set.
	FilterIn, FilterLo int
	// Flip is the adjoint, the gradient of the data: the filter is [source
	// result …], and is reversed.
	Flip bool
	ReLU bool
	// Mask says which blocks of the filter are kept; the others are zero.
	Mask BlockMask
	// BF16 rounds transformed values to bfloat16 and multiplies these, with sums in
	// float32: twice as much at a time, with an error as of a convolution of
	// bfloat16. All sources are stored as bfloat16; see HasBF16.
	BF16 bool
}

// Source is the field of the source.
func (s WinoSpec) Source() [3]int {
	n := s.Size
	for i := range n {
		n[i] += s.Before[i] + s.After[i]
	}
	return n
}

// Inner is the field of the source without its frame.
func (s WinoSpec) Inner() [3]int {
	n := s.Source()
	n[1] -= s.Halo[0] + s.Halo[1]
	n[2] -= s.Halo[2] + s.Halo[3]
	return n
}

// HaloLen is the number of values of a frame of c channels.
func (s WinoSpec) HaloLen(c int) int {
	n := s.Source()
	cells := (s.Halo[0]+s.Halo[1])*n[2] + (n[1]-s.Halo[0]-s.Halo[1])*(s.Halo[2]+s.Halo[3])
	return s.N * blocks(c) * Block * n[0] * cells
}

// HasBF16 tells whether the instruction set in use multiplies bfloat16.
func HasBF16() bool { return ISA() == "avx512bf16" }

// WinoVariant says how the work is cut. It changes the speed and never the result.
type WinoVariant struct {
	// Tiles of 4×4 cells that go through all products together.
	Tiles int
	// Whole transforms all tiles before the first product; for few tiles and
	// many channels.
	Whole bool
	// Sparse makes the products of kept blocks alone; for SupportsSparseWino.
	Sparse bool
}

// WinoVariants are the ways worth trying, the first the best guess for large fields.
// On the processor measured 6 to 14 tiles win where a tile is large, 28 and 56 on
// flat fields of few channels by a few per cent; more than 56 never do.
var WinoVariants = []WinoVariant{{Tiles: 14}, {Tiles: 6}, {Tiles: 12}, {Tiles: 28}, {Tiles: 56}, {Tiles: 14, Whole: true}}

// WinoFilterVariants are those of the filter's gradient.
var WinoFilterVariants = []WinoVariant{{Tiles: 64}, {Tiles: 32}, {Tiles: 16}, {Tiles: 128}, {Tiles: 14, Whole: true}}

// Wino is a prepared convolution. It keeps numbers only.
type Wino struct {
	pool           *Pool
	geom           []C.long
	spec           WinoSpec
	cells, from    int // values of one block of the result and of the source
	filter         int // least length of the filter
	scratch        int
	points, tiles  int
	c, cs, columns int // source channels, as they lie in a tile, and those of the result
	parts          int // of 3×3 that the filter is cut into
	halos          [2]Stored
	kept           blockList // of a sparse way
	// blocks of tiles that read nothing of the frames, and the others; both are empty
	// if the tiles are not taken through the products in blocks
	inner, outer []C.long
}

// WinoPart is the tiles of a convolution that a run computes.
type WinoPart int

// The parts. Inner reads nothing of the frames; Outer is the rest and follows it, with
// the same scratch, which keeps the transformed filters.
const (
	Whole WinoPart = iota
	Inner
	Outer
)

// NewWino prepares the forward pass or the gradient of the data.
//
// Errors: ErrUnsupported for levels that no depth scheme serves.
func NewWino(p *Pool, s WinoSpec, w WinoVariant) (*Wino, error) {
	j, err := newWino(p, s, w, s.BF16)
	if err != nil {
		return nil, err
	}
	if w.Sparse {
		j.scratch = j.sparseScratch(w, false, p.Threads())
		j.splitByHalo(w.Tiles)
		return j, nil
	}
	own, shared := 0, 0
	twos := func(n int) int { // words of so many transformed values
		if s.BF16 {
			return n / 2
		}
		return n
	}
	if w.Whole {
		shared = twos(j.points * (j.tiles*j.parts*j.cs + 16))
		own = j.points * (twos(j.parts*chunk*columnBlock+16) + j.tiles*columnBlock + 16)
	} else {
		blocks, kept := (j.columns+columnBlock-1)/columnBlock, 1
		if j.parts > 1 {
			kept = blocks
		}
		shared = blocks * j.points * twos(j.parts*j.c) * columnBlock
		own = j.points * (twos(w.Tiles*j.row()+16) + kept*(w.Tiles*columnBlock+16))
		j.splitByHalo(w.Tiles)
	}
	j.scratch = shared + own*p.Threads()
	return j, nil
}

// NewWinoFilter prepares the gradient of the filter.
//
// Errors: ErrUnsupported for levels that no depth scheme serves.
func NewWinoFilter(p *Pool, s WinoSpec, w WinoVariant) (*Wino, error) {
	j, err := newWino(p, s, w, false)
	if err != nil {
		return nil, err
	}
	if w.Sparse {
		j.scratch = j.sparseScratch(w, true, p.Threads())
		return j, nil
	}
	block := min(w.Tiles, j.tiles)
	if w.Whole {
		block = j.tiles
	}
	if s.BF16 {
		block = (block + 1) / 2
	}
	j.scratch = j.points * (block*j.row() + 16 + block*j.columns + 16)
	switch {
	case w.Whole && j.parts == 1:
		j.scratch += p.Threads() * j.points * (chunk*columnBlock + 16)
	case j.parts == 1:
		j.scratch += j.points * (j.c*j.columns + 16)
	default:
		j.scratch += j.points * (j.parts*chunk*j.columns + 16)
	}
	return j, nil
}

// As in wino.inc.h: columns that lie together, and the source channels of a
// chunk.
const columnBlock, chunk = 32, 32

// row is the length of a transformed tile, tile_row of wino.inc.h.
func (j *Wino) row() int {
	if j.parts > 1 {
		return j.parts*chunk + Block
	}
	return j.cs
}

// The depth schemes of wino.inc.h: number, products, levels of the result.
var depthSchemes = map[string][3]int{"flat": {0, 1, 1}, "pair": {1, 3, 2}, "deep": {2, 4, 2}, "cube": {3, 6, 4}}

// scheme is the depth scheme of a convolution. Halves keep to the smaller error of
// F(2, 3).
func scheme(s WinoSpec) (string, bool) {
	d, kd, kept := s.Size[0], s.KD, s.Before[0] == 0 && s.After[0] == 0
	switch {
	case kd == 1 && kept, kd == 3 && d == 1 && kept:
		return "flat", true
	case kd == 3 && d == 2 && kept:
		return "pair", true
	case kd == 3 && !s.BF16 && 6*ceil(d, 4) < 4*ceil(d, 2):
		return "cube", true // fewer products
	case kd == 3:
		return "deep", true
	}
	return "", false
}

// newWino prepares what both have in common; even puts the channels of a part in
// twos.
func newWino(p *Pool, s WinoSpec, w WinoVariant, even bool) (*Wino, error) {
	if !SupportsWino(s) || w.Tiles < 1 || s.BF16 && !HasBF16() || w.Sparse && (w.Whole || !SupportsSparseWino(s)) {
		return nil, ErrUnsupported
	}
	name, _ := scheme(s)
	sch := depthSchemes[name]
	c0, c := s.Parts[0], s.Parts[0]+s.Parts[1]
	if even {
		c0 += c0 % 2
		c = c0 + s.Parts[1] + s.Parts[1]%2
	}
	j := &Wino{
		pool: p, spec: s,
		cells:   volume(s.Size) * Block,
		from:    volume(s.Inner()) * Block,
		points:  36 * sch[1],
		tiles:   s.N * ceil(s.Size[0], sch[2]) * ceil(s.Size[1], 4) * ceil(s.Size[2], 4),
		c:       c,
		cs:      ceil(c0+blocks(s.Parts[1])*Block, Block) * Block,
		columns: blocks(s.K) * Block,
		parts:   ceil(s.Side, 3) * ceil(s.Side, 3),
	}
	outer, inner := s.K, s.Parts[0]+s.Parts[1]
	if s.Flip {
		outer, inner = inner, outer
	}
	j.filter = ((outer-1)*s.FilterIn + s.FilterLo + inner) * s.KD * s.Side * s.Side
	flag := func(b bool) C.long {
		if b {
			return 1
		}
		return 0
	}
	if w.Sparse {
		j.kept = s.Mask.list(s)
	}
	from := s.Source()
	j.geom = []C.long{C.long(s.N), C.long(s.Parts[0]), C.long(s.Parts[1]), C.long(s.K),
		C.long(s.Size[0]), C.long(s.Size[1]), C.long(s.Size[2]), C.long(s.KD), C.long(s.Side),
		C.long(from[0]), C.long(from[1]), C.long(from[2]),
		C.long(s.Halo[0]), C.long(s.Halo[1]), C.long(s.Halo[2]), C.long(s.Halo[3]),
		C.long(s.KD/2 - s.Before[0]), C.long(s.Side/2 - s.Before[1]), C.long(s.Side/2 - s.Before[2]),
		C.long(sch[0]), flag(s.Wrap),
		C.long(s.FilterIn), C.long(s.FilterLo), flag(s.Flip), C.long(w.Tiles), flag(w.Whole), flag(s.ReLU), flag(s.BF16)}
	return j, nil
}

// ScratchLen is the number of float32 that a run wants as scratch.
func (j *Wino) ScratchLen() int { return j.scratch }

// SetHalos gives the frames of the parts of the source, blocked as fields of as many
// levels and of frame cells: the rows in the north, those in the south, both as long as
// the source with its frame, then of each row between them what is west and east.
// RunFilter and Run need them if the description has a frame.
//
// Shape: [N C D cells], see HaloLen.
func (j *Wino) SetHalos(f0, f1 Stored) {
	f0.want("the first frame", j.spec.HaloLen(j.spec.Parts[0]), f0)
	if j.spec.Parts[1] > 0 {
		f1.want("the second frame", j.spec.HaloLen(j.spec.Parts[1]), f0)
	}
	j.halos = [2]Stored{f0, f1}
}

// splitByHalo sorts blocks of tiles by whether they read the frame.
func (j *Wino) splitByHalo(tiles int) {
	s, n := j.spec, j.spec.Source()
	reads := func(axis, first int) bool { // the window that begins there
		lo, hi := max(first, 0), min(first+6+3*(ceil(s.Side, 3)-1), n[axis])
		before, behind := s.Halo[2*axis-2], s.Halo[2*axis-1]
		return lo < hi && (lo < before || hi > n[axis]-behind)
	}
	th, tw := ceil(s.Size[1], 4), ceil(s.Size[2], 4)
	for b := 0; b*tiles < j.tiles; b++ {
		outer := false
		for t := b * tiles; t < min((b+1)*tiles, j.tiles); t++ {
			y, x := t/tw%th*4-s.Side/2+s.Before[1], t%tw*4-s.Side/2+s.Before[2]
			outer = outer || reads(1, y) || reads(2, x)
		}
		if outer {
			j.outer = append(j.outer, C.long(b))
		} else {
			j.inner = append(j.inner, C.long(b))
		}
	}
}

// HasInner tells whether Inner is a part of the work at all.
func (j *Wino) HasInner() bool { return len(j.inner) > 0 && len(j.outer) > 0 }

// WinoValues are what a run reads and writes: y = conv(x, w) (+ bias) (ReLU) (+ plus), where gate is
// positive. X1 is left out for a source of one tensor, and so may be Bias, Gate and Plus.
// Y may be Plus. Padding lanes of the source must be zero; those of Y become zero. The
// products are float32 whatever the storage, unless Half is set; Y is rounded once.
//
// Shape: X0, X1 blocked, in one storage; Y, Gate, Plus blocked, in one storage,
// which may be another; Filter plain [· FilterIn kD k k]; Bias [K].
type WinoValues struct {
	Y, X0, X1    Stored
	Filter, Bias []float32
	Gate, Plus   Stored
	Scratch      []float32
}

// RunPart is Run for a part of the tiles: first for Inner and then for Outer, or for the
// Whole at once. The bits are the same.
func (j *Wino) RunPart(part WinoPart, v WinoValues) {
	switch {
	case part == Whole || part == Outer && !j.HasInner():
		j.run(nil, false, v)
	case part == Outer:
		j.run(j.outer, true, v)
	case j.HasInner():
		j.run(j.inner, false, v)
	}
}

// Run computes the convolution of the values.
func (j *Wino) Run(v WinoValues) { j.RunPart(Whole, v) }

func (j *Wino) run(items []C.long, again bool, v WinoValues) {
	j.checkSource(v.X0, v.X1)
	want("y", v.Y.n, j.spec.N*j.cells*blocks(j.spec.K))
	v.Gate.wantIfSet("gate", v.Y.n, v.Y)
	v.Plus.wantIfSet("plus", v.Y.n, v.Y)
	atLeast("filter", len(v.Filter), j.filter)
	atLeast("scratch", len(v.Scratch), j.scratch)
	if v.Bias != nil {
		want("bias", len(v.Bias), j.spec.K)
	}
	if j.kept.list != nil {
		j.runSparse(items, again, v)
		return
	}
	C.ens_wino(j.pool.ptr(), v.X0.storage(), v.Y.storage(), v.Y.ptr, v.X0.ptr, v.X1.ptr, j.halos[0].ptr, j.halos[1].ptr, f32(v.Filter), f32(v.Bias), v.Gate.ptr, v.Plus.ptr,
		f32(v.Scratch), &j.geom[0], unsafe.SliceData(items), C.long(len(items)), flag(again))
}

// RunFilter computes dw, the gradient of the filter between x and dy: all of the
// filter's rows, and of its columns those from FilterLo on. In a sparse way the
// gradient of what is not kept is zero; in others it is that of a whole filter.
//
// Shape: x0, x1, dy blocked, all in one storage; dw plain [· FilterIn kD k k].
func (j *Wino) RunFilter(dw []float32, x0, x1, dy Stored, scratch []float32) {
	j.checkSource(x0, x1)
	dy.want("dy", j.spec.N*j.cells*blocks(j.spec.K), x0)
	atLeast("filter", len(dw), j.filter)
	atLeast("scratch", len(scratch), j.scratch)
	if j.kept.list != nil {
		j.runSparseFilter(dw, x0, x1, dy, scratch)
		return
	}
	C.ens_wino_filter(j.pool.ptr(), x0.storage(), f32(dw), x0.ptr, x1.ptr, j.halos[0].ptr, j.halos[1].ptr, dy.ptr, f32(scratch), &j.geom[0])
}

// checkSource panics unless x0 and x1 are the parts of the source.
func (j *Wino) checkSource(x0, x1 Stored) {
	n := j.spec.N * j.from
	x0.want("x0", n*blocks(j.spec.Parts[0]), x0)
	if j.spec.BF16 && x0.storage() == 0 {
		panic("kern: products of bfloat16 want sources of bfloat16")
	}
	want("x1", x1.n, n*blocks(j.spec.Parts[1]))
	x1.wantIfSet("x1", x1.n, x0)
	if j.spec.Halo != [4]int{} {
		j.halos[0].want("the first frame", j.spec.HaloLen(j.spec.Parts[0]), x0)
	}
}

// SupportsWino tells whether Winograd's products serve a convolution.
func SupportsWino(s WinoSpec) bool {
	_, ok := scheme(s)
	for _, n := range s.Inner() {
		ok = ok && n > 0
	}
	return ok && s.Side%2 == 1 && s.Side <= 9 && (!s.Wrap || s.Size[2] > s.Side/2 && s.Before[2] == 0 && s.After[2] == 0)
}

// Tiles is the number of tiles of 4×4 cells of a convolution, 0 if it is not
// served.
func (s WinoSpec) Tiles() int {
	j, err := newWino(nil, s, WinoVariants[0], false)
	if err != nil {
		return 0
	}
	return j.tiles
}

// DefaultWino is the way that timings on processors with AVX-512 suggest.
func DefaultWino(s WinoSpec) WinoVariant {
	if s.Tiles() <= 32 {
		return WinoVariant{Tiles: 14, Whole: true}
	}
	return WinoVariants[0]
}

// DefaultWinoFilter is the same for the gradient of the filter.
func DefaultWinoFilter(s WinoSpec) WinoVariant {
	const wide = 1 << 16 // source times result channels from which blocks win at 64 tiles
	t := s.Tiles()
	if t <= 32 || t <= 64 && (s.Parts[0]+s.Parts[1])*s.K < wide {
		return WinoVariant{Tiles: 14, Whole: true}
	}
	return WinoFilterVariants[0]
}
