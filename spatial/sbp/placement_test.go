package sbp_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	. "github.com/ensemble-weather/ensemble/spatial/sbp"
)

// mesh is one of axes of these sizes.
func mesh(sizes ...int) spatial.Mesh {
	names := []string{"data", "lat", "lon", "channel"}
	var m spatial.Mesh
	for i, n := range sizes {
		m = append(m, spatial.MeshAxis{Name: names[i], Size: n})
	}
	return m
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Signature{
		"S0": {S(0)}, "B": {B}, "P": {P}, "(S0,B)": {S(0), B}, "(S1,S1,P)": {S(1), S(1), P}, "S12": {S(12)}, "()": {},
	} {
		got, err := Parse(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
		if got.String() != text {
			t.Errorf("%q is written as %q", text, got)
		}
	}
	for _, text := range []string{"", "S", "s0", "S-1", "S+1", "S0,B", "(S0)", "(S0,B", "(S0,,B)", "X", "S999"} {
		if got, err := Parse(text); !errors.Is(err, ErrSignature) {
			t.Errorf("%q is %v, %v; want ErrSignature", text, got, err)
		}
	}
}

func TestPart(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes []int
		sig   string
		dim   int
		want  [][2]int // of the dimension, by rank
	}{
		{"uneven", []int{4}, "S0", 0, [][2]int{{0, 2}, {2, 4}, {4, 6}, {6, 7}}},
		{"fewer than ranks", []int{4}, "S1", 1, [][2]int{{0, 1}, {1, 2}, {2, 3}, {3, 3}}},
		{"whole", []int{2}, "B", 0, [][2]int{{0, 7}, {0, 7}}},
		{"summand", []int{2}, "P", 0, [][2]int{{0, 7}, {0, 7}}},
		{"nested, uneven", []int{2, 2}, "(S0,S0)", 0, [][2]int{{0, 2}, {2, 4}, {4, 6}, {6, 7}}},
		{"nested, 3 in 2", []int{3, 2}, "(S0,S0)", 0, [][2]int{{0, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}}},
		{"second axis", []int{2, 2}, "(B,S0)", 0, [][2]int{{0, 4}, {4, 7}, {0, 4}, {4, 7}}},
	} {
		sig, _ := Parse(c.sig)
		for r, want := range c.want {
			box, err := Part(mesh(c.sizes...), graph.Shape{7, 3}, sig, r)
			if err != nil || [2]int{box[c.dim].Lo, box[c.dim].Hi} != want {
				t.Errorf("%s: rank %d has %v, %v; want %v", c.name, r, box, err, want)
			}
		}
	}
	for _, sig := range []Signature{{S(2)}, {B, B}, {}, {Placement(-3)}} {
		if _, err := Part(mesh(2), graph.Shape{7, 3}, sig, 0); !errors.Is(err, ErrSignature) {
			t.Errorf("%v: %v, want ErrSignature", sig, err)
		}
	}
}
