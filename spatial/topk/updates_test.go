package topk

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// adamUpdates returns the sums over steps of Adam's updates of gradients of one value, by the formulas of its
// paper in float64, and the last update.
func adamUpdates(rate float64, gradients []float64) (sum, last float64) {
	var m, v float64
	for i, g := range gradients {
		t := float64(i + 1)
		m, v = 0.9*m+0.1*g, 0.999*v+0.001*g*g
		last = rate * m / (1 - math.Pow(0.9, t)) / (math.Sqrt(v/(1-math.Pow(0.999, t))) + 1e-8)
		sum += last
	}
	return sum, last
}

// updateGradient is the gradient of value i on a rank in a step.
func updateGradient(rank, step, i int) float64 {
	return math.Sin(float64(1+7*rank+3*step+11*i)) * float64(1+i)
}

// With density 1 the sum is the mean over ranks of their own updates. With a low density no update is lost: what was
// sent, and what is left on all ranks, is the mean of the updates of all steps. Tolerance: float32 sums of 12 updates
// of about 0.01.
func TestUpdates(t *testing.T) {
	const n, steps, ranks, rate, tolerance = 25, 12, 3, 0.01, 2e-7
	for _, density := range []float64{1, 0.08} {
		sums := make([][]float64, ranks) // of each rank: sent and left
		last := make([]float32, n)
		err := comm.Run(ranks, comm.Parallel, func(c *comm.Comm) error {
			r, err := New(n, Options{Density: density, Updates: true})
			if err != nil {
				return err
			}
			total := make([]float64, n)
			for s := range steps {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(updateGradient(c.Rank(), s, i))
				}
				r.SetRate(rate)
				if _, err := r.Sum(c, comm.Parts[float32]{x[:9], x[9:]}); err != nil {
					return err
				}
				for i, v := range x {
					if c.Rank() == 0 { // all ranks have the same sums
						total[i] += float64(v)
					}
				}
				if c.Rank() == 0 {
					copy(last, x)
				}
			}
			for i, e := range r.State().Residual {
				total[i] += float64(e)
			}
			sums[c.Rank()] = total
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			var got, want, wantLast float64
			for rank := range ranks {
				var g []float64
				for s := range steps {
					g = append(g, updateGradient(rank, s, i))
				}
				sum, u := adamUpdates(rate/ranks, g)
				got, want, wantLast = got+sums[rank][i], want+sum, wantLast+u
			}
			if math.Abs(got-want) > tolerance {
				t.Errorf("density %g, value %d: sent and left %.8f, want %.8f", density, i, got, want)
			}
			if density == 1 && math.Abs(float64(last[i])-wantLast) > tolerance {
				t.Errorf("value %d: last sum %.8f, want %.8f", i, last[i], wantLast)
			}
		}
	}
}

// Updates have the learning rate of the step in which they were computed, however long they wait.
func TestUpdatesKeepTheirRate(t *testing.T) {
	const n = 10
	r, err := New(n, Options{Density: 1.0 / n, Updates: true, ThresholdSteps: 1})
	if err != nil {
		t.Fatal(err)
	}
	err = comm.Run(1, comm.Parallel, func(c *comm.Comm) error {
		for _, rate := range []float64{0.01, 0} {
			x := make([]float32, n)
			for i := range x {
				x[i] = 1
			}
			r.SetRate(rate)
			u, err := r.Sum(c, comm.Parts[float32]{x})
			if err != nil {
				return err
			}
			if len(u.Index) != 1 || math.Abs(float64(u.Value[0])-0.01) > 1e-7 {
				t.Errorf("rate %g: sent %v, want one update of 0.01", rate, u)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
