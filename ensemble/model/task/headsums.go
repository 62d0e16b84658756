package task

import (
	"fmt"
	"math"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Residuals are counted by the leading bits of their floating-point numbers, in order: cells
// whose width is 1/128 of their value or less.
const (
	cellBits  = 16
	cellCount = 1 << cellBits
	// cellWeight makes whole numbers of area weights, so that sums do not depend on their order.
	cellWeight = 1024
)

// HeadSums are what the fit of a head needs of the training dates.
type HeadSums struct {
	bins     int
	positive bool
	counts   [][]float64 // [variable][level][cell] of differences from the members' mean
	minima   []minimum   // [variable][level], of the analyses, if it is below 0
}

// minimum is the least value of a target in a training, and when.
type minimum struct {
	Value float64
	When  ensemble.Valid
}

// NewHeadSums are those of no date, for distributions of a family, nil for none, or histograms of so many bins, 0 for none; nil if the head needs none.
func NewHeadSums(f *dist.Family, bins, targets int) *HeadSums {
	if f == nil || bins == 0 && !f.Positive {
		return nil
	}
	h := &HeadSums{bins: bins, positive: f.Positive, minima: make([]minimum, targets)}
	for range targets {
		if bins > 0 {
			h.counts = append(h.counts, make([]float64, cellCount))
		}
	}
	return h
}

// add takes one target of a date.
func (h *HeadSums) add(at int, obs, mean []float32, weights []float64, valid ensemble.Valid) {
	for p, y := range obs {
		d := y - mean[p]
		if d != d {
			continue
		}
		if h.bins > 0 {
			h.counts[at][cellOf(d)] += math.Round(cellWeight * weights[p])
		}
		if float64(y) < h.minima[at].Value {
			h.minima[at] = minimum{float64(y), valid}
		}
	}
}

// negligible is the share of the error scale below 0 that counts as 0: packing leaves such values
// of precipitation.
const negligible = 0.01

// FitHead gives the task of the leading rank what the head needs, with the bits of one rank that
// has all.
//
// Errors: exit 65 for values that the family does not have, and for differences of which no bins
// can be made.
func (k *Task) FitHead(h *HeadSums, ranks *team.Team) error {
	if h == nil {
		return nil
	}
	least := h.minima
	if ranks != nil {
		all, err := team.AllGatherOutcomes(ranks, team.Outcome[[]minimum]{Result: h.minima}, nil)
		if err != nil {
			return err
		}
		for _, o := range all {
			for at, l := range o.Result {
				if l.Value < least[at].Value {
					least[at] = l
				}
			}
		}
	}
	counts := make([][]float64, len(h.counts))
	for at := range h.counts {
		var err error
		if counts[at], err = ranks.SumShards(h.counts[at]); err != nil {
			return err
		}
	}
	if !ranks.IsRoot() {
		return nil
	}
	for at, l := range least {
		name := k.TargetName(at)
		if k.TargetWeights[at] != 0 && h.positive && l.Value < -negligible*k.ErrorScale[at] {
			return &exit.Error{Code: exit.BadData, What: "an analysis has values below 0, and the family of model.family has none",
				At: fmt.Sprintf("%s at %s, training analyses", name, l.When), Why: fmt.Sprintf("the least value is %g", l.Value),
				Fix: "set model.family: " + strings.Join(dist.HeadNames(func(r dist.Row) bool { return !r.AnyFamily().Positive }), " or ") + ", or correct the analyses"}
		}
	}
	for at := range counts {
		edges, err := quantileEdges(counts[at], h.bins)
		if err != nil && k.TargetWeights[at] != 0 {
			return &exit.Error{Code: exit.BadData, What: "the training starts make no histogram", At: k.TargetName(at),
				Why: err.Error(), Fix: "lower model.bins, or look at the fields with `ensemble inspect --stats`", Err: err}
		}
		for i := range edges {
			edges[i] /= k.ErrorScale[at]
		}
		k.Edges = append(k.Edges, edges)
	}
	return nil
}

// quantileEdges are the edges of so many bins that hold equal parts of what was counted: its quantiles,
// of levels 0, 1/bins, …, 1. Bins that would be empty have the width of a cell.
//
// Errors: if nothing was counted, or too little differs.
func quantileEdges(counts []float64, bins int) ([]float64, error) {
	var total float64
	first, last := -1, -1
	for c, n := range counts {
		if total += n; n > 0 {
			if last = c; first < 0 {
				first = c
			}
		}
	}
	if last-first < bins {
		return make([]float64, bins+1), fmt.Errorf("differences from the members' mean, which are alike or missing, make no %d bins", bins)
	}
	edges := []float64{cellEdge(first)}
	var sum float64
	at := first // edges so far end before this cell
	for c := first; c <= last && len(edges) < bins; c++ {
		sum += counts[c]
		for len(edges) < bins && sum >= total*float64(len(edges))/float64(bins) && c >= at {
			if last-c < bins-len(edges) { // as many cells as edges are left
				break
			}
			at = c + 1
			edges = append(edges, cellEdge(at))
		}
	}
	for len(edges) < bins {
		at++
		edges = append(edges, cellEdge(at))
	}
	return append(edges, cellEdge(last+1)), nil
}

// cellOf is the number of the cell of x, which ascends with x.
func cellOf(x float32) int {
	bits := math.Float32bits(x)
	if bits>>31 == 1 {
		bits = ^bits
	} else {
		bits |= 1 << 31
	}
	return int(bits >> (32 - cellBits))
}

// cellEdge is the least number of a cell.
func cellEdge(cell int) float64 {
	bits := uint32(cell) << (32 - cellBits)
	if bits>>31 == 1 {
		bits &^= 1 << 31
	} else {
		bits = ^bits
	}
	return float64(math.Float32frombits(bits))
}
