package device

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// seedComparison compares trainings from several seeds on two devices.
type seedComparison struct {
	Case string `json:"case"`
	Network
	Steps  int      `json:"steps"`
	First  float64  `json:"first_loss"` // mean over the trainings
	Device outcomes `json:"device"`
	CPU    outcomes `json:"cpu"`
	// Spread is the range of the final losses on the processor, Difference that of the means of both devices.
	Spread     float64 `json:"spread"`
	Difference float64 `json:"difference"`
	Within     bool    `json:"within_spread"`
}

// outcomes are the final losses of trainings by seed: means over the last steps.
type outcomes struct {
	Backend   string    `json:"backend"`
	Precision string    `json:"precision"`
	Losses    []float64 `json:"losses"`
	Mean      float64   `json:"mean"`
}

// Parameters of the short trainings.
const (
	learnSteps   = 200
	learnLast    = 20 // steps over which the final loss is taken
	learnSamples = 24
	learnRate    = 2e-3
)

// learn trains the same networks on both devices. A seed determines initial weights and order of samples; the
// samples are those of all seeds.
func learn(ctx context.Context, c *Options) (answer.Sectioned, error) {
	n := c.Network
	steps := c.Steps
	if steps == 0 {
		steps = learnSteps
	}
	a := &seedComparison{Case: c.Case, Network: n, Steps: steps}
	cpu := n
	cpu.Precision = "f32"
	data := samples(n)
	for _, d := range []struct {
		to      *outcomes
		network Network
		backend string
	}{{&a.Device, n, c.Backend}, {&a.CPU, cpu, "cpu"}} {
		*d.to = outcomes{Backend: d.backend, Precision: d.network.Precision}
		for seed := range uint64(c.Seeds) {
			first, last, err := d.network.fit(ctx, d.backend, seed+1, steps, data)
			if err != nil {
				return nil, fmt.Errorf("on %s: %w", d.backend, err)
			}
			d.to.Losses = append(d.to.Losses, last)
			d.to.Mean += last / float64(c.Seeds)
			a.First += first / float64(2*c.Seeds)
		}
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range a.CPU.Losses {
		low, high = min(low, l), max(high, l)
	}
	a.Spread, a.Difference = high-low, a.Device.Mean-a.CPU.Mean
	a.Within = math.Abs(a.Difference) <= a.Spread
	return a, nil
}

// Sections returns the report as text.
func (a *seedComparison) Sections() answer.Sections {
	return a.facts(a.Device.Backend, [2]string{"loss", fmt.Sprintf("%.4g before, after %d steps %.4g on %s, %.4g on the processor", a.First, a.Steps, a.Device.Mean, a.Device.Backend, a.CPU.Mean)},
		[2]string{"difference", fmt.Sprintf("%.2g, the processor's spread over %d seeds is %.2g", a.Difference, len(a.CPU.Losses), a.Spread)})
}

// sample is an input and its target.
type sample struct{ x, y []float32 }

// fit trains a network and returns its first and its final loss.
func (n Network) fit(ctx context.Context, backend string, seed uint64, steps int, data []sample) (first, last float64, err error) {
	t, err := n.trainer(n.options(backend), seed)
	if err != nil {
		return 0, 0, err
	}
	r := rand.New(rand.NewPCG(seed, 7))
	var order []int
	for i := range steps {
		for b := range n.Batch {
			if len(order) == 0 {
				order = r.Perm(len(data))
			}
			s := data[order[0]]
			order = order[1:]
			copy(t.plan.Input("x")[b*len(s.x):], s.x)
			copy(t.plan.Input("target")[b*len(s.y):], s.y)
		}
		if err = t.step(ctx, learnRate); err != nil {
			break
		}
		loss := t.plan.Loss()
		if !finite(loss) {
			err = &exit.Error{Code: exit.No, What: fmt.Sprintf("the loss of step %d is not finite", i), Fix: "report this with the command line"}
			break
		}
		if i == 0 {
			first = loss
		}
		if from := max(0, steps-learnLast); i >= from {
			last += loss / float64(steps-from)
		}
	}
	return first, last, errors.Join(err, t.Close())
}

// samples draws pairs that a network can learn: channels are waves around the globe; the target is a product
// of two of them, through a saturating function, plus noise.
func samples(n Network) []sample {
	r := rand.New(rand.NewPCG(5, 11))
	depth, rows, columns := n.Field[0], n.Field[1], n.Field[2]
	points := depth * rows * columns
	all := make([]sample, learnSamples)
	for i := range all {
		s := sample{make([]float32, n.Channels*points), make([]float32, points)}
		for c := range n.Channels {
			k, l := float64(1+r.IntN(3)), float64(1+r.IntN(3))
			phase, tilt := 2*math.Pi*r.Float64(), r.Float64()
			for p := range points {
				d, j, k2 := p/(rows*columns), p/columns%rows, p%columns
				angle := 2*math.Pi*(k*float64(k2)/float64(columns)+l*float64(j)/float64(rows)) + phase + tilt*float64(d)
				s.x[c*points+p] = float32(math.Sin(angle))
			}
		}
		other := min(1, n.Channels-1) * points
		for p := range points {
			s.y[p] = float32(math.Tanh(2*float64(s.x[p]*s.x[other+p]))) + 0.05*float32(r.NormFloat64())
		}
		all[i] = s
	}
	return all
}
