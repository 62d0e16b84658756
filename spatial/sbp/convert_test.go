package sbp_test

import (
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	. "github.com/ensemble-weather/ensemble/spatial/sbp"
)

// path returns the cheapest path by bytes.
func path(t *testing.T, k *Converter, s graph.Shape, from, to Signature) Path {
	t.Helper()
	p, err := k.Path(s, from, to)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The 64-channel field of the network on 1 degree, in float32.
func TestField(t *testing.T) {
	field := graph.Shape{64, 2, 352, 704}
	for _, c := range []struct {
		from, to Placement
		p        int
		want     Cost
	}{
		{S(3), B, 4, Cost{Total: 380_633_088, Sent: 95_158_272, Rounds: 3}},
		{S(3), B, 8, Cost{Total: 888_143_872, Sent: 111_017_984, Rounds: 7}},
		{S(3), B, 32, Cost{Total: 3_933_208_576, Sent: 122_912_768, Rounds: 31}},
		{P, B, 4, Cost{Total: 761_266_176, Sent: 190_316_544, Rounds: 6}},
		{P, B, 8, Cost{Total: 1_776_287_744, Sent: 222_035_968, Rounds: 14}},
		{P, B, 32, Cost{Total: 7_866_417_152, Sent: 245_825_536, Rounds: 62}},
		{S(3), S(0), 4, Cost{Total: 95_158_272, Sent: 23_789_568, Rounds: 3}},
		{S(3), S(0), 8, Cost{Total: 111_017_984, Sent: 13_877_248, Rounds: 7}},
		{S(3), S(0), 32, Cost{Total: 122_912_768, Sent: 3_841_024, Rounds: 31}},
	} {
		k := &Converter{Mesh: mesh(c.p), Unit: 4}
		if got := path(t, k, field, Signature{c.from}, Signature{c.to}).Cost; got != c.want {
			t.Errorf("%v to %v on %d ranks: %+v, want %+v", c.from, c.to, c.p, got, c.want)
		}
	}
}

// table returns the cost, by the table of the package, of a conversion on one axis
// of p ranks for a tensor of T bytes that splits evenly.
func table(from, to Placement, p int, size int64) Cost {
	q := int64(p)
	switch {
	case from == to || p == 1:
		return Cost{}
	case from >= 0 && to >= 0:
		return Cost{Total: (q - 1) * size / q, Sent: (q - 1) * size / (q * q), Rounds: p - 1}
	case from == P && to == B:
		return Cost{Total: 2 * (q - 1) * size, Sent: 2 * (q - 1) * size / q, Rounds: 2 * (p - 1)}
	case from >= 0 && to == B, from == P && to >= 0:
		return Cost{Total: (q - 1) * size, Sent: (q - 1) * size / q, Rounds: p - 1}
	}
	return Cost{}
}

var letters = []Placement{S(0), S(1), B, P}

// withoutSummands returns a cost without penalties.
func withoutSummands(c Cost) Cost {
	c.Summands = 0
	return c
}

func TestTable(t *testing.T) {
	shape := graph.Shape{24, 12}
	for _, p := range []int{1, 2, 3, 4} {
		k := &Converter{Mesh: mesh(p), Unit: 8}
		for _, from := range letters {
			for _, to := range letters {
				c := path(t, k, shape, Signature{from}, Signature{to}).Cost
				if got, want := withoutSummands(c), table(from, to, p, 8*24*12); got != want {
					t.Errorf("%v to %v on %d ranks: %+v, want %+v", from, to, p, got, want)
				}
				summands := 0
				if to == P && from != P {
					summands = 1
				}
				if c.Summands != summands {
					t.Errorf("%v to %v: %d steps make summands, want %d", from, to, c.Summands, summands)
				}
			}
		}
	}
}

// One of two mesh axes changes: the cost is that of one axis for the tensor as seen
// on it. The bytes of all ranks count once for each part or replica on the other
// axis.
func TestOneAxisOfTwo(t *testing.T) {
	const size = 24 * 12
	for _, c := range []struct {
		other  Placement
		slice  int64 // T as seen on the first axis
		copies int64 // how often it is moved
	}{
		{S(1), size / 3, 3}, {B, size, 3}, {P, size, 3},
	} {
		k := &Converter{Mesh: mesh(2, 3)}
		for _, pair := range [][2]Placement{{S(0), B}, {P, S(0)}, {P, B}, {B, S(0)}} {
			want := table(pair[0], pair[1], 2, c.slice)
			want.Total *= c.copies
			got := path(t, k, graph.Shape{24, 12}, Signature{pair[0], c.other}, Signature{pair[1], c.other}).Cost
			if got != want {
				t.Errorf("%v to %v with %v on the other axis: %+v, want %+v", pair[0], pair[1], c.other, got, want)
			}
		}
	}
}

// (B,S0) to (S0,S0) moves only what ranks do not hold: (1-1/m) T on a mesh of n ×
// m.
func TestNestedSplitsCost(t *testing.T) {
	for _, c := range []struct{ n, m int }{{2, 2}, {2, 4}, {4, 2}, {3, 3}, {2, 3}} {
		k := &Converter{Mesh: mesh(c.n, c.m)}
		size := 5 * c.n * c.m
		got := path(t, k, graph.Shape{size}, Signature{B, S(0)}, Signature{S(0), S(0)}).Cost.Total
		if want := int64(size - size/c.m); got != want {
			t.Errorf("%d × %d: %d elements are moved, want %d", c.n, c.m, got, want)
		}
		if free := path(t, k, graph.Shape{size}, Signature{S(0), B}, Signature{S(0), S(0)}).Cost; free != (Cost{}) {
			t.Errorf("%d × %d: the inner split costs %+v, want nothing", c.n, c.m, free)
		}
	}
}

// Merged, p1·p2 ranks reduce as one group; axis by axis they move the whole twice.
func TestMerge(t *testing.T) {
	link := Link{Beta: 1}
	for _, c := range []struct {
		merge    bool
		from, to Signature
		want     Cost
	}{
		{false, Signature{P, P}, Signature{B, B}, Cost{Total: 2 * 4 * 144, Sent: 2 * 144, Rounds: 4}},
		{true, Signature{P, P}, Signature{B, B}, Cost{Total: 6 * 144, Sent: 216, Rounds: 6}},
		{false, Signature{S(0), S(0)}, Signature{B, B}, Cost{Total: 3 * 144, Sent: 108, Rounds: 2}},
		{false, Signature{P, S(0)}, Signature{B, B}, Cost{Total: 2*2*72 + 4*72, Sent: 72 + 72, Rounds: 3}},
		{true, Signature{P, S(0)}, Signature{B, B}, Cost{Total: 2*2*72 + 4*72, Sent: 72 + 72, Rounds: 3}},
	} {
		k := &Converter{Mesh: mesh(2, 2), Link: link, Merge: c.merge}
		if got := path(t, k, graph.Shape{12, 12}, c.from, c.to).Cost; got != c.want {
			t.Errorf("%v to %v, merge %v: %+v, want %+v", c.from, c.to, c.merge, got, c.want)
		}
	}
	// Where rounds cost more than bytes, axis by axis is the cheaper way.
	slow := &Converter{Mesh: mesh(2, 2), Link: Link{Alpha: 1}, Merge: true}
	if got := len(path(t, slow, graph.Shape{12, 12}, Signature{P, P}, Signature{B, B}).Steps); got != 2 {
		t.Errorf("%d steps, want 2", got)
	}
}

// The order in which axes change is the cheapest: scattering before gathering.
func TestOrder(t *testing.T) {
	k := &Converter{Mesh: mesh(2, 4), Link: Link{Beta: 1}}
	from, to := Signature{S(0), P}, Signature{B, S(1)}
	p := path(t, k, graph.Shape{16, 16}, from, to)
	want := []Step{{from, Signature{S(0), S(1)}}, {Signature{S(0), S(1)}, to}}
	if !slices.EqualFunc(p.Steps, want, func(a, b Step) bool {
		return slices.Equal(a.From, b.From) && slices.Equal(a.To, b.To)
	}) {
		t.Errorf("steps %v, want %v", p.Steps, want)
	}
	if want := int64(128*3/4 + 64/2); p.Cost.Sent != want {
		t.Errorf("%d elements sent, want %d", p.Cost.Sent, want)
	}
}

func TestTime(t *testing.T) {
	l := Link{Alpha: 5e-6, Beta: 8e-11, Penalty: 1}
	if got, want := l.Time(Cost{Total: 1e9, Sent: 1e6, Rounds: 3}), 95e-6; math.Abs(got-want) > 1e-15 {
		t.Errorf("%v s, want %v", got, want)
	}
	if got := l.Time(Cost{Summands: 2}); got != 2 {
		t.Errorf("%v s of penalties, want 2", got)
	}
}
