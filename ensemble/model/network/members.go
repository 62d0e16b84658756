package network

import (
	"cmp"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// A plan is compiled for one number of members, as shapes are fixed in it. A training that draws
// from several numbers has a plan for each, all with the same parameters; a prediction has one,
// that of the start at hand. Members that stand twice in the places of others would cost the time
// of all, and be counted twice by the pools.

// ReadsMembers tells whether the network has an input of the members themselves.
func (s Spec) ReadsMembers() bool { return s.Members == config.MemberEncoder || s.PredictsMembers() }

// MemberCount is how many members a sample has.
func (s Spec) MemberCount(k *task.Task) int { return cmp.Or(s.memberCount, len(k.UsedMembers)) }

// WithMemberCount is the network that reads so many members.
func (s Spec) WithMemberCount(members int) Spec {
	if s.ReadsMembers() {
		s.memberCount = members
	}
	return s
}

// WithMembers completes the network of a configuration by what it reads and gives of members.
func (s Spec) WithMembers(c *config.TrainConfig) Spec {
	if c.Model.Members == config.MemberEncoder {
		s.Members, s.Pool, s.Encoder = c.Model.Members, c.Model.Pool, c.Model.Encoder.Channels
	}
	if c.Model.Head == config.MembersHead && c.Model.Attention != config.GlobalAttention {
		s.Attention = c.Model.Attention
	}
	return s.WithMemberCount(c.Data.Members.Use.N())
}

// MemberChannels are the channels of each member that a configuration asks for.
func MemberChannels(c *config.TrainConfig) []ensemble.MemberChannel {
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
func (s Spec) joinMembers(b *graph.Builder, k *task.Task, features graph.Value, wrap bool) graph.Value {
	n, d, h, w := features.Dim(0), features.Dim(2), features.Dim(3), features.Dim(4)
	count, c := s.MemberCount(k), k.Features.MemberChannels()
	x := op.Reshape(b, b.Input("members", graph.Shape{n, count * c, d, h, w}), graph.Shape{n * count, c, d, h, w})
	e := unet3d.MemberEncoder{Channels: s.Encoder, Pool: unet3d.Pool(s.Pool), Periodic: wrap}
	return op.Concat(b, 1, features, e.Build(b, x, count))
}
