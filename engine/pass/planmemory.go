package pass

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// MemorySpace is the memory in which a value lives.
type MemorySpace uint8

// The memory spaces.
const (
	Arena MemorySpace = iota // arena of the plan, at an offset
	Param                    // memory of a parameter in the store
	State                    // memory of a state in the store
	Grad                     // memory of a gradient in the store
	Host                     // host memory for offloaded values, at an offset
)

// Place is the place of one value in memory.
type Place struct {
	Space  MemorySpace // memory space
	Offset int         // elements from the start of the arena or host memory
	Size   int         // elements of the arena
	Owner  int         // node of the parameter or state
}

// Memory is the memory plan.
type Memory struct {
	Places    []Place // by node
	ArenaSize int     // elements
	HostSize  int     // elements of host memory for offloaded values
	// LowerBound is the largest sum of values alive at one time: a lower bound
	// of the arena for this order of execution.
	LowerBound int
	// GradCopies lists the gradients to copy from the arena after the last
	// operation, ZeroGrads the parameters without a gradient.
	GradCopies []graph.Grad
	ZeroGrads  []int
	// Kept is the buffer of GradMemory.KeptSize.
	Kept Span
	// Spans holds the lifetime of every buffer of the arena, for checks and
	// prints.
	Spans []Span
}

// FindGap returns the lowest offset of n elements of the arena that no value
// uses while operations first to last of the sequence run. ok is false if there
// is none.
func (m *Memory) FindGap(first, last, n int) (offset int, ok bool) {
	var alive []Span
	for _, s := range m.Spans {
		if s.First <= last && first <= s.Last {
			alive = append(alive, s)
		}
	}
	slices.SortFunc(alive, func(a, b Span) int { return cmp.Compare(a.Offset, b.Offset) })
	for _, s := range alive {
		if s.Offset >= offset+n {
			return offset, true
		}
		offset = max(offset, s.Offset+roundUp(s.Size))
	}
	return offset, offset+n <= m.ArenaSize
}

// LiveElements returns the sum of the values alive at each of n positions of the sequence.
func (m *Memory) LiveElements(n int) []int {
	live := make([]int, n+1)
	for _, s := range m.Spans {
		live[max(s.First, 0)] += s.Size
		if s.Last+1 < n {
			live[s.Last+1] -= s.Size
		}
	}
	for at := 1; at < n; at++ {
		live[at] += live[at-1]
	}
	return live[:n]
}

// Span is one buffer of the arena with its lifetime: First ≤ position ≤ Last in
// the sequence. −1 and len(sequence) mean before and after all operations.
type Span struct {
	Nodes                     []int // values that share it, one after the other; none: Memory.Kept
	Offset, Size, First, Last int
}

// align is the alignment of buffers in elements: 64 bytes of float32, one cache
// line.
const align = 16

// roundUp is the number of elements that a buffer takes with its alignment.
func roundUp(elements int) int { return (elements + align - 1) / align * align }

// planMemory places each value. If an operation may run in place, its result
// takes over the buffer of an operand that is dead afterwards. Buffers are then
// placed largest first, at the lowest offset that is free during their
// lifetime. Inputs (unless Unit.DonateInputs is set), constants and outputs
// keep their buffers for the whole run, so that they can be written and read
// between runs.
//
// Errors: exit.NoDevice if arena and workspaces exceed the memory limit; graph.ErrShape for a value that kernels cannot
// address.
// Source: greedy by size, Pisarchyk and Lee 2020, arXiv:2001.03288.
func planMemory(u *Unit) error {
	for _, n := range u.Graph.Nodes {
		if err := n.Shape.CheckAddressable(); err != nil {
			return fmt.Errorf("%s: %w", n.Label(), err)
		}
	}
	assignMemory(u)
	m := u.Memory
	if need := int64(m.ArenaSize)*int64(u.ElemBytes) + scratchOutside(u); u.MemoryLimit > 0 && need > u.MemoryLimit {
		return &exit.Error{Code: exit.NoDevice,
			What: fmt.Sprintf("the plan needs %d MiB of memory, the limit is %.1f MiB", ceilMiB(need), floorMiB(u.MemoryLimit)),
			Why:  fmt.Sprintf("%d values; at least %d MiB are alive at one time", len(u.Graph.Nodes), ceilMiB(int64(m.LowerBound)*int64(u.ElemBytes))),
			Fix:  "use a smaller batch or a smaller crop of the field, or raise the memory limit"}
	}
	return nil
}

// assignMemory computes u.Memory.
func assignMemory(u *Unit) {
	g := u.Graph
	m := &Memory{Places: make([]Place, len(g.Nodes))}
	u.Memory = m
	var grads GradMemory
	if u.ExternalGrads != nil {
		grads = u.ExternalGrads(g, u.Sequence)
	}
	buffer := placeFixed(g, m, u.ExternalGrads == nil)
	m.GradCopies = slices.DeleteFunc(m.GradCopies, func(d graph.Grad) bool { _, ok := grads.FreeAfter[g.AliasRoot(d.Value)]; return ok })
	spans := lifetimes(u, buffer, grads.FreeAfter)
	kept := &Span{Size: grads.KeptSize, First: grads.KeptFrom, Last: len(u.Sequence)}
	if kept.Size > 0 {
		spans = append(spans, kept)
	}
	placeSpans(spans, m)
	m.setSpans(spans)
	reserveScratch(u, spans, m)
	m.Kept = *kept
	for i := range g.Nodes {
		if r := g.AliasRoot(i); m.Places[r].Space == Arena && i == r {
			s := spans[buffer[i]]
			m.Places[i] = Place{Space: Arena, Offset: s.Offset, Size: g.Nodes[i].ArenaElems()}
		}
	}
	for i := range g.Nodes { // aliases
		if r := g.AliasRoot(i); r != i {
			m.Places[i] = m.Places[r]
		}
	}
}

// setSpans sets the spans of m.
func (m *Memory) setSpans(spans []*Span) {
	m.Spans = m.Spans[:0]
	for _, s := range spans {
		if s != nil && s.Size > 0 {
			m.Spans = append(m.Spans, *s)
		}
	}
}

// reserveScratch places the spans again if this leaves gaps for more kernel
// workspaces in an arena of the same size. It treats workspaces as spans of one
// operation, and places them together with the values. It tries all workspaces
// first, then only those without a gap. It skips workspaces that cannot fit,
// because values and workspace together exceed the arena.
func reserveScratch(u *Unit, spans []*Span, m *Memory) {
	// Candidates: workspaces that fit together with the values in use, if these were
	// packed without gaps.
	var scratch []*Span
	for t, id := range u.Sequence {
		n := int(u.ScratchOf[id]) / u.ElemBytes
		room := roundUp(n)
		for _, s := range m.Spans {
			if s.First <= t && t <= s.Last {
				room += roundUp(s.Size)
			}
		}
		if n > 0 && room <= m.ArenaSize {
			scratch = append(scratch, &Span{Size: n, First: t, Last: t})
		}
	}
	// unplaced returns the workspaces without a gap, and the size of the largest
	// one, which determines the buffer outside of the arena.
	unplaced := func() (without []*Span, most int) {
		for _, s := range scratch {
			if _, ok := m.FindGap(s.First, s.First, s.Size); !ok {
				without, most = append(without, s), max(most, s.Size)
			}
		}
		return without, most
	}
	without, least := unplaced()
	if least == 0 {
		return
	}
	best := make([]int, len(spans)) // offsets
	keep := func() {
		for i, s := range spans {
			if s != nil {
				best[i] = s.Offset
			}
		}
	}
	keep()
	for _, some := range [][]*Span{scratch, without} {
		with := &Memory{}
		placeSpans(slices.Concat(spans, some), with)
		m.setSpans(spans)
		if _, most := unplaced(); with.ArenaSize <= m.ArenaSize && most < least {
			least = most
			keep()
		}
	}
	size := m.ArenaSize
	if least > 0 { // a larger arena that holds all workspaces may be smaller than arena and buffer
		var all []*Span
		for t, id := range u.Sequence {
			if n := int(u.ScratchOf[id]) / u.ElemBytes; n > 0 {
				all = append(all, &Span{Size: n, First: t, Last: t})
			}
		}
		with := &Memory{}
		placeSpans(slices.Concat(spans, all), with)
		if with.ArenaSize < size+least {
			size = with.ArenaSize
			keep()
		}
	}
	m.ArenaSize = size
	for i, s := range spans {
		if s != nil {
			s.Offset = best[i]
		}
	}
	m.setSpans(spans)
}

// scratchOutside is the largest workspace without a gap in the arena, in bytes: kernels have one buffer outside of it.
func scratchOutside(u *Unit) (most int64) {
	for t, id := range u.Sequence {
		bytes := u.ScratchOf[id]
		if bytes <= most {
			continue
		}
		if _, ok := u.Memory.FindGap(t, t, int(bytes)/u.ElemBytes); !ok {
			most = bytes
		}
	}
	return most
}

// placeFixed places the values outside of the arena and numbers the buffers of
// the others: one per memory root, −1 for values elsewhere. Gradients are in
// the store if stored is true, otherwise in the arena.
func placeFixed(g *graph.Graph, m *Memory, stored bool) []int {
	buffer := make([]int, len(g.Nodes))
	for i, n := range g.Nodes {
		buffer[i] = -1
		switch {
		case n.Kind == graph.KindParam:
			m.Places[i] = Place{Space: Param, Size: n.ArenaElems(), Owner: i}
		case n.Kind == graph.KindState:
			m.Places[i] = Place{Space: State, Size: n.ArenaElems(), Owner: i}
		case n.Kind == graph.KindOp && op.IsOnHost(n.Op):
			m.Places[i] = Place{Space: Host, Offset: m.HostSize, Size: n.ArenaElems(), Owner: i}
			if n.Op == op.OffloadDoneOp {
				m.Places[i] = m.Places[n.In[0]]
			} else {
				m.HostSize += roundUp(n.ArenaElems())
			}
		case g.AliasRoot(i) == i:
			buffer[i] = i
		}
	}
	has := make([]bool, len(g.Nodes))
	for _, d := range g.Grads {
		has[d.Param] = true
		r := g.AliasRoot(d.Value)
		if stored && g.Nodes[r].Kind == graph.KindOp && m.Places[r].Space == Arena {
			m.Places[r] = Place{Space: Grad, Size: g.Nodes[r].ArenaElems(), Owner: d.Param}
			buffer[r] = -1
			continue
		}
		m.GradCopies = append(m.GradCopies, d)
	}
	for i, n := range g.Nodes {
		if n.Kind == graph.KindParam && !has[i] {
			m.ZeroGrads = append(m.ZeroGrads, i)
		}
	}
	return buffer
}

// lifetimes returns the span of each buffer by number. A buffer is in use from
// its operation to its last reader. Values that are not results of operations
// are in use from the start (−1), and values that must stay until the end.
// In-place results join the buffer of their operand if it is read last by that
// operation; buffer is changed accordingly. consumed is GradMemory.FreeAfter.
func lifetimes(u *Unit, buffer []int, consumed map[int]int) []*Span {
	g := u.Graph
	end := len(u.Sequence)
	at := make([]int, len(g.Nodes))
	for i := range at {
		at[i] = -1
	}
	for t, id := range u.Sequence {
		at[id] = t
	}
	by, stays := readers(g)
	for i, n := range g.Nodes {
		if u.DonateInputs && n.Kind == graph.KindInput {
			stays[i] = slices.ContainsFunc(g.Roots(), func(id int) bool { return g.AliasRoot(id) == i })
		}
	}
	spans := make([]*Span, len(g.Nodes))
	for i, n := range g.Nodes {
		if buffer[i] < 0 {
			continue
		}
		s := &Span{Nodes: []int{i}, Size: n.ArenaElems(), First: at[i], Last: at[i]}
		for _, r := range by[i] {
			s.Last = max(s.Last, at[r])
		}
		if until, ok := consumed[i]; ok {
			s.Last = until
		} else if stays[i] {
			s.Last = end
		}
		spans[i] = s
	}
	// Reuse in place, in order of execution: chains of operations then share
	// one buffer. An operand qualifies if this operation reads it last, and if
	// it is not an input or constant (First < 0), whose content must survive
	// the run.
	for t, id := range u.Sequence {
		n := g.Nodes[id]
		if buffer[id] < 0 {
			continue
		}
		for i, in := range n.In {
			r := g.AliasRoot(in)
			b := buffer[r]
			if b < 0 || b == buffer[id] || spans[b].Last != t || spans[b].First < 0 ||
				!g.Nodes[r].SameStorage(n) || !n.Op.InPlace(i, n.Attrs) {
				continue
			}
			// The buffer of the operand becomes that of the result.
			spans[b].Nodes = append(spans[b].Nodes, id)
			spans[b].Last = spans[id].Last
			spans[id] = nil
			buffer[id] = b
			break
		}
	}
	return spans
}

// attempts is the number of random changes that placeSpans tries.
const attempts = 400

// placeSpans assigns offsets to the spans and sets the size of the arena. Spans
// are placed largest first. If this leaves gaps at the peak, the order of the
// large spans is improved by random changes: the span at the top of the arena,
// or one before it, moves to an earlier position. A change is kept if the arena
// does not grow. The random numbers are fixed, so the result is reproducible.
func placeSpans(spans []*Span, m *Memory) {
	var todo []*Span
	for _, s := range spans {
		if s != nil {
			todo = append(todo, s)
		}
	}
	floor := 0 // lower bound of the arena
	for _, s := range todo {
		live, room := 0, 0
		for _, p := range todo {
			if p.First <= s.First && s.First <= p.Last {
				live += p.Size
				room += roundUp(p.Size)
			}
		}
		m.LowerBound, floor = max(m.LowerBound, live), max(floor, room)
	}
	// Largest first: small buffers fill the gaps between large ones.
	slices.SortStableFunc(todo, func(a, b *Span) int { return cmp.Compare(b.Size, a.Size) })
	size, _ := placeInOrder(todo)
	// Only buffers above 1/128 of the lower bound are reordered. Smaller ones
	// hardly affect the size, and each attempt is quadratic in their number.
	if size > floor {
		turn := slices.Clone(todo)
		large, _ := slices.BinarySearchFunc(turn, floor/128, func(s *Span, size int) int { return cmp.Compare(size, s.Size) })
		improveOrder(turn[:large], floor)
		if other, _ := placeInOrder(turn); other < size {
			size = other
		} else {
			placeInOrder(todo)
		}
	}
	m.ArenaSize = size
}

// improveOrder improves the order of spans until the arena has size floor or
// the attempts are used up.
func improveOrder(turn []*Span, floor int) {
	size, top := placeInOrder(turn)
	key := rng.Hash("turns of buffers")
	draw := func(k, below int) int { return int(rng.Uniform(key, uint64(k)) * float64(below)) }
	// Alternate between the span that determines the size of the arena and a
	// random one before it. Equal sizes are accepted, so that the search can
	// cross plateaus.
	for k := 0; k < attempts && size > floor && top > 0; k++ {
		from := top
		if k%2 == 1 {
			from = 1 + draw(2*k, top)
		}
		to := draw(2*k+1, from)
		s := turn[from]
		copy(turn[to+1:from+1], turn[to:from])
		turn[to] = s
		if other, highest := placeInOrder(turn); other <= size {
			size, top = other, highest
		} else {
			copy(turn[to:from], turn[to+1:from+1])
			turn[from] = s
		}
	}
}

// placeInOrder places each span at the lowest offset that the spans before it
// leave free during its lifetime. It returns the size of the arena and the
// index of the first span that reaches this size.
//
// Cost: O(n²) for n spans: each one is compared with those placed before it.
func placeInOrder(todo []*Span) (size, top int) {
	type room struct{ from, to, first, last int }
	placed := make([]room, 0, len(todo)) // ascending offsets
	for i, s := range todo {
		need := roundUp(s.Size)
		offset, at := 0, len(placed)
		for k := range placed {
			p := &placed[k]
			if p.last < s.First || s.Last < p.first {
				continue
			}
			if p.from >= offset+need {
				break
			}
			offset = max(offset, p.to)
		}
		for at > 0 && placed[at-1].from > offset {
			at--
		}
		s.Offset = offset
		if offset+need > size {
			size, top = offset+need, i
		}
		placed = slices.Insert(placed, at, room{offset, offset + need, s.First, s.Last})
	}
	return size, top
}
