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

// family is the distribution whose parameters the average of so many networks gives; nil for other
// heads.
func (s Spec) family(networks int) *dist.Family {
	d := s.Head.Distribution
	if d == nil {
		return nil
	}
	return d.familyRow().AverageFamily(max(d.Degree, d.Bins), networks)
}

// PredictedFamily is the family of what a model of so many networks predicts: as family, but for what is made of it
// by calibration.
func (s Spec) PredictedFamily(networks int) *dist.Family {
	if s.Head.Recalibration() == config.StudentCalibration {
		return dist.Student
	}
	return s.family(networks)
}

// thresholds are the events of the loss, with their limits in SI units.
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

// readsCentre tells whether the network has an input of the members' mean in units of the error
// scale: it matters where 0 and thresholds are.
func (s Spec) readsCentre() bool {
	d := s.Head.Distribution
	return d != nil && (d.isLinked() || len(d.Thresholds) > 0)
}

// ParameterNames are the outputs of the network beside the spread, of a family that is not normal.
// The edges of a histogram are none: they are the task's.
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

// ExtraOutputs are the outputs that the family needs beside shift and sigma.
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

// linkParameters makes the parameters of a family of the outputs of a network, [N V D H W] each, in the
// order of ParameterNames, and what comes out of the network.
func (s Spec) linkParameters(b *graph.Builder, k *task.Task, out unet3d.CalibratedOutput, centre graph.Value) (parameters, given []graph.Value) {
	f := s.family(1)
	l := linkOf(f)
	parameters = l.parameters(b, f, distributionOutputs{shift: out.Shift, sigma: out.Sigma, centre: centre, extra: out.Extra,
		edge: func(i int) graph.Value { return histogramEdge(b, k, out.Shift, 0, i) }})
	if given = parameters; l.outputs != nil {
		given = l.outputs(b, parameters)
	}
	return parameters, given
}

// NewHeadSums are those of no date; nil if the head needs none.
func (s Spec) NewHeadSums(targets int) *task.HeadSums {
	return task.NewHeadSums(s.family(1), s.Head.Bins(), targets)
}

// histogramEdge is edge i of the histograms of some variables, from number v on, in units of the error
// scale; of a task that is not fitted any number.
//
// Shape: that of a factor of fields of those variables.
func histogramEdge(b *graph.Builder, k *task.Task, like graph.Value, v, i int) graph.Value {
	x := make([]float32, like.Dim(1)*like.Dim(2))
	for at := range x {
		if x[at] = float32(i); k.Edges != nil {
			x[at] = float32(k.Edges[v*like.Dim(2)+at][i])
		}
	}
	return b.Const("", graph.Shape{1, like.Dim(1), like.Dim(2), 1, 1}, x)
}

// IsNonNegative tells whether values of a variable are known to end at 0.
func IsNonNegative(name string) bool {
	v, _ := ensemble.VariableNamed(name)
	bounded, _ := v.NonNegative()
	return bounded
}

// headOutputs is what comes out of a network of a distribution, before a histogram's probabilities are
// made of their logarithms, and the members' mean, if that is read.
//
// Shape: [N V D H W] each.
type headOutputs struct {
	parameters []graph.Value
	centre     graph.Value
}

// distributionScore is the score of a distribution against what the analysis differs from the
// members' mean, point by point, with what lies beyond thresholds.
//
// Shape: residual [N V D H W] → the same.
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
		mine := slices.DeleteFunc(slices.Clone(events), func(q ensemble.VariableEvent) bool { return q.Variable != ensemble.ShortName(name) })
		if f.Positive || len(mine) > 0 { // where 0 and thresholds are
			y = op.Add(b, y, of(h.centre))
			for i, role := range f.Roles {
				if role == dist.Location {
					par[i] = op.Add(b, par[i], of(h.centre))
				}
			}
		}
		score := s.familyScore(b, f, par, y)
		whole := score
		for _, q := range mine {
			score = op.Add(b, score, op.Scale(b, s.eventScore(b, k, v, f, par, y, whole, q.Event), s.Head.Distribution.ThresholdWeight))
		}
		scores = append(scores, score)
	}
	if len(scores) == 1 {
		return scores[0]
	}
	return op.Concat(b, 1, scores...)
}

// familyScore is the score of one variable's distributions of a family.
func (s Spec) familyScore(b *graph.Builder, f *dist.Family, par []graph.Value, y graph.Value) graph.Value {
	if f == dist.Normal {
		return op.GaussianCRPS(b, par[0], par[1], y)
	}
	return op.DistributionScore(b, op.Concat(b, 1, par...), y, op.ScoreSpec{Rule: s.Head.Distribution.Rule, Family: f.ID, Parameters: len(par)})
}

// eventScore is the score weighted with 1 where values are of an event, else 0; whole is that without
// weights.
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

// crossEntropy is that of one variable's histograms.
func (s Spec) crossEntropy(b *graph.Builder, k *task.Task, v int, logits []graph.Value, y graph.Value) graph.Value {
	bin := op.AtLeast(b, y, histogramEdge(b, k, y, v, 1))
	for i := 2; i < len(logits); i++ {
		bin = op.Add(b, bin, op.AtLeast(b, y, histogramEdge(b, k, y, v, i)))
	}
	return op.DistributionScore(b, op.Concat(b, 1, logits...), bin, op.ScoreSpec{Rule: s.Head.Distribution.Rule, Family: s.family(1).ID, Parameters: len(logits)})
}
