package run

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// outMembers is what is added to each member, in units of the error scale.
const outMembers = "member_shift"

// givesMembers tells whether the network corrects members one for one.
func (s Spec) givesMembers() bool { return s.Head == config.MembersHead }

// alphaFair is the share of the fair score in the almost fair one.
// Source: Lang et al. 2024, arXiv:2412.15832.
const alphaFair = 0.95

// stdFloor is the least standard deviation of members in their Gaussian CRPS, in units of the
// error scale.
const stdFloor = 1e-6

// memberGraph builds a network that gives members, with its loss if asked for. A member sees its
// own channels and those of place, season and auxiliary fields, but no statistic of others: what
// a member knows of others comes by its network alone.
func (s Spec) memberGraph(b *graph.Builder, k *Task, features, season graph.Value, wrap bool, targets graph.Shape, loss bool) {
	f := &k.Features
	n, d, h, w := targets[0], targets[2], targets[3], targets[4]
	members, own := s.membersOf(k), f.MemberChannels()
	fields := op.Reshape(b, b.Input("members", graph.Shape{n, members * own, d, h, w}), graph.Shape{n * members, own, d, h, w})
	x := fields
	if s.inRows() {
		x = s.leadRows(b, k, x, features, members)
	} else if statistics := f.StatisticChannels(); statistics < f.Channels() {
		x = op.Concat(b, 1, x, op.SetRepeat(b, op.Slice(b, features, 1, statistics, f.Channels()), members))
	}
	halves := s.Loss == config.MembersLoss && s.Fairness == config.CrossPairFairness
	together := members
	if halves && loss { // each half by itself
		together = members / 2
	}
	var shift graph.Value
	if s.inRows() {
		shift = s.askedOf(b, k, s.rowNetwork(b, k, x, len(k.targetVariables()), together, wrap), 1)
	} else {
		shift = s.memberNetwork(b, x, targets[1], together, wrap)
	}
	if s.Maps {
		shift = op.Add(b, shift, s.memberMaps(b, k, fields, season, targets))
	}
	b.Output(outMembers, shift)
	if !loss {
		return
	}
	rows := graph.Shape{n * members, targets[1], d, h, w}
	made := op.Add(b, shift, op.Reshape(b, b.Input("deviation", graph.Shape{n, members * targets[1], d, h, w}), rows))
	residual, weight := b.Input("residual", targets), b.Input("weight", targets)
	var score graph.Value
	switch {
	case s.Loss != config.MembersLoss:
		score = op.GaussianCRPS(b, op.SetMean(b, made, members), op.AddScalar(b, op.SetStd(b, made, members), stdFloor), residual)
	case halves:
		score = op.CrossPairCRPS(b, made, residual, members, members/2)
	default:
		fairness := map[string]dist.Fairness{config.PlainFairness: dist.Plain, config.FairFairness: dist.Fair, config.AlmostFairFairness: dist.AlmostFair(alphaFair)}[s.Fairness]
		var smoothings []op.Smoothing
		for _, sigma := range strings.Fields(s.Scales) {
			points, err := strconv.ParseFloat(sigma, 64)
			if err != nil {
				b.Fail("members", err)
				return
			}
			smoothings = append(smoothings, op.Gaussian(points, h, w, wrap))
		}
		score = op.MultiScaleCRPS(b, made, residual, members, fairness, smoothings, nil)
	}
	b.Loss(op.WeightedMean(b, score, weight))
}

// memberMaps are the shifts of members that are learned of each point of each target,
//
//	b₀ + b₁ sin(year) + b₂ cos(year) + b₃ x
//
// with maps b, which are zero at first, and the member's own standardised field x. No member sees another in
// them.
//
// Shape: own [N·M C D H W], the channels of members; season [N 2 1 1 1] → [N·M V D H W] for targets [N V D H W].
func (s Spec) memberMaps(b *graph.Builder, k *Task, own, season graph.Value, targets graph.Shape) graph.Value {
	f, members := &k.Features, s.membersOf(k)
	v, d, h, w := targets[1], targets[2], targets[3], targets[4]
	mapOf := func(name string) graph.Value {
		return b.Param(unet3d.MapsPrefix+name, graph.Shape{1, v, d, h, w}, graph.Zeros())
	}
	shift := mapOf("shift")
	for i, name := range []string{"shift_sin", "shift_cos"} {
		shift = op.Add(b, shift, op.Mul(b, mapOf(name), op.Slice(b, season, 1, i, i+1)))
	}
	out := op.SetRepeat(b, shift, members)
	kind := slices.Index(f.OfMembers, ensemble.FieldOfMember)
	if kind < 0 {
		return out
	}
	var fields []graph.Value
	for i := range k.Targets {
		lead, variable := k.targetAt(i)
		c := (lead*len(f.OfMembers)+kind)*len(f.Axes.Variables) + variable
		fields = append(fields, op.Slice(b, own, 1, c, c+1))
	}
	return op.Add(b, out, op.Mul(b, joined(b, fields), mapOf("shift_field")))
}

// memberNetwork makes the shifts of members of which together many lie one behind the other in x
// and may see each other.
func (s Spec) memberNetwork(b *graph.Builder, x graph.Value, variables, together int, wrap bool) graph.Value {
	attention := unet3d.Attention{Set: together, Weights: unet3d.AttentionWeights(s.Attention)}
	switch s.Kind {
	case config.UNetKind: // each by itself
		net := unet3d.UNet{Base: s.Base, Stages: s.Stages, Dropout: s.Dropout, Levels: unet3d.Levels(s.Height), Periodic: wrap, Out: variables, ZeroLast: true}
		return net.BuildPadded(b, x)
	case config.PoETKind:
		return s.poet(attention, variables, wrap).Build(b, x)
	case config.TransformerKind:
		return unet3d.MemberTransformer{Attention: attention, Out: variables, Width: s.Base, Periodic: wrap, ZeroLast: true}.Build(b, x)
	}
	return b.Fail("members", fmt.Errorf("network %q gives no members", s.Kind))
}

// poet is the U-Net whose deepest stages attend.
func (s Spec) poet(attention unet3d.Attention, out int, wrap bool) unet3d.PoET {
	net := unet3d.PoET{Attention: attention, Out: out, Periodic: wrap, ZeroLast: true}
	for stage := range s.Stages + 1 {
		net.Widths = append(net.Widths, s.Base<<stage)
	}
	net.Attended = min(attendedStages, len(net.Widths))
	return net
}

// attendedStages is how many of the deepest stages of PoET attend, as published.
const attendedStages = 3

// raws writes the fields of the targets of sample i's members, or what they differ from their mean.
func (k *Task) raws(b *Batch, i int, fc *ensemble.Forecast, used []int) error {
	p, d := fc.Grid.Size(), len(k.Features.Axes.Levels)
	targets := len(k.Targets) * d
	return k.eachTarget(i, fc, used, func(at, _ int, st statistics) error {
		t, x := k.targetAt(at / d)
		r := float32(1 / k.ErrorScale[at])
		for m, member := range used {
			to := ((i*len(used)+m)*targets + at) * p
			raw := fc.Field(t, member, x, at%d)
			if b.Raw != nil {
				copy(b.Raw[to:], raw)
				continue
			}
			for q, v := range raw {
				b.Deviation[to+q] = orZero((v - st.mean[q]) * r)
			}
		}
		return nil
	})
}

// corrected gives the members of a forecast in physical units from the network's shifts, which
// stand in the order of the batch, and their mean and standard deviation. Of what cannot be
// negative members below 0 are 0.
func (m *Model) corrected(out *Forecast, init ensemble.Init) error {
	k, b := m.local, &m.net.batch
	d := len(k.Features.Axes.Levels)
	targets := len(k.Targets) * d
	p := len(m.net.batch.Spread) / targets
	members := len(b.from)
	shifts := out.Members
	out.Members = make([]float32, len(shifts))
	for i, member := range b.from {
		for at := range targets {
			v, _ := ensemble.VariableNamed(k.Targets[at/d].Variable)
			bounded, _ := v.NonNegative()
			e := float32(k.ErrorScale[at])
			from := (i*targets + at) * p
			to := out.Members[(member*targets+at)*p:][:p]
			for q := range to {
				x := b.Raw[from+q]
				y := x + e*shifts[from+q]
				if x == x && y-y != 0 {
					return &exit.Error{Code: exit.Bug, What: "the network's output is not finite",
						At:  fmt.Sprintf("start %s, %s, point %d", init, k.named(at), q),
						Fix: "check the model's weights and the input's values with `ensemble inspect --stats`"}
				}
				if bounded && y < 0 {
					y = 0
				}
				to[q] = y
			}
		}
	}
	out.Mean, out.Sigma = make([]float32, targets*p), make([]float32, targets*p)
	for at := range targets {
		fields := make([][]float32, members)
		for i := range fields {
			fields[i] = out.Members[(i*targets+at)*p:][:p]
		}
		k.Features.Statistics(out.Mean[at*p:(at+1)*p], out.Sigma[at*p:(at+1)*p], fields)
	}
	return nil
}

// members are those of a target of a forecast.
func (out *Forecast) members(at, targets, points int) (fields [][]float32) {
	for i := 0; i < len(out.Members); i += targets * points {
		fields = append(fields, out.Members[i+at*points:][:points])
	}
	return fields
}

// distribution says what quantiles, probabilities and members of a variable are of, and how members
// are made.
//
// Errors: as family.
func (ch *choice) distribution(t Target, level ensemble.Level) (name, how string, err error) {
	if ch.model.Spec.givesMembers() {
		return "empirical distribution of the calibrated members", ch.madeOf(), nil
	}
	family, err := ch.model.family(t.Variable)
	if err != nil {
		return "", "", err
	}
	return family.Name + ch.model.recalibrationWords(t, level), ch.madeOf(), nil
}

// madeOf says how calibrated members are made.
func (ch *choice) madeOf() string {
	if ch.model.Spec.givesMembers() {
		return "each raw member corrected by the network"
	}
	return ch.coupling.words()
}

// checkMembersProducts refuses what there is not of a network that gives members.
//
// Errors: exit 64.
func (m *Model) checkMembersProducts(words []string, c config.Coupling) error {
	switch {
	case !m.Spec.givesMembers():
		return nil
	case slices.Contains(words, config.EnsembleSpreadProduct):
		return &exit.Error{Code: exit.Usage, What: "the model has no " + config.EnsembleSpreadProduct, At: "products", Why: "it corrects the members that there are",
			Fix: "leave it out, or train with another model.head than members"}
	case slices.Contains(words, config.ParametersProduct):
		return &exit.Error{Code: exit.Usage, What: "the model has no " + config.ParametersProduct, At: "products", Why: "it gives members, and no distribution",
			Fix: "leave them out, or train with model.head: distribution"}
	case slices.Contains(words, config.NeighbourhoodProduct), slices.Contains(words, config.NeighbourhoodAnyProduct):
		return &exit.Error{Code: exit.Usage, What: "probabilities of neighbourhoods are asked for, and the model gives members", At: "products", Why: "they are made of a distribution",
			Fix: "leave them out, or train with another model.head than members"}
	case c.Method != "" && c.Method != config.QuantileCoupling:
		return &exit.Error{Code: exit.Usage, What: "coupling is asked for, and the model gives members", At: "coupling.method", Why: "they are its own, in their own order",
			Fix: "leave coupling out"}
	}
	return nil
}

// fillMembers gives a field its values from the members of a prediction, at the places of take.
func (ch *choice) fillMembers(p *product.Product, f *product.Field, out *Forecast, at int, take func(field []float32) []float32, warmer []float32) {
	members := out.members(at, len(ch.model.Task.Score), ch.model.Grid.Size())
	if f.Kind == product.Member {
		members = members[slices.Index(p.Members, f.Member):][:1]
	}
	for m, x := range members {
		members[m] = take(x)
		if f.Variable == "2t" && warmer != nil {
			members[m] = slices.Clone(members[m])
			for i, d := range warmer {
				members[m][i] += d
			}
		}
	}
	if f.Values = members[0]; f.Kind != product.Member {
		f.Values = memberStatistic(members, f.Kind == product.Quantile, f.Below, f.Event)
	}
}

// memberStatistic computes a quantile of members, or the probability of an event as the share of
// members in it, at every point. The quantile of level q lies between sorted members, of which the
// kth of M stands for the level (k−1/3)/(M+1/3), which is right in the median for draws of any
// continuous distribution; beyond the outermost it is theirs.
//
// Missing: a missing member gives NaN.
// Source: Hyndman and Fan 1996, doi:10.2307/2684934 (type 8).
func memberStatistic(members [][]float32, quantile bool, level float64, e ensemble.Event) []float32 {
	out, x := make([]float32, len(members[0])), make([]float64, len(members))
	for p := range out {
		for m, f := range members {
			x[m] = float64(f[p])
		}
		slices.Sort(x) // NaN first
		switch {
		case x[0] != x[0]:
			out[p] = float32(math.NaN())
		case quantile:
			out[p] = float32(quantileOf(x, level))
		default:
			in := 0
			for _, v := range x {
				if (e.Relation == ensemble.Below || v > e.Lower) && (e.Relation == ensemble.Above || v < e.Upper) {
					in++
				}
			}
			out[p] = float32(in) / float32(len(x))
		}
	}
	return out
}

// quantileOf is that of memberStatistic, of sorted values.
func quantileOf(x []float64, level float64) float64 {
	at := level*(float64(len(x))+1./3) + 1./3 - 1
	i := int(math.Floor(at))
	switch {
	case i < 0:
		return x[0]
	case i >= len(x)-1:
		return x[len(x)-1]
	}
	return x[i] + (at-float64(i))*(x[i+1]-x[i])
}
