package drift

import (
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// The most boxes that a grid is divided into, along latitude and longitude.
const (
	maxRows    = 12
	maxColumns = 24
)

// Boxes divide the points of a grid into rectangles of about one size; lists of points into
// runs of neighbours in the list.
type Boxes struct {
	boxOf   []int32   // the box of each point
	weights []float64 // of the points, as in scores
	area    []float64 // of the boxes
}

// NewBoxes divides a grid.
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

// Summary is what is kept of a field of all members on one start.
//
// Shape: Pattern [box]. Unit: that of the field; Spread is the natural logarithm of it.
// Missing: NaN of a box without a value, of a field without one, and the spread of one member.
type Summary struct {
	Mean    float64
	Spread  float64
	Pattern []float32
}

// minSpread stands for a spread of 0, whose logarithm is none.
const minSpread = 1e-30

// Summarise sums up the mean and the spread over the members of a field.
//
// Shape: mean and std [point].
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
