package config

import "github.com/ensemble-weather/ensemble/internal/exit"

// What a network sees of the members.
const (
	MemberStatistics = "statistics" // data.features only
	MemberEncoder    = "encoder"    // beside them, what an encoder makes of each member, pooled over members
)

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
		{Path: "model.encoder.input", Default: "[field, offset]", Check: OneOf("field", "offset"), Example: "[offset]",
			Help: "What is input of each variable and lead of a member: its field, standardised as in data.features, its offset from the mean of the members in units of their spread."},
	}
}

// checkMembers: only some networks read members, and only they have an encoder.
func (c *TrainConfig) checkMembers() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	if c.Model.Members != MemberEncoder {
		for _, k := range memberKeys() {
			// Defaults may be given: an effective configuration, which has them all, is trained again.
			if k.Path != "model.members" && c.text(k.Path) != k.Default {
				add(k.Path, k.Path+" is given and there is no encoder of members", "model.members is "+c.Model.Members, "remove it, or set model.members: "+MemberEncoder)
			}
		}
		return faults
	}
	if c.Model.Kind != UNetKind {
		add("model.members", c.Model.Kind+" has no encoder of members", "only the features of "+UNetKind+" are joined with those of members",
			"set model.kind: "+UNetKind+", or model.members: "+MemberStatistics)
	}
	if c.Model.Method == StagesMethod {
		add("model.members", "three stages are trained with an encoder of members", "they learn from statistics", "set model.method: "+JointMethod+", or model.members: "+MemberStatistics)
	}
	return faults
}
