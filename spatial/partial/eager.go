package partial

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Initiator states which rank starts the operation of a step.
type Initiator int

// The rules of eager-SGD.
const (
	// Solo lets the first rank that arrives start. At least one gradient is fresh.
	Solo Initiator = iota
	// Majority lets a rank start that is drawn at random, the same on all ranks. If the order
	// of arrival does not depend on the rank, (P+1)/2 gradients are fresh on average.
	Majority
)

// String returns the name of the rule.
func (i Initiator) String() string { return [...]string{"solo", "majority"}[i] }

// EagerOptions are the options of eager-SGD, equal on all ranks except for Replay.
type EagerOptions struct {
	Initiator Initiator
	Period    int            // τ: the operation of every τ-th step of a run waits for all ranks
	Seed      uint64         // of the ranks that start with Majority
	First     int            // number of steps taken before, in another job; Majority draws as if it had continued
	Skip      bool           // a late rank leaves out the steps whose sums began without it
	Algorithm comm.Algorithm // of the sums
	Replay    *Log           // of this rank in another run, whose bits are repeated; nil without
}

// Eager is eager-SGD on one rank: gradients are summed over the ranks that have arrived, and
// those of late ranks are part of a later sum. All ranks receive the same sums, so the models
// stay equal from step to step, and are equal on all ranks after the last step of each run.
//
// Concurrency: one goroutine uses it; it runs another one between Start and the last step.
// Cost: that of the all-reduce, and P⌈log₂P⌉ small messages a step, P−1 with Majority.
// Source: Li, Ben-Nun, Di Girolamo, Alistarh and Hoefler 2020, arXiv:1908.04207.
type Eager struct{ *sequence }

// Update is the sum of the gradients of one step.
type Update struct {
	Step      int
	Sum       []float32 // over ranks, valid until the next call of Step
	Fresh     int       // number of ranks whose gradient of this step is included
	Gradients int       // number of gradients in the sum
}

// NewEager returns eager-SGD for gradients of n values. All ranks of c call it together. It
// sends no messages, and Start begins the steps.
//
// Errors: exit 64 for invalid options, with the nearest valid one; too many groups in a job.
func NewEager(c *comm.Comm, n int, o EagerOptions) (*Eager, error) {
	if err := checkPeriod(o.Period); err != nil {
		return nil, err
	}
	s := schedule{period: o.Period, offset: o.First, skips: o.Skip}
	if o.Initiator == Majority {
		s.initiator = func(step int) int { return initiatorOf(o.Seed, o.First+step, c.Size()) }
	}
	q, err := newSequence(c, s, n+gradientTail, func(all *comm.Comm) ([]*comm.Comm, error) { return []*comm.Comm{all}, nil })
	if err != nil {
		return nil, err
	}
	q.algorithm, q.replay = o.Algorithm, o.Replay
	q.shared.buffer = &gradientSum{make([]float32, n+gradientTail)}
	return &Eager{q}, nil
}

// checkPeriod returns an error for a period without a synchronous operation.
func checkPeriod(period int) error {
	if period >= 1 {
		return nil
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid period of synchronous steps %d", period),
		Why: "without synchronous steps nothing limits how far ranks are apart", Fix: "set 1 or more; with 1 every step is synchronous"}
}

// Step contributes the gradient of the next step and waits for the sum of that step. It
// returns the sums since the last call, which the caller applies in order:
//
//	w(t+1) = w(t) − rate/P·Sum
//
// Clipping, and the moments of an optimiser, act on the sums, which are the same on all
// ranks. A late rank contributes its gradient to a later sum, and may get the sums of several steps,
// also of later ones. With Skip it continues after these, with step Next. A nil gradient contributes nothing, such as after an overflow.
//
// Errors: exit 64 for another length or without Start; failures of other ranks.
func (e *Eager) Step(gradient []float32) ([]Update, error) {
	n := e.values - gradientTail
	if gradient != nil && len(gradient) != n {
		return nil, sizeError("gradient", len(gradient), n)
	}
	step := e.next
	if _, err := e.contribute(gradient); err != nil {
		return nil, err
	}
	if err := e.await(step + 1); err != nil {
		return nil, err
	}
	count := e.finishedAfter(step)
	if err := e.await(count); err != nil {
		return nil, err
	}
	results, err := e.take(count)
	var updates []Update
	for _, r := range results {
		updates = append(updates, Update{r.step, r.sum[:n], int(r.sum[n]), int(r.sum[n+1])})
	}
	return updates, err
}

// sizeError returns the error of a vector of another length.
func sizeError(what string, got, want int) error {
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s of %d values, want %d", what, got, want),
		Why: "all steps have vectors of the same length", Fix: "create it for the number of parameters"}
}
