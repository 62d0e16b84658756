//go:build cgo && linux

package optim

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// sweeper runs the sweeps with the kernels of the CPU backend.
type sweeper struct{ pool *kern.Pool }

func newSweeper(threads int) (sweeper, error) {
	p, err := kern.NewPool(threads)
	if err != nil {
		return sweeper{}, &exit.Error{Code: exit.NoDevice, What: fmt.Sprintf("the optimiser with %d threads cannot start", threads),
			Why: err.Error(), Fix: "ask for fewer threads", Err: err}
	}
	return sweeper{p}, nil
}

func (s sweeper) norm(g []float32) float64 { return s.pool.Norm(g) }

func (s sweeper) adam(w, m, v, g []float32, a adamStep) {
	s.pool.Adam(w, m, v, g, kern.AdamStep{
		LR: float32(a.rate), Beta1: float32(a.beta1), Beta2: float32(a.beta2), Eps: float32(a.eps),
		Decay: float32(a.decay), Coupled: a.coupled, GradScale: float32(a.factor),
		Correct1: float32(a.correct1), Correct2: float32(a.correct2),
	})
}

func (s sweeper) close() error { return s.pool.Close() }
