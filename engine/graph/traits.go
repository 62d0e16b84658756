package graph

// Class is the kind of work of an operation where its window does not say it.
type Class uint8

// The classes.
const (
	ClassByWindow Class = iota
	Contraction         // sums of products over channels and taps
	Normalisation       // statistics per channel, and the maps that apply them
)

// Split is the rule by which an operation is cut over ranks.
type Split uint8

// The rules. What only moves values (Move) has its own.
const (
	// SplitByWindow follows the window: halos, sums over ranks, whole samples of sets; without one point by point.
	SplitByWindow Split = iota
	// SplitBroadcast is point by point, and cuts the result also where no operand is a field.
	SplitBroadcast
	// SplitReshape keeps the cuts of axes that stay, or that are merged with those behind them.
	SplitReshape
	// SplitRandom draws random numbers for the whole field, so that they do not depend on cuts.
	SplitRandom
	// SplitMoments joins mean and variance of the parts; SplitMomentsGrad divides by the size of the whole.
	SplitMoments
	SplitMomentsGrad
	// SplitAxis reads the windows, along one axis, that the own points are in.
	SplitAxis
)

// Move says of an operation that its result holds values of its operands, or zeros, and nothing else.
type Move uint8

// The moves.
const (
	NoMove     Move = iota
	MoveConcat      // operands, along an axis
	MoveSlice       // a range of an axis
	MovePad         // the operand into zeros, as a range of an axis
)

// Fuse is the part that an operation has in the patterns of which passes make one operation.
type Fuse uint8

// The parts.
const (
	NoFuse         Fuse = iota
	FuseConv            // a convolution of a field with a filter
	FuseConvData        // its gradient of the field
	FuseConvFilter      // its gradient of the filter
	FuseBias            // adds a value per channel
	FuseReLU
	FuseReLUGrad
	FuseAdd
	FuseNorm            // a normalisation per channel by given moments
	FuseNormSums        // the sums of its gradients of factor and offset
	FuseNormGrad        // its gradient of the field, the moments being fixed
	FuseNormMomentsGrad // its gradient of the moments
	FuseMomentsGrad     // the gradient of the field that moments were computed of
)

// ConvPass is what an operation computes of a convolution.
type ConvPass uint8

// The passes.
const (
	ConvForward ConvPass = iota
	ConvData             // gradient of the field
	ConvFilter           // gradient of the filter
	ConvInt8             // forward, with products of codes of eight bits
)

// Conv describes a convolution, or a gradient of one.
type Conv struct {
	Pass ConvPass
	// Sources gives the operands, of so many, that are read in windows: the parts of one field, joined along the channels.
	// A forward pass has its filter behind them.
	Sources func(operands int) []int
}

// Is tells whether the convolution is one of this pass; a nil Conv is none.
func (c *Conv) Is(p ConvPass) bool { return c != nil && c.Pass == p }

// Filter says which operands of a layer are its filter and the field to which that is applied.
type Filter struct {
	Operand, Source int
	Axis            int // of the filter, along which the channels of the result are
}

// Transposed is true of a filter that lies as [In Out …] and not as [Out In …].
func (f *Filter) Transposed() bool { return f.Axis == 1 }

// Result stands in Ties and Left for the result, where operands have their number.
const Result = -1

// Index is one index of an axis of a value.
type Index struct{ Value, Axis, At int }

// ChannelConstraints are what an operation says of the indices of the axes of its operands and result when
// channels are removed: those that are tied are removed together, those that are kept never.
type ChannelConstraints interface {
	// Tie joins n indices from one on with as many from another on.
	Tie(a, b Index, n int)
	// TieAxes joins an axis of a with one of b of the same size.
	TieAxes(a, axisA, b, axisB int)
	// PinAxes keeps all indices of axes for a reason. Axes that the value does not have are left out.
	PinAxes(v int, why string, axes ...int)
	// PinIndex pins one index.
	PinIndex(v, axis, index int, why string)
	// Location is where the operation was built, What its name and that place: words for reasons.
	Location() string
	Description() string
}

// PrunedShape is what is left of the values of an operation when channels are removed.
type PrunedShape struct {
	Shape Shape // of the result
	// CountBefore counts how many of the first indices of an axis of a value are left.
	CountBefore func(v, axis, index int) int
}

// Traits are what passes, backends and the cut over ranks ask of an operation.
type Traits struct {
	// Split is the rule by which ranks share the operation.
	Split Split
	// Moves says that the result holds values of the operands alone.
	Moves Move
	// Fuses is the part that the operation has in fusions.
	Fuses Fuse
	// Class is the kind of work where the window does not say it.
	Class Class
	// Conv describes a convolution or a gradient of one; nil for others.
	Conv *Conv
	// Filter is that of a layer of a network, whose channels can be removed; nil for others.
	Filter *Filter
	// TieChannels, where present, ties the channels of operands and result. Those of an
	// operation with a scalar formula are tied point by point; else none can be removed.
	TieChannels func(t ChannelConstraints, in []Shape, out Shape, attrs any)
	// PrunedAttrs, where present, gives the attributes with which the operation computes what is
	// left when channels are removed; where it is nil, they stay.
	PrunedAttrs func(attrs any, l PrunedShape) any
	// Quantisable marks convolutions that can multiply codes of eight bits.
	Quantisable bool
	// PreservesScale, where present, reports whether the result for codes is that for the values,
	// as codes of the same scale.
	PreservesScale func(attrs any) bool
}

// Fuses tells whether the node is an operation with this part in fusions.
func (n *Node) Fuses(f Fuse) bool { return n.Kind == KindOp && n.Op.Fuses == f }

// Moves tells whether the node is an operation that moves values so.
func (n *Node) Moves(m Move) bool { return n.Kind == KindOp && n.Op.Moves == m }
