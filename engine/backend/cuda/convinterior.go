package cuda

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
)

// pendingInput describes an input whose halo is still being received: the box, along
// its last three axes, that is available, and the number of bytes that are missing.
//
// A convolution of such an input starts with its interior, the rows of the result that
// read only the box. The rim follows when all data have arrived. Both are calls of the
// same kernel for boxes of rows, and write to the same result.
//
// Source: Dryden et al. 2019, arXiv:1903.06681 (interior while the halo is received).
type pendingInput struct {
	ready [3][2]int
	bytes int64
}

// pendingOf returns the box that is available in all parts, which are operands from
// first on. It returns nil if all is available, or if the missing data do not form a
// halo.
func pendingOf(q backend.Request, parts []backend.Tensor, first int) *pendingInput {
	if q.Ready == nil {
		return nil
	}
	s := parts[0].Shape
	w := &pendingInput{ready: [3][2]int{{0, s[2]}, {0, s[3]}, {0, s[4]}}}
	for i, box := range q.Ready {
		if box == nil {
			continue
		}
		// Only fields are split along their last three axes: not the filter or addend, and
		// not samples or channels.
		if i < first || i >= first+len(parts) || box.Size[0] < s[0] || box.Size[1] < q.In[i].Shape[1] {
			return nil
		}
		for k := range w.ready {
			v := &w.ready[k]
			v[0], v[1] = max(v[0], box.Lo[k+2]), min(v[1], box.Lo[k+2]+box.Size[k+2])
		}
		w.bytes += (elems(q.In[i]) - int64(q.In[i].Layout.Elems(box.Size))) * int64(bytesOf(q.In[i]))
	}
	return w
}

// Model of a halo exchange between GPUs: bandwidth and latency, between those of links
// within a machine and those of a network.
const (
	exchangeRate = 1e11 // bytes per second
	exchangeTime = 2e-5 // seconds
)

// splitInterior divides a convolution into interior and rim, with tile sizes for each,
// and estimates the time that this saves:
//
//	saved = exchange + whole − max(exchange, interior) − rim
//
// It is at most 0 if the split is not faster: narrow boxes use tiles and multiprocessors
// poorly, and each is a call of its own. On emulated devices, where time does not
// matter, everything that can be divided is.
func (b *Backend) splitInterior(c convolution, products kernels.Products, tiles []kernels.Tile) (cut convolution, cutTiles []kernels.Tile, saves float64) {
	if c.pending == nil {
		return c, nil, 0
	}
	cut = c
	cut.classes = nil
	var rim [][3]convAxis
	var rimTiles []kernels.Tile
	p := b.dev.Properties()
	rate := float64(plainRate)
	if products != kernels.Plain {
		rate = matrixRate
	}
	seconds := func(class [3]convAxis, t kernels.Tile) float64 {
		flops := 2 * tileCost(p.Multiprocessors, c.out.Shape, class, t) * float64(p.Multiprocessors) * float64(c.lanes())
		for _, a := range class {
			flops *= float64(a.taps)
		}
		return startTime + flops/rate
	}
	var whole, interior, around float64
	for i, class := range c.classes {
		t := tiles[i]
		whole += seconds(class, t)
		inner, outer := c.splitRows(class)
		if inner != nil {
			cut.classes, cutTiles = append(cut.classes, *inner), append(cutTiles, t)
			interior += seconds(*inner, t)
		}
		for _, box := range outer {
			// A narrow box may be faster with another tile size, but the filter is packed
			// with room for tiles of t only.
			best := t
			for _, other := range b.convTiles(products, c.out.Shape, box) {
				if roundUp(c.out.Shape[1], other.Columns) <= roundUp(c.out.Shape[1], t.Columns) {
					best = other
					break
				}
			}
			rim, rimTiles = append(rim, box), append(rimTiles, best)
			around += seconds(box, best)
		}
	}
	cut.early = len(cut.classes)
	if cut.early == 0 {
		return c, nil, 0
	}
	cut.classes, cutTiles = slices.Concat(cut.classes, rim), slices.Concat(cutTiles, rimTiles)
	exchange := exchangeTime + float64(c.pending.bytes)/exchangeRate
	saves = exchange + whole - max(exchange, interior) - around
	if p.Emulated {
		saves = max(saves, exchange)
	}
	return cut, cutTiles, saves
}

// splitRows divides the rows of a class into the box that reads only available data,
// nil if there is none, and boxes that cover the others.
func (c *convolution) splitRows(class [3]convAxis) (inner *[3]convAxis, outer [][3]convAxis) {
	// Rows that read missing data are at the ends of an axis, so the interior is a range.
	var span [3][2]int
	for k, a := range class {
		lo, hi := 0, a.rows
		for lo < hi && !a.readsOnly(lo, c.adjoint, c.pending.ready[k]) {
			lo++
		}
		for hi > lo && !a.readsOnly(hi-1, c.adjoint, c.pending.ready[k]) {
			hi--
		}
		if lo == hi {
			return nil, [][3]convAxis{class}
		}
		span[k] = [2]int{lo, hi}
	}
	// Cut boxes off at both ends of one axis after the other; they do not overlap.
	rest := class
	for k, a := range class {
		var sides []convAxis
		for _, side := range [][2]int{{0, span[k][0]}, {span[k][1], a.rows}} {
			if side[0] < side[1] {
				sides = append(sides, a.within(side))
			}
		}
		// Two boxes of one row each are one call of two rows, with their distance as step.
		if len(sides) == 2 && sides[0].rows == 1 && sides[1].rows == 1 {
			both := sides[0]
			both.rows, both.step = 2, sides[1].from-sides[0].from
			sides = []convAxis{both}
		}
		for _, side := range sides {
			box := rest
			box[k] = side
			outer = append(outer, box)
		}
		rest[k] = a.within(span[k])
	}
	return &rest, outer
}

// within returns the axis restricted to rows[0] up to rows[1].
func (a convAxis) within(rows [2]int) convAxis {
	a.from += rows[0] * a.step
	a.rows = rows[1] - rows[0]
	return a
}

// readsOnly reports whether all cells that row i reads are in the interval, or outside
// of the field.
func (a convAxis) readsOnly(i int, adjoint bool, of [2]int) bool {
	ok := func(q int) bool { return q < 0 || q >= a.size || q >= of[0] && q < of[1] }
	row := a.from + i*a.step
	for v := range a.taps {
		reach := (a.first + v*a.each) * a.dilation
		q := row*a.stride - a.pad + reach
		if adjoint {
			q = row + a.pad - reach
		}
		if a.period > 0 {
			q = (q%a.period + a.period) % a.period
		}
		if !adjoint {
			if !ok(q) {
				return false
			}
			continue
		}
		// The adjoint reads the results whose input cell is q, in every period.
		for {
			if q >= 0 && q%a.stride == 0 && !ok(q/a.stride) {
				return false
			}
			if q += a.period; a.period == 0 || q/a.stride >= a.size {
				break
			}
		}
	}
	return true
}
