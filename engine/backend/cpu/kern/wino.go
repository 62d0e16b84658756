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

// Block is the number of channels of a block.
const Block = 16

// ceil returns ⌈n/d⌉.
func ceil(n, d int) int { return (n + d - 1) / d }

// blocks returns the number of blocks of c channels.
func blocks(c int) int { return ceil(c, Block) }

// WinoSpec describes a convolution on the blocked layout by Winograd's minimal
// filtering: filters kD×k×k with kD 1 or 3 and k odd, at most 9; stride 1. Padding is
// zero, or periodic in longitude.
//
// Tiles of 6×6 input points give 4×4 outputs, F(4×4, 3×3), with 36 products in place of
// 144. Wider filters are sums of parts: on single levels, in float32, of 5×5 or 4×4 with tiles
// of 8×8 points, otherwise of 3×3. The depth has schemes of its own (winoSchemes).
//
// Source: Winograd 1980, Arithmetic Complexity of Computations; Lavin and Gray 2016,
// arXiv:1509.09308.
type WinoSpec struct {
	N int // samples
	// Parts are the channels of the input, which may be two tensors that are concatenated.
	Parts [2]int
	K     int    // channels of the result
	Size  [3]int // levels, latitudes, longitudes of the result
	// Before and After are the levels, latitudes and longitudes by which the input exceeds
	// the result at each end; negative if the result is larger. With 0 the padding keeps
	// the size.
	Before, After [3]int
	// Halo is the number of rows in the north and south and of columns in the west and
	// east of the input that are stored in separate tensors (SetHalos).
	Halo [4]int
	KD   int  // levels of the filter, 1 or 3
	Side int  // latitudes and longitudes of the filter, odd
	Wrap bool // longitudes are periodic
	// FilterIn is the size of the second axis of the filter. FilterLo is the first channel
	// used on it: of the input, or of the result if Flip is set.
	FilterIn, FilterLo int
	// Flip marks the adjoint, the gradient with respect to the input: the filter is [input
	// result …] and is reversed.
	Flip bool
	ReLU bool // apply ReLU to the result
	// Mask marks the blocks of the filter that are not zero.
	Mask BlockMask
	// BF16 rounds transformed values to bfloat16 and multiplies these, with sums in
	// float32. It doubles the peak rate; the error is that of a convolution of bfloat16.
	// All inputs must be stored as bfloat16; see HasBF16.
	BF16 bool
}

// Source returns the size of the input.
func (s WinoSpec) Source() [3]int {
	n := s.Size
	for i := range n {
		n[i] += s.Before[i] + s.After[i]
	}
	return n
}

// Inner returns the size of the input without its halo.
func (s WinoSpec) Inner() [3]int {
	n := s.Source()
	n[1] -= s.Halo[0] + s.Halo[1]
	n[2] -= s.Halo[2] + s.Halo[3]
	return n
}

// HaloLen returns the number of values of a halo of c channels.
func (s WinoSpec) HaloLen(c int) int {
	n := s.Source()
	cells := (s.Halo[0]+s.Halo[1])*n[2] + (n[1]-s.Halo[0]-s.Halo[1])*(s.Halo[2]+s.Halo[3])
	return s.N * blocks(c) * Block * n[0] * cells
}

// HasBF16 reports whether the instruction set in use multiplies bfloat16.
func HasBF16() bool { return ISA() == "avx512bf16" || HasAMX() }

// WinoVariant defines how the work is divided. It changes the speed and, except for Direct,
// never the result.
type WinoVariant struct {
	// Tiles is the number of tiles that are multiplied together.
	Tiles int
	// Whole transforms all tiles before the first product, for few tiles and many
	// channels.
	Whole bool
	// Sparse multiplies only the kept blocks of a masked filter; see SupportsSparseWino.
	Sparse bool
	// Rows makes the gradient of the filter in items of as many rows of a tile's points (WinoSpec.Points): a thread transforms
	// and multiplies all tiles at its rows, so that no transformed value goes from one cache to another. 0: threads share the
	// transforms, then the products. At most Points/Rows threads have work.
	Rows int
	// Direct sums products over the taps of the filter by AMX; see SupportsDirect and
	// SupportsDirectInt8. It is the only one of which results differ, by rounding.
	Direct bool
}

// WinoVariants are the variants to choose from, the best guess for large fields first.
// On the processor measured, 6 to 14 tiles are fastest for many channels, 28 and 56 by
// a few per cent on flat fields of few channels; more than 56 never are.
var WinoVariants = []WinoVariant{{Tiles: 14}, {Tiles: 6}, {Tiles: 12}, {Tiles: 28}, {Tiles: 56}, {Tiles: 14, Whole: true}}

// WinoFilterVariants returns the variants of the gradient of the filter for that many threads.
func WinoFilterVariants(s WinoSpec, threads int) []WinoVariant {
	rows := s.pointRows(threads)
	return []WinoVariant{{Tiles: 64}, {Tiles: 32}, {Tiles: 16}, {Tiles: 128}, {Tiles: 14, Whole: true},
		{Tiles: 64, Rows: rows}, {Tiles: 32, Rows: rows}, {Tiles: 16, Rows: rows}}
}

// pointRows returns WinoVariant.Rows for that many threads: the most that divide the rows of points and give each thread as many.
// One thread has two groups as well, of which the transformed values fit into its caches. More threads than rows have one each.
func (s WinoSpec) pointRows(threads int) int {
	points := s.Points()
	for rows := points / 2; rows > 1; rows-- {
		if points%rows == 0 && points/rows >= min(threads, points/2) {
			return rows
		}
	}
	return 1
}

// Wino is a prepared convolution. It holds no memory of C.
type Wino struct {
	pool           *Pool
	geom           []C.long
	spec           WinoSpec
	cells, from    int // values of one block of the result and of the input
	filter         int // least length of the filter
	scratch        int // values
	points, tiles  int // points of a transformed tile, and number of tiles
	c, cs, columns int // input channels, input channels in a transformed tile, and padded result channels
	parts          int // of the filter
	halos          [2]Stored
	kept           blockList // kept blocks of a sparse variant
	direct         direct    // of a direct variant; 0 for others
	haloBlocks
}

// haloBlocks are the blocks of tiles that do not read the halos, and the others. Both are
// empty if tiles are not multiplied in blocks.
type haloBlocks struct{ inner, outer []C.long }

// WinoPart selects the tiles that a run computes.
type WinoPart int

// The parts. Inner does not read the halos. Outer computes the rest; it must follow
// Inner with the same scratch, which holds the transformed filter.
const (
	Whole WinoPart = iota
	Inner
	Outer
)

// NewWino prepares the forward pass or the gradient with respect to the input.
//
// Errors: ErrUnsupported (SupportsWino).
func NewWino(p *Pool, s WinoSpec, w WinoVariant) (*Wino, error) {
	j, err := newWino(p, s, w, s.BF16)
	if err != nil {
		return nil, err
	}
	switch {
	case w.Direct:
		d := s.divide(halfSize, p.Threads())
		j.setDirect(d, d.words(s, halfSize, p.Threads()))
		return j, nil
	case w.Sparse:
		j.scratch = j.sparseScratch(w, false, p.Threads())
		j.splitByHalo(w.Tiles)
		return j, nil
	}
	own, shared := 0, 0
	words := func(n int) int { // float32 words of n transformed values
		if s.BF16 {
			return n / 2
		}
		return n
	}
	if w.Whole {
		shared = words(j.points * (j.tiles*j.parts*j.cs + 16))
		own = j.points * (words(j.parts*chunk*columnBlock+16) + j.tiles*columnBlock + 16)
	} else {
		blocks, kept := (j.columns+columnBlock-1)/columnBlock, 1
		if j.parts > 1 {
			kept = blocks
		}
		shared = blocks * j.points * words(j.parts*j.c) * columnBlock
		own = j.points * (words(w.Tiles*j.row()+16) + kept*(w.Tiles*columnBlock+16))
		j.splitByHalo(w.Tiles)
	}
	j.scratch = shared + own*p.Threads()
	return j, nil
}

// NewWinoFilter prepares the gradient of the filter.
//
// Errors: ErrUnsupported (SupportsWino).
func NewWinoFilter(p *Pool, s WinoSpec, w WinoVariant) (*Wino, error) {
	j, err := newWino(p, s, w, false)
	if err != nil {
		return nil, err
	}
	switch {
	case w.Direct:
		d := s.divideFilter()
		j.setDirect(d, d.filterWords(s, p.Threads()))
		return j, nil
	case w.Sparse:
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

// Constants of wino.inc.h: columns that are stored together, and input channels of a
// chunk.
const columnBlock, chunk = 32, 32

// row returns the length of a transformed tile (tile_row of wino.inc.h).
func (j *Wino) row() int {
	if j.parts > 1 {
		return j.parts*chunk + Block
	}
	return j.cs
}

// winoScheme is an algorithm of wino.inc.h: over the levels, and F(M×M, R×R) over the field. F(m, r) computes m outputs
// of a filter of r taps.
type winoScheme struct {
	number           int // in wino.inc.h
	products, levels int // products of a point, and output levels of a tile
	cells, taps      int // M and R
}

// points returns the points of a tile along an axis.
func (c winoScheme) points() int { return c.cells + c.taps - 1 }

// parts returns the parts of a filter along an axis.
func (c winoScheme) parts(side int) int { return ceil(side, c.taps) }

// winoSchemes are the schemes by name:
//
//	flat      one level, direct
//	pair      two levels with zero padding: 3 products
//	deep      F(2, 3): 4 products for 2 levels
//	cube      F(4, 3): 6 products for 4 levels
//	flat 4 5  as flat, with F(4, 5) over the field
//	flat 5 4  as flat, with F(5, 4) over the field
var winoSchemes = map[string]winoScheme{"flat": {0, 1, 1, 4, 3}, "pair": {1, 3, 2, 4, 3}, "deep": {2, 4, 2, 4, 3}, "cube": {3, 6, 4, 4, 3},
	"flat 4 5": {4, 1, 1, 4, 5}, "flat 5 4": {5, 1, 1, 5, 4}}

// scheme returns the name of the scheme of a convolution; ok is false if there is
// none. Products of bfloat16 use F(2, 3) over the levels and F(4, 3) over the field, whose errors are smaller.
func scheme(s WinoSpec) (string, bool) {
	d, kd, kept := s.Size[0], s.KD, s.Before[0] == 0 && s.After[0] == 0
	switch {
	case kd == 1 && kept, kd == 3 && d == 1 && kept:
		return flatScheme(s), true
	case kd == 3 && d == 2 && kept:
		return "pair", true
	case kd == 3 && !s.BF16 && 6*ceil(d, 4) < 4*ceil(d, 2):
		return "cube", true // fewer products
	case kd == 3:
		return "deep", true
	}
	return "", false
}

// flatScheme returns the name of the scheme of the fewest products for filters of single levels. Filters of 3×3 keep F(4, 3),
// with which they need the fewest of those of six points.
func flatScheme(s WinoSpec) string {
	best := "flat"
	if s.BF16 || s.Side <= winoSchemes[best].taps {
		return best
	}
	products := func(name string) float64 { // of a result along an axis
		c := winoSchemes[name]
		return float64(c.parts(s.Side)*c.points()) / float64(c.cells)
	}
	for _, name := range []string{"flat 4 5", "flat 5 4"} {
		if products(name) < products(best) {
			best = name
		}
	}
	return best
}

// Points returns the points of a tile along an axis of the field: 6 or 8. The convolution must be supported (SupportsWino).
func (s WinoSpec) Points() int {
	name, _ := scheme(s)
	return winoSchemes[name].points()
}

// newWino prepares what the passes have in common. even pads the channels of a part to
// an even number, for pairs of bfloat16.
func newWino(p *Pool, s WinoSpec, w WinoVariant, even bool) (*Wino, error) {
	if !SupportsWino(s) || w.Direct != (w.Tiles < 1) || w.Direct && !SupportsDirect(s) || s.BF16 && !HasBF16() || w.Sparse && (w.Whole || !SupportsSparseWino(s)) {
		return nil, ErrUnsupported
	}
	name, _ := scheme(s)
	sch := winoSchemes[name]
	c0, c := s.Parts[0], s.Parts[0]+s.Parts[1]
	if even {
		c0 += c0 % 2
		c = c0 + s.Parts[1] + s.Parts[1]%2
	}
	j := &Wino{
		pool: p, spec: s,
		cells:   volume(s.Size) * Block,
		from:    volume(s.Inner()) * Block,
		points:  sch.points() * sch.points() * sch.products,
		tiles:   s.N * ceil(s.Size[0], sch.levels) * ceil(s.Size[1], sch.cells) * ceil(s.Size[2], sch.cells),
		c:       c,
		cs:      ceil(c0+blocks(s.Parts[1])*Block, Block) * Block,
		columns: blocks(s.K) * Block,
		parts:   sch.parts(s.Side) * sch.parts(s.Side),
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
		C.long(sch.number), flag(s.Wrap),
		C.long(s.FilterIn), C.long(s.FilterLo), flag(s.Flip), C.long(w.Tiles), flag(w.Whole), flag(s.ReLU), flag(s.BF16), C.long(w.Rows)}
	return j, nil
}

// ScratchLen returns the number of float32 values of scratch that a run needs.
func (j *Wino) ScratchLen() int { return j.scratch }

// SetHalos sets the halos of the parts of the input. A halo is a blocked field with as
// many levels as the input and the halo cells in this order: rows in the north, rows in
// the south, each as long as the input with halo, then for each row between them the
// cells in the west and east. Run and RunFilter need it if WinoSpec.Halo is not zero.
//
// Shape: [N C D cells], see HaloLen.
func (j *Wino) SetHalos(f0, f1 Stored) {
	f0.want("the first halo", j.spec.HaloLen(j.spec.Parts[0]), f0)
	if j.spec.Parts[1] > 0 {
		f1.want("the second halo", j.spec.HaloLen(j.spec.Parts[1]), f0)
	}
	j.halos = [2]Stored{f0, f1}
}

// splitByHalo sorts blocks of tiles into those that read the halo and those that do
// not.
func (j *Wino) splitByHalo(tiles int) {
	name, _ := scheme(j.spec)
	s, n, c := j.spec, j.spec.Source(), winoSchemes[name]
	reads := func(axis, first int) bool { // whether the window beginning at first reads the halo
		lo, hi := max(first, 0), min(first+c.points()+c.taps*(c.parts(s.Side)-1), n[axis])
		before, behind := s.Halo[2*axis-2], s.Halo[2*axis-1]
		return lo < hi && (lo < before || hi > n[axis]-behind)
	}
	th, tw := ceil(s.Size[1], c.cells), ceil(s.Size[2], c.cells)
	for b := 0; b*tiles < j.tiles; b++ {
		outer := false
		for t := b * tiles; t < min((b+1)*tiles, j.tiles); t++ {
			y, x := t/tw%th*c.cells-s.Side/2+s.Before[1], t%tw*c.cells-s.Side/2+s.Before[2]
			outer = outer || reads(1, y) || reads(2, x)
		}
		if outer {
			j.outer = append(j.outer, C.long(b))
		} else {
			j.inner = append(j.inner, C.long(b))
		}
	}
}

// HasInner reports whether the work is divided into Inner and Outer.
func (j *Wino) HasInner() bool { return len(j.inner) > 0 && len(j.outer) > 0 }

// WinoValues are the operands of a run, which computes
//
//	y = conv(x, w) (+ bias) (ReLU) (+ plus), and 0 where gate is not positive
//
// X1 is absent for an input of one tensor. Bias, Gate and Plus are optional. Y may
// alias Plus. Padding channels of the input must be zero; those of Y become zero.
// Products are float32 whatever the storage type, unless BF16 is set. Y is rounded
// once.
//
// Shape: X0, X1 blocked, in one storage type; Y, Gate, Plus blocked, in one storage
// type, which may be another; Filter plain [· FilterIn kD k k]; Bias [K].
type WinoValues struct {
	Y, X0, X1    Stored
	Filter, Bias []float32
	Gate, Plus   Stored
	Scratch      []float32
}

// RunPart computes a part of the tiles: either Inner and then Outer, or Whole. The
// result has the same bits.
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

// Run computes the convolution.
func (j *Wino) Run(v WinoValues) { j.RunPart(Whole, v) }

// run computes the given blocks of tiles, nil for all. again reuses the transformed
// filter in scratch.
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
	switch {
	case j.direct.height > 0:
		j.runDirect(v)
		return
	case j.kept.list != nil:
		j.runSparse(items, again, v)
		return
	}
	C.ens_wino(j.pool.ptr(), v.X0.storage(), v.Y.storage(), v.Y.ptr, v.X0.ptr, v.X1.ptr, j.halos[0].ptr, j.halos[1].ptr, f32(v.Filter), f32(v.Bias), v.Gate.ptr, v.Plus.ptr,
		f32(v.Scratch), &j.geom[0], unsafe.SliceData(items), C.long(len(items)), flag(again))
}

// RunFilter computes dw, the gradient of the filter from x and dy: all of its rows, and
// its columns from FilterLo on. A sparse variant writes zeros for masked blocks; other
// variants compute the gradient of all blocks.
//
// Shape: x0, x1, dy blocked, in one storage type; dw plain [· FilterIn kD k k].
func (j *Wino) RunFilter(dw []float32, x0, x1, dy Stored, scratch []float32) {
	j.checkSource(x0, x1)
	dy.want("dy", j.spec.N*j.cells*blocks(j.spec.K), x0)
	atLeast("filter", len(dw), j.filter)
	atLeast("scratch", len(scratch), j.scratch)
	switch {
	case j.direct.height > 0:
		j.runDirectFilter(dw, x0, x1, dy, scratch)
		return
	case j.kept.list != nil:
		j.runSparseFilter(dw, x0, x1, dy, scratch)
		return
	}
	C.ens_wino_filter(j.pool.ptr(), x0.storage(), f32(dw), x0.ptr, x1.ptr, j.halos[0].ptr, j.halos[1].ptr, dy.ptr, f32(scratch), &j.geom[0])
}

// checkSource panics unless x0 and x1 are the parts of the input.
func (j *Wino) checkSource(x0, x1 Stored) {
	n := j.spec.N * j.from
	x0.want("x0", n*blocks(j.spec.Parts[0]), x0)
	if j.spec.BF16 && x0.storage() == 0 {
		panic("kern: products of bfloat16 need inputs stored as bfloat16")
	}
	want("x1", x1.n, n*blocks(j.spec.Parts[1]))
	x1.wantIfSet("x1", x1.n, x0)
	if j.spec.Halo != [4]int{} {
		j.halos[0].want("the first halo", j.spec.HaloLen(j.spec.Parts[0]), x0)
	}
}

// SupportsWino reports whether Wino supports a convolution.
func SupportsWino(s WinoSpec) bool {
	_, ok := scheme(s)
	for _, n := range s.Inner() {
		ok = ok && n > 0
	}
	return ok && s.Side%2 == 1 && s.Side <= 9 && (!s.Wrap || s.Size[2] > s.Side/2 && s.Before[2] == 0 && s.After[2] == 0)
}

// Tiles returns the number of tiles of a convolution; 0 if it is not supported.
func (s WinoSpec) Tiles() int {
	j, err := newWino(nil, s, WinoVariants[0], false)
	if err != nil {
		return 0
	}
	return j.tiles
}

// DefaultWino returns the variant to use without timings. Timings on processors with
// AVX-512 suggest it.
func DefaultWino(s WinoSpec) WinoVariant {
	if s.Tiles() <= 32 {
		return WinoVariant{Tiles: 14, Whole: true}
	}
	return WinoVariants[0]
}

// DefaultWinoFilter is DefaultWino for the gradient of the filter on that many threads. Two threads take rows of points, with which
// they are 1.1 to 3 times as fast as with shared ones (BenchmarkWinoFilter); four and more were not measured.
func DefaultWinoFilter(s WinoSpec, threads int) WinoVariant {
	// Source times result channels from which blocks win at 64 tiles; and, for each tile, up to which rows of points win.
	const wide, rowsPerTile = 1 << 16, 512
	t, filter := s.Tiles(), (s.Parts[0]+s.Parts[1])*s.K
	few := t <= 64 && filter < wide
	switch {
	case t <= 32, few && (threads != 2 && threads != 3 || filter > rowsPerTile*t):
		return WinoVariant{Tiles: 14, Whole: true}
	case threads == 2 || threads == 3:
		return WinoVariant{Tiles: 32, Rows: s.pointRows(threads)}
	}
	return WinoFilterVariants(s, threads)[0]
}
