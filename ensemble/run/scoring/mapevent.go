package scoring

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// published is the published distribution of a target: members, or else a family with its parameters.
//
// Shape: Members [member][point]; Parameters [parameter][point].
type published struct {
	Members    [][]float32
	Family     *dist.Family
	Parameters [][]float32
}

// addProbability adds the probability that a threshold near the middle of the mean is exceeded, as it is published: the
// fraction of the members, or the probability of the distribution, calibrated if the model calibrates it. Calibrated
// thresholds are preferred. calibrated is false for forecasts that the calibration of the model does not apply to.
func (e *MapExample) addProbability(m *model.Model, t task.Target, level ensemble.Level, d published, mean []float32, calibrated bool) {
	f := MapField{Variable: t.Variable, Level: level.ForVariable(t.Variable), Lead: t.Lead, Kind: ShowProbability, Values: make([]float32, len(mean))}
	var known []float64
	if calibrated && d.Members == nil {
		known = m.CalibratedThresholds(t, level)
	}
	var ok bool
	if f.Threshold, ok = mapThreshold(known, t.Variable, mean); !ok {
		return
	}
	event := ensemble.Event{Relation: ensemble.Above, Lower: f.Threshold}
	switch {
	case len(d.Members) > 0:
		f.Source = fmt.Sprintf("fraction of the %d post-processed members", len(d.Members))
		for p := range f.Values {
			f.Values[p] = fractionOf(d.Members, p, event)
		}
	case d.Family == nil:
		return
	default:
		f.Source = "published distribution, " + d.Family.Name
		for p, v := range model.ExceedanceProbabilities(d.Family, d.Parameters, f.Threshold) {
			f.Values[p] = float32(v)
		}
		if len(known) > 0 {
			f.Source += ", calibrated"
			m.Calibrate(f.Values, t, level, event, d.Family, d.Parameters)
		}
	}
	e.Fields = append(e.Fields, f)
}

// fractionOf is the fraction of members in which an event occurs at a point; NaN if a member is missing.
func fractionOf(members [][]float32, p int, event ensemble.Event) float32 {
	n := 0
	for _, f := range members {
		if f[p] != f[p] {
			return f[p]
		}
		if event.Occurs(float64(f[p])) {
			n++
		}
	}
	return float32(n) / float32(len(members))
}

// mapThreshold selects the threshold of a map of probabilities: of the known ones that which is nearest to the median
// of the field, or else that of EventThreshold.
func mapThreshold(known []float64, variable string, field []float32) (float64, bool) {
	low, median, high := rangeOf(field)
	known = slices.DeleteFunc(slices.Clone(known), func(x float64) bool { return !(x > low && x < high) })
	if len(known) > 0 {
		return slices.MinFunc(known, func(a, b float64) int {
			return int(math.Copysign(1, math.Abs(a-median)-math.Abs(b-median)))
		}), true
	}
	return EventThreshold(variable, field)
}

// EventThreshold selects a round threshold that separates a field of a variable: a multiple of the unit in which
// forecasters read it near the median, for amounts of precipitation 1 or 0.1 mm. It is false for a field without values
// or contrast.
//
// Unit: SI.
func EventThreshold(variable string, field []float32) (float64, bool) {
	low, median, high := rangeOf(field)
	if !(high > low) {
		return 0, false
	}
	v, _ := ensemble.VariableNamed(variable)
	if v.Unit == "kg m-2" {
		for _, t := range []float64{1, 0.1, 5, 10, 20, 50} {
			if t > low && t < high {
				return t, true
			}
		}
		return 0, false
	}
	unit, zero, steps := 1.0, 0.0, []float64(nil)
	switch {
	case v.Name == "gh":
		unit, steps = 10, []float64{8, 4, 2, 1}
	case v.Name == "z":
		unit, steps = 98.0665, []float64{8, 4, 2, 1}
	case v.Unit == "Pa":
		unit, steps = 100, []float64{5, 2, 1}
	case v.Unit == "K":
		zero, steps = 273.15, []float64{5, 2, 1}
	default:
		steps = []float64{math.Pow(10, math.Floor(math.Log10((high-low)/2)))}
	}
	for _, s := range steps {
		s *= unit
		if t := zero + s*math.Round((median-zero)/s); t > low && t < high {
			return t, true
		}
	}
	return 0, false
}

// rangeOf is the least, the median and the largest value of a field, NaN without values.
func rangeOf(field []float32) (low, median, high float64) {
	var all []float64
	for _, v := range field {
		if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	slices.Sort(all)
	return all[0], all[len(all)/2], all[len(all)-1]
}
