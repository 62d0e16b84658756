// Package calibration calibrates event probabilities: among all cases with one forecast
// probability, the event then happens with that frequency. A non-decreasing function from
// forecast to calibrated probability is fitted to past forecasts, so the ranking of
// forecasts does not change.
package calibration

import (
	"math"
	"slices"
	"sort"
)

// Map is a non-decreasing function of probabilities, linear between its knots and constant
// outside. The zero value is the identity.
type Map struct {
	X []float64 `json:"x"` // ascending
	Y []float64 `json:"y"` // non-decreasing, within 0 and 1
}

// At is the calibrated probability. Missing: NaN gives NaN. Without knots the result is p.
func (m Map) At(p float64) float64 {
	n := len(m.X)
	switch {
	case n == 0 || p != p:
		return p
	case p <= m.X[0]:
		return m.Y[0]
	case p >= m.X[n-1]:
		return m.Y[n-1]
	}
	k := sort.SearchFloat64s(m.X, p) // X[k-1] < p <= X[k]
	x, y := m.X[k-1:k+1], m.Y[k-1:k+1]
	return y[0] + (y[1]-y[0])*(p-x[0])/(x[1]-x[0])
}

// Valid reports whether m fulfils the conditions of Map.
func (m Map) Valid() bool {
	if len(m.X) != len(m.Y) {
		return false
	}
	for k := range m.X {
		if !(m.X[k] >= 0 && m.X[k] <= 1 && m.Y[k] >= 0 && m.Y[k] <= 1) || k > 0 && (m.X[k] <= m.X[k-1] || m.Y[k] < m.Y[k-1]) {
			return false
		}
	}
	return true
}

// PoolAdjacentViolators replaces y by the closest non-decreasing sequence,
//
//	argmin Σ w (z − y)²  over z_1 ≤ z_2 ≤ … ≤ z_n
//
// by the pool-adjacent-violators algorithm, which is exact: neighbours in the wrong order
// are replaced by their weighted mean until none is left.
//
// Shape: y, w [n]; w > 0. Cost: O(n).
// Source: Ayer et al. 1955, doi:10.1214/aoms/1177728423.
func PoolAdjacentViolators(y, w []float64) {
	type block struct {
		sum, weight float64
		from        int
	}
	var blocks []block
	for i := range y {
		blocks = append(blocks, block{y[i] * w[i], w[i], i})
		for n := len(blocks); n > 1; n = len(blocks) {
			a, b := &blocks[n-2], blocks[n-1]
			if a.sum*b.weight <= b.sum*a.weight {
				break
			}
			a.sum, a.weight = a.sum+b.sum, a.weight+b.weight
			blocks = blocks[:n-1]
		}
	}
	end := len(y)
	for k := len(blocks) - 1; k >= 0; k-- {
		for i := blocks[k].from; i < end; i++ {
			y[i] = blocks[k].sum / blocks[k].weight
		}
		end = blocks[k].from
	}
}

// Isotonic is the isotonic regression of events on their forecast probabilities. Cases
// with equal forecasts are merged first. The result is linear between the forecasts of
// the fit.
//
// Shape: p, y, w [n]; y is 1 for an event and 0 otherwise, or a frequency; w > 0.
// Missing: a case with NaN in p or y is left out.
// Source: Dimitriadis et al. 2021, doi:10.1073/pnas.2016191118.
func Isotonic(p, y, w []float64) Map {
	x, z, v := mergeEqual(p, y, w)
	PoolAdjacentViolators(z, v)
	return simplify(x, z)
}

// simplify makes a Map through points, without those inside a constant section.
func simplify(x, y []float64) (m Map) {
	for k := range x {
		if k > 0 && k < len(x)-1 && y[k] == y[k-1] && y[k] == y[k+1] {
			continue
		}
		m.X, m.Y = append(m.X, x[k]), append(m.Y, min(max(y[k], 0), 1))
	}
	return m
}

// mergeEqual sorts cases by forecast and merges those with equal forecasts: x is the forecast, z the mean event, v the weight.
func mergeEqual(p, y, w []float64) (x, z, v []float64) {
	var order []int
	for i := range p {
		if p[i] == p[i] && y[i] == y[i] {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	for _, i := range order {
		if n := len(x); n == 0 || p[i] != x[n-1] {
			x, z, v = append(x, p[i]), append(z, 0), append(v, 0)
		}
		n := len(x) - 1
		z[n] += w[i] * y[i]
		v[n] += w[i]
	}
	for k := range z {
		z[k] /= v[k]
	}
	return x, z, v
}

// numCells is the number of cells of a Table between 0 and 1.
const numCells = 1000

// Table accumulates forecasts of one event in cells of a thousandth, and those of exactly
// 0 and 1 in cells of their own. Fits use the mean forecast and the event frequency of
// each cell, so the memory does not depend on the number of cases. The zero value is
// empty.
type Table struct {
	// Weight, Forecast and Event are sums over the cases of each cell: Σ w, Σ w·p and Σ w·y.
	Weight, Forecast, Event [numCells + 2]float64
	cases                   [numCells + 2]int
}

// Add adds one case with forecast p, event y (0 or 1) and weight w. Missing: NaN in p or y is left out.
func (t *Table) Add(p, y, w float64) {
	if p != p || y != y || w == 0 {
		return
	}
	k := 0
	switch {
	case p >= 1:
		k = numCells + 1
	case p > 0:
		k = 1 + min(int(p*numCells), numCells-1)
	}
	t.Weight[k] += w
	t.Forecast[k] += w * p
	t.Event[k] += w * y
	t.cases[k]++
}

// Cases is the number of cases added.
func (t *Table) Cases() (n int) {
	for _, c := range t.cases {
		n += c
	}
	return n
}

// Isotonic is the isotonic regression of the cells.
func (t *Table) Isotonic() Map {
	var p, y, w []float64
	for k, v := range t.Weight {
		if v > 0 {
			p, y, w = append(p, t.Forecast[k]/v), append(y, t.Event[k]/v), append(w, v)
		}
	}
	return Isotonic(p, y, w)
}

// A reliability table has reliabilityBins bins, and one each for forecasts of exactly 0 and
// 1. Every bin must have minCases cases.
const (
	reliabilityBins = 10
	minCases        = 200
)

// Reliability is the calibration function of a reliability table. Forecasts are collected
// in ten bins of equal width, and two for forecasts of exactly 0 and 1. A bin with fewer
// than 200 cases is merged with the next one, the last with the previous one.
// Frequencies are made non-decreasing by PoolAdjacentViolators. The function passes through the
// mean forecast and the frequency of each bin, and through (0, 0) and (1, 1) unless
// these have bins of their own.
//
// Source: Flowerdew 2014, doi:10.3402/tellusa.v66.22662, with the bins of IMPROVER's
// reliability calibration.
func (t *Table) Reliability() Map {
	type bin struct {
		weight, forecast, event float64
		cases                   int
	}
	bins := make([]bin, reliabilityBins+2)
	for k := range t.Weight {
		b := &bins[0]
		if k > 0 {
			b = &bins[1+min((k-1)*reliabilityBins/numCells, reliabilityBins)]
		}
		b.weight, b.forecast, b.event, b.cases = b.weight+t.Weight[k], b.forecast+t.Forecast[k], b.event+t.Event[k], b.cases+t.cases[k]
	}
	join := func(a, b bin) bin {
		return bin{a.weight + b.weight, a.forecast + b.forecast, a.event + b.event, a.cases + b.cases}
	}
	var kept []bin
	var pending bin
	for _, b := range bins {
		if pending = join(pending, b); pending.cases >= minCases {
			kept, pending = append(kept, pending), bin{}
		}
	}
	switch n := len(kept); {
	case pending.cases > 0 && n > 0:
		kept[n-1] = join(kept[n-1], pending)
	case pending.cases > 0:
		kept = []bin{pending}
	}
	var x, y, w []float64
	for _, b := range kept {
		x, y, w = append(x, b.forecast/b.weight), append(y, b.event/b.weight), append(w, b.weight)
	}
	PoolAdjacentViolators(y, w)
	if len(x) == 0 {
		return Map{}
	}
	if x[0] > 0 {
		x, y = slices.Insert(x, 0, 0), slices.Insert(y, 0, 0)
	}
	if x[len(x)-1] < 1 {
		x, y = append(x, 1), append(y, 1)
	}
	return simplify(x, y)
}

// Rearrange sorts probabilities of exceeding ascending thresholds into descending order
// (monotone rearrangement), so that they are consistent. The rearranged values are at
// least as close to the true probabilities, in any norm.
//
// Missing: unchanged if any is NaN.
// Source: Chernozhukov et al. 2010, doi:10.3982/ECTA7880.
func Rearrange(p []float64) {
	if slices.ContainsFunc(p, math.IsNaN) {
		return
	}
	slices.SortFunc(p, func(a, b float64) int {
		switch {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
}
