package baselines

import (
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/scratch"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
)

// The fields of each date, of one target at one level. Input members follow.
const (
	usedMean     = iota // of the input members
	usedSpreadM1        // of the input members, divisor M−1
	usedSpread          // of the input members, divisor of the features
	fullSpread          // of all members, divisor of the features
	fullMean            // of all members
	fullSpreadM1        // of all members, divisor M−1
	analysis
	statistics // number of fields without members
)

// setData is what the training data of all targets have in common.
type setData struct {
	dates, points int
	fields        int // of each date: statistics, and the input members
	weights       []float64
	space         *scratch.Space
}

// heldSets holds the training data that a rank fits to: sets, each of one target at one level.
//
// Shape: array [statistic][set][date][point], then the members as [set][date][member][point].
type heldSets struct {
	setData
	sets  []int // numbers of the sets, ascending
	array *scratch.Array
}

// arrayName describes the array in errors.
const arrayName = "the training data of baselines"

// newHeldSets allocates sets, to be closed.
//
// Errors: those of scratch.Space.
func newHeldSets(d setData, sets []int) (*heldSets, error) {
	array, err := d.space.Make(d.dates*len(sets)*d.points*d.fields, arrayName)
	return &heldSets{d, sets, array}, err
}

// close frees the sets.
func (h *heldSets) close() error { return h.array.Close() }

// write stores the fields of date i in a set.
//
// Shape: fields [field][point].
func (h *heldSets) write(set, i int, fields []float32) error {
	n, members, at := h.points, h.fields-statistics, slices.Index(h.sets, set)
	for field := range h.fields {
		to := ((field*len(h.sets)+at)*h.dates + i) * n
		if m := field - statistics; m >= 0 {
			to = (statistics*len(h.sets)*h.dates + (at*h.dates+i)*members + m) * n
		}
		if err := h.array.Write(to, fields[field*n:][:n], arrayName); err != nil {
			return err
		}
	}
	return nil
}

// of returns a statistic of a set.
//
// Shape: [date][point].
func (h *heldSets) of(statistic, set int) []float32 {
	n := h.dates * h.points
	return h.array.Values[(statistic*len(h.sets)+slices.Index(h.sets, set))*n:][:n]
}

// members returns the input members of a set, nil if they were not read.
//
// Shape: [date][member][point].
func (h *heldSets) members(set int) []float32 {
	if h.fields == statistics {
		return nil
	}
	n := h.dates * h.points * (h.fields - statistics)
	return h.array.Values[statistics*len(h.sets)*h.dates*h.points+slices.Index(h.sets, set)*n:][:n]
}

// set returns the training data of a fit to a set, without valid times.
func (h *heldSets) set(set int, f fit) *baseline.Set {
	return &baseline.Set{Weights: h.weights, Space: h.space, Members: h.members(set),
		Mean: h.of(f.fields[0], set), Std: h.of(f.fields[1], set), Obs: h.of(f.fields[2], set)}
}

// fillFields fills the fields of one date for target v. Without analyses their field stays zero.
//
// Shape: out [field][level][point] of the forecast; statistics, and then all input members or none.
func fillFields(out []float32, k *task.Task, fc *ensemble.Forecast, analyses []*ensemble.Analysis, used []int, v int) error {
	n, depth := fc.Grid.Size(), len(fc.Axes.Levels)
	fields := len(out) / (n * depth)
	t, x := k.TargetAt(v)
	target, _ := k.TargetInForecast(fc, v)
	unused := make([]float32, n)
	for l, level := range fc.Axes.Levels {
		of := func(statistic int) []float32 { return out[(statistic*depth+l)*n:][:n] }
		fc.MeanStd(of(usedMean), of(usedSpreadM1), t, x, l, used, 1)
		fc.MeanStd(unused, of(usedSpread), t, x, l, used, k.Features.DDOF)
		fc.MeanStd(unused, of(fullSpread), target, x, l, task.AllMembers(fc), k.Features.DDOF)
		fc.MeanStd(of(fullMean), of(fullSpreadM1), target, x, l, task.AllMembers(fc), 1)
		if analyses != nil {
			obs, err := k.AnalysisField(analyses, fc.Init, v, level)
			if err != nil {
				return err
			}
			copy(of(analysis), obs)
		}
		for i := statistics; i < fields; i++ {
			copy(of(i), fc.Field(t, used[i-statistics], x, l))
		}
	}
	return nil
}
