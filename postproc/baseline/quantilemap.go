package baseline

import (
	"fmt"
	"math"
	"slices"
)

// QuantileMap maps a value from its quantile in the climatology of forecasts to the same
// quantile in the climatology of observations:
//
//	x' = Q_y(F_x(x))
//
// Between the quantiles the map is linear. Outside it adds the shift of the outermost
// quantile, so that extremes keep their distance from it. The map is non-decreasing, so
// members keep their order.
//
// Shape: From and To [point][level], ascending; NaN at a point with too few cases.
// Unit: that of the variable.
// Source: Panofsky and Brier 1968 (mapping); Boé et al. 2007, doi:10.1002/joc.1602, for
// the constant shift beyond the outermost quantiles.
type QuantileMap struct {
	Levels int       `json:"levels"`
	From   []float32 `json:"-"`
	To     []float32 `json:"-"`
}

// FitQuantileMap computes the quantiles at the probabilities (k+½)/levels of forecasts and of
// observations at every point.
//
// Shape: forecast [case][point], where every member is a case; obs [date][point];
// levels ≥ 2. Unit: the same for both.
// Missing: NaN is left out; a point with fewer than levels values in either has no map.
// Errors: wrong shapes; ErrNoCases if no point has a map.
func FitQuantileMap(forecast, obs []float32, points, levels int) (*QuantileMap, error) {
	return (&Set{}).fitQuantileMap(forecast, obs, points, levels)
}

// fitQuantileMap is FitQuantileMap with the Space and Watch of a set, whose fields it does not use.
func (s *Set) fitQuantileMap(forecast, obs []float32, points, levels int) (*QuantileMap, error) {
	if points < 1 || levels < 2 || len(forecast) == 0 || len(obs) == 0 || len(forecast)%points != 0 || len(obs)%points != 0 {
		return nil, fmt.Errorf("quantile map: %d forecasts and %d observations at %d points, %d levels (at least 2)", len(forecast), len(obs), points, levels)
	}
	q := &QuantileMap{Levels: levels, From: make([]float32, points*levels), To: make([]float32, points*levels)}
	s.each(pass{"points", points, 64, (len(forecast) + len(obs)) / points}, func(_, lo, hi int) {
		var sorted []float32
		for p := lo; p < hi; p++ {
			from, to := q.From[p*levels:(p+1)*levels], q.To[p*levels:(p+1)*levels]
			sorted = gatherSorted(sorted, forecast, points, p)
			few := len(sorted) < levels
			quantilesOf(from, sorted)
			sorted = gatherSorted(sorted, obs, points, p)
			few = few || len(sorted) < levels
			quantilesOf(to, sorted)
			if few {
				for k := range from {
					from[k], to[k] = float32(math.NaN()), float32(math.NaN())
				}
			}
		}
	})
	if !slices.ContainsFunc(q.From, func(v float32) bool { return v == v }) {
		return nil, fmt.Errorf("quantile map: no point has %d forecasts and observations: %w", levels, ErrNoCases)
	}
	return q, nil
}

// gatherSorted copies the non-missing values of point p to dst, ascending.
func gatherSorted(dst, x []float32, points, p int) []float32 {
	dst = dst[:0]
	for at := p; at < len(x); at += points {
		if v := x[at]; v == v {
			dst = append(dst, v)
		}
	}
	slices.Sort(dst)
	return dst
}

// quantilesOf fills dst with the quantiles at (k+½)/len(dst), by linear interpolation between
// the sorted values at the probabilities (i+½)/n (definition 5 of Hyndman and Fan 1996).
func quantilesOf(dst, sorted []float32) {
	if len(sorted) == 0 {
		return
	}
	last := float64(len(sorted) - 1)
	for k := range dst {
		at := (float64(k)+0.5)/float64(len(dst))*float64(len(sorted)) - 0.5
		at = min(max(at, 0), last)
		i := min(int(at), len(sorted)-1)
		v := float64(sorted[i])
		if part := at - float64(i); part > 0 {
			v += part * (float64(sorted[i+1]) - v)
		}
		dst[k] = float32(v)
	}
}

// Predict fills dst with the mapped values of a field.
//
// Shape: dst and x [point]; dst may be x. Missing: NaN gives NaN.
func (q *QuantileMap) Predict(dst, x []float32) {
	for p, v := range x {
		dst[p] = q.at(p, v)
	}
}

// at maps the value v at point p.
func (q *QuantileMap) at(p int, v float32) float32 {
	from, to := q.From[p*q.Levels:(p+1)*q.Levels], q.To[p*q.Levels:(p+1)*q.Levels]
	last := q.Levels - 1
	switch {
	case v != v || from[0] != from[0]:
		return float32(math.NaN())
	case v < from[0]:
		return v + (to[0] - from[0])
	case v > from[last]:
		return v + (to[last] - from[last])
	}
	// Equal quantiles (dry days) map to the mean of the corresponding observed quantiles.
	lo, _ := slices.BinarySearch(from, v)
	hi := lo
	for hi < last && from[hi+1] == v {
		hi++
	}
	if from[lo] == v {
		return float32((float64(to[lo]) + float64(to[hi])) / 2)
	}
	part := float64(v-from[lo-1]) / float64(from[lo]-from[lo-1])
	return float32(float64(to[lo-1]) + part*float64(to[lo]-to[lo-1]))
}
