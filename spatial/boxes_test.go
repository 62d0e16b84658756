package spatial

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Boxes of the ranks along each mesh axis determine those of all ranks.
func TestBoxesOf(t *testing.T) {
	m := Mesh{{Name: "data", Size: 2}, {Name: "lat", Size: 3}, {Name: "lon", Size: 4}}
	s := graph.Shape{4, 8, 2, 12, 16}
	of := func(r int) Box {
		b := m.Owned(dist(s, map[int]MeshAxis{0: m[0], 3: m[1], 4: m[2]}), s, r)
		b[3] = Interval{b[3].Lo - 1, b[3].Hi + 2}
		return b
	}
	b := BoxesOf(m, of)
	for r := range m.Size() {
		if got := b.Of(r); !slices.Equal(got, of(r)) {
			t.Errorf("rank %d: %v, want %v", r, got, of(r))
		}
	}
	wider := b.change(4, func(v Interval) Interval { return Interval{v.Lo, v.Hi + 1} })
	if b.Equal(wider) || !b.Equal(BoxesOf(m, of)) || string(b.appendKey(nil)) == string(wider.appendKey(nil)) {
		t.Error("boxes of other intervals are equal, or the same ones are not")
	}
	defer func() {
		if recover() == nil {
			t.Error("an interval that depends on two mesh axes was accepted")
		}
	}()
	BoxesOf(m, func(r int) Box { return Box{{r, r + 1}} })
}

// Transfers of one rank are those of all transfers that it takes part in, for random redistributions.
func TestMovesOf(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	s := graph.Shape{4, 48, 3, 12, 16}
	for range 200 {
		m := Mesh{{Name: "data", Size: 1 + random.IntN(3)}, {Name: "lat", Size: 1 + random.IntN(3)}, {Name: "lon", Size: 1 + random.IntN(4)}}
		layout := func() graph.Distribution {
			axes := map[int]MeshAxis{}
			for _, a := range m {
				if axis := random.IntN(8); axis < 5 && axes[axis].Name == "" && a.Size > 1 && a.Size <= s[axis] {
					axes[axis] = a
				}
			}
			return dist(s, axes)
		}
		p := shuffle(m, s, layout(), layout())
		p.Need = p.Need.change(4, func(v Interval) Interval { return Interval{v.Lo - random.IntN(3), v.Hi + random.IntN(3)} })
		all, err := p.Moves()
		if err != nil {
			t.Fatal(err)
		}
		for r := range m.Size() {
			got, err := p.MovesOf(r)
			if err != nil {
				t.Fatal(err)
			}
			want := slices.DeleteFunc(slices.Clone(all), func(v Move) bool { return v.From != r && v.To != r })
			if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
				t.Fatalf("%v, from %v to %v, rank %d:\n%v\nwant\n%v", m, p.From, p.Need, r, got, want)
			}
		}
	}
}
