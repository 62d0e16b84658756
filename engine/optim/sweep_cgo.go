//go:build cgo && linux

package optim

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// sweeper runs the steps with the C kernels of the CPU backend, on a pool of threads.
type sweeper struct {
	pool   *kern.Pool
	chunks []kern.ParamRange
}

// newSweeper starts the threads.
//
// Errors: exit.NoDevice if the system does not start them.
func newSweeper(threads int, chunks []chunk) (sweeper, error) {
	p, err := kern.NewPool(threads)
	if err != nil {
		return sweeper{}, &exit.Error{Code: exit.NoDevice, What: fmt.Sprintf("cannot start the optimiser with %d threads", threads),
			Why: err.Error(), Fix: "use fewer threads", Err: err}
	}
	return sweeper{pool: p}.of(chunks), nil
}

// of returns the sweep over some of the chunks, by the same threads.
func (s sweeper) of(chunks []chunk) sweeper {
	part := sweeper{pool: s.pool}
	for _, x := range chunks {
		part.chunks = append(part.chunks, kern.ParamRange{Lo: x.lo, Hi: x.hi, Tensor: x.tensor, At: x.at})
	}
	return part
}

func (s sweeper) accumulate(sum, g []float32, weight float32) { s.pool.AXPY(sum, g, weight) }

func (s sweeper) squares(part []float64, w, g []float32) { s.pool.OptSquares(part, s.chunks, w, g) }

func (s sweeper) moments(part []float64, a *arena, st *step) {
	x, o := bind(a, st)
	s.pool.OptMoments(part, s.chunks, &x, &o)
}

func (s sweeper) apply(a *arena, st *step) {
	x, o := bind(a, st)
	s.pool.OptUpdate(s.chunks, &x, &o)
}

// bind converts arena and constants to the structures of the C kernels.
func bind(a *arena, st *step) (kern.OptArena, kern.OptStep) {
	o := kern.OptStep{
		LR: float32(st.rate), Beta1: st.beta1, Beta2: st.beta2, Eps: float32(st.eps),
		Momentum: float32(st.momentum), GradScale: float32(st.factor), EMAWeight: float32(st.blend),
		Correct1: float32(st.correct1), Correct2: float32(st.correct2), Decay: st.decay, Ratio: st.ratio,
	}
	switch st.rule {
	case SGD:
		o.Rule = kern.RuleSGD
		if st.nesterov {
			o.Rule = kern.RuleNesterov
		}
	case Adam:
		o.Rule = kern.RuleAdam
	case AdamW:
		o.Rule = kern.RuleAdamW
	case LARS:
		o.Rule = kern.RuleLARS
	case LAMB:
		o.Rule = kern.RuleLAMB
	}
	return kern.OptArena{W: a.w, M: a.m, V: a.v, E: a.e, G: a.g}, o
}

func (s sweeper) close() error { return s.pool.Close() }
