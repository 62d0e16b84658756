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

// OutMembers is the output that is added to each member, in units of the error scale.
const OutMembers = "member_shift"

// PredictsMembers reports whether the network corrects members one by one.
func (s Spec) PredictsMembers() bool { return s.Head.Members != nil }

// alphaFair is the weight of the fair CRPS in the almost fair CRPS.
//
// Source: Lang et al. 2024, arXiv:2412.15832.
const alphaFair = 0.95

// stdFloor is added to the standard deviation of members in their Gaussian CRPS, in units of the
// error scale, so that it is positive.
const stdFloor = 1e-6

// memberGraph builds a network that corrects members, with its loss if requested. The input of a
// member are its own fields and the fields of location, season and auxiliary data, but no
// statistics of other members. Only the network itself (attention) passes information between
// members.
//
// With cross-pair fairness the network is applied to each half of the members separately in
// training, and the loss compares members of one half with those of the other.
func (s Spec) memberGraph(b *graph.Builder, k *task.Task, features, season graph.Value, wrap bool, targets graph.Shape, loss bool) {
	f := &k.Features
	n, d, h, w := targets[0], targets[2], targets[3], targets[4]
	members, own := s.MemberCount(k), f.MemberChannels()
	fields := op.Reshape(b, b.Input("members", graph.Shape{n, members * own, d, h, w}), graph.Shape{n * members, own, d, h, w})
	x := fields
	if s.HasLeadRows() {
		x = s.leadRows(b, k, x, features, members)
	} else if statistics := f.StatisticChannels(); statistics < f.Channels() {
		x = op.Concat(b, 1, x, op.SetRepeat(b, op.Slice(b, features, 1, statistics, f.Channels()), members))
	}
	head := s.Head.Members
	halves := head.Loss == config.MembersLoss && head.Fairness == config.CrossPairFairness
	together := members
	if halves && loss { // the halves must be independent
		together = members / 2
	}
	var shift graph.Value
	if s.HasLeadRows() {
		shift = s.toTargetOrder(b, k, s.rowNetwork(b, k, x, len(k.TargetVariables()), together, wrap), 1)
	} else {
		shift = s.memberNetwork(b, x, targets[1], together, wrap)
	}
	if head.Maps {
		shift = op.Add(b, shift, s.memberMaps(b, k, fields, season, targets))
	}
	b.Output(OutMembers, shift)
	if !loss {
		return
	}
	rows := graph.Shape{n * members, targets[1], d, h, w}
	corrected := op.Add(b, shift, op.Reshape(b, b.Input("deviation", graph.Shape{n, members * targets[1], d, h, w}), rows))
	residual, weight := b.Input("residual", targets), b.Input("weight", targets)
	var score graph.Value
	switch {
	case head.Loss != config.MembersLoss:
		score = op.GaussianCRPS(b, op.SetMean(b, corrected, members), op.AddScalar(b, op.SetStd(b, corrected, members), stdFloor), residual)
	case halves:
		score = op.CrossPairCRPS(b, corrected, residual, members, members/2)
	default:
		fairness := map[config.Fairness]dist.Fairness{config.PlainFairness: dist.Plain, config.FairFairness: dist.Fair, config.AlmostFairFairness: dist.AlmostFair(alphaFair)}[head.Fairness]
		var smoothings []op.Smoothing
		for _, points := range head.Scales {
			smoothings = append(smoothings, op.Gaussian(points, h, w, wrap))
		}
		score = op.MultiScaleCRPS(b, corrected, residual, members, fairness, smoothings, nil)
	}
	b.Loss(op.WeightedMean(b, score, weight))
}

// memberMaps is the part of the shift of members that is trained for each grid point of each
// target:
//
//	b₀ + b₁ sin(year) + b₂ cos(year) + b₃ x
//
// with maps b, initialised with 0, and the member's own standardised field x. It is independent of
// the other members.
//
// Shape: own [N·M C D H W], the channels of members; season [N 2 1 1 1] → [N·M V D H W] for targets
// [N V D H W].
func (s Spec) memberMaps(b *graph.Builder, k *task.Task, own, season graph.Value, targets graph.Shape) graph.Value {
	f, members := &k.Features, s.MemberCount(k)
	v, d, h, w := targets[1], targets[2], targets[3], targets[4]
	mapOf := func(name string) graph.Value {
		return b.ParamOf(graph.Local, unet3d.MapsPrefix+name, graph.Shape{1, v, d, h, w}, graph.Zeros())
	}
	shift := mapOf("shift")
	for i, name := range []string{"shift_sin", "shift_cos"} {
		shift = op.Add(b, shift, op.Mul(b, mapOf(name), op.Slice(b, season, 1, i, i+1)))
	}
	out := op.SetRepeat(b, shift, members)
	kind := slices.Index(f.MemberInputs, ensemble.StandardisedMember)
	if kind < 0 {
		return out
	}
	var fields []graph.Value
	for i := range k.Targets {
		lead, variable := k.TargetAt(i)
		c := (lead*len(f.MemberInputs)+kind)*len(f.Axes.Variables) + variable
		fields = append(fields, op.Slice(b, own, 1, c, c+1))
	}
	return op.Add(b, out, op.Mul(b, concat(b, fields), mapOf("shift_field")))
}

// memberNetwork computes the shifts of members. together is the number of consecutive members in x
// that may attend to each other.
func (s Spec) memberNetwork(b *graph.Builder, x graph.Value, variables, together int, wrap bool) graph.Value {
	l := s.layout(wrap)
	l.Out, l.Members = variables, together
	return s.NetworkKind().Build(b, x, l)
}
