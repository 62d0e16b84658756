package spatial

import (
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A mesh whose ranks do not all get a part of their own, or that names sizes of no field, is a misfit, and the mesh in its
// place is none.
func TestFindMisfit(t *testing.T) {
	n := network{"pooled", graph.Shape{4, 3, 2, 8, 12}, nil, func(b *graph.Builder, x, _ graph.Value) {
		h := op.MaxPool(b, conv(b, "a", x, 40, [3]int{1, 3, 3}, op.Conv{Pad: op.Same(1, 3, 3)}), [3]int{1, 2, 2})
		h = op.Concat(b, 1, h, h)
		b.Loss(op.Mean(b, op.Abs(b, h)))
	}}
	g, err := n.built()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ mesh, what, instead string }{
		{"data:2 level:2 lat:2 lon:2", "", ""},
		{"lat:8", "", ""}, // the pooled fields of 4 rows are whole
		{"lon:5", "", ""},
		{"lat:2@2x4x6=none,2x8x12=lat", "", ""},
		{"channel:2", "", ""},
		{"lat:9", "9 ranks along lat, but the fields have 8 rows", "lat:8"},
		{"data:2 lon:13", "13 ranks along lon, but the fields have 12 columns", "data:2 lon:12"},
		{"level:3 lat:2", "3 ranks along level, but the fields have 2 levels", "level:2 lat:2"},
		{"data:5", "5 ranks along data, but a batch has 4 samples", "data:4"},
		{"channel:5", "", ""},
		{"channel:6", "6 ranks along channel, but the channels of no field can be divided among more than 5", "channel:5"},
		{"channel:2@2x8x12=none,2x4x6=none", "2 ranks along channel", ""},
		{"lat:2@2x4x6=none,1x4x6=none", "fields of 1x4x6, which the network does not have", "lat:2@2x4x6=none"},
		{"lat:9@3x3x3=none lon:2@7x7x7=none", "9 ranks along lat", "lat:8 lon:2"},
	} {
		m, err := ParseMesh(c.mesh)
		if err != nil {
			t.Fatal(err)
		}
		f := FindMisfit(g, m, n.x[0])
		switch {
		case (f == nil) != (c.what == ""):
			t.Errorf("%s: %+v, want %q", c.mesh, f, c.what)
		case f != nil && (!strings.Contains(f.What, c.what) || f.Mesh.String() != c.instead):
			t.Errorf("%s: %q and in its place %q, want %q and %q", c.mesh, f.What, f.Mesh, c.what, c.instead)
		case f != nil:
			if again := FindMisfit(g, f.Mesh, n.x[0]); again != nil {
				t.Errorf("%s: the mesh in its place is one too: %s", c.mesh, again.What)
			}
		default:
			if _, err := Shard(g, m, 0); err != nil {
				t.Errorf("%s: %v", c.mesh, err)
			}
		}
	}
	m := Mesh{{Name: "lat", Size: 99}, {Name: "data", Size: 4}}
	if f := FindMisfit(nil, m, 4); f != nil {
		t.Errorf("%v without fields: %s", m, f.What)
	}
	if f := FindMisfit(nil, m, 3); f == nil || f.Mesh.String() != "lat:99 data:3" {
		t.Errorf("%v of 3 samples without fields: %+v", m, f)
	}
}

// The number of ranks is bounded, also for products that overflow.
func TestParseMeshSize(t *testing.T) {
	for _, text := range []string{"lat:0", "lat:-1", "lat:", "lat", "lat:2 lat:2", "lat:2097152", "lat:1048576 lon:2", "data:1048575 level:1048575 lat:1048575 lon:1048575", "lat:9223372036854775807"} {
		if m, err := ParseMesh(text); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%s: %v, %v", text, m, err)
		}
	}
	if m, err := ParseMesh("lat:1024 lon:1024"); err != nil || m.Size() != 1<<20 {
		t.Errorf("%v, %v", m, err)
	}
}
