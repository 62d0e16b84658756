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

// Residuals are counted in cells by the 16 leading bits of their float32 numbers, in ascending
// order. A cell is at most 1/128 of its value wide, so quantiles have a relative error below 1 %.
const (
	cellBits  = 16
	cellCount = 1 << cellBits
	// cellWeight scales area weights to integers, so that sums do not depend on their order.
	cellWeight = 1024
)

// HeadSums collects the statistics of the training data that the head of the network needs: a
// histogram of residuals, from which the bins of a histogram head follow, and the smallest
// analysis, with which a family for positive values is checked.
type HeadSums struct {
	bins     int
	positive bool
	counts   [][]float64 // [target][cell], histogram of analysis − members' mean
	minima   []minimum   // [target], smallest analysis below 0
}

// minimum is the smallest value of a target in the training data, and its valid time.
type minimum struct {
	Value float64
	When  ensemble.Valid
}

// NewHeadSums returns empty sums for a head with distributions of a family (nil for none) or
// histograms of a number of bins (0 for none). It returns nil if the head needs no statistics.
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

// add adds the field of one target of one date. weights are area weights.
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

// negligible is the size of negative values that count as 0, as a fraction of the error scale.
// Packing of GRIB files can make precipitation slightly negative.
const negligible = 0.01

// FitHead joins the sums of all ranks and, on the root rank, sets the edges of histograms. The
// result does not depend on the number of ranks, bit for bit.
//
// Errors: exit 65 for negative analyses with a family for positive values, and for residuals with
// too few different values for the bins.
func (k *Task) FitHead(h *HeadSums, ranks *team.Team) error {
	if h == nil {
		return nil
	}
	minima := h.minima
	if ranks != nil {
		all, err := team.AllGatherOutcomes(ranks, team.Outcome[[]minimum]{Result: h.minima}, nil)
		if err != nil {
			return err
		}
		for _, o := range all {
			for at, l := range o.Result {
				if l.Value < minima[at].Value {
					minima[at] = l
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
	for at, l := range minima {
		name := k.TargetName(at)
		if k.TargetWeights[at] != 0 && h.positive && l.Value < -negligible*k.ErrorScale[at] {
			return &exit.Error{Code: exit.BadData, What: "negative analysis, but model.family is a distribution of positive values",
				At: fmt.Sprintf("%s at %s, training analyses", name, l.When), Why: fmt.Sprintf("the smallest value is %g", l.Value),
				Fix: "set model.family: " + strings.Join(dist.HeadNames(func(r dist.Row) bool { return !r.AnyFamily().Positive }), " or ") + ", or correct the analyses"}
		}
	}
	for at := range counts {
		edges, err := quantileEdges(counts[at], h.bins)
		if err != nil && k.TargetWeights[at] != 0 {
			return &exit.Error{Code: exit.BadData, What: "cannot determine the bins of the histogram from the training data", At: k.TargetName(at),
				Why: err.Error(), Fix: "decrease model.bins, or check the fields with `ensemble inspect --stats`", Err: err}
		}
		for i := range edges {
			edges[i] /= k.ErrorScale[at]
		}
		k.Edges = append(k.Edges, edges)
	}
	return nil
}

// quantileEdges computes the edges of bins with equal counts: the quantiles of levels 0, 1/bins, …,
// 1. A bin that would be empty has the width of one cell. This happens for variables with many
// equal values, such as precipitation.
//
// Shape: counts [cell] → edges [bins+1], ascending.
// Errors: nothing was counted, or fewer cells than bins have counts.
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
		return make([]float64, bins+1), fmt.Errorf("the differences from the members' mean are equal or missing, want at least %d different values", bins)
	}
	edges := []float64{cellEdge(first)}
	var sum float64
	at := first // first cell after the last edge
	for c := first; c <= last && len(edges) < bins; c++ {
		sum += counts[c]
		for len(edges) < bins && sum >= total*float64(len(edges))/float64(bins) && c >= at {
			if last-c < bins-len(edges) { // the remaining edges need all remaining cells
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

// cellOf is the index of the cell of x. It ascends with x: the bits of negative numbers are
// inverted, the sign bit of others is set.
func cellOf(x float32) int {
	bits := math.Float32bits(x)
	if bits>>31 == 1 {
		bits = ^bits
	} else {
		bits |= 1 << 31
	}
	return int(bits >> (32 - cellBits))
}

// cellEdge is the lower edge of a cell, the inverse of cellOf.
func cellEdge(cell int) float64 {
	bits := uint32(cell) << (32 - cellBits)
	if bits>>31 == 1 {
		bits &^= 1 << 31
	} else {
		bits = ^bits
	}
	return float64(math.Float32frombits(bits))
}
