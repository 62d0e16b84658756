package cuda

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// filterGrad is the gradient of a filter.
//
//	dw[k,c,t] = Σ_p dy[k,p]·x[c, p·stride − pad + t·dilation]
//
// The kernel is an implicit matrix product: rows are result channels, columns are taps
// and input channels, and the summed index runs over the grid points p of all samples.
// These are divided into parts, computed by different blocks; the sums of parts are
// added in a fixed order, so that results are reproducible.
//
// Shape: x [N Cᵢ D H W], dy [N K D′ H′ W′] → dw [K ΣCᵢ kD kH kW].
// Source: Chetlur et al. 2014, arXiv:1410.0759.
type filterGrad struct {
	fields   []backend.Tensor // x in one or two parts, and dy
	out      backend.Tensor
	axes     [3]convAxis
	values   string
	products kernels.Products
	tile     kernels.Tile
	// parts is the number of parts of the grid points. Each has a matrix of sums in
	// scratch.
	parts int
}

// filterOwnTiles is the number of tile sizes that are benchmarked: more than of other
// convolutions, because the estimated costs of large tiles are close.
const filterOwnTiles = 5

// filterGradient prepares conv3d_grad_filter and conv3d_fused_grad_filter in the
// fastest variant.
func filterGradient(b *Backend, q backend.Request) (backend.Kernel, error) {
	own, library, err := filterVariants(b, q)
	return b.prepareFastest(q, own, library, err)
}

// filterVariants returns the variants of the gradient of a filter; own is nil if it is
// not supported.
func filterVariants(b *Backend, q backend.Request) (own []variant, library libraryVariants, err error) {
	a := q.Attrs.(op.ConvGrad)
	q.In = slices.Clone(q.In) // calls are made from it later
	dy := q.In[len(q.In)-1].Shape
	g := filterGrad{fields: q.In, out: q.Out, axes: convAxes(q.In[0].Shape, a.To, dy, a.Conv)}
	values, plain, ok := supportedFields(q.In...)
	if !ok || len(q.In) > 3 {
		return nil, library, nil
	}
	g.values, g.products = values, b.products(values)
	for i, t := range b.filterTiles(g) {
		if i == filterOwnTiles {
			break
		}
		w, err := b.filterVariant(g.cut(t, b.dev.Properties()), plain, a.Mask)
		if err != nil {
			closeVariants(own)
			return nil, library, err
		}
		own = append(own, w)
	}
	if own == nil { // more taps than any block has room for
		return nil, library, nil
	}
	return own, b.libraryFilters(q, a), nil
}

// filterVariant returns the variant with the tile size and the parts of g. Masked
// blocks of the filter get zeros.
func (b *Backend) filterVariant(g filterGrad, plain bool, k op.BlockMask) (variant, error) {
	var s scratchLayout
	var moved []int
	if plain {
		for _, f := range g.fields {
			moved = append(moved, s.reserve(int64(graph.ChannelsLast.Elems(f.Shape))))
		}
	}
	rows, _, columns := g.size()
	sums := s.reserve(int64(g.parts) * int64(rows) * int64(columns))
	kept, err := b.keptBlocks(k)
	name := fmt.Sprintf("gradient of the filter %s %s %s, %d parts", g.values, g.products, g.tile, g.parts)
	return variant{name: name, scratch: s.n, close: func() { _ = b.Free(kept) }, calls: func(w *work, mem []float32) {
		inner := g
		if plain {
			inner.fields = slices.Clone(g.fields)
			for i, f := range g.fields {
				inner.fields[i] = backend.Tensor{Shape: f.Shape, Layout: graph.ChannelsLast, F32: mem[moved[i]:][:graph.ChannelsLast.Elems(f.Shape)]}
				w.reorder(f, inner.fields[i])
			}
		}
		inner.calls(w, start(mem[sums:]), start(kept))
	}}, err
}

// keptBlocks copies a block mask to the device, one word per block; nil if all blocks
// are kept. The bits of the word are zero for a masked block.
func (b *Backend) keptBlocks(k op.BlockMask) ([]float32, error) {
	if k == "" || b.dryRun {
		return nil, nil
	}
	host, err := b.AllocHost(len(k))
	if err != nil {
		return nil, err
	}
	for i := range host {
		host[i] = float32(k[i] - '0') // zero has no bits
	}
	dev, err := b.Alloc(len(k))
	if err != nil {
		return nil, err
	}
	if err := b.Copy(dev, host); err != nil {
		return nil, err
	}
	if err := b.Wait(); err != nil {
		return nil, err
	}
	return dev, b.Free(host)
}

// lanes returns the number of padded channels of all inputs together.
func (g *filterGrad) lanes() int {
	n := 0
	for _, p := range g.fields[:len(g.fields)-1] {
		n += graph.ChannelsLast.PaddedChannels(p.Shape[1])
	}
	return n
}

// size returns the rows and columns of the matrix of sums, and the columns of one tap
// of the first axis.
func (g *filterGrad) size() (rows, columnsOfTap, columns int) {
	columnsOfTap = roundUp(g.axes[1].taps*g.axes[2].taps*g.lanes(), g.tile.Columns)
	return roundUp(g.out.Shape[0], g.tile.Rows), columnsOfTap, g.axes[0].taps * columnsOfTap
}

// filterTiles returns the tile sizes that fit into shared memory, in order of estimated
// cost.
func (b *Backend) filterTiles(g filterGrad) []kernels.Tile {
	taps := [3]int{g.axes[0].taps, g.axes[1].taps, g.axes[2].taps}
	p := b.dev.Properties()
	return cheapestTiles(kernels.FilterTilesOf(g.products), func(t kernels.Tile) (float64, bool) {
		g.tile = t
		rows, _, columns := g.size()
		return float64(rows) * float64(columns) / t.Rate, t.Supports(p.Architecture) && t.FilterShared(taps, valueBytes(g.values)) <= p.SharedBytes
	})
}

// cut returns the gradient with a tile size and a number of parts.
//
// There are enough parts that the blocks fill the device a few times (waves), but each
// part has at least leastSteps steps of Tile.Points grid points, since every part
// writes a matrix of sums.
func (g filterGrad) cut(t kernels.Tile, p device.Properties) filterGrad {
	const waves, leastSteps = 3, 16
	g.tile = t
	rows, _, columns := g.size()
	dy := g.fields[len(g.fields)-1].Shape
	steps := ceil(dy[0]*dy[2:].Size(), t.Points)
	g.parts = max(1, min(waves*p.Multiprocessors*t.Blocks/(rows/t.Rows*(columns/t.Columns)), steps/leastSteps))
	return g
}

// calls adds the calls that sum the parts and add them.
func (g *filterGrad) calls(w *work, sums, kept device.Pointer) {
	x, dy := fieldOf(g.fields[0].Shape), fieldOf(g.fields[len(g.fields)-1].Shape)
	unit := 16 / valueBytes(g.values)
	rows, columnsOfTap, columns := g.size()
	second, units1 := at(g.fields[0]), 0
	if len(g.fields) > 2 {
		second, units1 = at(g.fields[1]), fieldOf(g.fields[1].Shape).Lanes/unit
	}
	a := g.axes
	args := []any{at(g.fields[0]), second, at(g.fields[len(g.fields)-1]), sums}
	for _, n := range []int{x.Lanes / unit, units1, dy.Lanes / unit, dy.N, columnsOfTap / g.tile.Columns, a[0].rows, a[1].rows, a[2].rows, a[1].taps, a[2].taps} {
		args = append(args, int32(n))
	}
	for _, axis := range a {
		args = append(args, axis.args()...)
	}
	taps := a[0].taps * a[1].taps * a[2].taps
	// filter_sum holds all taps of a group of channels in shared memory, at most 48 KiB.
	lanes := kernels.SumLanes
	for lanes > 1 && elem*taps*(lanes+1) > 48<<10 {
		lanes /= 2
	}
	p := kernels.ConvFilter(g.tile, g.values, g.products, lanes)
	w.call(p, "filter_grad", device.Size{Grid: [3]int{rows / g.tile.Rows, columns / g.tile.Columns, g.parts}, Block: [3]int{g.tile.Threads},
		Shared: g.tile.FilterShared([3]int{a[0].taps, a[1].taps, a[2].taps}, valueBytes(g.values))}, args...)
	c := g.out.Shape[1]
	w.call(p, "filter_sum", device.Size{Grid: [3]int{ceil(c, lanes), g.out.Shape[0]}, Block: [3]int{threads}, Shared: elem * taps * (lanes + 1)},
		sums, at(g.out), kept, int32(g.parts), int32(rows), int64(columns), int64(columnsOfTap),
		int32(c), int32(x.C), int32(x.Lanes), int32(g.lanes()), int32(a[0].taps), int32(a[1].taps*a[2].taps))
}
