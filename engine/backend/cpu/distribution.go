//go:build cgo && linux

package cpu

import (
	"sync"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// minPointsPerThread is the least number of points that are worth a thread.
const minPointsPerThread = 256

// distribution serves the scores of distributions: the formulas are those of package dist, in
// float64, and the points are dealt out to threads.
func distribution(part op.ScorePart) prepareRule {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) { return distributionKernel(b, q, part) }
}

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
