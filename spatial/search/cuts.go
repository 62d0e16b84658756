package search

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
)

// fieldAxes is the number of axes of a field [N C D H W], levels the place of D.
const (
	fieldAxes = 5
	levels    = 2
)

// none is the axis of fields that an axis of the mesh cuts if it cuts none.
const none = -1

// spread says which axis of fields each axis of a mesh cuts.
type spread []int

// layout is how the axes of one field are cut: by an axis of the mesh (none for an axis
// that is whole) at these first indices.
type layout [fieldAxes]cutAt

type cutAt struct {
	mesh   int
	starts []int
}

// part is the interval of an axis of n that is held at a place along the axis of the mesh.
func (c cutAt) part(at, n int) spatial.Interval {
	if c.mesh == none {
		return spatial.Interval{Lo: 0, Hi: n}
	}
	return spatial.Part(c.cut(), at, n)
}

func (c cutAt) cut() graph.Cut {
	if c.mesh == none {
		return graph.Cut{}
	}
	return graph.Cut{Mesh: "mesh", Starts: c.starts}
}

// places is how many parts the axis is cut into.
func (c cutAt) places() int { return max(1, len(c.starts)) }

// same tells whether two layouts cut alike.
func (l layout) same(m layout) bool {
	for i := range l {
		if l[i].mesh != m[i].mesh || !slices.Equal(l[i].starts, m[i].starts) {
			return false
		}
	}
	return true
}

// cutter cuts the axes of all fields of a network.
type cutter struct {
	sizes [fieldAxes][]int // that occur, largest first
	known map[[3]int][]int // starts, by axis, size and parts
}

func newCutter(n Network) *cutter {
	c := &cutter{known: map[[3]int][]int{}}
	add := func(s graph.Shape) {
		for axis, size := range s {
			if !slices.Contains(c.sizes[axis], size) {
				c.sizes[axis] = append(c.sizes[axis], size)
			}
		}
	}
	for _, l := range n.Layers {
		add(l.Out)
		for _, e := range l.From {
			add(e.Shape)
		}
	}
	for _, s := range c.sizes {
		slices.Sort(s)
		slices.Reverse(s)
	}
	return c
}

// starts cuts an axis of a size into parts: the largest size as evenly as multiples of the
// smallest allow, others where windows lead from there; nil if a part would be empty.
func (c *cutter) starts(axis, size, parts int) []int {
	key := [3]int{axis, size, parts}
	if s, ok := c.known[key]; ok {
		return s
	}
	c.known[key] = c.cut(axis, size, parts)
	return c.known[key]
}

func (c *cutter) cut(axis, size, parts int) []int {
	most := c.sizes[axis][0]
	if parts < 2 || parts > most {
		return nil
	}
	unit := 1
	for _, s := range c.sizes[axis] {
		if s > 1 && most%s == 0 {
			unit = max(unit, most/s)
		}
	}
	starts := spatial.Starts(most, parts, unit)
	for i, at := range starts {
		starts[i] = (at*size + most - 1) / most
		if i > 0 && starts[i] <= starts[i-1] || starts[i] >= size {
			return nil
		}
	}
	return starts
}

// layout is how a spread cuts fields of a shape.
func (c *cutter) layout(m spatial.Mesh, to spread, shape graph.Shape) layout {
	var l layout
	for axis := range l {
		l[axis].mesh = none
	}
	for k, axis := range to {
		if axis == none {
			continue
		}
		if s := c.starts(axis, shape[axis], m[k].Size); s != nil {
			l[axis] = cutAt{k, s}
		}
	}
	return l
}

// natural cuts along the axes that the mesh names.
func natural(m spatial.Mesh) spread {
	to := make(spread, len(m))
	for k, a := range m {
		to[k] = a.Field()
	}
	return to
}

// spreads lists what the axes of a mesh can cut: natural first, then each axis as its name
// says, or none, or the samples.
func spreads(m spatial.Mesh) []spread {
	all := []spread{nil}
	for _, a := range m {
		var longer []spread
		for _, s := range all {
			options := []int{a.Field(), none}
			if a.Field() != 0 {
				options = append(options, 0)
			}
			for _, axis := range options {
				if axis == none || !slices.Contains(s, axis) {
					longer = append(longer, append(slices.Clone(s), axis))
				}
			}
		}
		all = longer
	}
	return all
}
