package spatial

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Gradients of parameters by point are summed in buckets as all others are, whichever axes split: none is gathered. That of a map
// is summed over the ranks that split samples and space at the same time. That of filters with a penalty is added to the penalty's
// before it is summed over space.
func TestGradientsByPointAreInBuckets(t *testing.T) {
	for param, n := range map[string]network{
		"local": unshared("own filters", graph.Shape{2, 2, 2, 8, 12}, op.LocalConv{Size: [3]int{1, 3, 3}, Pad: op.SameGlobal(1, 3, 3)}),
		"map":   unet("U-Net with a map", graph.Shape{2, 3, 2, 8, 16}, 1, false)} {
		whole, err := WholeStep(n.graph(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"lat:2", "lat:2 lon:2", "data:2 lat:2", "level:2"} {
			m, err := ParseMesh(text)
			if err != nil {
				t.Fatal(err)
			}
			step, err := CompileRank(whole, m, m.Size()-1, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			g, found := step.Graph, false
			for _, d := range g.Grads {
				if g.Nodes[d.Param].Name != param {
					continue
				}
				found = true
				sum := g.Nodes[g.AliasRoot(d.Value)]
				if sum.Op != sumRanksDeferred {
					t.Errorf("%s on %s: the gradient is the result of %s", n.name, text, sum.Op.Name)
					continue
				}
				if a := sum.Attrs.(deferredSumAttrs); param == "map" && m.sizeOver(a.Mesh) != m.Size() {
					t.Errorf("%s on %s: the gradient is summed over %v only", n.name, text, a.Mesh)
				}
			}
			if !found {
				t.Errorf("%s on %s: no gradient of %s", n.name, text, param)
			}
			for _, id := range step.Sequence {
				if x := g.Nodes[id]; param == "map" && x.Op == gather && len(x.Shape) == 5 && x.Shape[0] == 1 && x.Shape[1] == 1 {
					t.Errorf("%s on %s: a map %v is gathered", n.name, text, x.Shape)
				}
			}
		}
	}
}
