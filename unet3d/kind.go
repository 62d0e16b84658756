package unet3d

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Kind describes a kind of network, a row of Kinds. Configuration, jobs and documentation use only
// these properties.
type Kind struct {
	Name string // value of model.kind
	Doc  string // short description for help

	Leads   LeadAxis  // axis of the leads in the input
	Members MemberUse // how the network uses members
	// SingleField networks predict one spread field, of one target on one level.
	SingleField bool
	// Pointwise networks read no neighbouring points, so the points may be stations.
	Pointwise bool
	// Baseline networks have no maps; their only information on the location is the input.
	Baseline bool
	// AnyLevels networks support all values of Levels; the others share filters between levels.
	AnyLevels bool
	// NoConditions networks over time have no layers for single leads that conditions could
	// modulate.
	NoConditions bool

	// Section is the name of the configuration section model.<section> with the options of this
	// kind; empty for none.
	Section string
	// BaseMultiple is the number by which Layout.Base must be divisible, BaseReason the reason; 0
	// means any width.
	BaseMultiple int
	BaseReason   string
	// RequiredStatistics lists the statistics of members that the network reads by name, as in
	// data.features.
	RequiredStatistics []string
	// PublishedOptions lists options of the published network, as KEY=VALUE of the configuration, for
	// comparisons.
	PublishedOptions string

	// Build extends the graph by the network.
	//
	// Shape: x [R C D H W] → [R Layout.Out D H W]; Layout describes the rows R.
	// Errors: in the builder.
	Build func(b *graph.Builder, x graph.Value, l Layout) graph.Value
}

// LeadAxis is the axis on which a network has leads: channels, rows of the batch, or either.
type LeadAxis int

// LeadsInChannels networks read all leads in the channels of one row. LeadsInEither networks may
// also read each lead in a row of its own. LeadsInRows networks combine information along rows of
// leads, and need at least two.
const (
	LeadsInChannels LeadAxis = iota
	LeadsInEither
	LeadsInRows
)

// MemberUse is how a network uses members.
type MemberUse int

// MembersPooled networks read statistics of members only. MembersCorrected networks can also read
// each member in a row of its own and correct it. MembersAttending networks always do so, with
// attention between members or leads. MembersJoined networks can correct members, and can also
// concatenate features of an encoder of members.
const (
	MembersPooled MemberUse = iota
	MembersCorrected
	MembersAttending
	MembersJoined
)

// Layout is the size of a network and the meaning of its rows.
type Layout struct {
	Base     int     // channels of the first stage
	Stages   int     // halvings of the grid
	Dropout  float64 // probability of dropping a value in training
	Levels   Levels
	Periodic bool // longitudes are periodic
	Out      int  // output channels of each row

	// Rows are [N·Members·Leads], leads innermost; 0 and 1 mean independent rows.
	Members, Leads int
	Attention      AttentionWeights
	Condition      FiLM // conditions are in the last channels of the rows
	// LeadConditioned is true if the conditions include the lead; otherwise attention trains an
	// embedding of its position.
	LeadConditioned bool

	Recurrent Recurrent
	Axial     Axial
	// Spread locates the target of a SingleField network among the channels.
	Spread SpreadChannels
}

// Configuration sections with options of some kinds.
const (
	RecurrentSection = "recurrent"
	AxialSection     = "axial"
)

// Recurrent holds the options of networks with recurrent cells. It is a part of model.json.
type Recurrent struct {
	Stages        int  `json:"stages"`        // number of the deepest stages with a cell
	Hidden        int  `json:"hidden"`        // channels of a state; 0 means half of those of the stage
	Truncate      int  `json:"truncate"`      // leads after which gradients stop; 0 means never
	Bidirectional bool `json:"bidirectional"` // adds cells that read leads backwards
}

// Axial holds the options of axial attention. It is a part of model.json.
type Axial struct {
	Blocks int `json:"blocks"`
	Window int `json:"window"` // maximum points of a window along latitude and longitude
}

// SpreadChannels locates the channels that a SingleField network reads by name, as intervals [from,
// to).
type SpreadChannels struct {
	Spreads, Members [][2]int // spreads of the input members and fields of the first member, in the order of leads
	Target           int      // index of the target among the channels of Spreads
}

// Kinds lists all kinds of networks, in the order of help.
var Kinds = []*Kind{
	UNetKind, ResNetKind, InceptionKind, InceptionFigureKind, DRNKind, LeNetKind, UNet2DKind, PoETKind, TransformerKind, TrajectoryKind, HierarchicalKind,
	ConvLSTMKind, ConvGRUKind, TimeDepthKind, FactorisedKind, AxialKind,
}

// KindByName returns the kind with a name; nil if there is none.
func KindByName(name string) *Kind {
	if at := slices.IndexFunc(Kinds, func(k *Kind) bool { return k.Name == name }); at >= 0 {
		return Kinds[at]
	}
	return nil
}

// KindNames lists the names of the kinds with a property, in the order of Kinds.
func KindNames(has func(*Kind) bool) (names []string) {
	for _, k := range Kinds {
		if has(k) {
			names = append(names, k.Name)
		}
	}
	return names
}

// SpansLeads reports whether networks of the kind combine information along leads.
func (k *Kind) SpansLeads() bool { return k.Leads == LeadsInRows }

// PredictsMembers reports whether networks of the kind can correct members.
func (k *Kind) PredictsMembers() bool { return k.Members != MembersPooled }

// UsesAttention reports whether members, or leads of a member, attend to each other. Such networks
// always correct members.
func (k *Kind) UsesAttention() bool { return k.Members == MembersAttending }

// Body returns the builder of a network with the given layout, for any number of output channels.
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

// targetChannel is the channel of the network's input with the target's own spread.
func (s SpreadChannels) targetChannel() int {
	own := s.Target
	for _, part := range s.Spreads {
		if n := part[1] - part[0]; own >= n {
			own -= n
			continue
		}
		return part[0] + own
	}
	return -1 // no such channel; Build refuses it
}

// sliceChannels concatenates intervals of channels.
func sliceChannels(b *graph.Builder, x graph.Value, intervals [][2]int) graph.Value {
	var parts []graph.Value
	for _, at := range intervals {
		parts = append(parts, op.Slice(b, x, 1, at[0], at[1]))
	}
	return op.Concat(b, 1, parts...)
}
