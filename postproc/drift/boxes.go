package drift

import (
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// The largest number of boxes of a grid along latitude and longitude.
const (
	maxRows    = 12
	maxColumns = 24
)

// Boxes partition the points of a grid into rectangles of about equal numbers of rows and
// columns; a list of points into runs of consecutive points.
type Boxes struct {
	boxOf   []int32   // [point] index of its box
	weights []float64 // [point] area weights, as in scores
	area    []float64 // [box] sum of the weights
}

// NewBoxes partitions a grid into at most 12 × 24 boxes.
func NewBoxes(g *ensemble.Grid) *Boxes {
	rows, columns := min(maxRows, g.NY), min(maxColumns, g.NX)
	if !g.Rectangular() {
		rows, columns = 1, min(maxRows*maxColumns, g.NX)
	}
	b := &Boxes{boxOf: make([]int32, g.Size()), weights: g.Weights(), area: make([]float64, rows*columns)}
	for p := range b.boxOf {
		j, i := p/g.NX, p%g.NX
		b.boxOf[p] = int32(j*rows/g.NY*columns + i*columns/g.NX)
		b.area[b.boxOf[p]] += b.weights[p]
	}
	return b
}

// Len is the number of boxes.
func (b *Boxes) Len() int { return len(b.area) }

// Summary holds the statistics of a field over all members of one init.
//
// Shape: Pattern [box]. Unit: that of the field; Spread is a natural logarithm.
// Missing: NaN for a box or a field without values, and for the spread of one member.
type Summary struct {
	Mean    float64
	Spread  float64
	Pattern []float32
}

// minSpread replaces a spread of 0, whose logarithm is not finite.
const minSpread = 1e-30

// Summarise computes the statistics of a field from the mean and the standard deviation
// over its members, with area weights w:
//
//	Mean = Σ w m / Σ w,   Spread = log √(Σ w s² / Σ w),   Pattern_k = Σ_k w m / Σ_k w
//
// Shape: mean and std [point]. Missing: points with NaN are left out.
// Cost: one pass over the points.
func (b *Boxes) Summarise(mean, std []float32) Summary {
	s := Summary{Pattern: make([]float32, b.Len())}
	weight, sums := make([]float64, b.Len()), make([]float64, b.Len())
	var squares, weighed float64
	for p, k := range b.boxOf {
		w := b.weights[p]
		if x := float64(mean[p]); x == x {
			sums[k] += w * x
			weight[k] += w
		}
		if x := float64(std[p]); x == x {
			squares += w * x * x
			weighed += w
		}
	}
	var sum, all float64
	for k, w := range weight {
		sum += sums[k]
		all += w
		s.Pattern[k] = float32(sums[k] / w) // NaN without a value
	}
	s.Mean = sum / all
	s.Spread = math.Log(max(math.Sqrt(squares/weighed), minSpread))
	if weighed == 0 {
		s.Spread = math.NaN()
	}
	return s
}
