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

// ReadsMembers reports whether the network has an input with the members themselves.
//
// Shapes are fixed in a compiled plan, so there is one plan for each number of members. A training
// that draws different numbers of members has a plan for each, all with the same parameters. A
// prediction has one plan. Padding with duplicates of members would cost time, and pools would
// count them twice.
func (s Spec) ReadsMembers() bool { return s.Members == config.MemberEncoder || s.PredictsMembers() }

// MemberCount is the number of members of a sample.
func (s Spec) MemberCount(k *task.Task) int { return cmp.Or(s.memberCount, len(k.UsedMembers)) }

// WithMemberCount returns the spec of the network that reads a given number of members.
func (s Spec) WithMemberCount(members int) Spec {
	if s.ReadsMembers() {
		s.memberCount = members
	}
	return s
}

// WithMembers returns the spec with the options for members from a configuration.
func (s Spec) WithMembers(c *config.TrainConfig) Spec {
	if c.Model.Members == config.MemberEncoder {
		s.Members, s.Pool, s.Encoder = c.Model.Members, c.Model.Pool, c.Model.Encoder.Channels
	}
	if c.Model.Head == config.MembersHead && c.Model.Attention != config.GlobalAttention {
		s.Attention = c.Model.Attention
	}
	return s.WithMemberCount(c.Data.Members.Use.N())
}

// MemberChannels lists the channels of each member that a configuration selects.
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

// joinMembers concatenates the output of the member encoder to the features. In the input the
// members of a sample are in the channels, so that the batch axis is distributed over ranks as that
// of other inputs.
func (s Spec) joinMembers(b *graph.Builder, k *task.Task, features graph.Value, wrap bool) graph.Value {
	n, d, h, w := features.Dim(0), features.Dim(2), features.Dim(3), features.Dim(4)
	count, c := s.MemberCount(k), k.Features.MemberChannels()
	x := op.Reshape(b, b.Input("members", graph.Shape{n, count * c, d, h, w}), graph.Shape{n * count, c, d, h, w})
	e := unet3d.MemberEncoder{Channels: s.Encoder, Pool: unet3d.Pool(s.Pool), Periodic: wrap}
	return op.Concat(b, 1, features, e.Build(b, x, count))
}
