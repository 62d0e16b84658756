package graphnet

import (
	"math"
	"math/rand/v2"
	"slices"
)

// outlier is the error, as a logarithm, from which a time counts linearly: other processes have disturbed some times.
const outlier = 0.2

// robust is the loss of an error r, and its derivative.
//
//	δ²·(√(1 + (r/δ)²) − 1)
//
// Source: Charbonnier et al. 1994, doi:10.1109/ICIP.1994.413553, as a smooth form of Huber's loss.
func robust(r float64) (loss, slope float64) {
	root := math.Sqrt(1 + r*r/(outlier*outlier))
	return outlier * outlier * (root - 1), r / root
}

// loss returns the loss of a step and adds its gradient to the weights: the robust error of the logarithm of the step's time, and those of its
// operations, weighted by the roots of their times, between absolute and relative errors as in the fit of package cost.
func (n *Network) loss(s *Step) float64 {
	var t tape
	y := n.forward(&t, s)
	var measured, predicted, roots float64
	times := make([]float64, len(s.Units))
	for i, u := range s.Units {
		times[i] = u * math.Exp(y.x.At(i, 0))
		predicted += times[i]
		measured += s.Times[i]
		roots += math.Sqrt(s.Times[i])
	}
	sum, slope := robust(math.Log(predicted / measured))
	for i, want := range s.Times {
		weight := math.Sqrt(want) / roots
		l, d := robust(math.Log(times[i] / want))
		sum += weight * l
		y.d.Set(i, 0, slope*times[i]/predicted+weight*d)
	}
	t.backward()
	return sum
}

// Training are the choices of a training.
type Training struct {
	Size
	Epochs int     // passes over the steps
	Rate   float64 // of learning at the first step; it falls linearly to zero
	Decay  float64 // of weights at each step, in units of the rate
	Seed   uint64
}

// Constants of Adam.
const (
	beta1, beta2 = 0.9, 0.99
	epsilon      = 1e-8
)

// Train returns a network that is trained on steps, one after the other in a random order, by Adam with decoupled decay of weights.
//
// Source: Kingma and Ba 2015, arXiv:1412.6980; Loshchilov and Hutter 2019, arXiv:1711.05101.
func Train(steps []*Step, c Training) *Network {
	var kinds []string
	for _, s := range steps {
		kinds = append(kinds, s.Kinds...)
	}
	slices.Sort(kinds)
	n := NewNetwork(c.Size, slices.Compact(kinds), c.Seed)
	steps = slices.Clone(steps)
	weights := n.weights()
	mean, square := make([][]float64, len(weights)), make([][]float64, len(weights))
	for i, w := range weights {
		size := len(w.x.RawMatrix().Data)
		mean[i], square[i] = make([]float64, size), make([]float64, size)
	}
	random := rand.New(rand.NewPCG(c.Seed, 2))
	updates := c.Epochs * len(steps)
	for k := range updates {
		at := k % len(steps)
		if at == 0 {
			random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		}
		n.loss(steps[at])
		rate := c.Rate * (1 - float64(k)/float64(updates))
		correction := math.Sqrt(1-math.Pow(beta2, float64(k+1))) / (1 - math.Pow(beta1, float64(k+1)))
		for i, w := range weights {
			x, d := w.x.RawMatrix().Data, w.d.RawMatrix().Data
			for j, g := range d {
				mean[i][j] = beta1*mean[i][j] + (1-beta1)*g
				square[i][j] = beta2*square[i][j] + (1-beta2)*g*g
				x[j] -= rate * (correction*mean[i][j]/(math.Sqrt(square[i][j])+epsilon) + c.Decay*x[j])
			}
			clear(d)
		}
	}
	return n
}
