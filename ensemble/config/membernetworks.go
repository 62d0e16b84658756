package config

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// What a network sees of the members.
const (
	MemberStatistics = "statistics" // data.features only
	MemberEncoder    = "encoder"    // beside them, what an encoder makes of each member, pooled over members
)

// GlobalAttention has one weight of a member for another over the whole field.
const GlobalAttention = "global"

// noiseInput is what members have in model.encoder.input beside their fields to differ by.
const noiseInput = "noise"

// Encoder is the network that every member passes by itself.
type Encoder struct {
	Channels int      `key:"channels"`
	Input    []string `key:"input"`
}

// memberKeys describe what networks see of the members.
func memberKeys() []Key {
	return []Key{
		{Path: "model.members", Default: MemberStatistics, Check: OneOf(MemberStatistics, MemberEncoder), Example: MemberEncoder,
			Help: "What the network sees of the members: statistics, those of data.features; encoder, beside them what a convolutional encoder, the same for all members, makes of each, pooled over the members at every point. The order of members does not matter."},
		{Path: "model.pool", Default: "mean_std", Check: OneOf("mean", "mean_std", "min_max", "attention"), Example: "mean",
			Help: "How what the encoder makes of the members is joined at every point: their mean, mean and standard deviation, minimum and maximum, or a mean with weights that a learned query gives them (attention in 8 heads, which the channels must divide by)."},
		{Path: "model.encoder.channels", Default: "16", Check: Between(1, 1024), Example: "32",
			Help: "Channels that the encoder makes of each member."},
		{Path: "model.encoder.input", Default: "[field, offset]", Check: OneOf("field", "offset", noiseInput), Example: "[field, noise]",
			Help: "What is input of each variable and lead of a member: its field, standardised as in data.features; its offset from the mean of the members in units of their spread; noise, normal numbers of its own. For model.head: members too, which alone may have noise: members that know nothing of each other get the spread by it that the raw ones lack."},
		{Path: "model.attention", Default: GlobalAttention, Check: OneOf(GlobalAttention, "axial", "point"), Example: "point",
			Help: "Where members have weights for each other, with poet and ens_transformer, or leads with trajectory, and both with hierarchical: one for the whole field (global), one for each row and one for each column (axial), or one at each point."},
		{Path: "train.loss.scales", Check: Above(0), Example: "[8, 4, 2]",
			Help: "Standard deviations of Gaussians in grid points, falling: crps_members is the sum of that of members smoothed so, of what is between two of them, and of the rest. Members then have the variability of the analysis at each scale. Not with cross_pair."},
		{Path: "train.loss.fairness", Default: string(AlmostFairFairness), Check: OneOf(PlainFairness, FairFairness, AlmostFairFairness, CrossPairFairness), Example: string(CrossPairFairness),
			Help: "How much of the members' mutual distances counts in crps_members: plain, as for these members and no others; fair, as if they were independent draws of any number; almost_fair, 0.95 of fair and the rest plain; cross_pair: only distances between two halves of the members that the network corrects apart, so that it gains nothing from members that know of each other."},
	}
}

// checkMembers: only some networks read members, and only they have an encoder.
func (c *TrainConfig) checkMembers() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	m, loss := c.Model, c.Train.Train.Loss
	encodes, gives := m.Members == MemberEncoder, m.Head == MembersHead
	// Defaults may be given: an effective configuration, which has them all, is trained again.
	given := func(path string) bool {
		i := slices.IndexFunc(memberKeys(), func(k Key) bool { return k.Path == path })
		return c.text(path) != memberKeys()[i].Default
	}
	for _, path := range []string{"model.pool", "model.encoder.channels", "model.encoder.input"} {
		if given(path) && !encodes && !(gives && path == "model.encoder.input") {
			add(path, path+" is given and there is no encoder of members", "model.members is "+m.Members, "remove it, or set model.members: "+MemberEncoder)
		}
	}
	if slices.Contains(m.Encoder.Input, noiseInput) && !gives {
		add("model.encoder.input", "noise is given to members that are pooled", "a distribution is made of what they have in common", "remove it, or set model.head: "+string(MembersHead))
	}
	if given("train.loss.fairness") && loss.Kind != MembersLoss {
		add("train.loss.fairness", "train.loss.fairness is given to another loss than "+string(MembersLoss), "train.loss.kind is "+string(loss.Kind), "remove it, or set train.loss.kind: "+string(MembersLoss))
	}
	kind := m.NetworkKind()
	if kind.UsesAttention() && !gives {
		add("model.head", m.Kind+" gives members", "model.head is "+string(m.Head), "set model.head: "+string(MembersHead))
	} else if !kind.UsesAttention() && given("model.attention") {
		add("model.attention", "model.attention is given and nothing in "+m.Kind+" attends", "", "remove it, or set model.kind: "+kindNamesWhere((*unet3d.Kind).UsesAttention))
	}
	if len(loss.Scales) > 0 && (loss.Kind != MembersLoss || loss.Fairness == CrossPairFairness) {
		add("train.loss.scales", "train.loss.scales is given to another loss than "+string(MembersLoss)+", or to cross_pair", "train.loss.kind is "+string(loss.Kind), "remove it, or set train.loss.kind: "+string(MembersLoss)+" with another fairness")
	}
	if !slices.IsSortedFunc(loss.Scales, func(a, b float64) int { return cmp.Compare(b, a) }) {
		add("train.loss.scales", "train.loss.scales rise", fmt.Sprint(loss.Scales), "begin with the largest")
	}
	if loss.Kind == MembersLoss && !gives {
		add("train.loss.kind", string(MembersLoss)+" is the loss of a network that gives no members", "model.head is "+string(m.Head), "set train.loss.kind: crps, or model.head: "+string(MembersHead))
	}
	if gives {
		c.checkMembersHead(add)
	}
	if !encodes {
		return faults
	}
	if gives {
		add("model.members", "a network that gives members has an encoder of members", "it reads them itself", "set model.members: "+MemberStatistics)
	}
	if joins := func(k *unet3d.Kind) bool { return k.Members == unet3d.MembersJoined }; !joins(kind) {
		add("model.members", m.Kind+" has no encoder of members", "only the features of "+kindNamesWhere(joins)+" are joined with those of members",
			"set model.kind: "+kindNamesWhere(joins)+", or model.members: "+MemberStatistics)
	}
	if m.Method == StagesMethod {
		add("model.members", "three stages are trained with an encoder of members", "they learn from statistics", "set model.method: "+string(JointMethod)+", or model.members: "+MemberStatistics)
	}
	return faults
}

// checkMembersHead: members are trained against analyses, by a network that can give them.
func (c *TrainConfig) checkMembersHead(add func(path, what, why, fix string)) {
	m, loss, members := c.Model, c.Train.Train.Loss, c.Data.Members
	if !m.NetworkKind().PredictsMembers() {
		add("model.kind", m.Kind+" gives no members", "it is no network of single members", "set model.kind: "+kindNamesWhere((*unet3d.Kind).PredictsMembers)+", or another model.head")
	}
	if loss.Kind != CRPSLoss && loss.Kind != MembersLoss {
		add("train.loss.kind", "head members is trained with "+string(loss.Kind), "members are compared with the analysis", "set train.loss.kind: crps or "+string(MembersLoss))
	}
	if loss.Spread > 0 {
		add("train.loss.spread", "train.loss.spread is given to head members", "it gives no estimate of the full ensemble's spread", "remove it")
	}
	if len(c.Data.Analyses) == 0 {
		add("model.head", "head members has no data.analyses", "members are compared with the analysis", "add data.analyses, or set model.head: spread")
	}
	if m.Method != JointMethod || m.Reference != NoReference {
		add("model.head", "head members is trained in stages, or corrects a reference", "members have no distribution of their own", "set model.method: "+string(JointMethod)+" and model.reference: "+NoReference)
	}
	if m.Embedding > 0 {
		add("model.embedding", "model.embedding is given to head members", "it would be the same of all members", "remove it")
	}
	n := members.Use.N()
	switch {
	case n < 2:
		add("data.members.use", fmt.Sprintf("head members gives %d member", n), "their CRPS needs two", "use more members")
	case loss.Kind != MembersLoss || loss.Fairness != CrossPairFairness:
	case n%2 != 0 || members.Minimum > 0 && members.Minimum != n:
		add("train.loss.fairness", fmt.Sprintf("%d members do not fall into two halves", n), "cross_pair corrects both apart, with one compiled step", "use an even number of members, without data.members.least")
	case slices.Contains(m.Encoder.Input, "offset"):
		add("model.encoder.input", "members see the mean of both halves", "their offset is from the mean of all", "set model.encoder.input: [field]")
	}
}
