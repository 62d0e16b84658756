package pass

import (
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// priced is a backend with plain and blocked layouts for every operation, at
// fixed costs.
type priced struct {
	plain, blocked, reorder float64
	measured                *int // measured operations
}

func (p priced) LayoutOptions(_ *graph.Op, _ any, in []graph.Shape, out graph.Shape) []backend.LayoutOption {
	ways := []backend.LayoutOption{{In: make([]graph.Layout, len(in))}}
	w := backend.LayoutOption{Out: graph.Blocked}
	for _, s := range in {
		if len(s) != 5 || len(out) != 5 {
			return ways
		}
		w.In = append(w.In, graph.Blocked)
	}
	return append(ways, w)
}

func (p priced) Measure(_ *graph.Op, _ any, _ []graph.Shape, _ graph.Shape, ways []backend.LayoutOption) error {
	*p.measured++
	for i, w := range ways {
		ways[i].Cost = []float64{graph.Plain: p.plain, graph.Blocked: p.blocked}[w.Out]
	}
	return nil
}

func (p priced) ReorderCost(graph.Shape, graph.Layout) (float64, error) { return p.reorder, nil }

func (priced) InnerLayout() graph.Layout { return graph.Blocked }

func (priced) CanStore(graph.DType) bool { return true }

// TestChooseLayouts verifies that measured costs decide, that the choice of an
// earlier plan for the same graph is repeated at any cost and without
// measuring, and that a record which does not fit is replaced.
func TestChooseLayouts(t *testing.T) {
	choose := func(p priced, choices map[string]string) (blocked, measured int, u *Unit) {
		p.measured = &measured
		u = &Unit{Graph: net(t), Device: Device{ElemBytes: 4, Layouts: p}, Options: Options{Choices: choices}}
		if err := Run(List, u); err != nil {
			t.Fatal(err)
		}
		for _, n := range u.Graph.Nodes {
			if n.Layout == graph.Blocked {
				blocked++
			}
		}
		return blocked, measured, u
	}
	fast, slow := priced{plain: 10, blocked: 1, reorder: 1}, priced{plain: 1, blocked: 10, reorder: 1}
	many, measured, u := choose(fast, nil)
	if many < 5 || measured < 10 {
		t.Fatalf("%d blocked values after %d measured operations where blocked is ten times as fast", many, measured)
	}
	if none, _, _ := choose(slow, nil); none != 0 {
		t.Errorf("%d blocked values where plain is ten times as fast", none)
	}
	if len(u.Chosen) != 1 {
		t.Fatalf("choices %v, want one", u.Chosen)
	}
	if again, measured, v := choose(slow, u.Chosen); again != many || measured != 0 || v.Chosen[only(t, u.Chosen)] != u.Chosen[only(t, u.Chosen)] {
		t.Errorf("chosen before: %d blocked values, now %d; %d operations were measured", many, again, measured)
	}
	key := only(t, u.Chosen)
	names := strings.Fields(u.Chosen[key])
	unserved := slices.Clone(names)
	unserved[len(names)/2] = "bb>q"
	for what, list := range map[string][]string{
		"too short": names[:len(names)-1], "too long": append(slices.Clone(names), "p>p"), "a way that is not served": unserved, "nothing": nil,
	} {
		if got, measured, _ := choose(slow, map[string]string{key: strings.Join(list, " ")}); got != 0 || measured == 0 {
			t.Errorf("a record that is %s: %d blocked values, %d operations measured", what, got, measured)
		}
	}
	if got, _, _ := choose(slow, map[string]string{key + "0": u.Chosen[key]}); got != 0 {
		t.Errorf("the record of another graph: %d blocked values", got)
	}
}

// only returns the only key of a map.
func only(t *testing.T, m map[string]string) (key string) {
	t.Helper()
	for key = range m {
	}
	if len(m) != 1 {
		t.Fatalf("%d entries, want one: %v", len(m), m)
	}
	return key
}
