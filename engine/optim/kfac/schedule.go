package kfac

import (
	"fmt"
	"math"
)

// CloseLimit is the relative difference below which factors count as unchanged.
const CloseLimit = 0.1

// Schedule is the interval to the next update, in units of the shortest one, and the interval before it. The zero
// value is the start.
type Schedule struct {
	Interval int `json:"interval"`
	Previous int `json:"previous"`
}

// Next returns the schedule after an update whose factors differ by last from those of the update before, and by before
// from those of the one before that (Preconditioner.Changes):
//
//   - Factors that changed since the last update halve the interval.
//   - Factors close to the last ones only keep it.
//   - Factors close to both lengthen it by the interval before: 1, 2, 3, 5, 8, …
//
// Source: Osawa et al. 2020, arXiv:2002.06015 (SP-NGD), the rule for stale statistics.
func (s Schedule) Next(last, before float64) Schedule {
	now := max(s.Interval, 1)
	next := Schedule{Interval: now, Previous: now}
	switch {
	case !(last < CloseLimit):
		next.Interval = max(1, now/2)
	case before < CloseLimit:
		next.Interval = now + max(s.Previous, 1)
	}
	return next
}

// Changes returns the relative differences of the newest factors from those of the last update and of the one before
// that: root mean squares of |X−Y|/|Y| over all factors, in Frobenius norms. They are infinite as long as there are no
// such factors, and without Options.History.
func (p *Preconditioner) Changes() (last, before float64) { return p.changes[0], p.changes[1] }

// remember computes Changes for new factors, and keeps them for the next update.
//
// Errors: communication errors.
func (p *Preconditioner) remember(factor func(name string) []float32) error {
	p.changes = [2]float64{math.Inf(1), math.Inf(1)}
	if !p.o.History {
		return nil
	}
	known := min(int(p.updates), len(p.changes))
	sums := make([]float64, known)
	for k := range sums {
		for i := range p.layers {
			l := &p.layers[i]
			sums[k] += difference(factor(l.RowsName()), l.history[k][0]) + difference(factor(l.ColsName()), l.history[k][1])
		}
	}
	if p.o.Owners != nil {
		if err := p.o.Owners.AllReduce(sums); err != nil {
			return fmt.Errorf("changes of Kronecker factors: %w", err)
		}
	}
	for k, sum := range sums {
		p.changes[k] = math.Sqrt(sum / float64(2*len(p.all)))
	}
	for i := range p.layers {
		l := &p.layers[i]
		l.history[0], l.history[1] = l.history[1], l.history[0]
		copy(l.history[0][0], factor(l.RowsName()))
		copy(l.history[0][1], factor(l.ColsName()))
	}
	return nil
}

// difference is |x−y|²/|y|² of symmetric matrices given by their lower triangles, in which elements off the diagonal
// stand for two. It is 0 for two zeros.
func difference(x, y []float32) float64 {
	d, norm, diagonal, row := 0.0, 0.0, 0, 0
	for i, v := range x {
		weight := 2.0
		if i == diagonal {
			row++
			diagonal += row + 1
			weight = 1
		}
		d += weight * math.Pow(float64(v)-float64(y[i]), 2)
		norm += weight * math.Pow(float64(y[i]), 2)
	}
	if d == 0 {
		return 0
	}
	return d / norm
}
