package cluster

import (
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// wrong is a router with a fault.
type wrong func(path []int, from, to int) []int

func (f wrong) route(path []int, from, to int) []int { return f(path, from, to) }

// Times depend on routes: each wrong route takes longer than the right one.
func TestWrongRoutes(t *testing.T) {
	took := func(text string, change func(t *Topology) router, n func(Wiring) Network) Time {
		topology, err := Parse(text, Cable{})
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			topology.router = change(topology)
		}
		result, err := Run(topology.Hosts, n(Wiring{Topology: topology}), Options{}, func(r *Rank) error {
			p := r.Size() // everybody to the neighbours on both sides, and across
			var requests []comm.Request
			for _, d := range []int{1, p / 2, p - 1} {
				x := make([]comm.SizeOnly, 10_000)
				requests = append(requests, r.Recv((r.Rank()+p-d)%p, d, x), r.Send((r.Rank()+d)%p, d, x))
			}
			return comm.WaitAll(requests...)
		})
		if err != nil {
			t.Fatal(err)
		}
		return result.Time()
	}
	for _, k := range []struct {
		name, text string
		change     func(t *Topology) router
	}{
		{"never around the date line", "torus:1,8", func(t *Topology) router {
			g := t.router.(*torus)
			return wrong(func(path []int, from, to int) []int {
				for ; from < to; from++ {
					path = append(path, g.rows[0][from])
				}
				for ; from > to; from-- {
					path = append(path, back(g.rows[0][from-1]))
				}
				return path
			})
		}},
		{"always ahead", "torus:1,8", func(t *Topology) router {
			g := t.router.(*torus)
			return wrong(func(path []int, from, to int) []int {
				for ; from != to; from = (from + 1) % 8 {
					path = append(path, g.rows[0][from])
				}
				return path
			})
		}},
		{"one core for all", "fattree:4", func(t *Topology) router {
			f := t.router.(*fatTree)
			return wrong(func(path []int, from, to int) []int {
				a, b := from/2, to/2
				return append(path, f.host[from], f.edge[a][0], f.aggregation[a/2*2][0],
					back(f.aggregation[b/2*2][0]), back(f.edge[b][0]), back(f.host[to]))
			})
		}},
		{"always the low edge", "hx:1,2,4,1", func(t *Topology) router {
			l := t.router.(*hammingMesh).rows[0]
			return wrong(func(path []int, from, to int) []int {
				// Hosts of one row count along it.
				if from/2 == to/2 {
					return l.walk(path, from, to)
				}
				path = l.net.route(l.walk(path, from, from/2*2), from/2*2, to/2*2, 0)
				return l.walk(path, to/2*2, to)
			})
		}},
	} {
		for name, n := range map[string]func(Wiring) Network{
			"fluid":             func(g Wiring) Network { return Fluid{g} },
			"store and forward": func(g Wiring) Network { return StoreAndForward{Wiring: g} },
		} {
			right, astray := took(k.text, nil, n), took(k.text, k.change, n)
			if astray <= right {
				t.Errorf("%s, %s: %v, the right way %v", k.name, name, astray, right)
			}
		}
	}
}

// Events of equal time run in the order of scheduling; those of atEnd run last.
func TestClockOrder(t *testing.T) {
	var c clock
	var got []int
	for i, at := range []Time{30, 10, 20, 10, 30, 20, 10} {
		c.at(at, func() {
			got = append(got, i)
			c.atEnd(func() { got = append(got, -int(c.now)) })
			if i == 3 {
				c.at(c.now, func() { got = append(got, 100) })
			}
		})
	}
	for c.next() {
	}
	want := []int{1, 3, 6, 100, -10, -10, -10, 2, 5, -20, -20, 0, 4, -30, -30}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}
