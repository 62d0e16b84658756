package search

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
)

// Axes of a field [N C D H W]: their number, and the positions of C and D.
const (
	fieldAxes = 5
	channels  = 1
	levels    = 2
)

// Values of a stageSplit beside an axis of fields, which is split as evenly as
// possible: no axis, or the axis of the mesh axis's name, split so that the
// boundaries suit all field sizes.
const (
	noAxis = -1
	byName = -2
)

// AxisNames are the names of the axes of fields [N C D H W] in meshes.
var AxisNames = [fieldAxes]string{"data", "channel", "level", "lat", "lon"}

// axisName returns the name of an axis of fields, "none" for no axis.
func axisName(axis int) string {
	if axis == noAxis {
		return "none"
	}
	return AxisNames[axis]
}

// stageSplit selects, for each axis of a mesh, the axis of fields that it splits.
type stageSplit []int

// axis returns the axis of fields that mesh axis k splits.
func (s stageSplit) axis(m spatial.Mesh, k int) int {
	if s[k] == byName {
		return m[k].FieldAxis()
	}
	return s[k]
}

// size holds the levels, latitudes and longitudes of a field. All fields of one
// size form a stage of the network and have the same stageSplit.
type size [3]int

// sizeOf returns the size of a field of shape s.
func sizeOf(s graph.Shape) size { return size(s[levels:fieldAxes]) }

// splitField is a field to split.
type splitField struct {
	shape  graph.Shape
	joined bool // a channel concatenation, whose channels are not split
}

// splitsTwice reports whether the last mesh axis splits the same axis as an earlier
// one.
func (s stageSplit) splitsTwice(m spatial.Mesh) bool {
	last := len(s) - 1
	axis := s.axis(m, last)
	for k := range last {
		if axis != noAxis && s.axis(m, k) == axis {
			return true
		}
	}
	return false
}

// fieldLayout is the split of each axis of one field.
type fieldLayout [fieldAxes]axisSplit

// axisSplit is the split of an axis: the mesh axis, noAxis for a whole axis, and
// the first index of each part.
type axisSplit struct {
	mesh   int
	starts []int
}

// part returns the interval of an axis of size n at a coordinate of the mesh axis.
func (c axisSplit) part(at, n int) spatial.Interval {
	if c.mesh == noAxis {
		return spatial.Interval{Lo: 0, Hi: n}
	}
	return spatial.OwnedInterval(c.cut(), at, n)
}

// cut returns the split as a graph.AxisPartition; its mesh axis has a placeholder name.
func (c axisSplit) cut() graph.AxisPartition {
	if c.mesh == noAxis {
		return graph.AxisPartition{}
	}
	return graph.AxisPartition{MeshAxis: "mesh", Starts: c.starts}
}

// parts returns the number of parts.
func (c axisSplit) parts() int { return max(1, len(c.starts)) }

// equal reports whether two layouts are equal.
func (l fieldLayout) equal(m fieldLayout) bool {
	for i := range l {
		if l[i].mesh != m[i].mesh || !slices.Equal(l[i].starts, m[i].starts) {
			return false
		}
	}
	return true
}

// splitter splits the axes of all fields of a network.
type splitter struct {
	sizes  [fieldAxes][]int // distinct sizes of each axis, largest first
	stages []size
	fields [][]splitField   // by stage
	loaded []bool           // by stage: has fields that enter the network
	known  map[[3]int][]int // first indices of parts, by axis, size and number of parts
}

// newSplitter collects the sizes and stages of a network.
func newSplitter(n Network) *splitter {
	c := &splitter{known: map[[3]int][]int{}}
	add := func(f splitField) {
		for axis, size := range f.shape {
			if !slices.Contains(c.sizes[axis], size) {
				c.sizes[axis] = append(c.sizes[axis], size)
			}
		}
		at := c.stage(f.shape)
		if at < 0 {
			at = len(c.stages)
			c.stages, c.fields, c.loaded = append(c.stages, sizeOf(f.shape)), append(c.fields, nil), append(c.loaded, false)
		}
		if !slices.ContainsFunc(c.fields[at], func(g splitField) bool { return f.joined == g.joined && f.shape.Equal(g.shape) }) {
			c.fields[at] = append(c.fields[at], f)
		}
	}
	for i := range n.Layers {
		l := &n.Layers[i]
		add(l.result())
		for _, e := range l.From {
			add(e.operand())
			if e.From == Input {
				c.loaded[c.stage(e.Shape)] = true
			}
		}
	}
	for _, s := range c.sizes {
		slices.Sort(s)
		slices.Reverse(s)
	}
	return c
}

// stage returns the index of a field's stage.
func (c *splitter) stage(s graph.Shape) int { return slices.Index(c.stages, sizeOf(s)) }

// starts returns the first index of each part of an axis, nil if a part would be
// empty. The largest size n₀ is split into multiples of n₀/n₁, with n₁ the smallest
// size above 1 that divides n₀. Boundary i of another size n is ⌈start₀(i)·n/n₀⌉,
// as windows with a stride propagate it.
func (c *splitter) starts(axis, size, parts int) []int {
	key := [3]int{axis, size, parts}
	if s, ok := c.known[key]; ok {
		return s
	}
	c.known[key] = c.cut(axis, size, parts)
	return c.known[key]
}

// cut computes starts without the cache.
func (c *splitter) cut(axis, size, parts int) []int {
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
	starts := spatial.ShardStarts(most, parts, unit)
	for i, at := range starts {
		starts[i] = (at*size + most - 1) / most
		if i > 0 && starts[i] <= starts[i-1] || starts[i] >= size {
			return nil
		}
	}
	return starts
}

// layout returns how a stageSplit splits a field, with the rules of package
// spatial: channels at multiples of graph.BlockSize, other axes evenly or by name.
// Where a part would be empty the axis stays whole. If two mesh axes select one
// axis, the first one splits it.
func (c *splitter) layout(m spatial.Mesh, to stageSplit, f splitField) fieldLayout {
	var l fieldLayout
	for axis := range l {
		l[axis].mesh = noAxis
	}
	for k := range to {
		axis, parts := to.axis(m, k), m[k].Size
		if axis == noAxis || parts == 1 || l[axis].mesh != noAxis {
			continue
		}
		var starts []int
		switch n := f.shape[axis]; {
		case axis == channels:
			if !f.joined && n >= parts*graph.BlockSize {
				starts = spatial.ShardStarts(n, parts, graph.BlockSize)
			}
		case to[k] == byName:
			starts = c.starts(axis, n, parts)
		case n >= parts:
			starts = spatial.ShardStarts(n, parts, 1)
		}
		if starts != nil {
			l[axis] = axisSplit{k, starts}
		}
	}
	return l
}

// splitFor returns the axes that the axes of a mesh split at a stage.
func (c *splitter) splitFor(m spatial.Mesh, stage int) stageSplit {
	to := make(stageSplit, len(m))
	for k, a := range m {
		axis, changed := a.SplitAxis(c.fields[stage][0].shape)
		if to[k] = byName; changed {
			to[k] = axis
		}
	}
	return to
}

// withOverrides returns a mesh with overrides that split each stage as given.
func (c *splitter) withOverrides(m spatial.Mesh, to []stageSplit) spatial.Mesh {
	m = withoutOverrides(m)
	for i, s := range c.stages {
		for k, axis := range to[i] {
			if axis != byName {
				m[k].Overrides = append(m[k].Overrides, spatial.Override{Level: s[0], Lat: s[1], Lon: s[2], To: axisName(axis)})
			}
		}
	}
	return m
}

// withoutOverrides returns a mesh without overrides.
func withoutOverrides(m spatial.Mesh) spatial.Mesh {
	m = slices.Clone(m)
	for k := range m {
		m[k].Overrides = nil
	}
	return m
}

// stageSplits returns all selections for a mesh without duplicate axes, in the
// order: by name, none, channels, then other axes. Fields that are loaded from
// storage keep the axis of the name, split by name or evenly, because samples are
// read that way.
//
// There are at most 7ᵃ selections for a mesh axes. splitter.choices removes those
// with equal layouts.
func stageSplits(m spatial.Mesh, loaded bool) []stageSplit {
	all := []stageSplit{nil}
	for _, a := range m {
		options := []int{byName, noAxis, channels, 0, levels, levels + 1, levels + 2}
		if loaded {
			options = []int{byName, a.FieldAxis()}
		}
		var longer []stageSplit
		for _, s := range all {
			for _, o := range options {
				if s := append(slices.Clone(s), o); !s.splitsTwice(m) {
					longer = append(longer, s)
				}
			}
		}
		all = longer
	}
	return all
}

// choices returns the selections of every stage that give different layouts.
func (c *splitter) choices(m spatial.Mesh) [][]stageSplit {
	all := make([][]stageSplit, len(c.stages))
	for i, fields := range c.fields {
		var seen [][]fieldLayout
	next:
		for _, s := range stageSplits(m, c.loaded[i]) {
			var cut []fieldLayout
			for _, f := range fields {
				cut = append(cut, c.layout(m, s, f))
			}
			for _, other := range seen {
				if slices.EqualFunc(cut, other, fieldLayout.equal) {
					continue next
				}
			}
			seen = append(seen, cut)
			all[i] = append(all[i], s)
		}
	}
	return all
}
