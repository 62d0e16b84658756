package config

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// Inputs that a network receives from the members.
const (
	MemberStatistics = "statistics" // statistics of data.features
	MemberEncoder    = "encoder"    // these, and encoder features of each member, pooled over members
)

// GlobalAttention has one attention weight for each pair of members over the whole field.
const GlobalAttention = "global"

// noiseInput is the value of model.encoder.input that adds a noise field to each member.
const noiseInput = "noise"

// Noise of training samples.
const (
	FixedNoise = "fixed" // that of predictions
	NewNoise   = "anew"  // another draw in each epoch
)

// Encoder is the section model.encoder, the network that encodes each member separately.
type Encoder struct {
	Channels int      `key:"channels"`
	Input    []string `key:"input"`
	Noise    string   `key:"noise"`
}

// memberKeys are the rows of networks that read or predict single members.
func memberKeys() []schema.Key {
	return []schema.Key{
		{Path: "model.members", Default: MemberStatistics, Check: OneOf(MemberStatistics, MemberEncoder), Example: MemberEncoder,
			Help: "Input from the members. statistics: the statistics of data.features. encoder: also features of a convolutional encoder with shared weights, pooled over the members at every grid point. The result does not depend on the order of members."},
		{Path: "model.pool", Default: "mean_std", Check: OneOf("mean", "mean_std", "min_max", "attention"), Example: "mean",
			Help: "Pooling of encoder features over members: mean, mean and standard deviation, minimum and maximum, or attention with a learned query (8 heads; the number of channels must be a multiple of 8)."},
		{Path: "model.encoder.channels", Default: "16", Check: Between(1, 1024), Example: "32",
			Help: "Output channels of the encoder."},
		{Path: "model.encoder.input", Default: "[field, offset]", Check: OneOf("field", "offset", noiseInput), Example: "[field, noise]",
			Help: "Input of each variable and lead of a member. field: standardised values; offset: difference from the ensemble mean in units of the spread; noise: standard normal random numbers. Also used by model.head: members. Only that head may have noise, which lets independently corrected members gain spread."},
		{Path: "model.encoder.noise", Default: FixedNoise, Check: OneOf(FixedNoise, NewNoise), Example: NewNoise,
			Help: "Noise of training samples. fixed: that of predictions, in every epoch; anew: another draw in each epoch. Validation has that of predictions."},
		{Path: "model.attention", Default: GlobalAttention, Check: OneOf(GlobalAttention, "axial", "point"), Example: "point",
			Help: "Spatial extent of attention weights between members (poet, ens_transformer), leads (trajectory) or both (hierarchical). global: one weight for the whole field; axial: one for each row and column; point: one for each grid point."},
		{Path: "train.loss.scales", Check: Above(0), Example: "[8, 4, 2]",
			Help: "Standard deviations of Gaussian filters in grid points, descending: crps_members becomes the sum of the CRPS of the smoothed members, of the bands between two scales, and of the residual, so that members have realistic variability at each scale. Not with cross_pair."},
		{Path: "train.loss.fairness", Default: string(AlmostFairFairness), Check: OneOf(PlainFairness, FairFairness, AlmostFairFairness, CrossPairFairness), Example: string(CrossPairFairness),
			Help: "Spread term of crps_members. plain: the CRPS of the finite ensemble; fair: the fair CRPS of independent members; almost_fair: 0.95 fair + 0.05 plain; cross_pair: distances only between two halves of the members, which the network corrects separately, so that dependence between members is not rewarded."},
	}
}

// checkMembers checks the keys of member encoders, attention and losses of members against the
// kind of network and its head.
func (c *TrainConfig) checkMembers() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	m, loss := c.Model, c.Train.Train.Loss
	encodes, gives := m.Members == MemberEncoder, m.Head == MembersHead
	// Defaults are allowed: an effective configuration, which lists them all, must load again.
	given := func(path string) bool {
		i := slices.IndexFunc(memberKeys(), func(k schema.Key) bool { return k.Path == path })
		return c.text(path) != memberKeys()[i].Default
	}
	for _, path := range []string{"model.pool", "model.encoder.channels", "model.encoder.input"} {
		if given(path) && !encodes && !(gives && path == "model.encoder.input") {
			add(path, path+" without a member encoder", "model.members is "+m.Members, "remove it, or set model.members: "+MemberEncoder)
		}
	}
	if given("model.encoder.noise") && !slices.Contains(m.Encoder.Input, noiseInput) {
		add("model.encoder.noise", "model.encoder.noise without noise", fmt.Sprintf("model.encoder.input is %v", m.Encoder.Input), "remove it, or set model.encoder.input: [field, noise]")
	}
	if slices.Contains(m.Encoder.Input, noiseInput) && !gives {
		add("model.encoder.input", "noise with pooled members", "pooling averages the noise out", "remove it, or set model.head: "+string(MembersHead))
	}
	if given("train.loss.fairness") && loss.Kind != MembersLoss {
		add("train.loss.fairness", "train.loss.fairness needs loss "+string(MembersLoss), "train.loss.kind is "+string(loss.Kind), "remove it, or set train.loss.kind: "+string(MembersLoss))
	}
	kind := m.NetworkKind()
	if kind.UsesAttention() && !gives {
		add("model.head", m.Kind+" predicts members", "model.head is "+string(m.Head), "set model.head: "+string(MembersHead))
	} else if !kind.UsesAttention() && given("model.attention") {
		add("model.attention", "model.attention is not used by "+m.Kind, "it has no attention over members or leads", "remove it, or set model.kind: "+kindNamesWhere((*unet3d.Kind).UsesAttention))
	}
	if len(loss.Scales) > 0 && (loss.Kind != MembersLoss || loss.Fairness == CrossPairFairness) {
		add("train.loss.scales", "train.loss.scales needs loss "+string(MembersLoss)+" without cross_pair", "train.loss.kind is "+string(loss.Kind), "remove it, or set train.loss.kind: "+string(MembersLoss)+" with another fairness")
	}
	if !slices.IsSortedFunc(loss.Scales, func(a, b float64) int { return cmp.Compare(b, a) }) {
		add("train.loss.scales", "train.loss.scales must descend", fmt.Sprint(loss.Scales), "list the largest first")
	}
	if loss.Kind == MembersLoss && !gives {
		add("train.loss.kind", "loss "+string(MembersLoss)+" needs a network that predicts members", "model.head is "+string(m.Head), "set train.loss.kind: crps, or model.head: "+string(MembersHead))
	}
	if gives {
		c.checkMembersHead(add)
	}
	if !encodes {
		return faults
	}
	if gives {
		add("model.members", "model.members: "+MemberEncoder+" with head members", "the network reads the members itself", "set model.members: "+MemberStatistics)
	}
	if joins := func(k *unet3d.Kind) bool { return k.Members == unet3d.MembersJoined }; !joins(kind) {
		add("model.members", m.Kind+" does not support a member encoder", "supported by "+kindNamesWhere(joins),
			"set model.kind: "+kindNamesWhere(joins)+", or model.members: "+MemberStatistics)
	}
	if m.Method == StagesMethod {
		add("model.members", "a member encoder with method "+string(StagesMethod), "its stages learn from statistics", "set model.method: "+string(JointMethod)+", or model.members: "+MemberStatistics)
	}
	return faults
}

// checkMembersHead checks the keys of model.head: members.
func (c *TrainConfig) checkMembersHead(add func(path, what, why, fix string)) {
	m, loss, members := c.Model, c.Train.Train.Loss, c.Data.Members
	if !m.NetworkKind().PredictsMembers() {
		add("model.kind", m.Kind+" does not predict members", "it has no member axis", "set model.kind: "+kindNamesWhere((*unet3d.Kind).PredictsMembers)+", or another model.head")
	}
	if loss.Kind != CRPSLoss && loss.Kind != MembersLoss {
		add("train.loss.kind", "head members does not support loss "+string(loss.Kind), "members are compared with the analysis", "set train.loss.kind: crps or "+string(MembersLoss))
	}
	if loss.Spread > 0 {
		add("train.loss.spread", "train.loss.spread is not used by head members", "it does not predict the spread of the full ensemble", "remove it")
	}
	if len(c.Data.Analyses) == 0 {
		add("model.head", "head members needs data.analyses", "members are compared with the analysis", "add data.analyses, or set model.head: spread")
	}
	if m.Method != JointMethod || m.Reference != NoReference {
		add("model.head", "head members supports neither stages nor a reference", "both need a predicted distribution", "set model.method: "+string(JointMethod)+" and model.reference: "+NoReference)
	}
	if m.Embedding > 0 {
		add("model.embedding", "model.embedding is not supported by head members", "it would be the same for all members", "remove it")
	}
	n := members.Use.N()
	switch {
	case n < 2:
		add("data.members.use", fmt.Sprintf("head members with %d member", n), "the CRPS of members needs two", "use more members")
	case loss.Kind != MembersLoss || loss.Fairness != CrossPairFairness:
	case n%2 != 0 || members.Minimum > 0 && members.Minimum != n:
		add("train.loss.fairness", fmt.Sprintf("cross_pair needs an even, fixed number of members, got %d", n), "it corrects two halves with one compiled step", "use an even number of members, without data.members.minimum")
	case slices.Contains(m.Encoder.Input, "offset"):
		add("model.encoder.input", "input offset with cross_pair", "it depends on the mean of both halves", "set model.encoder.input: [field]")
	}
}
