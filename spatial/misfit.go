package spatial

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// Misfit states why a mesh does not suit the fields of a network.
type Misfit struct {
	What, Why string // of the first fault
	Axis      string // name of the mesh axis with the fault
	// Mesh is the mesh without all faults: with fewer ranks along axes, and without overrides.
	Mesh Mesh
}

// available describes the number of parts along a mesh axis that ranks can have.
func (a MeshAxis) available(n int) string {
	switch a.Name {
	case DataAxis:
		return "a batch has " + humanise.Count(n, "sample")
	case "channel":
		return fmt.Sprintf("the channels of no field can be divided among more than %d, in blocks of %d", n, graph.BlockSize)
	}
	return "the fields have " + humanise.Count(n, map[string]string{"level": "level", "lat": "row", "lon": "column"}[a.Name])
}

// FindMisfit returns why a mesh does not suit the fields of a graph of n samples; nil if it does. A mesh suits them if
// each rank along an axis has a part of some field, so that no two ranks compute the same, and if some field has each of
// the sizes in MeshAxis.Overrides. Shard accepts short batches and ignores sizes that no field has. Without a graph, only
// the ranks along data are compared with the samples.
func FindMisfit(g *graph.Graph, m Mesh, n int) *Misfit {
	var found *Misfit
	fault := func(axis, what, why string) {
		if found == nil {
			found = &Misfit{What: what, Why: why, Axis: axis}
		}
	}
	var fields []graph.Shape
	if g != nil {
		fields = fieldShapes(g)
	}
	var suited Mesh
	for _, a := range m {
		if g == nil && a.Name != DataAxis {
			suited = append(suited, a)
			continue
		}
		if have := a.shareable(g, fields, n); a.Size > have {
			why := "each rank along the axis needs a part of its own"
			if a.Name == DataAxis {
				why = "several ranks would compute the same samples"
			}
			fault(a.Name, fmt.Sprintf("the mesh %q has %d ranks along %s, but %s", m, a.Size, a.Name, a.available(have)), why)
			a.Size = have
		}
		overrides := a.Overrides
		a.Overrides = nil
		for _, c := range overrides {
			if slices.ContainsFunc(fields, c.applies) {
				a.Overrides = append(a.Overrides, c)
				continue
			}
			fault(a.Name, fmt.Sprintf("the mesh %q has an entry for fields of %dx%dx%d, which the network does not have", m, c.Level, c.Lat, c.Lon),
				"the sizes of its fields, levels x rows x columns, are "+sizesOf(fields))
		}
		if a.Size > 1 {
			suited = append(suited, a)
		}
	}
	if found != nil {
		found.Mesh = suited
	}
	return found
}

// fieldShapes returns the shapes of all fields of a graph: those that enter it first, then those computed from fields.
func fieldShapes(g *graph.Graph) (shapes []graph.Shape) {
	isField := make([]bool, len(g.Nodes))
	for i, n := range g.Nodes {
		isField[i] = len(n.Shape) == 5 && (n.Kind == graph.KindInput || n.Kind == graph.KindOp && slices.ContainsFunc(n.In, func(id int) bool { return isField[id] }))
		if isField[i] && (len(shapes) == 0 || n.Shape[2:].Size() > 1) { // not numbers for all points
			shapes = append(shapes, n.Shape)
		}
	}
	return shapes
}

// shareable returns the number of ranks along a mesh axis that can have a part of their own of fields with n samples.
func (a MeshAxis) shareable(g *graph.Graph, fields []graph.Shape, n int) int {
	switch {
	case a.Name == DataAxis:
		return n
	case len(fields) == 0:
		return 1
	case a.Name == "channel":
		most := 1
		for _, s := range fields {
			most = max(most, s[channels]/graph.BlockSize)
		}
		for ; most > 1 && !splitsChannels(g, MeshAxis{a.Name, most, a.Overrides}); most-- { // concatenations are whole
		}
		return most
	}
	return fields[0][a.FieldAxis()]
}

// splitsChannels reports whether a mesh axis splits the channels of any field of a graph.
func splitsChannels(g *graph.Graph, a MeshAxis) bool {
	s, err := Shard(g, Mesh{a}, 0)
	return err == nil && slices.ContainsFunc(s.Distributions, func(d graph.Distribution) bool {
		return len(d.Axes) > channels && d.Axes[channels].MeshAxis == a.Name
	})
}

// applies reports whether the override is for fields of a shape.
func (c Override) applies(s graph.Shape) bool {
	return s[2] == c.Level && s[3] == c.Lat && s[4] == c.Lon
}

// sizesOf lists the sizes of fields in space, largest first.
func sizesOf(fields []graph.Shape) string {
	sizes := make([]graph.Shape, len(fields))
	for i, s := range fields {
		sizes[i] = s[2:]
	}
	slices.SortFunc(sizes, func(a, b graph.Shape) int { return cmp.Or(cmp.Compare(b.Size(), a.Size()), slices.Compare(b, a)) })
	var text []string
	for _, s := range slices.CompactFunc(sizes, graph.Shape.Equal) {
		text = append(text, fmt.Sprintf("%dx%dx%d", s[0], s[1], s[2]))
	}
	return strings.Join(text, ", ")
}
