package search

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
)

// fieldAxes is the number of axes of a field [N C D H W], channels and levels the places of
// C and D.
const (
	fieldAxes = 5
	channels  = 1
	levels    = 2
)

// What a spread says of an axis of the mesh if not an axis of fields that it cuts as evenly
// as it can: that it cuts none, or what its name says, where all sizes suit each other.
const (
	noAxis = -1
	byName = -2
)

// AxisNames are the names of the axes of fields in meshes and changes.
var AxisNames = [fieldAxes]string{"data", "channel", "level", "lat", "lon"}

func axisName(axis int) string {
	if axis == noAxis {
		return "none"
	}
	return AxisNames[axis]
}

// stageSplit says what each axis of a mesh cuts.
type stageSplit []int

// axis is that of fields that the k-th axis of a mesh cuts.
func (s stageSplit) axis(m spatial.Mesh, k int) int {
	if s[k] == byName {
		return m[k].FieldAxis()
	}
	return s[k]
}

// size is the levels, latitudes and longitudes of a field. All fields of one size, a stage of
// the network, have one spread.
type size [3]int

func sizeOf(s graph.Shape) size { return size(s[levels:fieldAxes]) }

// splitField is a field that a spread cuts.
type splitField struct {
	shape  graph.Shape
	joined bool // of other fields along the channels, which are then not cut
}

// splitsTwice tells whether the last axis of the mesh cuts what one before it cuts.
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

// fieldLayout is how the axes of one field are cut: by an axis of the mesh (none for an axis
// that is whole) at these first indices.
type fieldLayout [fieldAxes]axisSplit

type axisSplit struct {
	mesh   int
	starts []int
}

// part is the interval of an axis of n that is held at a place along the axis of the mesh.
func (c axisSplit) part(at, n int) spatial.Interval {
	if c.mesh == noAxis {
		return spatial.Interval{Lo: 0, Hi: n}
	}
	return spatial.OwnedInterval(c.cut(), at, n)
}

func (c axisSplit) cut() graph.AxisPartition {
	if c.mesh == noAxis {
		return graph.AxisPartition{}
	}
	return graph.AxisPartition{MeshAxis: "mesh", Starts: c.starts}
}

// parts is how many parts the axis is cut into.
func (c axisSplit) parts() int { return max(1, len(c.starts)) }

// equal tells whether two layouts cut alike.
func (l fieldLayout) equal(m fieldLayout) bool {
	for i := range l {
		if l[i].mesh != m[i].mesh || !slices.Equal(l[i].starts, m[i].starts) {
			return false
		}
	}
	return true
}

// splitter cuts the axes of all fields of a network.
type splitter struct {
	sizes  [fieldAxes][]int // that occur, largest first
	stages []size
	fields [][]splitField   // by stage
	loaded []bool           // by stage: has fields that enter the network
	known  map[[3]int][]int // starts, by axis, size and parts
}

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

// stage is the index of that of a field.
func (c *splitter) stage(s graph.Shape) int { return slices.Index(c.stages, sizeOf(s)) }

// starts cuts an axis of a size into parts: the largest size as evenly as multiples of the
// smallest allow, others where windows lead from there; nil if a part would be empty.
func (c *splitter) starts(axis, size, parts int) []int {
	key := [3]int{axis, size, parts}
	if s, ok := c.known[key]; ok {
		return s
	}
	c.known[key] = c.cut(axis, size, parts)
	return c.known[key]
}

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

// layout is how a spread cuts a field: as package spatial does.
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

// splitFor is what a mesh says that its axes cut at a stage.
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

// withOverrides is a mesh that cuts each stage as a spread says.
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

// withoutOverrides is a mesh without changes.
func withoutOverrides(m spatial.Mesh) spatial.Mesh {
	m = slices.Clone(m)
	for k := range m {
		m[k].Overrides = nil
	}
	return m
}

// stageSplits lists what the axes of a mesh can cut: first what their names say, then nothing,
// then channels, then any axis; no two the same. Of fields that are loaded each cuts its own
// axis, as its name says or evenly: samples are read so, and other meshes cut others.
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

// choices lists the spreads of every stage that differ there.
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
