package network

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// family is the family of distributions that the average of a number of networks has; nil for other
// heads. It may differ from that of one network: an average of histograms has more bins.
func (s Spec) family(networks int) *dist.Family {
	d := s.Head.Distribution
	if d == nil {
		return nil
	}
	return d.familyRow().AverageFamily(max(d.Degree, d.Bins), networks)
}

// PredictedFamily is the family of distributions that a model with a number of networks predicts:
// family, or the one that recalibration converts it to.
func (s Spec) PredictedFamily(networks int) *dist.Family {
	if s.Head.Recalibration() == config.StudentCalibration {
		return dist.Student
	}
	return s.family(networks)
}

// thresholds lists the events of the loss, with their limits in SI units.
//
// Errors: as EventSI.
func (d *DistributionSpec) thresholds() (out []ensemble.VariableEvent, err error) {
	for _, q := range d.Thresholds {
		if q.Event, err = task.EventSI(q); err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

// readsCentre reports whether the network has an input with the members' mean in units of the error
// scale. Families with a bound at 0 and thresholds need it, as they refer to absolute values.
func (s Spec) readsCentre() bool {
	d := s.Head.Distribution
	return d != nil && (d.isLinked() || len(d.Thresholds) > 0)
}

// ParameterNames lists the outputs of the network besides the spread, for families other than the
// normal. The edges of a histogram are not among them, as they are constants of the task.
func (s Spec) ParameterNames() []string {
	var out []string
	f := s.family(1)
	for i, name := range f.Parameters {
		if s.Head.Bins() == 0 || f.Roles[i] == dist.Invariant {
			out = append(out, "parameter_"+name)
		}
	}
	return out
}

// ExtraOutputs lists the outputs that the family needs in addition to shift and sigma.
func (s Spec) ExtraOutputs() []unet3d.ExtraOutput {
	f := s.family(1)
	if f == nil {
		return nil
	}
	if extra := linkOf(f).extra; extra != nil {
		return extra(f)
	}
	return nil
}

// linkParameters computes the parameters of the distribution from the outputs of the network.
// parameters are those of the loss, outputs those that the network returns, in the order of
// ParameterNames.
//
// Shape: [N V D H W] each. Unit: the error scale.
func (s Spec) linkParameters(b *graph.Builder, k *task.Task, out unet3d.CalibratedOutput, centre graph.Value) (parameters, outputs []graph.Value) {
	f := s.family(1)
	l := linkOf(f)
	parameters = l.parameters(b, f, distributionOutputs{shift: out.Shift, sigma: out.Sigma, centre: centre, extra: out.Extra,
		edge: func(i int) graph.Value { return histogramEdge(b, k, out.Shift, 0, i) }})
	if outputs = parameters; l.outputs != nil {
		outputs = l.outputs(b, parameters)
	}
	return parameters, outputs
}

// NewHeadSums returns empty sums of the training data for the head; nil if the head needs none.
func (s Spec) NewHeadSums(targets int) *task.HeadSums {
	return task.NewHeadSums(s.family(1), s.Head.Bins(), targets)
}

// histogramEdge is edge i of the histograms of some variables, from index v on. If the task is not
// fitted, its value is i; only the shape matters then.
//
// Shape: [1 V D 1 1], with V and D of like. Unit: the error scale.
func histogramEdge(b *graph.Builder, k *task.Task, like graph.Value, v, i int) graph.Value {
	x := make([]float32, like.Dim(1)*like.Dim(2))
	for at := range x {
		if x[at] = float32(i); k.Edges != nil {
			x[at] = float32(k.Edges[v*like.Dim(2)+at][i])
		}
	}
	return b.Const("", graph.Shape{1, like.Dim(1), like.Dim(2), 1, 1}, x)
}

// IsNonNegative reports whether a variable has no negative values, according to the table of variables.
func IsNonNegative(name string) bool {
	v, _ := ensemble.VariableNamed(name)
	bounded, _ := v.NonNegative()
	return bounded
}

// headOutputs holds the outputs of a network with a distribution, and the members' mean if it is an
// input. For a histogram parameters are logits, before softmax.
//
// Shape: [N V D H W] each.
type headOutputs struct {
	parameters []graph.Value
	centre     graph.Value
}

// distributionScore is the score of the distribution against the residual (analysis minus members'
// mean) at each point. If thresholds are set, it adds threshold-weighted scores:
//
//	score + weight · Σ score of the part beyond each threshold
//
// Shape: residual [N V D H W] → the same. Unit: that of the rule, CRPS in units of the error scale.
// Source: Gneiting and Ranjan 2011, doi:10.1198/jbes.2010.08110, for threshold-weighted scores.
func (s Spec) distributionScore(b *graph.Builder, k *task.Task, h headOutputs, residual graph.Value) graph.Value {
	if !s.readsCentre() {
		return op.GaussianCRPS(b, h.parameters[0], h.parameters[1], residual)
	}
	events, err := s.Head.Distribution.thresholds()
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
		if s.Head.Distribution.Rule == dist.CrossEntropyRule {
			scores = append(scores, s.crossEntropy(b, k, v, par, y))
			continue
		}
		f := s.family(1)
		if IsNonNegative(name) && linkOf(f).censored {
			f = f.Censored()
		}
		own := slices.DeleteFunc(slices.Clone(events), func(q ensemble.VariableEvent) bool { return q.Variable != ensemble.ShortName(name) })
		if f.Positive || len(own) > 0 { // absolute values instead of differences from the mean
			y = op.Add(b, y, of(h.centre))
			for i, role := range f.Roles {
				if role == dist.Location {
					par[i] = op.Add(b, par[i], of(h.centre))
				}
			}
		}
		score := s.familyScore(b, f, par, y)
		whole := score
		for _, q := range own {
			score = op.Add(b, score, op.Scale(b, s.eventScore(b, k, v, f, par, y, whole, q.Event), s.Head.Distribution.ThresholdWeight))
		}
		scores = append(scores, score)
	}
	if len(scores) == 1 {
		return scores[0]
	}
	return op.Concat(b, 1, scores...)
}

// familyScore is the score of the distributions of one variable, for a given family.
func (s Spec) familyScore(b *graph.Builder, f *dist.Family, par []graph.Value, y graph.Value) graph.Value {
	if f == dist.Normal {
		return op.GaussianCRPS(b, par[0], par[1], y)
	}
	return op.DistributionScore(b, op.Concat(b, 1, par...), y, op.ScoreSpec{Rule: s.Head.Distribution.Rule, Family: f.ID, Parameters: len(par)})
}

// eventScore is the score weighted with 1 for values in the event and 0 elsewhere. For CRPS and an
// event above a limit this is the CRPS of the values clipped to the limit, a distribution of the
// same kind (dist.Family.Excess). whole is the score without weights, from which events below a
// limit are obtained as a difference.
func (s Spec) eventScore(b *graph.Builder, k *task.Task, v int, f *dist.Family, par []graph.Value, y, whole graph.Value, e ensemble.Event) graph.Value {
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
		return s.familyScore(b, f.Excess.Family, excess, op.ReLU(b, op.Sub(b, y, t)))
	}
	switch e.Relation {
	case ensemble.Above:
		return above(e.Lower)
	case ensemble.Below:
		return op.Sub(b, whole, above(e.Upper))
	}
	return op.Sub(b, above(e.Lower), above(e.Upper))
}

// crossEntropy is the cross-entropy of the histograms of one variable. The index of the bin of y is
// the number of inner edges that are at most y.
func (s Spec) crossEntropy(b *graph.Builder, k *task.Task, v int, logits []graph.Value, y graph.Value) graph.Value {
	bin := op.AtLeast(b, y, histogramEdge(b, k, y, v, 1))
	for i := 2; i < len(logits); i++ {
		bin = op.Add(b, bin, op.AtLeast(b, y, histogramEdge(b, k, y, v, i)))
	}
	return op.DistributionScore(b, op.Concat(b, 1, logits...), bin, op.ScoreSpec{Rule: s.Head.Distribution.Rule, Family: s.family(1).ID, Parameters: len(logits)})
}
