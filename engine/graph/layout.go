package graph

// Layout is the order of the elements of a value in memory.
type Layout uint8

// The layouts.
const (
	// Plain is row-major: the last axis varies fastest.
	Plain Layout = iota
	// Blocked stores BlockSize channels contiguously: a value [N C …] lies as
	// [N ⌈C/16⌉ … 16]. Lanes beyond the last channel are zero. Kernels load a
	// block in one vector instruction. Values whose channels fill whole blocks
	// can be concatenated without a copy.
	Blocked
	// ChannelsLast stores all channels of a point contiguously: a value [N C …]
	// lies as [N … 8·⌈C/8⌉]. Elements beyond the last channel are zero. Tensor
	// cores of GPUs read eight 16-bit values at once. PyTorch calls this order
	// channels_last.
	ChannelsLast
	// NumLayouts is the number of layouts.
	NumLayouts
)

// BlockSize is the number of channels per block of the blocked layout.
const BlockSize = 16

// ChannelAlign is the multiple to which the number of channels is rounded up in
// the layout ChannelsLast.
const ChannelAlign = 8

// String is the name in prints. Its first letter identifies the layout in
// stored choices.
func (l Layout) String() string { return [...]string{"plain", "blocked", "last"}[l] }

// Elems is the number of elements that a value of shape s takes in this layout,
// padding included.
func (l Layout) Elems(s Shape) int {
	if l == Plain || len(s) < 2 {
		return s.Size()
	}
	return s.Size() / s[1] * l.PaddedChannels(s[1])
}

// PaddedChannels is the number of channels that c channels take in this layout,
// padding included.
func (l Layout) PaddedChannels(c int) int {
	size := [...]int{1, BlockSize, ChannelAlign}[l]
	return (c + size - 1) / size * size
}

// Elems is the number of elements that the value takes in memory, padding of
// its layout included.
func (n *Node) Elems() int { return n.Layout.Elems(n.Shape) }

// ArenaElems is the memory of the value in elements of the arena (4 bytes in a
// plan of float32). Values of 16 bits take half an element each, int8 values a
// quarter, rounded up.
func (n *Node) ArenaElems() int {
	switch n.DType {
	case BFloat16, Float16:
		return (n.Elems() + 1) / 2
	case UInt8:
		return (n.Elems() + 3) / 4
	}
	return n.Elems()
}

// SameStorage reports whether two values have as many elements of the same
// type, so that one can reuse the buffer of the other.
func (n *Node) SameStorage(m *Node) bool { return n.DType == m.DType && n.Elems() == m.Elems() }

// SetLayout sets the memory layout. It has no effect on an invalid value.
func (v Value) SetLayout(l Layout) {
	if v.b != nil {
		v.b.g.Nodes[v.id].Layout = l
	}
}

// Layout is the memory layout. It is Plain for an invalid value.
func (v Value) Layout() Layout {
	if v.b == nil {
		return Plain
	}
	return v.b.g.Nodes[v.id].Layout
}
