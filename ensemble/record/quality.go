package record

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// TimeToQuality holds the time that the trainings of a variant needed to reach their target quality,
// from the start of the run, including the reading of the data.
type TimeToQuality struct {
	Variant string  `json:"variant"`
	Metric  string  `json:"metric"`
	Target  float64 `json:"target"`
	Seeds   []int   `json:"seeds"` // seeds of the trainings; all lists below have this order

	Seconds   []score.Number `json:"seconds"`                   // null: the target was not reached
	Staging   []score.Number `json:"staging_seconds,omitempty"` // part of Seconds until all data were read
	Processor []score.Number `json:"processor_seconds,omitempty"`
	// Epochs, Steps and Loss are the values when the target was reached, over all networks. They are
	// reproducible if bits are; times are not.
	Epochs []int          `json:"epochs,omitempty"`
	Steps  []uint64       `json:"steps,omitempty"`
	Loss   []score.Number `json:"loss,omitempty"`

	// Result is the mean of Seconds without the fastest and the slowest training, if at least five seeds were trained
	// and at most one missed the target; null otherwise. ProcessorResult and EpochsResult are the same for Processor
	// and Epochs.
	Result          score.Number `json:"result"`
	ProcessorResult score.Number `json:"processor_result"`
	EpochsResult    score.Number `json:"epochs_result"`
	// ExpectedEpochs is compared with EpochsResult; null: no comparison.
	ExpectedEpochs score.Number `json:"expected_epochs"`
	Tolerance      float64      `json:"tolerance,omitempty"`
	Why            string       `json:"why,omitempty"` // reason of a failure
}

// Evaluate computes the results. One training that missed the target counts as the slowest; with more
// than one there is no result, which is a failure if there are enough trainings for a result.
func (q *TimeToQuality) Evaluate() {
	epochs := make([]score.Number, len(q.Epochs))
	unreached := 0
	for i, s := range q.Seconds {
		if s != s {
			unreached++
		}
		if i < len(epochs) {
			if epochs[i] = score.Number(q.Epochs[i]); s != s {
				epochs[i] = score.Missing()
			}
		}
	}
	processor := slices.Clone(q.Processor)
	for i := range processor {
		if q.Seconds[i] != q.Seconds[i] {
			processor[i] = score.Missing()
		}
	}
	q.Result, q.ProcessorResult, q.EpochsResult, q.Why = trimmedMean(q.Seconds), trimmedMean(processor), trimmedMean(epochs), ""
	off := math.Abs(float64(q.EpochsResult - q.ExpectedEpochs))
	switch {
	case len(q.Seconds) >= experimentfile.MinTimedRuns && unreached > 1:
		q.Why = fmt.Sprintf("%d of %d trainings did not reach the target", unreached, len(q.Seconds))
	case q.Tolerance > 0 && off > q.Tolerance:
		q.Why = fmt.Sprintf("%.3g epochs, expected %.3g ± %.3g", float64(q.EpochsResult), float64(q.ExpectedEpochs), q.Tolerance)
	}
}

// isConsistent reports whether all lists have the same length.
func (q *TimeToQuality) isConsistent() bool {
	n := len(q.Seconds)
	return len(q.Seeds) == n && len(q.Staging) == n && len(q.Processor) == n && len(q.Epochs) == n && len(q.Steps) == n && len(q.Loss) == n
}

// trimmedMean is the mean without the smallest and the largest value. One missing value counts as the
// largest. The result is missing for fewer than five values, or if more are missing.
func trimmedMean(all []score.Number) score.Number {
	var present []float64
	for _, s := range all {
		if s == s {
			present = append(present, float64(s))
		}
	}
	if len(all) < experimentfile.MinTimedRuns || len(present) < len(all)-1 {
		return score.Missing()
	}
	slices.Sort(present)
	kept := present[1 : len(all)-1]
	var sum float64
	for _, s := range kept {
		sum += s
	}
	return score.Number(sum / float64(len(kept)))
}

// SecondsToQuality is the time that the training of a variant with a seed needed to reach its target; missing
// if there is none.
//
// Unit: s.
func (r *Record) SecondsToQuality(variant string, seed int) score.Number {
	for _, q := range r.Quality {
		if i := slices.Index(q.Seeds, seed); q.Variant == variant && i >= 0 {
			return q.Seconds[i]
		}
	}
	return score.Missing()
}

// TimeComparison compares the training to quality in two records. Times are shown, but not compared.
type TimeComparison struct {
	Variant  string       `json:"variant"`
	Seed     int          `json:"seed"`
	EpochsA  int          `json:"epochs_a"`
	EpochsB  int          `json:"epochs_b"`
	SecondsA score.Number `json:"seconds_a"`
	SecondsB score.Number `json:"seconds_b"`
	// Same: the target was reached at the same step with the same loss.
	Same bool `json:"same"`
}

// compareTimes compares the trainings that both records timed.
func compareTimes(a, b *Record) (out []TimeComparison) {
	for i := range a.Quality {
		q := &a.Quality[i]
		at := slices.IndexFunc(b.Quality, func(p TimeToQuality) bool { return p.Variant == q.Variant && p.Target == q.Target })
		if at < 0 {
			continue
		}
		p := &b.Quality[at]
		for i, seed := range q.Seeds {
			k := slices.Index(p.Seeds, seed)
			if k < 0 {
				continue
			}
			out = append(out, TimeComparison{Variant: q.Variant, Seed: seed, EpochsA: q.Epochs[i], EpochsB: p.Epochs[k], SecondsA: q.Seconds[i], SecondsB: p.Seconds[k],
				Same: q.Steps[i] == p.Steps[k] && q.Loss[i] == p.Loss[k]})
		}
	}
	return out
}
