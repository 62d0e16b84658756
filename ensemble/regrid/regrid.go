package regrid

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Method is a way to interpolate.
type Method string

// The methods.
const (
	// Bilinear interpolates between the four points around a target: along two rows, then
	// between them, or within a quadrilateral of a projected grid. Exact for what is
	// linear in longitude and latitude (in the plane of the quadrilateral). Beyond the last
	// row of a grid around the globe it goes on to the pole, which has the mean of that row.
	Bilinear Method = "bilinear"
	// Conservative gives a cell the mean of the source cells under it, weighted with the
	// area of overlap, so that the area integral of a field that covers all of the target
	// stays what it was.
	Conservative Method = "conservative"
	// Nearest takes the value of the nearest point on the sphere, of several the first.
	Nearest Method = "nearest"
)

// Methods lists the methods.
var Methods = []Method{Bilinear, Conservative, Nearest}

// Options of New. The zero value is bilinear, with the default threshold.
type Options struct {
	Method Method
	// MinValid is the share of a target's weights that must fall on values that are there;
	// these are then scaled up to the whole, and below it the target is missing. 0 means
	// DefaultMinValid.
	MinValid float64
}

// DefaultMinValid is the share of valid weights that is asked for by default.
const DefaultMinValid = 0.5

// edgeTolerance is how far in degrees a target may lie beyond the last row, column or
// quadrilateral and still be taken for a point on it: what corners of grids are rounded to.
const edgeTolerance = 2e-3

// Weights are the sparse matrix of an interpolation in compressed rows: target point i is
// the sum over k from start[i] to before start[i+1] of weight[k] times source point
// column[k]. A target that the source does not reach has no weights, one that it covers
// in part has weights of that part.
type Weights struct {
	source   int
	minValid float64
	start    []int
	column   []int32
	weight   []float64
}

// New computes the weights from one grid to another.
//
// Memory: 12 bytes a weight: four of a target for bilinear, one for nearest, for
// conservative one for each overlap of two cells.
// Errors: if the method cannot be used with a grid: bilinear and conservative from places
// that make no rows, conservative to them, or between two projected grids.
func New(from, to *ensemble.Grid, o Options) (*Weights, error) {
	if from.Size() > math.MaxInt32 {
		return nil, fmt.Errorf("a source grid of %d points", from.Size())
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
		err = fmt.Errorf("%q is no method of interpolation", o.Method)
	}
	if err != nil {
		return nil, err
	}
	return b.Weights, nil
}

// builder makes weights target by target.
type builder struct{ *Weights }

// addWeight adds a weight to the target that is being made.
func (b *builder) addWeight(source int, w float64) {
	if w != 0 {
		b.column, b.weight = append(b.column, int32(source)), append(b.weight, w)
	}
}

// dropTarget forgets the weights of the target that is being made.
func (b *builder) dropTarget() {
	at := b.start[len(b.start)-1]
	b.column, b.weight = b.column[:at], b.weight[:at]
}

// nextTarget ends a target.
func (b *builder) nextTarget() { b.start = append(b.start, len(b.column)) }

// Restrict keeps the targets in a window of the grid that the weights were made for.
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

// NumTargets is the number of target points.
func (w *Weights) NumTargets() int { return len(w.start) - 1 }

// Covered is the number of target points that the source reaches, with enough of its cells
// where it covers a target in part.
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

// minTargets is the number of targets that are worth a goroutine of their own.
const minTargets = 1 << 14

// Apply interpolates one field, on as many processors as there are.
//
// Shape: dst [Targets()], src [points of the source]; panics for other lengths.
// Missing: NaN in src counts as Options.MinValid says.
func Apply[T float32 | float64](w *Weights, dst, src []T) {
	if len(dst) != w.NumTargets() || len(src) != w.source {
		panic(fmt.Sprintf("interpolation from %d to %d points is given %d and %d", w.source, w.NumTargets(), len(src), len(dst)))
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

// apply interpolates the targets from lo to before hi:
//
//	y_i = Σ_k w_ik x_k / Σ_k w_ik over the k with a value, where that share is enough
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
		// Weights that should add up to the threshold may miss it by rounding.
		if share > 0 && share >= w.minValid-1e-9 {
			dst[i] = T(sum / share)
		} else {
			dst[i] = T(math.NaN())
		}
	}
}
