package unet3d

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// A Kind is a kind of network: a row of Kinds. Its properties are all that the configuration, jobs and pages know of it.
type Kind struct {
	Name string // as model.kind
	Doc  string // what it is, in half a sentence, as help has it

	Leads   LeadAxis // of leads in its input
	Members MemberUse
	// SingleField networks make one spread field, of one target on one level.
	SingleField bool
	// Pointwise networks read nothing of a point's neighbours, so points may be a list of stations.
	Pointwise bool
	// Baseline networks have no maps of their own: what they are to know of places is in their input.
	Baseline bool
	// AnyLevels networks have all forms of Levels; others treat levels alike.
	AnyLevels bool
	// NoConditions networks over time have no layer that conditions of single leads could change.
	NoConditions bool

	// Section is the name of the options below Layout that only some kinds have, as in model.<section>; empty for none.
	Section string
	// BaseMultiple is what Layout.Base must be a multiple of, and BaseReason why; 0 for anything.
	BaseMultiple int
	BaseReason   string
	// RequiredStatistics are the statistics of members that are read by name, as in data.features.
	RequiredStatistics []string
	// PublishedOptions are keys of the published network where it is compared with others, as KEY=VALUE of the configuration.
	PublishedOptions string

	// Build extends the graph by the network.
	//
	// Shape: x [R C D H W] → [R Layout.Out D H W], of rows as Layout says.
	// Errors: in the builder.
	Build func(b *graph.Builder, x graph.Value, l Layout) graph.Value
}

// LeadAxis is where a network has leads: in channels, in rows of its batch, or in either.
type LeadAxis int

// LeadsInChannels is an input of all leads. LeadsInEither networks may also read each lead in a row by itself. LeadsInRows
// networks look along rows of leads, of which there must be two.
const (
	LeadsInChannels LeadAxis = iota
	LeadsInEither
	LeadsInRows
)

// MemberUse is what a network can do with members.
type MemberUse int

// MembersPooled networks read statistics of members only; with MembersCorrected they can read each by itself in a row and
// correct it; with MembersAttending they do nothing else, and members or leads attend to each other. MembersJoined networks can
// correct members, and their features can be joined with those of an encoder of members.
const (
	MembersPooled MemberUse = iota
	MembersCorrected
	MembersAttending
	MembersJoined
)

// Layout is the size of a network, and how its rows belong together.
type Layout struct {
	Base     int     // channels of the first stage
	Stages   int     // halvings of the resolution
	Dropout  float64 // probability of dropping a value while training
	Levels   Levels
	Periodic bool // longitudes wrap around
	Out      int  // fields of each row

	// Rows are [N·Members·Leads], leads innermost; 0 and 1 are rows by themselves.
	Members, Leads int
	Attention      AttentionWeights
	Condition      FiLM // in the last channels of rows
	// LeadConditioned says that conditions tell leads apart; else attention learns their places.
	LeadConditioned bool

	Recurrent Recurrent
	Axial     Axial
	// Spread says where a network of one field has its target among the channels.
	Spread SpreadChannels
}

// RecurrentSection and AxialSection are the sections of options that only some kinds have.
const (
	RecurrentSection = "recurrent"
	AxialSection     = "axial"
)

// Recurrent are the cells of networks that have some, also in JSON.
type Recurrent struct {
	Stages        int  `json:"stages"`   // how many of the deepest have a cell
	Hidden        int  `json:"hidden"`   // channels of a state; 0 means half of those of its stage
	Truncate      int  `json:"truncate"` // leads after which gradients do not go on; 0 never
	Bidirectional bool `json:"bidirectional"`
}

// Axial is how points attend along axes, also in JSON.
type Axial struct {
	Blocks int `json:"blocks"`
	Window int `json:"window"` // points of latitude and longitude that see each other, at most
}

// SpreadChannels are those that a network of one field reads by name, each an interval of channels [from, to).
type SpreadChannels struct {
	Spreads, Members [][2]int // spreads of the members in use and fields of the first one, in the order of leads
	Target           int      // which channel of Spreads is the target's
}

// Kinds are all kinds of networks, in the order of help.
var Kinds = []*Kind{
	UNetKind, ResNetKind, InceptionKind, InceptionFigureKind, DRNKind, LeNetKind, UNet2DKind, PoETKind, TransformerKind, TrajectoryKind, HierarchicalKind,
	ConvLSTMKind, ConvGRUKind, TimeDepthKind, FactorisedKind, AxialKind,
}

// KindByName is the kind of a name; nil if there is none.
func KindByName(name string) *Kind {
	if at := slices.IndexFunc(Kinds, func(k *Kind) bool { return k.Name == name }); at >= 0 {
		return Kinds[at]
	}
	return nil
}

// KindNames are the names of the kinds that have a property, in the order of Kinds.
func KindNames(has func(*Kind) bool) (names []string) {
	for _, k := range Kinds {
		if has(k) {
			names = append(names, k.Name)
		}
	}
	return names
}

// SpansLeads tells whether networks of the kind look along leads.
func (k *Kind) SpansLeads() bool { return k.Leads == LeadsInRows }

// PredictsMembers tells whether networks of the kind can correct members.
func (k *Kind) PredictsMembers() bool { return k.Members != MembersPooled }

// UsesAttention tells whether members, or the leads of one, attend to each other: such networks give members and nothing else.
func (k *Kind) UsesAttention() bool { return k.Members == MembersAttending }

// Body is the network of a layout, for any number of fields.
func (k *Kind) Body(l Layout) Body {
	return func(b *graph.Builder, x graph.Value, out int) graph.Value {
		l.Out = out
		return k.Build(b, x, l)
	}
}

// newUNet is the U-Net of a layout.
func (l Layout) newUNet() UNet {
	return UNet{Base: l.Base, Stages: l.Stages, Dropout: l.Dropout, Levels: l.Levels, Periodic: l.Periodic, Out: l.Out, ZeroLast: true}
}

// targetChannel is the channel of the network's input that holds the target's own spread.
func (s SpreadChannels) targetChannel() int {
	own := s.Target
	for _, part := range s.Spreads {
		if n := part[1] - part[0]; own >= n {
			own -= n
			continue
		}
		return part[0] + own
	}
	return -1 // which no network has
}

// sliceChannels joins intervals of channels.
func sliceChannels(b *graph.Builder, x graph.Value, intervals [][2]int) graph.Value {
	var parts []graph.Value
	for _, at := range intervals {
		parts = append(parts, op.Slice(b, x, 1, at[0], at[1]))
	}
	return op.Concat(b, 1, parts...)
}
