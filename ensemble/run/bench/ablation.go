package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
)

// Ablation compares a case without passes of the compiler with the same case with all.
type Ablation struct {
	Passes  string `json:"passes"` // Case.Without
	Train   Ratios `json:"train"`
	Predict Ratios `json:"predict"`
}

// Ratios are ratios of times, without the passes over with all, of pairs of steps that follow each other.
type Ratios struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"` // number of pairs
}

// String describes the ratios.
func (r Ratios) String() string {
	return fmt.Sprintf("%.3f times as long (median of %d pairs, %.3f to %.3f)", r.Median, r.N, r.Min, r.Max)
}

// passes splits Case.Without.
func (k Case) passes() []string {
	if k.Without == "" {
		return nil
	}
	return strings.Split(k.Without, ",")
}

// ratios measures steps of the case and of the same case with all passes in turn. The two swap places in every second pair, so that a
// drift of the machine's speed cancels.
//
// Errors: those of Measure.
func (r Request) ratios(ctx context.Context) (out Ratios, err error) {
	var steps [2]*Step // without, and with all
	whole := r.Case
	whole.Without = ""
	for i, c := range []Case{r.Case, whole} {
		if steps[i], err = c.compileTimed(r.Phase == BenchTrain, false, setup.Timings{Dir: r.Timings}); err != nil {
			return out, err
		}
		defer func(s *Step) { err = errors.Join(err, s.Close()) }(steps[i])
	}
	var all benchstats.Series
	first := 0
	pair := func() error {
		var took [2]time.Duration
		for _, i := range []int{first, 1 - first} {
			start := time.Now()
			if err := steps[i].Run(ctx); err != nil {
				return err
			}
			took[i] = time.Since(start)
		}
		first = 1 - first
		all = append(all, float64(took[0])/float64(took[1]))
		return nil
	}
	restart := func() { all = nil }
	if _, _, err := Repeat(pair, restart, r.Steps, 2*r.Seconds, time.Now); err != nil {
		return out, err
	}
	return Ratios{all.Median(), slices.Min(all), slices.Max(all), len(all)}, nil
}

// ablate adds the ratios of a case without passes to its result.
func (b *bencher) ablate(ctx context.Context, req Request, r *Result) error {
	if req.Case.Without == "" {
		return nil
	}
	r.Ablation = &Ablation{Passes: req.Case.Without}
	req.Pairs, req.Kernels = true, false
	for _, p := range []struct {
		phase Phase
		to    *Ratios
	}{{BenchTrain, &r.Ablation.Train}, {BenchPredict, &r.Ablation.Predict}} {
		req.Phase = p.phase
		m, err := b.process(ctx, req)
		if err != nil {
			return err
		}
		*p.to = *m.Ratios
	}
	return nil
}

// ablations describes the ratios of all results.
func (r *Report) ablations() (lines []string) {
	for _, c := range r.Results {
		if a := c.Ablation; a != nil {
			lines = append(lines, fmt.Sprintf("Without %s, %s: training step %v, prediction %v, both relative to the whole compiler.",
				strings.ReplaceAll(a.Passes, ",", ", "), c.title(), a.Train, a.Predict))
		}
	}
	return lines
}
