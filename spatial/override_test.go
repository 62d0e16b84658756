package spatial

import (
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// deep is a U-Net with 24 to 48 channels and 2×2×4 points in its deepest stage.
func deep(x graph.Shape) network { return unet("deep U-Net", x, 8, true) }

// Meshes whose axes split channels, samples or nothing in small fields of deep, and
// the resulting splits. Sizes are those of fields with 8×16 points.
var unlike = []struct {
	mesh string
	cuts []string // of some field
}{
	{"channel:2", []string{"1/channel:2"}},
	{"channel:3", []string{"1/channel:3"}}, // in uneven parts
	{"lon:2@2x2x4=channel", []string{"1/lon:2", "4/lon:2"}},
	{"lat:2@2x2x4=none,2x4x8=channel", []string{"1/lat:2", "3/lat:2"}},
	{"lat:2 lon:2@2x4x8=channel,2x2x4=channel", []string{"1/lon:2 3/lat:2", "3/lat:2 4/lon:2"}},
	{"lat:2@2x2x4=data lon:2@2x2x4=channel", []string{"0/lat:2 1/lon:2"}},
	{"data:2 lon:2@2x4x8=channel,2x2x4=none", []string{"0/data:2 1/lon:2", "0/data:2"}},
	{"level:2@2x4x8=lat,2x2x4=channel lon:2", []string{"1/level:2 4/lon:2", "3/level:2 4/lon:2"}},
	{"lon:3@2x8x16=lon,2x4x8=lon", []string{"4/lon:3"}}, // evenly, not at whole cells of the smallest fields
	{"lat:4@2x2x4=none,2x4x8=lon", []string{"4/lat:4", "3/lat:4"}},
	{"lat:2@2x8x16=data", []string{"0/lat:2", "3/lat:2"}}, // not inputs and outputs, which are of that size too
	{"lon:2@2x8x16=none", []string{"replicated", "4/lon:2"}},
	{"lat:2@2x8x16=lon lon:2@2x8x16=lat", []string{"3/lon:2 4/lat:2", "3/lat:2 4/lon:2"}},
}

func parsed(t testing.TB, text string) Mesh {
	t.Helper()
	m, err := ParseMesh(text)
	if err != nil {
		t.Fatal(err)
	}
	if m.String() != text {
		t.Fatalf("%q is read as %q", text, m)
	}
	return m
}

// In float64 a network gives the same result if mesh axes split other axes, or
// channels, in small fields, Kronecker factors included.
func TestShardUnlikeStages(t *testing.T) { shardUnlikeStages(t, aThird) }

func shardUnlikeStages(t *testing.T, take func(network, mesh int) bool) {
	o := engine.Options{MaxFactorSide: 100, Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Float64: true}}
	n := deep(graph.Shape{2, 3, 2, 8, 16})
	one, err := n.run(t, nil, comm.Parallel, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range unlike {
		mode := comm.Parallel
		if i%2 == 1 {
			mode = comm.Replay(uint64(i))
		}
		if !take(0, i) {
			continue
		}
		t.Run(c.mesh, func(t *testing.T) {
			m := parsed(t, c.mesh)
			n.mustCut(t, m, c.cuts)
			many, err := n.run(t, m, mode, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := many.compare(one, 1e-7, 1e-7); err != nil { // stored as float32
				t.Error(err)
			}
		})
	}
}

// mustCut fails unless a mesh splits some fields as given.
func (n network) mustCut(t *testing.T, m Mesh, cuts []string) {
	t.Helper()
	s := &sharding{mesh: m, g: n.graph(t), cuts: map[axisSize]graph.AxisPartition{}}
	if err := s.cutFields(); err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, v := range s.g.Nodes {
		have = append(have, s.fieldDist(v.Shape).String())
	}
	for _, want := range cuts {
		if !slices.Contains(have, want) {
			t.Errorf("no field is cut %q", want)
		}
	}
}

// On the CPU backend they give the result of one rank within rounding, also if a
// concatenation starts within a block of channels.
func TestShardUnlikeStagesOnCPU(t *testing.T) {
	for _, n := range []network{deep(graph.Shape{2, 5, 2, 8, 16}), unet("joins off blocks", graph.Shape{2, 5, 2, 8, 16}, 9, false)} {
		o := engine.Options{Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}}
		one, err := n.run(t, nil, comm.Parallel, o)
		if exit.CodeOf(err) == exit.NoDevice {
			t.Skip("skipped: no device: ", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range unlike {
			many, err := n.run(t, parsed(t, c.mesh), comm.Parallel, o)
			if err != nil {
				t.Fatal(n.name, c.mesh, err)
			}
			if err := many.compare(one, 2e-6, 1e-5); err != nil {
				t.Errorf("%s on %s: %v", n.name, c.mesh, err)
			}
		}
	}
}

// Invalid meshes are refused.
func TestParseMeshRefuses(t *testing.T) {
	for _, text := range []string{
		"lon", "lon:0", "lon:2 lon:2", "height:2", "lon:2@", "lon:2@2x3=channel", "lon:2@2x3x4", "lon:2@2x3x4=height",
		"lon:2@2x3x0=channel", "lon:2@2x3x4=channel,2x3x4=none", "lat:2 lon:2@2x3x4=lat", "lat:2@2x3x4=none,2x3x5=lon lon:2",
	} {
		if m, err := ParseMesh(text); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%q is read as %v: %v", text, m, err)
		}
	}
}

// Boundaries are multiples of the coarsest cell of fields. Filters whose size
// divides a field do not count.
func TestCutsSuitFields(t *testing.T) {
	g := unet("U-Net", graph.Shape{1, 3, 2, 8, 24}, 1, true).graph(t)
	if err := g.AddGradients(op.Add); err != nil {
		t.Fatal(err)
	}
	s := &sharding{mesh: Mesh{{Name: "lon", Size: 2}}, g: g, cuts: map[axisSize]graph.AxisPartition{}}
	if err := s.cutFields(); err != nil {
		t.Fatal(err)
	}
	if got := s.cuts[axisSize{4, 24}].Starts; !slices.Equal(got, []int{0, 12}) {
		t.Errorf("24 longitudes, 6 in the coarsest fields, are cut at %v, want 0 and 12", got)
	}
}
