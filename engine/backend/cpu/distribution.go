//go:build cgo && linux

package cpu

import (
	"sync"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// minPointsPerThread is the number of grid points below which starting another
// goroutine costs more than it saves.
const minPointsPerThread = 256

// distribution returns the rule for scores of predictive distributions, such as the
// CRPS, or for their gradients.
//
// The formulas are those of package postproc/dist, evaluated in float64 at every grid
// point. Points are divided evenly among threads.
func distribution(part op.ScorePart) prepareRule {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) { return distributionKernel(b, q, part) }
}

// distributionKernel prepares one part of a score: values, gradients with respect to
// the parameters, or those with respect to the observation.
//
// Shape: parameters [N P D H W] and observations [N 1 D H W] → [N 1 D H W], or the
// shape of the differentiated operand.
func distributionKernel(b *Backend, q backend.Request, part op.ScorePart) (backend.Kernel, error) {
	a, shape, out := q.Attrs.(op.ScoreSpec), q.In[0].Shape, q.Out.F32
	in := make([][]float32, len(q.In))
	for i, t := range q.In {
		in[i] = t.F32
	}
	n := q.In[1].Shape.Size()
	work := make([]func(), max(1, min(b.options.Threads, n/minPointsPerThread)))
	var wait sync.WaitGroup
	for t := range work {
		s, lo, hi := op.NewScorer(part, a, shape), t*n/len(work), (t+1)*n/len(work)
		work[t] = func() {
			op.ScoreDistributions(s, in, out, lo, hi)
			wait.Done()
		}
	}
	return kernel("distribution", func() {
		wait.Add(len(work))
		for _, w := range work[1:] {
			go w()
		}
		work[0]()
		wait.Wait()
	})
}
