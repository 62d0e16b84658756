package search

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/spatial"
)

// Layer is a field of a network and how the ranks hold it.
type Layer struct {
	Name         string
	Out          graph.Shape // [N C D H W]
	Distribution graph.Distribution
}

// layersOf lists the results of operations that read windows (convolution, pooling, upsampling) and of channel
// concatenations in the forward pass. Pointwise operations share the distribution of the layer before them. Layers with
// one name, such as two poolings to the same size, get a number.
func layersOf(step *spatial.RankStep) []Layer {
	var all []Layer
	g := step.Whole
	names := map[string]int{}
	for _, n := range g.Nodes[:g.Loss+1] {
		if n.Kind != graph.KindOp || len(n.Shape) != fieldAxes {
			continue
		}
		w := n.Op.Window(g.InShapes(n), n.Attrs)
		windowed := len(w.Axes) == fieldAxes && slices.ContainsFunc(w.Axes, func(a graph.WindowAxis) bool { return a.Size > 1 || a.Stride > 1 || a.UpFactor > 1 })
		if !windowed && n.Op.Conv == nil && !op.IsChannelConcat(n) {
			continue
		}
		name := layerName(g, n)
		if names[name]++; names[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, names[name])
		}
		all = append(all, Layer{Name: name, Out: n.Shape, Distribution: step.Distributions[n.ID]})
	}
	return all
}

// layerName returns the name of the first parameter of an operation, or the operation with the size of its result.
func layerName(g *graph.Graph, n *graph.Node) string {
	for _, id := range n.In {
		if p := g.Nodes[id]; p.Kind == graph.KindParam {
			name, _, _ := strings.Cut(p.Name, ".weight")
			return name
		}
	}
	return fmt.Sprintf("%s %dx%d", n.Op.Name, n.Shape[3], n.Shape[4])
}
