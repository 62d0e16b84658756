package device

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
)

// agreement is the error of a small network relative to the reference in float64.
type agreement struct {
	Case    string `json:"case"`
	Backend string `json:"backend"`
	Network
	// Output and Gradient are ‖x − x64‖₂ / ‖x64‖₂, the median over draws. Rounding across a ReLU's kink changes a
	// gradient by more than rounding itself.
	Output   float64 `json:"relative_output_error"`
	Gradient float64 `json:"relative_gradient_error"`
	Loss     float64 `json:"relative_loss_error"` // the largest
	Draws    int     `json:"draws"`
}

// draws is the number of random inputs.
const draws = 3

// agree runs the first step of the network on the device and on the reference.
func agree(ctx context.Context, c *Options) (answer.Sectioned, error) {
	a := &agreement{Case: c.Case, Backend: c.Backend, Network: c.Network, Draws: draws}
	ours, err := c.firstSteps(ctx, c.options(c.Backend))
	if err != nil {
		return nil, err
	}
	judge, err := c.firstSteps(ctx, engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Float64: true}})
	if err != nil {
		return nil, err
	}
	var y, g []float64
	for i, s := range ours {
		y = append(y, benchstats.RelativeDistance(s.output, judge[i].output))
		g = append(g, benchstats.RelativeDistance(s.gradient, judge[i].gradient))
		a.Loss = max(a.Loss, math.Abs(s.loss-judge[i].loss)/math.Abs(judge[i].loss))
	}
	slices.Sort(y)
	slices.Sort(g)
	a.Output, a.Gradient = y[draws/2], g[draws/2]
	return a, nil
}

// Sections returns the report as text.
func (a *agreement) Sections() answer.Sections {
	return a.facts(a.Backend, [2]string{"from float64", fmt.Sprintf("output %.2g, gradient %.2g, loss %.2g, of %d draws", a.Output, a.Gradient, a.Loss, a.Draws)})
}

// firstStep is the result of a step before any update.
type firstStep struct {
	output, gradient []float32
	loss             float64
}

// firstSteps runs the step on several draws of the fields.
func (n Network) firstSteps(ctx context.Context, o engine.Options) ([]firstStep, error) {
	t, err := n.trainer(o, 1)
	if err != nil {
		return nil, err
	}
	var all []firstStep
	for i := range uint64(draws) {
		noise(t.plan.Input("x"), 10+2*i)
		noise(t.plan.Input("target"), 11+2*i)
		if err = t.plan.Run(ctx, 0); err != nil {
			break
		}
		all = append(all, firstStep{slices.Clone(t.plan.Output("y")), slices.Clone(t.plan.Store().Grads()), t.plan.Loss()})
	}
	return all, errors.Join(err, t.Close())
}
