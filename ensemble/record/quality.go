package record

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// TimeToQuality is what the trainings of a variant took to their quality target, from the start of the run, reading
// the data included.
type TimeToQuality struct {
	Variant string  `json:"variant"`
	Metric  string  `json:"metric"`
	Target  float64 `json:"target"`
	Seeds   []int   `json:"seeds"` // of the trainings, in the order of all lists below

	Seconds   []score.Number `json:"seconds"`                   // null where the target was not reached
	Staging   []score.Number `json:"staging_seconds,omitempty"` // of them, until all was read
	Processor []score.Number `json:"processor_seconds,omitempty"`
	// Epochs, Steps and Loss are where the clock stopped, over all networks. They are the same wherever bits are;
	// seconds never are.
	Epochs []int          `json:"epochs,omitempty"`
	Steps  []uint64       `json:"steps,omitempty"`
	Loss   []score.Number `json:"loss,omitempty"`

	// Result is the mean of Seconds without the fastest and the slowest, where five or more seeds were trained and
	// all but one reached the target; else null. ProcessorResult and EpochsResult are the same of Processor and Epochs.
	Result          score.Number `json:"result"`
	ProcessorResult score.Number `json:"processor_result"`
	EpochsResult    score.Number `json:"epochs_result"`
	// ExpectedEpochs is what EpochsResult is compared with, null where it is not.
	ExpectedEpochs score.Number `json:"expected_epochs"`
	Tolerance      float64      `json:"tolerance,omitempty"`
	Why            string       `json:"why,omitempty"` // the check did not pass
}

// Evaluate finds the results. One training that does not converge is the slowest; more than one leave no result, and are
// a failure where there are enough trainings for one.
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
	case len(q.Seconds) >= config.MinTimedRuns && unreached > 1:
		q.Why = fmt.Sprintf("%d of %d trainings did not reach the target", unreached, len(q.Seconds))
	case q.Tolerance > 0 && off > q.Tolerance:
		q.Why = fmt.Sprintf("%.3g epochs, expected are %.3g ± %.3g", float64(q.EpochsResult), float64(q.ExpectedEpochs), q.Tolerance)
	}
}

// isConsistent says that the lists are of the same trainings.
func (q *TimeToQuality) isConsistent() bool {
	n := len(q.Seconds)
	return len(q.Seeds) == n && len(q.Staging) == n && len(q.Processor) == n && len(q.Epochs) == n && len(q.Steps) == n && len(q.Loss) == n
}

// trimmedMean is the mean without the least and the largest, of which one that is missing counts as the largest; missing of
// fewer than five, or if more are missing.
func trimmedMean(all []score.Number) score.Number {
	var there []float64
	for _, s := range all {
		if s == s {
			there = append(there, float64(s))
		}
	}
	if len(all) < config.MinTimedRuns || len(there) < len(all)-1 {
		return score.Missing()
	}
	slices.Sort(there)
	kept := there[1 : len(all)-1]
	var sum float64
	for _, s := range kept {
		sum += s
	}
	return score.Number(sum / float64(len(kept)))
}

// SecondsToQuality is the time of the training of a variant with a seed to its target; missing where there is none.
func (r *Record) SecondsToQuality(variant string, seed int) score.Number {
	for _, q := range r.Quality {
		if i := slices.Index(q.Seeds, seed); q.Variant == variant && i >= 0 {
			return q.Seconds[i]
		}
	}
	return score.Missing()
}

// TimeComparison is the way of a training to its quality in two records. Their times are shown, and never compared.
type TimeComparison struct {
	Variant  string       `json:"variant"`
	Seed     int          `json:"seed"`
	EpochsA  int          `json:"epochs_a"`
	EpochsB  int          `json:"epochs_b"`
	SecondsA score.Number `json:"seconds_a"`
	SecondsB score.Number `json:"seconds_b"`
	// Same says that the clocks stopped after the same step at the same loss.
	Same bool `json:"same"`
}

// compareTimes compares the ways to a quality of trainings that both records timed.
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
