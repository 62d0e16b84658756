package model

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// A plan is compiled for one number of members, as shapes are fixed in it. A training that draws
// from several numbers has a plan for each, all with the same parameters; a prediction has one,
// that of the start at hand. Members that stand twice in the places of others would cost the time
// of all, and be counted twice by the pools.

// ReadsMembers tells whether the network has an input of the members themselves.
func (s Spec) ReadsMembers() bool { return s.Members == config.MemberEncoder || s.GivesMembers() }

// membersOf is how many members a sample has.
func (s Spec) membersOf(k *Task) int { return cmp.Or(s.count, len(k.Used)) }

// Reading is the network that reads so many members.
func (s Spec) Reading(members int) Spec {
	if s.ReadsMembers() {
		s.count = members
	}
	return s
}

// OfMembers completes the network of a configuration by what it reads and gives of members.
func (s Spec) OfMembers(c *config.TrainConfig) Spec {
	if c.Model.Members == config.MemberEncoder {
		s.Members, s.Pool, s.Encoder = c.Model.Members, c.Model.Pool, c.Model.Encoder.Channels
	}
	if s.Loss == config.MembersLoss {
		s.Fairness, s.Scales = c.Train.Train.Loss.Fairness, strings.Trim(fmt.Sprint(c.Train.Train.Loss.Scales), "[]")
	}
	if c.Model.Head == config.MembersHead && c.Model.Attention != config.GlobalAttention {
		s.Attention = c.Model.Attention
	}
	return s.Reading(c.Data.Members.Use.N())
}

// MemberFields are the channels of each member that a configuration asks for.
func MemberFields(c *config.TrainConfig) []ensemble.MemberChannel {
	if c.Model.Members != config.MemberEncoder && c.Model.Head != config.MembersHead {
		return nil
	}
	var out []ensemble.MemberChannel
	for _, f := range c.Model.Encoder.Input {
		out = append(out, ensemble.MemberChannel(f))
	}
	return out
}

// joinMembers joins what the encoder makes of the members with the features. A member's channels
// lie behind those of the one before in the input, so that the axis of samples is cut as in
// others.
func (s Spec) joinMembers(b *graph.Builder, k *Task, features graph.Value, wrap bool) graph.Value {
	n, d, h, w := features.Dim(0), features.Dim(2), features.Dim(3), features.Dim(4)
	count, c := s.membersOf(k), k.Features.MemberChannels()
	x := op.Reshape(b, b.Input("members", graph.Shape{n, count * c, d, h, w}), graph.Shape{n * count, c, d, h, w})
	e := unet3d.MemberEncoder{Channels: s.Encoder, Pool: unet3d.Pool(s.Pool), Periodic: wrap}
	return op.Concat(b, 1, features, e.Build(b, x, count))
}

// WithMembers gives a batch of n samples room for so many members each, if they are read; with what
// a loss needs of them, or what a prediction.
func (b *Batch) WithMembers(s Spec, k *Task, g *ensemble.Grid, n, members int, loss bool) {
	fields := n * members * len(k.Features.Axes.Levels) * g.Size()
	if s.ReadsMembers() {
		b.Members = make([]float32, fields*k.Features.MemberChannels())
	}
	switch targets := fields * len(k.Targets); {
	case !s.GivesMembers():
	case loss:
		b.Deviation = make([]float32, targets)
	default:
		b.Raw = make([]float32, targets)
	}
}

// members writes the members of sample i, if they are read.
func (k *Task) members(b *Batch, i int, fc *ensemble.Forecast, used []int) error {
	if b.Members == nil {
		return nil
	}
	size := len(used) * k.Features.MemberChannels() * len(k.Features.Axes.Levels) * fc.Grid.Size()
	if err := k.Features.BuildMembers(b.Members[i*size:(i+1)*size], fc, used); err != nil || b.Raw == nil && b.Deviation == nil {
		return err
	}
	return k.raws(b, i, fc, used)
}

// ReadMembers makes the model ready for so many members. The network is open; memory is taken for one
// number at a time.
//
// Errors: as open.
func (m *Model) ReadMembers(members int) error {
	if !m.Spec.ReadsMembers() || m.Spec.membersOf(&m.Task) == members {
		return nil
	}
	if err := m.Network.Plan.Close(); err != nil {
		return err
	}
	maps.DeleteFunc(m.kept, func(at place, _ *engine.Kept) bool { return at.net == m.Network })
	m.Network, m.Spec = nil, m.Spec.Reading(members)
	return m.Open(m.opened)
}

// InOrder brings the members of the only sample of a batch into an order that does not depend on
// their numbers. Ranks that share a start leave them as they are: each sees a part of the fields.
func (m *Model) InOrder(members int) {
	b := &m.Network.Batch
	if b.Members == nil {
		return
	}
	b.from = make([]int, members)
	for i := range b.from {
		b.from[i] = i
	}
	if m.Ranks == nil {
		b.from = ensemble.SortMembers(b.Members, members)
		if b.Raw != nil {
			ensemble.TakeMembers(b.Raw, b.from)
		}
	}
}
