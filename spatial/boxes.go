package spatial

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Box is a part of a value: an interval for each axis.
type Box []Interval

// Size returns the number of elements.
func (b Box) Size() int {
	n := 1
	for _, v := range b {
		n *= v.Len()
	}
	return n
}

// Intersect returns the intersection of two boxes.
func (b Box) Intersect(c Box) Box {
	out := make(Box, len(b))
	for i := range b {
		out[i] = b[i].Intersect(c[i])
	}
	return out
}

// Boxes holds one box of a value for each rank of a mesh. Along each axis of the value the interval depends on the
// coordinate along one mesh axis at most, because one mesh axis splits an axis. Memory and time of all that is
// derived from boxes therefore grow with the sum of the mesh axes and not with their product, the number of ranks.
// A box may have holes: intervals along an axis that the rank does not need. The zero value holds no boxes.
type Boxes struct {
	mesh Mesh
	axes []rankIntervals // by axis of the value
}

// rankIntervals holds the interval of each rank along one axis of a value.
type rankIntervals struct {
	along int        // position of the mesh axis whose coordinate selects the interval; everyRank: one interval for all
	at    []Interval // by coordinate
	// holes lists, by coordinate, intervals within at that are not part of the box; nil if there are none.
	holes [][]Interval
}

// everyRank in rankIntervals.along means that all ranks have the same interval.
const everyRank = -1

// BoxesOf returns the boxes that of defines. It asks for the boxes of the ranks along each mesh axis only.
//
// Along an axis of the value the interval may depend on one mesh axis; BoxesOf panics if it depends on two.
func BoxesOf(m Mesh, of func(rank int) Box) Boxes {
	first := of(0)
	b := Boxes{mesh: m, axes: make([]rankIntervals, len(first))}
	for i, v := range first {
		b.axes[i] = rankIntervals{along: everyRank, at: []Interval{v}}
	}
	stride := m.Size()
	for k, a := range m {
		stride /= a.Size
		line := make([]Box, a.Size)
		line[0] = first
		for c := 1; c < a.Size; c++ {
			line[c] = of(c * stride)
		}
		for i := range first {
			b.axes[i].join(k, line, i)
		}
	}
	if last := m.Size() - 1; !slices.Equal(b.Of(last), of(last)) {
		panic(fmt.Sprintf("spatial: the box of the last rank of %v is %v, not %v: an interval depends on two mesh axes", m, of(last), b.Of(last)))
	}
	return b
}

// join takes the intervals along axis i of the boxes of the ranks along mesh axis k, if they differ.
func (r *rankIntervals) join(k int, line []Box, i int) {
	if !slices.ContainsFunc(line, func(b Box) bool { return b[i] != line[0][i] }) {
		return
	}
	if r.along != everyRank {
		panic(fmt.Sprintf("spatial: the interval along axis %d depends on two mesh axes", i))
	}
	r.along, r.at = k, nil
	for _, b := range line {
		r.at = append(r.at, b[i])
	}
}

// rankIntervalsOf returns the intervals that of defines for the coordinates along an axis of the mesh.
func rankIntervalsOf(m Mesh, along string, of func(coordinate int) Interval) rankIntervals {
	first := of(0)
	k := slices.IndexFunc(m, func(a MeshAxis) bool { return a.Name == along })
	if k < 0 {
		return rankIntervals{along: everyRank, at: []Interval{first}}
	}
	at, same := make([]Interval, m[k].Size), true
	for c := range at {
		at[c] = of(c)
		same = same && at[c] == first
	}
	if same {
		return rankIntervals{along: everyRank, at: at[:1]}
	}
	return rankIntervals{along: k, at: at}
}

// ownedBoxes returns the boxes that the ranks own of a value of shape s in a distribution.
func (m Mesh) ownedBoxes(d graph.Distribution, s graph.Shape) Boxes {
	b := Boxes{mesh: m, axes: make([]rankIntervals, len(s))}
	for i, n := range s {
		var cut graph.AxisPartition
		if len(d.Axes) > 0 {
			cut = d.Axes[i]
		}
		b.axes[i] = rankIntervalsOf(m, cut.MeshAxis, func(c int) Interval { return OwnedInterval(cut, c, n) })
	}
	return b
}

// IsZero reports whether there are no boxes.
func (b Boxes) IsZero() bool { return b.axes == nil }

// Of returns the box of a rank.
func (b Boxes) Of(rank int) Box {
	at := b.mesh.coordinates(rank)
	out := make(Box, len(b.axes))
	for i, r := range b.axes {
		out[i] = r.of(at)
	}
	return out
}

// of returns the interval of the rank with the given coordinates.
func (r rankIntervals) of(at []int) Interval {
	if r.along == everyRank {
		return r.at[0]
	}
	return r.at[at[r.along]]
}

// holes returns the holes of the box of a rank, by axis.
func (b Boxes) holes(rank int) [][]Interval {
	at := b.mesh.coordinates(rank)
	out := make([][]Interval, len(b.axes))
	for i, r := range b.axes {
		if r.holes != nil {
			c := 0
			if r.along != everyRank {
				c = at[r.along]
			}
			out[i] = r.holes[c]
		}
	}
	return out
}

// Equal reports whether every rank has the same box in both, with the same holes.
func (b Boxes) Equal(c Boxes) bool {
	return slices.EqualFunc(b.axes, c.axes, func(r, s rankIntervals) bool {
		return r.along == s.along && slices.Equal(r.at, s.at) && slices.EqualFunc(r.holes, s.holes, slices.Equal)
	})
}

// change returns boxes whose intervals along one axis of the value are those that of returns for the present ones,
// without holes.
func (b Boxes) change(axis int, of func(Interval) Interval) Boxes {
	b.axes = slices.Clone(b.axes)
	r, along := b.axes[axis], ""
	if r.along != everyRank {
		along = b.mesh[r.along].Name
	}
	b.axes[axis] = rankIntervalsOf(b.mesh, along, func(c int) Interval { return of(r.at[c]) })
	return b
}

// with returns boxes with another size of the value along an axis, which all ranks have as a whole.
func (b Boxes) with(axis, size int) Boxes {
	return b.change(axis, func(Interval) Interval { return Interval{0, size} })
}

// withOwned returns boxes that also span what each rank owns of its room, so that ranks copy their own elements as a
// whole. What was not part of a box becomes a hole. own has the boxes that the ranks own of the value.
func (b Boxes) withOwned(own, room Boxes) Boxes {
	changed := false
	for i, r := range b.axes {
		o, to := own.axes[i], room.axes[i]
		if o.along != everyRank && o.along != r.along {
			continue
		}
		more := func(c int) Interval { // what the rank owns of its room
			return o.at[min(c, len(o.at)-1)].Intersect(to.at[min(c, len(to.at)-1)])
		}
		within := true
		for c, v := range r.at {
			within = within && (more(c).Len() == 0 || v.Intersect(more(c)) == more(c))
		}
		if within {
			continue
		}
		if !changed {
			b.axes, changed = slices.Clone(b.axes), true
		}
		wide := rankIntervals{along: r.along}
		for c, v := range r.at {
			parts := []Interval{v}
			if r.holes != nil {
				parts = cutOut(v, r.holes[c])
			}
			span := hull(union(parts, more(c)))
			wide.at, wide.holes = append(wide.at, span), append(wide.holes, holesIn(span, parts))
		}
		b.axes[i] = wide
	}
	return b
}

// span reports whether every rank has the same box in both, apart from holes.
func (b Boxes) span(c Boxes) bool {
	return slices.EqualFunc(b.axes, c.axes, func(r, s rankIntervals) bool { return r.along == s.along && slices.Equal(r.at, s.at) })
}

// within reports whether the boxes of all ranks lie within a shape, without wrapping around.
func (b Boxes) within(s graph.Shape) bool {
	for i, r := range b.axes {
		if slices.ContainsFunc(r.at, func(v Interval) bool { return v.Lo < 0 || v.Hi > s[i] }) {
			return false
		}
	}
	return true
}

// appendKey appends a text that is equal for equal boxes only.
func (b Boxes) appendKey(key []byte) []byte {
	for _, r := range b.axes {
		key = append(strconv.AppendInt(append(key, '@'), int64(r.along), 10), ':')
		for _, v := range r.at {
			key = append(strconv.AppendInt(key, int64(v.Lo), 10), ',')
			key = append(strconv.AppendInt(key, int64(v.Hi), 10), ' ')
		}
		if r.holes != nil {
			key = fmt.Append(key, r.holes)
		}
	}
	return key
}
