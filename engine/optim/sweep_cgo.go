//go:build cgo && linux

package optim

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// sweeper runs the sweeps with the kernels of the CPU backend.
type sweeper struct {
	pool   *kern.Pool
	pieces []kern.Piece
	part   []float64 // two sums a piece
}

func newSweeper(threads int, tensors []tensor) (sweeper, error) {
	p, err := kern.NewPool(threads)
	if err != nil {
		return sweeper{}, &exit.Error{Code: exit.NoDevice, What: fmt.Sprintf("the optimiser with %d threads cannot start", threads),
			Why: err.Error(), Fix: "ask for fewer threads", Err: err}
	}
	runs := make([][2]int, len(tensors))
	for i, t := range tensors {
		runs[i] = [2]int{t.lo, t.hi}
	}
	s := sweeper{pool: p, pieces: kern.Pieces(runs)}
	s.part = make([]float64, 2*len(s.pieces))
	return s, nil
}

func (s sweeper) norm(g []float32) float64 { return s.pool.Norm(g) }

func (s sweeper) add(sum, g []float32, weight float32) { s.pool.AXPY(sum, g, weight) }

func (s sweeper) squares(out []norms, a, b []float32) {
	s.pool.OptSquares(s.part, s.pieces, a, b)
	s.gather(out)
}

func (s sweeper) moments(out []norms, a *arena, st *step) {
	x, o := bind(a, st)
	s.pool.OptMoments(s.part, s.pieces, &x, &o)
	s.gather(out)
}

// gather adds up the sums of the pieces of each tensor, in their order.
func (s sweeper) gather(out []norms) {
	clear(out)
	for i, p := range s.pieces {
		out[p.Tensor].a += s.part[2*i]
		out[p.Tensor].b += s.part[2*i+1]
	}
}

func (s sweeper) move(a *arena, st *step) {
	x, o := bind(a, st)
	s.pool.OptMove(s.pieces, &x, &o)
}

// bind hands arena and constants over in the kernels' form.
func bind(a *arena, st *step) (kern.OptArena, kern.OptStep) {
	o := kern.OptStep{
		LR: float32(st.rate), Beta1: st.beta1, Beta2: st.beta2, Eps: float32(st.eps),
		Momentum: float32(st.momentum), GradScale: float32(st.factor), Blend: float32(st.blend),
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
