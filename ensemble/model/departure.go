package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
)

// Departure is the largest distance of a forecast of one target from its ensemble, in multiples of
// the largest distance in training.
//
// Unit: Value, Ensemble (the members' mean; 0 for spreads) and Reach have that of the variable.
type Departure struct {
	Field    string  `json:"field"` // "mean of t at 850hPa for 48h"
	Variable string  `json:"variable"`
	Kind     string  `json:"kind"`  // one of those below
	Ratio    float64 `json:"ratio"` // distance / reach
	Value    float64 `json:"value"` // of the forecast
	Ensemble float64 `json:"ensemble"`
	// Reach is the largest distance of the analysis from the members' mean in training or, where it
	// is larger, the spread of the members of this forecast. Of the full ensemble's spread it is the
	// largest of training or, where it is larger, that expected from the members' spread.
	Reach float64 `json:"reach"`
	Lat   float64 `json:"lat"`
	Lon   float64 `json:"lon"`
}

// Kinds of departures.
const (
	ofMean       = "mean"
	ofSpread     = "spread"
	ofFullSpread = "full ensemble's spread"
)

// Departures finds, for each target that is scored, the point of mean, spread and full ensemble's
// spread that is farthest from the ensemble: the mean from the members' mean, the spreads from 0. No
// error larger than the reach was seen in training, so a correction or a spread of several times the
// reach is a fault of network or input.
//
// stats are those of the forecast, k and grid the task and the points of both.
//
// The ratio of the mean is |μ − m|/max(E, s) with the members' mean m and spread s and the largest
// error E of training; that of a spread σ is σ/max(E, s). The reach of the full ensemble's spread is
// max(S, a + b·s) with the largest spread S of training and the regression a + b·s.
//
// Missing: points that are NaN are skipped. A task that was not fitted has no departures.
// Cost: one pass over each field.
func Departures(k *task.Task, grid *ensemble.Grid, out *Forecast, stats []task.Statistics) (all []Departure) {
	off := 0
	for at, st := range stats {
		of := func(fields []float32) []float32 { return fields[off : off+len(st.Mean)] }
		if k.LargestSpread == nil || k.TargetWeights[at] == 0 {
			off += len(st.Mean)
			continue
		}
		add := func(kind string, x, centre []float32, reach func(q int) float64) {
			d := Departure{Field: kind + " of " + k.TargetName(at), Variable: k.Targets[at/len(k.Features.Axes.Levels)].Variable, Kind: kind, Ratio: -1}
			worst := 0
			for q, v := range x {
				from := float64(v)
				if centre != nil {
					from = math.Abs(from - float64(centre[q]))
				}
				if r := reach(q); from > d.Ratio*r { // false for NaN
					d.Ratio, worst = min(from/r, math.MaxFloat64), q // JSON has no infinity
				}
			}
			if d.Ratio < 0 {
				return
			}
			d.Value, d.Reach = finite(float64(x[worst])), finite(reach(worst))
			if centre != nil {
				d.Ensemble = finite(float64(centre[worst]))
			}
			d.Lat, d.Lon = grid.LatAt(worst/grid.NX, worst%grid.NX), grid.LonAt(worst/grid.NX, worst%grid.NX)
			all = append(all, d)
		}
		if out.Mean != nil && k.LargestError != nil {
			reach := func(q int) float64 { return max(k.LargestError[at], float64(st.Std[q])) }
			add(ofMean, of(out.Mean), st.Mean, reach)
			add(ofSpread, of(out.Sigma), nil, reach)
		}
		if out.Spread != nil {
			add(ofFullSpread, of(out.Spread), nil, func(q int) float64 {
				return max(k.LargestSpread[at], k.SpreadAffine[at][0]+k.SpreadAffine[at][1]*float64(st.Std[q]))
			})
		}
		off += len(st.Mean)
	}
	return all
}

// finite replaces infinity, which JSON does not have. NaN stays NaN.
func finite(x float64) float64 { return max(-math.MaxFloat64, min(x, math.MaxFloat64)) }

// Distance is the distance from the ensemble.
//
// Unit: that of the variable.
func (d Departure) Distance() float64 { return math.Abs(d.Value - d.Ensemble) }

// joinDepartures returns the largest departure of each field over the slabs of all ranks. It is the
// departure of the whole field.
func joinDepartures(slabs [][]Departure) []Departure {
	return largestOf(slices.Concat(slabs...), func(d Departure) string { return d.Field })
}

// largestOf returns the largest of the departures of each name, in the order of their first ones.
func largestOf(all []Departure, name func(d Departure) string) (out []Departure) {
	for _, d := range all {
		at := slices.IndexFunc(out, func(o Departure) bool { return name(o) == name(d) })
		switch {
		case at < 0:
			out = append(out, d)
		case d.Ratio > out[at].Ratio:
			out[at] = d
		}
	}
	return out
}

// Beyond returns the departures above a limit, the largest first.
func Beyond(all []Departure, limit float64) []Departure {
	out := slices.DeleteFunc(slices.Clone(all), func(d Departure) bool { return d.Ratio <= limit })
	slices.SortStableFunc(out, func(a, b Departure) int { return cmp.Compare(b.Ratio, a.Ratio) })
	return out
}

// LargestOfKinds returns the largest departure of each kind.
func LargestOfKinds(all []Departure) []Departure {
	return largestOf(all, func(d Departure) string { return d.Kind })
}

// DefaultReach is the default limit of departures, in multiples of their reach. Sound forecasts, also of
// other seasons than those of training, reach 0.6 for the mean, 0.8 for the spread, 1.02 for the full
// ensemble's spread.
const DefaultReach = 2

// Describe describes a departure in the unit of the variable: "mean of 2t at 2m at 45.0N 12.5E is
// 222.1 K, the members' mean 280.4 K: 58.3 K apart, 54.2 K more than in training". Units are those
// of ensemble.Variables, or those that the training data stated (Metadata.Units).
func (m *Model) Describe(d Departure) string {
	v, _ := ensemble.VariableNamed(d.Variable)
	unit := cmp.Or(m.Units[d.Variable], v.Unit)
	if unit == "1" {
		unit = ""
	}
	amount := func(x float64) string {
		text := fmt.Sprintf("%.4g", x)
		if unit != "" {
			text += " " + unit
		}
		return text
	}
	text := fmt.Sprintf("%s at %.2f°N %.2f°E is %s", d.Field, d.Lat, d.Lon, amount(d.Value))
	distance := d.Distance()
	if d.Kind == ofMean {
		text += fmt.Sprintf(", the members' mean %s: %s apart", amount(d.Ensemble), amount(distance))
	}
	return fmt.Sprintf("%s, %s beyond what training saw (%s)", text, amount(distance-d.Reach), amount(d.Reach))
}
