package pipeline

import (
	"cmp"
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/exit"
	near "github.com/ensemble-weather/ensemble/internal/nearest"
)

// Scaling is how Chimera takes more micro-batches than stages.
type Scaling uint8

// The kinds of Scaling.
const (
	// Concatenate starts a unit of D micro-batches 2D slots after the one before. If a backward pass takes two forward
	// passes, each further unit adds D−2 forward passes of bubbles: a step of K units takes (5D−4) + (K−1)(4D−2).
	Concatenate Scaling = iota
	// DoubleForward runs forward passes of two micro-batches, which take as long as one backward pass, with twice the
	// activations.
	DoubleForward
	// HalveBackward is DoubleForward with half micro-batches: a forward pass takes a micro-batch, a backward pass half of
	// one. Activations are those of Concatenate; kernels have half the work each.
	HalveBackward
)

// ChimeraOptions are the options of Chimera. The zero value is one pair of pipes and Concatenate.
type ChimeraOptions struct {
	Pairs   int // q pairs of pipes; 0 means 1. It divides D/2.
	Scaling Scaling
}

// Chimera returns the schedule of q pairs of pipes in opposite directions over the same workers, each with its own copy of
// the weights. The idle slots of one direction hold tasks of the other. Of equal stages, with N = D micro-batches, the
// bubbles of a worker are D/q − 2 slots if a backward pass takes as long as a forward pass. A worker keeps the weights of 2q
// stages, and with one pair the activations of D/2+1 to D micro-batches.
//
// A unit has D micro-batches, D/2q for each pipe. Micro-batch j of a pipe is at stage s
//
//	forward   in slot 2j + s
//	backward  in slot D + 2j + D−1−s
//
// on worker s (pipes down) or D−1−s (up), shifted by iD/q in pair i. Slots give the order of a worker only; times follow from
// what the tasks wait for. With fewer micro-batches than stages each pipe leaves out its last ones.
//
// Errors: exit.Usage with the nearest numbers that work: for an odd number of stages, pairs that do not divide D/2, and
// N > D that is not a multiple of D (2D with DoubleForward); for several pairs with another scaling than Concatenate.
// Source: Li and Hoefler 2021, arXiv:2107.06925, sections 3.1, 3.3 and 3.5.
func Chimera(stages, micro int, o ChimeraOptions) (*Schedule, error) {
	q := cmp.Or(o.Pairs, 1)
	if err := checkChimera(stages, micro, q, o.Scaling); err != nil {
		return nil, err
	}
	pipes := make([]pipe, 2*q)
	for i := range pipes {
		pipes[i] = pipe{shift: i / 2 * stages / q, up: i%2 == 1}
	}
	if o.Scaling != Concatenate {
		return chimeraDoubled(stages, micro, o.Scaling, pipes)
	}
	unit := min(stages, micro)
	from := func(k int) int { return (unit*k + 2*q - 1) / (2 * q) } // first micro-batch of pipe k in a unit
	s := newSchedule(stages, micro, 1, pipes)
	var tasks []slotted
	for i := range micro {
		j, k := i%unit, 0
		for j >= from(k+1) {
			k++
		}
		s.pipeOf[i] = k
		slot := i/unit*2*stages + 2*(j-from(k))
		for stage := range stages {
			t := Task{Pipe: k, Stage: stage, First: i, Count: 1}
			tasks = append(tasks, slotted{slot + stage, t})
			t.Backward = true
			tasks = append(tasks, slotted{slot + 2*stages - 1 - stage, t})
		}
	}
	return s, s.order(tasks)
}

// checkChimera refuses sizes for which there is no schedule.
func checkChimera(stages, micro, q int, scaling Scaling) error {
	if err := checkSizes(stages, micro); err != nil {
		return err
	}
	unit := stages
	if scaling == DoubleForward {
		unit = 2 * stages
	}
	what := fmt.Sprintf("no Chimera schedule of %d stages, %d micro-batches and %d pairs of pipes", stages, micro, q)
	switch {
	case stages%2 != 0:
		return &exit.Error{Code: exit.Usage, What: what, Why: "pipes in opposite directions meet on a worker if the number of stages is odd",
			Fix: "use " + nearest(stages, 2) + " stages, or the schedule 1F1B"}
	case q < 1 || stages/2%q != 0:
		return &exit.Error{Code: exit.Usage, What: what, Why: "the pairs are shifted by stages/pairs workers, so they must divide stages/2",
			Fix: fmt.Sprintf("use %d pairs", near.Divisor(stages/2, q))}
	case scaling != Concatenate && q > 1:
		return &exit.Error{Code: exit.Usage, What: what, Why: "forward passes of two pieces are scheduled for one pair of pipes",
			Fix: "use 1 pair, or concatenate units"}
	case micro%unit != 0 && (micro > unit || scaling != Concatenate):
		return &exit.Error{Code: exit.Usage, What: what, Why: fmt.Sprintf("a unit of this schedule has %d micro-batches", unit),
			Fix: "use " + nearest(micro, unit) + " micro-batches"}
	}
	return nil
}

// nearest lists the multiples of unit around n.
func nearest(n, unit int) string {
	low := n / unit * unit
	if low == 0 {
		return fmt.Sprint(unit)
	}
	return fmt.Sprintf("%d or %d", low, low+unit)
}
