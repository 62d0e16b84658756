package cuda

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// convAxis is the geometry of a convolution along one axis: struct axis of conv.cuh,
// and the numbers of rows and taps of a call.
//
// Row i of a call is row from + i·step of the result; its tap v is tap first + v·each
// of the filter. Row r and tap t read cell
//
//	q = r·stride − pad + t·dilation
//
// of the input, modulo period if that is not 0. The adjoint reads row (r + pad −
// t·dilation)/stride where that is an integer; turns is the number of periods to try.
//
// Source: Chetlur et al. 2014, arXiv:1410.0759 (convolution as an implicit matrix
// product).
type convAxis struct {
	rows, taps                                                          int // of a call
	size, from, step, first, each, stride, dilation, pad, period, turns int // cells of the axis that is read
}

// args returns the arguments AXIS of kernels.
func (a convAxis) args() []any {
	var v []any
	for _, n := range []int{a.size, a.from, a.step, a.first, a.each, a.stride, a.dilation, a.pad, a.period, a.turns} {
		v = append(v, int32(n))
	}
	return v
}

// convAxes returns the axes of the convolution of x with w, whose result is y.
func convAxes(x, w, y graph.Shape, a op.Conv) (all [3]convAxis) {
	for i := range all {
		all[i] = convAxis{rows: y[i+2], taps: w[i+2], size: x[i+2], step: 1, each: 1,
			stride: max(a.Stride[i], 1), dilation: max(a.Dilation[i], 1), pad: a.Pad[i].Size, turns: 1}
		if a.Pad[i].Periodic {
			all[i].period = x[i+2]
		}
	}
	return all
}

// adjoint returns the axes of the adjoint, whose rows are the n cells of x. With stride
// s there are up to s classes of rows, r ≡ c (mod s), each of which is reached by its
// own taps; each class is a call of its own. Periodic axes whose period s does not
// divide are not split.
func (a convAxis) adjoint(n int) []convAxis {
	a.size, a.rows = a.rows, n
	if a.period > 0 {
		a.turns = a.maxTurns()
	}
	if a.stride == 1 || a.period%a.stride != 0 {
		return []convAxis{a}
	}
	var all []convAxis
	for rest := range a.stride {
		// Row r and tap t meet at (r + pad − t·dilation)/stride, an integer only if both
		// r + pad and t·dilation have the same remainder.
		c := a
		c.from = ((rest-a.pad)%a.stride + a.stride) % a.stride
		c.step = a.stride
		c.rows = max(0, (n-c.from+a.stride-1)/a.stride)
		// The taps of a class are equidistant: the first, and the distance to the next.
		c.taps = 0
		for t := range a.taps {
			if t*a.dilation%a.stride != rest {
				continue
			}
			if c.taps == 0 {
				c.first = t
			} else if c.taps == 1 {
				c.each = t - c.first
			}
			c.taps++
		}
		if c.rows > 0 {
			all = append(all, c)
		}
	}
	return all
}

// maxTurns returns the largest number of results that read a cell through the same tap
// of a periodic axis.
func (a convAxis) maxTurns() int {
	most := 1
	for q := range a.period {
		turns := 0
		for ; q/a.stride < a.size; q += a.period {
			if q%a.stride == 0 {
				turns++
			}
		}
		most = max(most, turns)
	}
	return most
}

// convolution is a convolution or its adjoint as the kernels take it.
//
//	out = ReLU(conv(parts, filter) + bias),  or
//	out = gate > 0 ? convᵀ(parts, filter) + plus : 0
//
// The kernel is an implicit matrix product: rows are grid points, columns are result
// channels, and the summed index runs over taps and input channels. Input values are
// gathered through tables of the taps instead of an explicit im2col matrix.
//
// Shape: parts [N Cᵢ D H W], filter [K ΣCᵢ kD kH kW], bias [K], out [N K D′ H′ W′].
type convolution struct {
	// parts are the inputs, at most two, concatenated along the channels.
	parts         []backend.Tensor
	filter        backend.Tensor
	bias          *backend.Tensor // nil if there is none
	plus, gate    *backend.Tensor // nil if there is none
	out           backend.Tensor
	relu, adjoint bool
	twoFour       bool // the filter has the 2:4 pattern
	lo            int  // first input channel of the filter, for an adjoint
	// classes are the axes of the calls, which together compute all rows once. A forward
	// pass has one; an adjoint with strides, or a split interior, has several.
	classes [][3]convAxis
	// early is the number of calls, from the first on, that read only available data.
	early   int
	pending *pendingInput // inputs that are incomplete; nil if none is
}

// forwardOf returns the convolution of conv3d or conv3d_fused.
func forwardOf(q backend.Request) convolution {
	c := convolution{parts: q.In[:1], out: q.Out}
	a, bare := q.Attrs.(op.Conv)
	if !bare {
		f := q.Attrs.(op.FusedConv)
		a, c.relu, c.parts, c.bias = f.Conv, f.ReLU, q.In[:len(q.In)-2], &q.In[len(q.In)-1]
	}
	c.filter = q.In[len(c.parts)]
	// Quads of channels must not be divided between the parts, whose lanes are padded each.
	c.twoFour = a.TwoFour && (len(c.parts) == 1 || c.parts[0].Shape[1]%op.Quad == 0)
	c.classes = [][3]convAxis{convAxes(c.parts[0].Shape, c.filter.Shape, q.Out.Shape, a)}
	c.pending = pendingOf(q, c.parts, 0)
	return c
}

// dataOf returns the convolution of conv3d_grad_data or conv3d_fused_grad_data.
func dataOf(q backend.Request) convolution {
	c := convolution{filter: q.In[0], parts: q.In[1:2], out: q.Out, adjoint: true, classes: [][3]convAxis{{}}}
	a, fused := q.Attrs.(op.FusedConvGrad)
	if !fused {
		a.ConvGrad = q.Attrs.(op.ConvGrad)
	}
	c.lo = a.Lo
	if a.HasAddend {
		c.plus = &q.In[2]
	}
	if a.HasGate {
		c.gate = &q.In[len(q.In)-1]
	}
	for i, ax := range convAxes(q.Out.Shape, c.filter.Shape, q.In[1].Shape, a.Conv) {
		var all [][3]convAxis
		for _, class := range ax.adjoint(q.Out.Shape[i+2]) {
			for _, others := range c.classes {
				others[i] = class
				all = append(all, others)
			}
		}
		c.classes = all
	}
	c.pending = pendingOf(q, c.parts, 1)
	return c
}

// supportedFields reports whether kernels support these fields, and returns their type in
// CUDA programs and whether they are plain. All must have one layout and type, and less
// than 2³⁰ grid points.
func supportedFields(fields ...backend.Tensor) (values string, plain, ok bool) {
	first := fields[0]
	for _, f := range fields {
		if len(f.Shape) != 5 || f.Layout != first.Layout || stored(f) != stored(first) || f.Shape.Size() == 0 ||
			int64(f.Shape[0])*fieldOf(f.Shape).P > math.MaxInt32/2 {
			return "", false, false
		}
	}
	return stored(first), first.Layout == graph.Plain, true
}

// fields returns all fields of the convolution, the result last.
func (c *convolution) fields() []backend.Tensor {
	all := slices.Clone(c.parts)
	for _, t := range []*backend.Tensor{c.plus, c.gate} {
		if t != nil {
			all = append(all, *t)
		}
	}
	return append(all, c.out)
}

// valueBytes returns the size of a type of CUDA programs.
func valueBytes(stored string) int {
	if stored == "float" {
		return elem
	}
	return 2
}

// The first architectures with tensor cores for float16, in quads of threads (Volta)
// and warps (Turing), for bfloat16 and TF32, and for 2:4 filters (Ampere).
const (
	firstQuads   = 70
	firstF16     = 75
	firstBF16    = 80
	firstTwoFour = 80
)

// HasTwoFourKernels reports whether convolutions with 2:4 filters have kernels that do
// not multiply by the zeros: in bfloat16 and float16, on compute capability 8.0 and later.
func (b *Backend) HasTwoFourKernels() bool { return b.dev.Properties().Architecture >= firstTwoFour }

// products returns how values of a storage type are multiplied on this device.
func (b *Backend) products(stored string) kernels.Products {
	switch architecture := b.dev.Properties().Architecture; {
	case stored == "f16" && architecture >= firstF16:
		return kernels.F16
	case stored == "f16" && architecture >= firstQuads:
		return kernels.F16Quads
	case architecture < firstBF16: // no matrix units for these types
		return kernels.Plain
	case stored == "bf16":
		return kernels.BF16
	case b.tf32:
		return kernels.TF32
	}
	return kernels.Plain
}

// convForward prepares conv3d and conv3d_fused in the fastest variant.
func convForward(b *Backend, q backend.Request) (backend.Kernel, error) {
	own, library, err := convVariants(b, q)
	return b.prepareFastest(q, own, library, err)
}

// convData prepares conv3d_grad_data and conv3d_fused_grad_data in the fastest variant.
func convData(b *Backend, q backend.Request) (backend.Kernel, error) {
	own, library, err := dataVariants(b, q)
	return b.prepareFastest(q, own, library, err)
}

// convVariants returns the variants of a convolution; own is nil if it is not
// supported.
func convVariants(b *Backend, q backend.Request) (own []variant, library libraryVariants, err error) {
	q.In = slices.Clone(q.In) // calls are made from it later
	return b.convolve(q, forwardOf(q))
}

// dataVariants returns the variants of the gradient with respect to the input.
func dataVariants(b *Backend, q backend.Request) (own []variant, library libraryVariants, err error) {
	q.In = slices.Clone(q.In)
	return b.convolve(q, dataOf(q))
}

// convolve returns the variants of our kernels and of the library.
func (b *Backend) convolve(q backend.Request, c convolution) (own []variant, library libraryVariants, err error) {
	if own = b.ownConvs(c); own == nil {
		return nil, library, nil
	}
	return own, b.libraryConvs(q, c), nil
}

// ownTiles is the number of tile sizes of our kernels that are benchmarked, of each kind
// of products.
const ownTiles = 3

// ownConvs returns the variants of our own kernels; nil if they do not support the
// convolution. Those that multiply by all values of the filter are first, so that they run where nothing is
// measured.
func (b *Backend) ownConvs(c convolution) (all []variant) {
	values, plain, ok := supportedFields(c.fields()...)
	if !ok || len(c.parts) > 2 {
		return nil
	}
	all = b.tiledConvs(c, values, plain, b.products(values))
	if c.twoFour && values != "float" && b.HasTwoFourKernels() {
		all = append(all, b.tiledConvs(c, values, plain, kernels.TwoFour)...)
	}
	return all
}

// tiledConvs returns the ownTiles tile sizes with the least estimated cost, the best
// first.
//
// Plain fields are converted to channels last in scratch, and the result back. If a
// halo is being received and that is faster, a variant computes the interior first
// (splitInterior).
func (b *Backend) tiledConvs(c convolution, values string, plain bool, products kernels.Products) (all []variant) {
	most := ownTiles
	if len(c.classes) > 1 {
		most = 1
	}
	choices := make([][]kernels.Tile, len(c.classes))
	for i, class := range c.classes {
		choices[i] = b.convTiles(products, c.out.Shape, class)
		most = min(most, len(choices[i]))
	}
	for k := range most {
		tiles := make([]kernels.Tile, len(c.classes))
		for i := range tiles {
			tiles[i] = choices[i][k]
		}
		w := c.variant(values, plain, products, tiles)
		if cut, tiles, saves := b.splitInterior(c, products, tiles); saves > 0 && !plain {
			w = cut.variant(values, plain, products, tiles)
			w.savedSeconds = saves
		}
		all = append(all, w)
	}
	return all
}

// variant returns the variant with these tile sizes of its classes.
func (c convolution) variant(values string, plain bool, products kernels.Products, tiles []kernels.Tile) variant {
	var s scratchLayout
	var moved []int
	if plain {
		for _, f := range c.fields() {
			moved = append(moved, s.reserve(int64(graph.ChannelsLast.Elems(f.Shape))))
		}
	}
	// All classes read one packed filter, with room for whole tiles of each.
	room := 0
	for _, t := range tiles {
		room = max(room, roundUp(c.out.Shape[1], t.Columns))
	}
	filter, metadata := products.PackedBytes(c.filter.Shape[2:].Size(), c.lanes(), room, valueBytes(values))
	packed := s.reserve((filter + metadata) / elem)
	name := fmt.Sprintf("conv %s %s %s", values, products, tiles[0])
	return variant{name: name, scratch: s.n, calls: func(w *work, mem []float32) {
		inner := c
		if plain {
			inner = c.inScratch(w, mem, moved)
		}
		inner.calls(w, values, products, tiles, room, start(mem[packed:]))
		if plain {
			w.reorder(inner.out, c.out)
		}
	}}
}

// inScratch returns the convolution of fields with channels last in scratch, at the
// offsets moved, and adds the calls that convert its operands.
func (c convolution) inScratch(w *work, mem []float32, moved []int) convolution {
	move := func(t backend.Tensor, copied bool) backend.Tensor {
		tensor := backend.Tensor{Shape: t.Shape, Layout: graph.ChannelsLast, F32: mem[moved[0]:][:graph.ChannelsLast.Elems(t.Shape)]}
		if copied {
			w.reorder(t, tensor)
		}
		moved = moved[1:]
		return tensor
	}
	c.parts = slices.Clone(c.parts)
	for i, p := range c.parts {
		c.parts[i] = move(p, true)
	}
	for _, t := range []**backend.Tensor{&c.plus, &c.gate} {
		if *t != nil {
			copied := move(**t, true)
			*t = &copied
		}
	}
	c.out = move(c.out, false)
	return c
}

// lanes returns the number of padded channels of all inputs together.
func (c *convolution) lanes() int {
	n := 0
	for _, p := range c.parts {
		n += graph.ChannelsLast.PaddedChannels(p.Shape[1])
	}
	return n
}

// calls adds the calls that pack the filter and convolve.
//
// The filter is packed once per run: channels innermost, padded to lanes, in the order
// in which a tile reads it, with room for whole tiles of result channels. An adjoint
// packs it with input and result channels exchanged. A filter of TwoFour has its
// metadata behind its values.
func (c *convolution) calls(w *work, values string, products kernels.Products, tiles []kernels.Tile, room int, packed device.Pointer) {
	f, x, y := c.filter.Shape, fieldOf(c.parts[0].Shape), fieldOf(c.out.Shape)
	taps, sources := f[2:].Size(), f[1]
	if c.adjoint {
		sources = f[0]
	}
	// A block of pack_filter transposes 8 result channels and one unit of input channels
	// in shared memory, for at most this many taps at a time.
	const maxTaps = 128
	part, unit := min(taps, maxTaps), 16/valueBytes(values)
	w.call(kernels.ConvPack(values, products, c.adjoint), "pack_filter",
		device.Size{Grid: [3]int{c.lanes() / unit, room / 8}, Block: [3]int{threads}, Shared: elem * unit * 8 * part},
		at(c.filter), packed, int32(f[1]), int32(taps), int32(part), int32(c.lo), int32(x.C), int32(x.Lanes), int32(sources), int32(y.C), int32(room))
	place := func(t *backend.Tensor) device.Pointer {
		if t == nil {
			return nil
		}
		return at(*t)
	}
	operands := []any{packed}
	if products == kernels.TwoFour {
		bytes, _ := products.PackedBytes(taps, c.lanes(), room, valueBytes(values))
		operands = append(operands, advance(packed, bytes))
	}
	second, units1, relu := at(c.parts[0]), 0, 0
	if len(c.parts) > 1 {
		second, units1 = at(c.parts[1]), fieldOf(c.parts[1].Shape).Lanes/unit
	}
	if c.relu {
		relu = 1
	}
	for i, class := range c.classes {
		t := tiles[i]
		args := append([]any{at(c.parts[0]), second}, operands...)
		args = append(args, place(c.bias), place(c.plus), place(c.gate), at(c.out))
		// Tables in shared memory have an entry for each tap, and for each period of a
		// periodic axis in an adjoint.
		var turns [3]int
		rowTiles, box := tilesOf(x.N, class, t)
		ints := []int{x.Lanes / unit, units1, x.N, room, y.C, y.Lanes, relu, box, class[0].rows, class[1].rows, class[2].rows}
		for k, a := range class {
			turns[k] = a.taps * a.turns
			ints = append(ints, turns[k])
		}
		for _, n := range append(ints, y.S[0], y.S[1], y.S[2], f[3], f[4]) {
			args = append(args, int32(n))
		}
		for _, a := range class {
			args = append(args, a.args()...)
		}
		size := device.Size{Grid: [3]int{rowTiles * ceil(y.Lanes, t.Columns)},
			Block: [3]int{t.Threads}, Shared: t.ConvShared(products, turns)}
		w.call(kernels.Conv(t, values, products, c.adjoint), "conv", size, args...)
		if i+1 == c.early {
			w.early = len(w.calls)
		}
	}
}

// convTiles returns the tile sizes that fit into shared memory, in order of estimated
// cost.
func (b *Backend) convTiles(products kernels.Products, out graph.Shape, class [3]convAxis) []kernels.Tile {
	taps := [3]int{class[0].taps * class[0].turns, class[1].taps * class[1].turns, class[2].taps * class[2].turns}
	p := b.dev.Properties()
	return cheapestTiles(kernels.ConvTilesOf(products), func(t kernels.Tile) (float64, bool) {
		return tileCost(p.Multiprocessors, out, class, t), t.Supports(p.Architecture) && t.ConvShared(products, taps) <= p.SharedBytes
	})
}

// tileCost estimates the time of a convolution with a tile size, in products per tap
// and input channel of the busiest multiprocessor:
//
//	cost = most·Rows·Columns/(Rate·√share)
//
// most is the number of tiles of the busiest multiprocessor and share the fraction of
// the blocks that would fit on it. Blocks on one multiprocessor hide each other's
// latencies; that fewer of them are slower by √share is a guess.
func tileCost(processors int, out graph.Shape, class [3]convAxis, t kernels.Tile) float64 {
	tiles, _ := tilesOf(out[0], class, t)
	most := ceil(tiles*ceil(out[1], t.Columns), processors)
	share := float64(min(most, t.Blocks)) / float64(t.Blocks)
	return float64(most*t.Rows*t.Columns) / (t.Rate * math.Sqrt(share))
}

// tilesOf returns the number of tiles of the grid points of n samples. box is the width
// of tiles that are boxes of the last two axes. Boxes are used if the filter extends
// along both and at most 1/16 of their area is outside of the field; else box is 0 and
// tiles are runs of grid points.
func tilesOf(n int, class [3]convAxis, t kernels.Tile) (tiles, box int) {
	// Boxes are about square, at most 16 wide: neighbouring outputs then share more of
	// the input than those of a run along longitude.
	planes, high, wide := n*class[0].rows, class[1].rows, class[2].rows
	box = 16
	for box*box > 2*t.Rows {
		box /= 2
	}
	boxes := planes * ceil(high, t.Rows/box) * ceil(wide, box)
	if points := planes * high * wide; min(class[1].taps, class[2].taps) < 2 || boxes*t.Rows > points+points/16 {
		return ceil(points, t.Rows), 0
	}
	return boxes, box
}

// cheapestTiles returns the tiles that fit, sorted by cost.
func cheapestTiles(tiles []kernels.Tile, cost func(t kernels.Tile) (cost float64, fits bool)) []kernels.Tile {
	var all []kernels.Tile
	costs := map[kernels.Tile]float64{}
	for _, t := range tiles {
		if c, fits := cost(t); fits {
			all, costs[t] = append(all, t), c
		}
	}
	slices.SortStableFunc(all, func(a, b kernels.Tile) int { return cmp.Compare(costs[a], costs[b]) })
	return all
}

// convForwardLayouts is the rule of the forward pass: fields have channels last, filter
// and bias are plain.
func convForwardLayouts(_ any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	parts := max(1, len(in)-2)
	w, ok := channelsLast(parts, in, out, true)
	return w, ok && parts <= 2
}

// convDataLayouts is the rule of the gradient with respect to the input.
func convDataLayouts(_ any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	w, ok := channelsLast(len(in), in, out, true)
	w.In[0] = graph.Plain
	return w, ok
}

// convFilterLayouts is the rule of the gradient of the filter.
func convFilterLayouts(_ any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	w, ok := channelsLast(len(in), in, out, false)
	return w, ok && len(in) <= 3
}

// AllowTF32 permits float32 convolutions that are prepared afterwards to round their
// factors to 11 bits of mantissa, for the tensor cores. Sums stay in float32.
func (b *Backend) AllowTF32(allow bool) { b.tf32 = allow }
