package graph

import "slices"

// Class is the kind of work of an operation, where its window does not
// determine it.
type Class uint8

// The classes.
const (
	ClassByWindow Class = iota // determined by the window
	Contraction                // sums of products over channels and filter taps
	Normalisation              // statistics per channel, and the maps that apply them
)

// Split is the rule by which the shard pass distributes an operation over
// ranks.
type Split uint8

// The rules. Operations that only move values (Move) have their own rules.
const (
	// SplitByWindow derives halos, sums over ranks and whole samples of sets
	// from the window. Without a window the operation is point by point.
	SplitByWindow Split = iota
	// SplitBroadcast is point by point. It partitions the result even if no
	// operand is a field.
	SplitBroadcast
	// SplitReshape keeps the partitions of axes that the reshape preserves, or
	// merges with the axes after them.
	SplitReshape
	// SplitRandom draws the random numbers of the whole field, so that they do
	// not depend on the partition.
	SplitRandom
	// SplitMoments combines the mean and variance of the shards.
	// SplitMomentsGrad divides by the number of elements of the whole value.
	SplitMoments
	SplitMomentsGrad
	// SplitAxis reads, along one axis, the windows that contain the rank's own
	// points.
	SplitAxis
	// SplitPatches sums, over ranks, a function of all channels at the rank's own
	// positions, whose windows it reads.
	SplitPatches
)

// Move marks operations whose result holds only copies of operand elements, and
// zeros.
type Move uint8

// The moves.
const (
	NoMove     Move = iota
	MoveConcat      // concatenation along an axis
	MoveSlice       // range of an axis
	MovePad         // operand as a range of an axis, zeros elsewhere
)

// Fuse is the role of an operation in the patterns that passes fuse into one
// operation.
type Fuse uint8

// The roles.
const (
	NoFuse         Fuse = iota
	FuseConv            // convolution of a field with a filter
	FuseConvData        // gradient of a convolution with respect to the field
	FuseConvFilter      // gradient of a convolution with respect to the filter
	FuseBias            // adds one value per channel
	FuseReLU
	FuseReLUGrad
	FuseAdd
	FuseNorm            // normalisation per channel by given moments
	FuseNormSums        // sums for the gradients of its scale and offset
	FuseNormGrad        // its gradient with respect to the field, at fixed moments
	FuseNormMomentsGrad // its gradient with respect to the moments
	FuseMomentsGrad     // gradient of the moments with respect to the field
)

// ConvPass is the part of a convolution that an operation computes.
type ConvPass uint8

// The passes.
const (
	ConvForward ConvPass = iota
	ConvData             // gradient with respect to the field
	ConvFilter           // gradient with respect to the filter
	ConvInt8             // forward, with int8 products
)

// Conv describes a convolution, or a gradient of one.
type Conv struct {
	Pass ConvPass
	// Sources returns the indices of the operands that are read in windows,
	// given the number of operands. They are parts of one field, concatenated
	// along the channels. In a forward pass the filter follows them.
	Sources func(operands int) []int
}

// Fields returns the indices of the operands that are multiplied and are no filter: the parts of the field and, for the
// gradient of the filter, that of the result.
func (c *Conv) Fields(operands int) []int {
	all := c.Sources(operands)
	if c.Pass == ConvFilter {
		all = append(slices.Clip(all), len(all))
	}
	return all
}

// Is reports whether the convolution is of this pass. It is false for a nil
// Conv.
func (c *Conv) Is(p ConvPass) bool { return c != nil && c.Pass == p }

// Filter identifies the filter of a layer and the field to which it is applied.
// Both are operand indices.
type Filter struct {
	Operand, Source int
	Axis            int // axis of the filter for the channels of the result
}

// Transposed reports whether the filter is stored as [In Out …] instead of [Out
// In …].
func (f *Filter) Transposed() bool { return f.Axis == 1 }

// Result stands for the result in ChannelConstraints and PrunedShape, where
// operands have their index.
const Result = -1

// Index is one index along an axis of a value: operand number or Result, axis,
// position.
type Index struct{ Value, Axis, At int }

// ChannelConstraints collects the constraints of an operation on the removal of
// channels (structured pruning). Tied indices are removed together. Pinned
// indices are never removed.
type ChannelConstraints interface {
	// Tie ties n consecutive indices from a with n consecutive indices from b.
	Tie(a, b Index, n int)
	// TieAxes ties all indices of an axis of a with those of an axis of b of
	// the same size.
	TieAxes(a, axisA, b, axisB int)
	// PinAxes pins all indices of the axes, for the stated reason. Axes that
	// the value does not have are ignored.
	PinAxes(v int, why string, axes ...int)
	// PinIndex pins one index.
	PinIndex(v, axis, index int, why string)
	// Location is the source line that built the operation.
	Location() string
	// Description is the name of the operation with its source line, for
	// reasons.
	Description() string
}

// PrunedShape describes the values of an operation after channels were removed.
type PrunedShape struct {
	Shape Shape // of the result
	// CountBefore counts the remaining indices of an axis below index.
	CountBefore func(v, axis, index int) int
}

// Traits are the properties of an operation that passes, backends and the
// distribution over ranks depend on. The zero value holds for point-by-point
// operations without special rules.
type Traits struct {
	// Split is the rule for the distribution over ranks.
	Split Split
	// Moves marks operations whose result holds only copies of operand
	// elements.
	Moves Move
	// Fuses is the role of the operation in fusions.
	Fuses Fuse
	// Class is the kind of work where the window does not determine it.
	Class Class
	// Conv describes a convolution or a gradient of one; nil for others.
	Conv *Conv
	// Filter is the filter of a layer whose channels can be removed; nil for
	// others.
	Filter *Filter
	// TieChannels ties the channels of operands and result. Nil ties those of a
	// scalar formula point by point. For other operations nil pins all
	// channels.
	TieChannels func(t ChannelConstraints, in []Shape, out Shape, attrs any)
	// PrunedAttrs returns the attributes of the operation after channels were
	// removed. Nil keeps the attributes.
	PrunedAttrs func(attrs any, l PrunedShape) any
	// Quantisable marks convolutions with an int8 form.
	Quantisable bool
	// PreservesScale reports whether the operation, applied to quantised
	// values, gives the quantised result by the same scales. Nil means no.
	PreservesScale func(attrs any) bool
}

// Fuses reports whether the node is an operation with role f in fusions.
func (n *Node) Fuses(f Fuse) bool { return n.Kind == KindOp && n.Op.Fuses == f }

// Moves reports whether the node is an operation that moves values in this way.
func (n *Node) Moves(m Move) bool { return n.Kind == KindOp && n.Op.Moves == m }
