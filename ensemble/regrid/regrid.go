package regrid

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Method is an interpolation method.
type Method string

// The interpolation methods.
const (
	// Bilinear interpolates between the four points around a target: along two rows
	// and then between them, or inside a quadrilateral of a projected grid. It is
	// exact for fields that are linear in longitude and latitude (in the plane of
	// the quadrilateral). Between the last row of a global grid and the pole it
	// interpolates to the mean of that row.
	Bilinear Method = "bilinear"
	// Conservative averages the source cells that a target cell overlaps, weighted
	// by the area of overlap. The area integral of a field is preserved if the
	// source covers the target grid.
	Conservative Method = "conservative"
	// Nearest takes the value of the nearest point on the sphere; of several, the
	// first.
	Nearest Method = "nearest"
)

// Methods lists the methods.
var Methods = []Method{Bilinear, Conservative, Nearest}

// Options configures New. The zero value is bilinear, with the default threshold.
type Options struct {
	Method Method
	// MinValid is the minimum share of a target's weights on values that are not
	// missing. The remaining weights are scaled to a sum of 1; below the minimum
	// the target is missing. 0 means DefaultMinValid.
	MinValid float64
}

// DefaultMinValid is the default of Options.MinValid.
const DefaultMinValid = 0.5

// edgeTolerance is the distance in degrees by which a target may lie outside of the
// last row, column or quadrilateral and still count as a point on it. Files round
// the corners of grids to 10⁻³ degrees.
const edgeTolerance = 2e-3

// Weights is the sparse matrix W of an interpolation y = W x in compressed sparse
// row format. Target i is
//
//	y_i = Σ_k weight[k] · x[column[k]],   start[i] ≤ k < start[i+1]
//
// A target outside of the source has no weights. A target that the source covers
// partly has weights with a sum below 1.
type Weights struct {
	// source is the number of source points.
	source   int
	minValid float64
	// start has one element more than there are targets.
	start []int
	// column is the source point of each weight.
	column []int32
	weight []float64
}

// New computes the weights from one grid to another.
//
// Memory: 12 bytes per weight: four weights per target for bilinear, one for
// nearest, one for each overlap of two cells for conservative.
// Errors: a method that the grids do not support: bilinear and conservative from
// lists of points, conservative to lists of points, or conservative between two
// projected grids.
func New(from, to *ensemble.Grid, o Options) (*Weights, error) {
	if from.Size() > math.MaxInt32 {
		return nil, fmt.Errorf("a source grid of %d points is too large", from.Size())
	}
	b := builder{Weights: &Weights{source: from.Size(), minValid: cmp.Or(o.MinValid, DefaultMinValid), start: []int{0}}}
	var err error
	switch cmp.Or(o.Method, Bilinear) {
	case Bilinear:
		err = b.bilinear(from, to)
	case Conservative:
		err = b.conservative(from, to)
	case Nearest:
		b.nearest(from, to)
	default:
		err = fmt.Errorf("unknown interpolation method %q", o.Method)
	}
	if err != nil {
		return nil, err
	}
	return b.Weights, nil
}

// builder appends weights target by target.
type builder struct{ *Weights }

// addWeight adds a weight to the current target.
func (b *builder) addWeight(source int, w float64) {
	if w != 0 {
		b.column, b.weight = append(b.column, int32(source)), append(b.weight, w)
	}
}

// dropTarget removes the weights of the current target.
func (b *builder) dropTarget() {
	at := b.start[len(b.start)-1]
	b.column, b.weight = b.column[:at], b.weight[:at]
}

// nextTarget completes the current target.
func (b *builder) nextTarget() { b.start = append(b.start, len(b.column)) }

// Restrict returns the weights of the targets in a window of the target grid. to is
// the grid that the weights were made for.
//
// Shape: the targets of the result are those of the window, row by row.
func (w *Weights) Restrict(to *ensemble.Grid, window ensemble.Window) *Weights {
	if to.IsWhole(window) {
		return w
	}
	p := builder{Weights: &Weights{source: w.source, minValid: w.minValid, start: []int{0}}}
	for j := window.Rows[0]; j < window.Rows[1]; j++ {
		for i := window.Cols[0]; i < window.Cols[1]; i++ {
			at := j*to.NX + i
			p.column = append(p.column, w.column[w.start[at]:w.start[at+1]]...)
			p.weight = append(p.weight, w.weight[w.start[at]:w.start[at+1]]...)
			p.nextTarget()
		}
	}
	return p.Weights
}

// NumTargets returns the number of target points.
func (w *Weights) NumTargets() int { return len(w.start) - 1 }

// Covered returns the number of targets that the source covers, by at least
// Options.MinValid of the cell.
func (w *Weights) Covered() (n int) {
	for i := range w.NumTargets() {
		total := 0.0
		for _, x := range w.weight[w.start[i]:w.start[i+1]] {
			total += x
		}
		if total >= w.minValid {
			n++
		}
	}
	return n
}

// minTargets is the minimum number of targets per goroutine.
const minTargets = 1 << 14

// Apply interpolates one field, in parallel.
//
//	y_i = Σ_k w_ik x_k / Σ_k w_ik   over the k with a value
//
// Shape: dst [NumTargets()], src [points of the source]. It panics for other
// lengths.
// Missing: NaN in src is left out of both sums. y_i is NaN if Σ_k w_ik over the
// values is below Options.MinValid.
func Apply[T float32 | float64](w *Weights, dst, src []T) {
	if len(dst) != w.NumTargets() || len(src) != w.source {
		panic(fmt.Sprintf("interpolation from %d to %d points: got %d and %d", w.source, w.NumTargets(), len(src), len(dst)))
	}
	parts := min(runtime.GOMAXPROCS(0), len(dst)/minTargets+1)
	var wait sync.WaitGroup
	for p := range parts {
		lo, hi := len(dst)*p/parts, len(dst)*(p+1)/parts
		if p == parts-1 {
			apply(w, dst, src, lo, hi)
			break
		}
		wait.Add(1)
		go func() {
			defer wait.Done()
			apply(w, dst, src, lo, hi)
		}()
	}
	wait.Wait()
}

// apply interpolates the targets from lo to before hi.
func apply[T float32 | float64](w *Weights, dst, src []T, lo, hi int) {
	for i := lo; i < hi; i++ {
		var sum, share float64
		for k := w.start[i]; k < w.start[i+1]; k++ {
			x := float64(src[w.column[k]])
			if x == x {
				sum += w.weight[k] * x
				share += w.weight[k]
			}
		}
		// The sum of weights may miss the threshold by rounding.
		if share > 0 && share >= w.minValid-1e-9 {
			dst[i] = T(sum / share)
		} else {
			dst[i] = T(math.NaN())
		}
	}
}
