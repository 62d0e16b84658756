package spatial

import (
	"fmt"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// The batch is split between samples, whichever of members and samples enters
// first. With more ranks than samples, pooled values are replicated.
func TestCutsOfSets(t *testing.T) {
	for _, c := range []struct {
		ranks           int
		members, pooled string
	}{
		{2, "[0 6]", "[0 2]"}, {3, "[0 6 9]", "[0 2 3]"}, {5, "[0 3 6 8 10]", "[]"},
	} {
		n := members("members", graph.Shape{12, 2, 1, 8, 12}, 3)
		m := Mesh{{Name: "data", Size: c.ranks}}
		s, err := Shard(n.graph(t), m, 0)
		if err != nil {
			t.Fatal(err)
		}
		starts := func(d graph.Distribution) string {
			if d.Replicated() {
				return "[]"
			}
			return fmt.Sprint(d.Axes[0].Starts)
		}
		if got := starts(s.Inputs["x"]); got != c.members {
			t.Errorf("%d ranks: members are cut at %s, want %s", c.ranks, got, c.members)
		}
		for name, got := range map[string]string{"observations": starts(s.Inputs["y"]), "pooled": starts(s.Outputs["pooled"])} {
			if got != c.pooled {
				t.Errorf("%d ranks: %s are cut at %s, want %s", c.ranks, name, got, c.pooled)
			}
		}
	}
}
