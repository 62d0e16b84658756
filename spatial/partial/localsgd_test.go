package partial

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// With rate 1 and without momentum the models are averaged; with momentum the outer weights
// follow the recursion of Nesterov's method in float64, as in PyTorch's SGD.
func TestLocal(t *testing.T) {
	const ranks, local, outer = 4, 3, 6
	for _, o := range []LocalOptions{{Steps: local, Rate: 1}, {Steps: local, Rate: 0.7, Momentum: 0.9}} {
		err := comm.Run(ranks, comm.Parallel, func(c *comm.Comm) error {
			w := []float32{1, -2}
			theta, velocity := []float64{1, -2}, make([]float64, 2)
			l, err := NewLocal(c, w, o)
			if err != nil {
				return err
			}
			for step := range local * outer {
				for i := range w {
					w[i] -= 0.1 * (w[i] - float32(c.Rank()+i))
				}
				before := slices.Clone(w)
				stepped, err := l.Step(w)
				if err != nil {
					return err
				}
				if stepped != (step%local == local-1) || !stepped && !slices.Equal(w, before) {
					return fmt.Errorf("step %d: outer step %t, weights %v after %v", step, stepped, w, before)
				}
				if !stepped {
					continue
				}
				all, err := comm.AllGather(c, before)
				if err != nil {
					return err
				}
				for i := range w {
					mean := 0.0
					for r := range ranks {
						mean += float64(all[2*r+i]) / ranks
					}
					d := theta[i] - mean
					velocity[i] = o.Momentum*velocity[i] + d
					theta[i] -= o.Rate * (d + o.Momentum*velocity[i])
					if math.Abs(theta[i]-float64(w[i])) > 1e-5 || math.Abs(velocity[i]-float64(l.Velocity()[i])) > 1e-5 {
						return fmt.Errorf("step %d: weights %v, want %v", step, w, theta)
					}
				}
				if o.Momentum == 0 && math.Abs(theta[0]-float64(all[0]+all[2]+all[4]+all[6])/ranks) > 1e-6 {
					return fmt.Errorf("step %d: %v is not the mean of the models", step, theta[0])
				}
			}
			_, err = l.Step(make([]float32, 3))
			if err == nil {
				return fmt.Errorf("a longer model is accepted")
			}
			return nil
		})
		if err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
