package search

import (
	"testing"

	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// exhaustive returns the fastest of all plans of a mesh: with every axis, in the fields of every size, on every axis of
// the fields, or on none.
func exhaustive(t *testing.T, s *searching, mesh spatial.Mesh, best *Plan) {
	t.Helper()
	sizes := stageSizes(s.g)
	var visit func(m spatial.Mesh, k, at int)
	visit = func(m spatial.Mesh, k, at int) {
		switch {
		case k == len(m):
			p, err := s.plan(m, typicalRank(m))
			for range 2 { // the typical rank first, then the slowest
				if err != nil || best.Step > 0 && p.Step >= best.Step {
					return
				}
				err = s.slowest(t.Context(), &p)
			}
			*best = p
			return
		case at == len(sizes):
			visit(m, k+1, 0)
			return
		}
		visit(m, k, at+1)
		for _, to := range []string{"none", "channel", "data", "level", "lat", "lon"} {
			if at == 0 && to != m[k].Name { // as in improve
				continue
			}
			if changed, ok := withOverride(m, k, sizes[at:at+1], to); ok {
				visit(changed, k, at+1)
			}
		}
	}
	visit(mesh, 0, 0)
}

// searchesExhaustively compares the search with all plans. Several links and sizes of the inner fields make other plans
// the best.
//
// Source: Chen et al. 2023, arXiv:2301.06813 (coordinate descent against exhaustive search).
func searchesExhaustively(t *testing.T, ranks ...int) {
	for _, inner := range []int{16, 64, 512} {
		for _, alpha := range []cluster.Time{cluster.Microsecond, 200 * cluster.Microsecond} {
			g, m := smallUNetOf(t, 1, inner), fastLinks
			m.InterNode.Alpha = alpha
			s, err := newSearching(g, &m, Optimiser{State: 2})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range ranks {
				found, err := Search(t.Context(), g, n, m, Optimiser{State: 2}, Options{PerStage: true})
				if err != nil {
					t.Fatal(err)
				}
				var best Plan
				for _, mesh := range Meshes(s.g, n) {
					exhaustive(t, s, mesh, &best)
				}
				d := found.Best.Step.Seconds()/best.Step.Seconds() - 1
				t.Logf("%d channels, latency %v, %d ranks: %v takes %v, the best of all plans %v %v (%+.2f %%)", inner, alpha, n, found.Best.Mesh, found.Best.Step, best.Mesh, best.Step, 100*d)
				if d > 2*MinSaving {
					t.Errorf("%d channels, latency %v, %d ranks: %v takes %v, but %v takes %v", inner, alpha, n, found.Best.Mesh, found.Best.Step, best.Mesh, best.Step)
				}
			}
		}
	}
}

func TestSearchIsExhaustive(t *testing.T) { searchesExhaustively(t, 2, 4) }

// An axis of one rank changes nothing.
func TestAxisOfOneRank(t *testing.T) {
	g := smallUNet(t, 64)
	for _, text := range []string{"lon:4", "data:2 lon:2"} {
		mesh := parseMesh(t, text)
		want, err := CostOf(t.Context(), g, fastLinks, Optimiser{State: 2}, mesh)
		if err != nil {
			t.Fatal(err)
		}
		got, err := CostOf(t.Context(), g, fastLinks, Optimiser{State: 2}, append(spatial.Mesh{{Name: "level", Size: 1}}, mesh...))
		if err != nil || got.Estimate != want.Estimate {
			t.Errorf("%s: %+v, with an axis of one rank %+v: %v", text, want.Estimate, got.Estimate, err)
		}
	}
}

// Slower links never lead to a mesh that sends more bytes, if nothing overlaps and latency is zero.
func TestSlowerLinksSendLess(t *testing.T) {
	for _, inner := range []int{16, 512} {
		g, before := smallUNetOf(t, 2, inner), int64(0)
		for i, rate := range []cluster.Rate{1e11, 1e10, 1e9, 1e8, 1e7} {
			m := fastLinks
			m.InterNode = Link{0, rate}
			r, err := Search(t.Context(), g, 8, m, Optimiser{State: 2}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			bytes := r.Best.HaloBytes + r.Best.ShuffleBytes + r.Best.SumBytes + r.Best.GradientBytes
			t.Logf("%d channels, %.0e bytes/s: %v sends %d bytes in %v", inner, float64(rate), r.Best.Mesh, bytes, r.Best.Step)
			if i > 0 && bytes > before {
				t.Errorf("%d channels, %.0e bytes/s: %v sends %d bytes, on faster links the best mesh sends %d", inner, float64(rate), r.Best.Mesh, bytes, before)
			}
			before = bytes
		}
	}
}
