package pipeline

import (
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/balance"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// Layer is a block of consecutive operations that stages do not divide: an operation with those that the compiler fuses with it.
type Layer struct {
	Name     string // of its parameters without the last part, such as enc_conv1, or of its operation
	From, To int    // nodes of the graph, without To
	Cost     cluster.Time
	// Crossing counts the bytes that a cut after the layer sends forward for a batch of the graph, and as many backward: values
	// that this layer or an earlier one computes and a later one reads. The skips of a U-Net thus cross all cuts between
	// encoder and decoder. Inputs do not count: each stage is given those that it reads.
	Crossing int64
}

// Layers divides the operations of a graph, in its order, into layers. A layer starts at each operation that reads neighbours,
// moves values or contracts channels; bias, norm and pointwise functions belong to the layer before. cost is that of an operation.
// Operations that the loss, or without one the outputs, do not need are left out.
func Layers(g *graph.Graph, cost func(n *graph.Node) cluster.Time) []Layer {
	need := neededBy(g)
	var layers []Layer
	for _, n := range g.Nodes {
		if n.Kind != graph.KindOp || !need[n.ID] {
			continue
		}
		if len(layers) == 0 || startsLayer(n) {
			layers = append(layers, Layer{Name: layerName(g, n), From: n.ID})
		}
		l := &layers[len(layers)-1]
		l.To = n.ID + 1
		l.Cost += cost(n)
	}
	for k := range layers {
		for _, id := range crossing(g, layers[k].To, need) {
			layers[k].Crossing += bytesOf(g.Nodes[id])
		}
	}
	return layers
}

// neededBy marks the nodes that the loss needs, or without one the outputs.
func neededBy(g *graph.Graph) []bool {
	if g.Loss >= 0 {
		return g.Needed([]int{g.Loss})
	}
	return g.Needed(g.Roots())
}

// startsLayer reports whether a layer starts at an operation.
func startsLayer(n *graph.Node) bool {
	return n.Op.Scalar == nil && !n.Op.Alias && !n.Fuses(graph.FuseBias) && n.Op.Class != graph.Normalisation
}

// layerName is the name of the layer that starts at an operation.
func layerName(g *graph.Graph, n *graph.Node) string {
	for _, id := range n.In {
		if p := g.Nodes[id]; p.Kind == graph.KindParam {
			if at := strings.LastIndexByte(p.Name, '.'); at > 0 {
				return p.Name[:at]
			}
			return p.Name
		}
	}
	return n.Op.Name
}

// crossing lists the results of operations before a node that it or later ones read, ascending, of the nodes that are needed.
func crossing(g *graph.Graph, at int, need []bool) (ids []int) {
	reads := make([]bool, at)
	for _, n := range g.Nodes[at:] {
		for _, id := range n.In {
			if id < at && need[n.ID] {
				reads[id] = true
			}
		}
	}
	for id, isRead := range reads {
		if isRead && g.Nodes[id].Kind == graph.KindOp {
			ids = append(ids, id)
		}
	}
	return ids
}

// bytesOf is the size of a value in a message, which has float32.
func bytesOf(n *graph.Node) int64 { return 4 * int64(n.Shape.Size()) }

// Division divides layers into stages: stage k has the layers Cuts[k] to Cuts[k+1]−1.
type Division struct {
	Layers []Layer
	Cuts   []int
}

// Divide divides layers into stages so that the largest sum of a stage's cost and the messages over its bounds is the least
// possible. send is the time of a message. A micro-batch passes each bound once forward and once backward, so each of the two
// stages sends one message over it.
//
// Errors: exit.Usage for more stages than layers.
func Divide(layers []Layer, stages int, send func(bytes int64) cluster.Time) (*Division, error) {
	if stages < 1 || stages > len(layers) {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("no division of %d layers into %d stages", len(layers), stages),
			Why: "each stage has at least one layer", Fix: fmt.Sprintf("use %d stages or fewer", max(1, min(stages, len(layers))))}
	}
	costs, between := make([]int64, len(layers)), make([]int64, len(layers))
	for i, l := range layers {
		costs[i] = int64(l.Cost)
		if i > 0 {
			between[i] = int64(send(layers[i-1].Crossing))
		}
	}
	return &Division{layers, balance.ContiguousCrossing(costs, between, stages)}, nil
}

// Stages is the number of stages.
func (d *Division) Stages() int { return len(d.Cuts) - 1 }

// Stage lists the layers of a stage.
func (d *Division) Stage(k int) []Layer { return d.Layers[d.Cuts[k]:d.Cuts[k+1]] }

// Cost is the cost of a stage.
func (d *Division) Cost(k int) (sum cluster.Time) {
	for _, l := range d.Stage(k) {
		sum += l.Cost
	}
	return sum
}

// Share is the part of the cost of all layers that a stage has.
func (d *Division) Share(k int) float64 {
	var all cluster.Time
	for _, l := range d.Layers {
		all += l.Cost
	}
	return float64(d.Cost(k)) / float64(all)
}

// Crossing is the number of bytes that stage k sends forward to stage k+1.
func (d *Division) Crossing(k int) int64 { return d.Layers[d.Cuts[k+1]-1].Crossing }

// Parameters is the number of trained values that the operations of a stage read.
func (d *Division) Parameters(g *graph.Graph, k int) (n int64) {
	for _, p := range d.params(g, k) {
		n += int64(p.Shape.Size())
	}
	return n
}

// params lists the parameters that the operations of a stage read.
func (d *Division) params(g *graph.Graph, k int) (list []*graph.Node) {
	need, listed := neededBy(g), map[int]bool{}
	for _, l := range d.Stage(k) {
		for _, x := range g.Nodes[l.From:l.To] {
			for _, id := range x.In {
				if p := g.Nodes[id]; p.Kind == graph.KindParam && need[x.ID] && !listed[id] {
					listed[id] = true
					list = append(list, p)
				}
			}
		}
	}
	return list
}

// bounds are the nodes at which stages start, and the number of nodes.
func (d *Division) bounds(g *graph.Graph) []int {
	at := make([]int, len(d.Cuts))
	for k := 1; k < d.Stages(); k++ {
		at[k] = d.Layers[d.Cuts[k]].From
	}
	at[d.Stages()] = len(g.Nodes)
	return at
}
