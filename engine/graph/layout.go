package graph

// Layout is how the elements of a value lie in memory.
type Layout uint8

// The layouts.
const (
	// Plain is row-major: the last axis runs fastest.
	Plain Layout = iota
	// Blocked keeps BlockSize channels together: a value [N C …] lies as
	// [N ⌈C/16⌉ … 16]. The lanes beyond the last channel are zero. Kernels load a
	// block in one instruction, and values whose channels are whole blocks can
	// be joined without a copy.
	Blocked
	// ChannelsLast keeps all channels of a point together: a value [N C …] lies as
	// [N … 8·⌈C/8⌉]. What lies beyond the last channel is zero. Matrix units of GPUs read
	// eight values of two bytes at once.
	ChannelsLast
	// NumLayouts is the number of layouts.
	NumLayouts
)

// BlockSize is the number of channels in a block of the blocked layout.
const BlockSize = 16

// ChannelAlign is what the number of channels is rounded up to a multiple of, where they
// come last.
const ChannelAlign = 8

// String is the name in prints.
func (l Layout) String() string { return [...]string{"plain", "blocked", "last"}[l] }

// Elems is the number of elements a value of shape s takes in this layout.
func (l Layout) Elems(s Shape) int {
	if l == Plain || len(s) < 2 {
		return s.Size()
	}
	return s.Size() / s[1] * l.PaddedChannels(s[1])
}

// PaddedChannels is the number of channels that c channels take in this layout.
func (l Layout) PaddedChannels(c int) int {
	size := [...]int{1, BlockSize, ChannelAlign}[l]
	return (c + size - 1) / size * size
}

// Elems is the number of elements the value takes in memory.
func (n *Node) Elems() int { return n.Layout.Elems(n.Shape) }

// ArenaElems is the memory of the value in elements of the arena: as many as it has,
// or half of them of 16 bits, a quarter as codes, rounded up.
func (n *Node) ArenaElems() int {
	switch n.DType {
	case BFloat16, Float16:
		return (n.Elems() + 1) / 2
	case UInt8:
		return (n.Elems() + 3) / 4
	}
	return n.Elems()
}

// SameStorage tells whether two values have as many elements of the same type, so
// that one can take the place of the other.
func (n *Node) SameStorage(m *Node) bool { return n.DType == m.DType && n.Elems() == m.Elems() }

// SetLayout says how the value lies in memory; it has no effect on an invalid
// value.
func (v Value) SetLayout(l Layout) {
	if v.b != nil {
		v.b.g.Nodes[v.id].Layout = l
	}
}

// Layout is how the value lies in memory.
func (v Value) Layout() Layout {
	if v.b == nil {
		return Plain
	}
	return v.b.g.Nodes[v.id].Layout
}
