package network

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// A head of any family has the same outputs as that of a normal distribution, shift and sigma, and
// some more. Links make the parameters of them, in units of the error scale; those that say where
// the distribution lies count from the members' mean. An untrained network gives a distribution
// around that mean, with a standard deviation that is affine in the members' one.

// logitOfNormal brings the logistic distribution function near that of the normal distribution.
//
// Source: Haley 1952, Stanford Applied Mathematics and Statistics Laboratory, technical report 15.
const logitOfNormal = 1.702

// leastProbability is that of a bin of an untrained histogram, in which no observation may lie.
const leastProbability = 1e-6

// row is that of the family of a distribution head.
func (s Spec) row() dist.Row {
	r, _ := dist.RowOf(cmp.Or(s.Family, config.NormalFamily))
	return r
}

// size is that of the family, if it has one.
func (s Spec) size() int { return max(s.Degree, s.Bins) }

// family is the distribution whose parameters the average of so many networks gives; nil for a
// spread head.
func (s Spec) family(networks int) *dist.Family {
	if s.Head != DistributionHead {
		return nil
	}
	return s.row().OfAverage(s.size(), networks)
}

// Predicted is the family of what a model of so many networks predicts: as family, but for what is made of it
// by calibration.
func (s Spec) Predicted(networks int) *dist.Family {
	if s.Tails == config.StudentCalibration {
		return dist.Student
	}
	return s.family(networks)
}

// HeadOf is the part of a spec that a configuration says of the head.
func (s *Spec) HeadOf(c *config.TrainConfig) {
	if c.Model.Head != DistributionHead {
		return
	}
	if c.Model.Family != config.NormalFamily {
		s.Family = c.Model.Family
	}
	if c.Calibrate.Distribution != config.NoCalibration {
		s.Tails = c.Calibrate.Distribution
	}
	switch s.row().Size {
	case dist.Degree:
		s.Degree = c.Model.Degree
	case dist.Bins:
		s.Bins = c.Model.Bins
	}
	if loss := c.Train.Train.Loss; len(loss.Threshold) > 0 {
		s.Thresholds, s.ThresholdWeight = loss.Threshold, loss.ThresholdWeight
	}
}

// thresholds are the events of the loss, with their limits in SI units.
//
// Errors: as EventOf.
func (s Spec) thresholds() (out []ensemble.Question, err error) {
	for _, q := range s.Thresholds {
		if q.Event, err = task.EventOf(q); err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

// readsCentre tells whether the network has an input of the members' mean in units of the error
// scale: it matters where 0 and thresholds are.
func (s Spec) readsCentre() bool { return s.Family != "" || len(s.Thresholds) > 0 }

// ParameterNames are the outputs of the network beside the spread, of a family that is not normal.
// The edges of a histogram are none: they are the task's.
func (s Spec) ParameterNames() []string {
	var out []string
	f := s.family(1)
	for i, name := range f.Parameters {
		if s.Family != dist.HistogramID || f.Roles[i] == dist.Pure {
			out = append(out, "parameter_"+name)
		}
	}
	return out
}

// Extra are the outputs that the family needs beside shift and sigma.
func (s Spec) Extra() []unet3d.ExtraOutput {
	many := func(name string, n int, start func(i int) float64) (out []unet3d.ExtraOutput) {
		for i := range n {
			out = append(out, unet3d.ExtraOutput{Name: fmt.Sprintf("%s_%02d", name, i+1), Start: start(i)})
		}
		return out
	}
	switch s.Family {
	case dist.ZeroNormal.ID:
		return []unet3d.ExtraOutput{{Name: "p"}}
	case dist.CSGamma.ID:
		return []unet3d.ExtraOutput{{Name: "gamma_shift", Start: unet3d.InverseSoftplus(StartGammaShift)}}
	case dist.BernsteinID:
		z := dist.NormalCoefficients(s.Degree)
		return many("step", s.Degree, func(i int) float64 { return unet3d.InverseSoftplus(z[i+1] - z[i]) })
	case dist.HistogramID:
		return many("bin", s.Bins, func(int) float64 { return 0 })
	}
	return nil
}

// StartGammaShift is how far left a gamma distribution is shifted at first, in units of the error
// scale. Where all members have no rain, zero has then a probability of about 0.6.
const StartGammaShift = 0.35

// link makes the parameters of a family of the outputs of a network, [N V D H W] each, in the
// order of ParameterNames; of a histogram the logarithms of its probabilities, but for a constant.
func (s Spec) link(b *graph.Builder, k *task.Task, out unet3d.CalibratedOutput, centre graph.Value) []graph.Value {
	shift, sigma := out.Shift, out.Sigma
	mean := func() graph.Value { return op.Add(b, centre, shift) }
	switch s.Family {
	case dist.Logistic.ID, dist.TruncatedLogistic.ID, dist.CensoredLogistic.ID:
		return []graph.Value{shift, op.Scale(b, sigma, 1/dist.LogisticStd)}
	case dist.LogNormal.ID: // by its moments
		m := unet3d.SigmaOf(b, mean())
		v := op.Log(b, op.AddScalar(b, op.Square(b, op.Div(b, sigma, m)), 1))
		return []graph.Value{op.Sub(b, op.Log(b, m), op.Scale(b, v, 0.5)), op.Sqrt(b, v)}
	case dist.ZeroNormal.ID: // near the censored normal distribution
		logit := op.Scale(b, op.Div(b, mean(), sigma), -logitOfNormal)
		return []graph.Value{op.Sigmoid(b, op.Add(b, logit, out.Extra[0])), shift, sigma}
	case dist.CSGamma.ID: // by the moments of the gamma distribution before it is shifted back
		left := op.Softplus(b, out.Extra[0])
		m := unet3d.SigmaOf(b, op.Add(b, mean(), left))
		scale := op.Div(b, op.Square(b, sigma), m)
		return []graph.Value{op.Div(b, m, scale), scale, left}
	case dist.BernsteinID:
		level := b.Scalar(dist.NormalCoefficients(s.Degree)[0])
		a := []graph.Value{op.Add(b, shift, op.Mul(b, sigma, level))}
		for _, step := range out.Extra {
			a = append(a, op.Add(b, a[len(a)-1], op.Mul(b, sigma, op.Softplus(b, step))))
		}
		return a
	case dist.HistogramID:
		return s.logits(b, k, out)
	}
	return []graph.Value{shift, sigma}
}

// logits are the logarithms of the probabilities of the bins under a logistic distribution of the
// network's mean and standard deviation, and what the network adds to each.
func (s Spec) logits(b *graph.Builder, k *task.Task, out unet3d.CalibratedOutput) []graph.Value {
	width := op.Scale(b, out.Sigma, 1/dist.LogisticStd)
	var below, logits []graph.Value // below the upper edge of each bin but the last
	for i := range s.Bins - 1 {
		z := op.Div(b, op.Sub(b, edgeOf(b, k, out.Shift, 0, i+1), out.Shift), width)
		below = append(below, op.Sigmoid(b, z))
	}
	for i, extra := range out.Extra {
		var p graph.Value
		switch i {
		case 0:
			p = below[0]
		case s.Bins - 1:
			p = op.AddScalar(b, op.Scale(b, below[i-1], -1), 1)
		default:
			p = op.Sub(b, below[i], below[i-1])
		}
		logits = append(logits, op.Add(b, op.Log(b, op.AddScalar(b, p, leastProbability)), extra))
	}
	return logits
}

// NewHeadSums are those of no date; nil if the head needs none.
func (s Spec) NewHeadSums(targets int) *task.HeadSums {
	return task.NewHeadSums(s.family(1), s.Bins, targets)
}

// edgeOf is edge i of the histograms of some variables, from number v on, in units of the error
// scale; of a task that is not fitted any number.
//
// Shape: that of a factor of fields of those variables.
func edgeOf(b *graph.Builder, k *task.Task, like graph.Value, v, i int) graph.Value {
	x := make([]float32, like.Dim(1)*like.Dim(2))
	for at := range x {
		if x[at] = float32(i); k.Edges != nil {
			x[at] = float32(k.Edges[v*like.Dim(2)+at][i])
		}
	}
	return b.Const("", graph.Shape{1, like.Dim(1), like.Dim(2), 1, 1}, x)
}

// probabilities are the softmax of logits.
func probabilities(b *graph.Builder, logits []graph.Value) []graph.Value {
	total := logits[0] // log Σ exp: log(eˣ+eʸ) = x + softplus(y−x), which never overflows
	for _, l := range logits[1:] {
		total = op.Add(b, total, op.Softplus(b, op.Sub(b, l, total)))
	}
	out := make([]graph.Value, len(logits))
	for i, l := range logits {
		out[i] = op.Exp(b, op.Sub(b, l, total))
	}
	return out
}

// BoundedVariable tells whether values of a variable are known to end at 0.
func BoundedVariable(name string) bool {
	v, _ := ensemble.VariableNamed(name)
	bounded, _ := v.NonNegative()
	return bounded
}

// head is what comes out of a network of a distribution, before a histogram's probabilities are
// made of their logarithms, and the members' mean, if that is read.
//
// Shape: [N V D H W] each.
type head struct {
	parameters []graph.Value
	centre     graph.Value
}

// distributionScore is the score of a distribution against what the analysis differs from the
// members' mean, point by point, with what lies beyond thresholds.
//
// Shape: residual [N V D H W] → the same.
func (s Spec) distributionScore(b *graph.Builder, k *task.Task, h head, residual graph.Value) graph.Value {
	if !s.readsCentre() {
		return op.GaussianCRPS(b, h.parameters[0], h.parameters[1], residual)
	}
	events, err := s.thresholds()
	if err != nil {
		return b.Fail("loss", err)
	}
	var scores []graph.Value
	for v, target := range k.Targets {
		name := target.Variable
		of := func(x graph.Value) graph.Value {
			if len(k.Targets) == 1 {
				return x
			}
			return op.Slice(b, x, 1, v, v+1)
		}
		par := make([]graph.Value, len(h.parameters))
		for i, p := range h.parameters {
			par[i] = of(p)
		}
		y := of(residual)
		if s.Family == dist.HistogramID {
			scores = append(scores, s.crossEntropy(b, k, v, par, y))
			continue
		}
		f := s.family(1)
		if BoundedVariable(name) && f.ID == dist.BernsteinID {
			f = dist.CensoredBernstein(s.Degree)
		}
		mine := slices.DeleteFunc(slices.Clone(events), func(q ensemble.Question) bool { return q.Variable != ensemble.ShortName(name) })
		if f.Positive || len(mine) > 0 { // where 0 and thresholds are
			y = op.Add(b, y, of(h.centre))
			for i, role := range f.Roles {
				if role == dist.Location {
					par[i] = op.Add(b, par[i], of(h.centre))
				}
			}
		}
		score := s.scored(b, f, par, y)
		whole := score
		for _, q := range mine {
			score = op.Add(b, score, op.Scale(b, s.inEvent(b, k, v, f, par, y, whole, q.Event), s.ThresholdWeight))
		}
		scores = append(scores, score)
	}
	if len(scores) == 1 {
		return scores[0]
	}
	return op.Concat(b, 1, scores...)
}

// scored is the score of one variable's distributions of a family.
func (s Spec) scored(b *graph.Builder, f *dist.Family, par []graph.Value, y graph.Value) graph.Value {
	if f == dist.Normal {
		return op.GaussianCRPS(b, par[0], par[1], y)
	}
	rule := dist.CRPSRule
	if s.Loss == config.PinballLoss {
		rule = dist.PinballRule
	}
	return op.DistributionScore(b, op.Concat(b, 1, par...), y, op.Scored{Rule: rule, Family: f.ID, Parameters: len(par)})
}

// inEvent is the score weighted with 1 where values are of an event, else 0; whole is that without
// weights.
func (s Spec) inEvent(b *graph.Builder, k *task.Task, v int, f *dist.Family, par []graph.Value, y, whole graph.Value, e ensemble.Event) graph.Value {
	above := func(limit float64) graph.Value {
		d := y.Dim(2)
		x := make([]float32, d)
		for l := range x {
			x[l] = float32(limit / k.ErrorScale[v*d+l])
		}
		t := b.Const("", graph.Shape{1, 1, d, 1, 1}, x)
		excess := make([]graph.Value, len(par))
		for i, p := range par {
			if excess[i] = p; f.Excess.Signs[i] != 0 {
				excess[i] = op.Add(b, p, op.Scale(b, t, f.Excess.Signs[i]))
			}
		}
		return s.scored(b, f.Excess.Family, excess, op.ReLU(b, op.Sub(b, y, t)))
	}
	switch e.Relation {
	case ensemble.Above:
		return above(e.Lower)
	case ensemble.Below:
		return op.Sub(b, whole, above(e.Upper))
	}
	return op.Sub(b, above(e.Lower), above(e.Upper))
}

// crossEntropy is that of one variable's histograms.
func (s Spec) crossEntropy(b *graph.Builder, k *task.Task, v int, logits []graph.Value, y graph.Value) graph.Value {
	bin := op.AtLeast(b, y, edgeOf(b, k, y, v, 1))
	for i := 2; i < s.Bins; i++ {
		bin = op.Add(b, bin, op.AtLeast(b, y, edgeOf(b, k, y, v, i)))
	}
	return op.DistributionScore(b, op.Concat(b, 1, logits...), bin, op.Scored{Rule: dist.CrossEntropyRule, Family: dist.HistogramID, Parameters: len(logits)})
}
