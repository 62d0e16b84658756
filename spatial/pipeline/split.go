package pipeline

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Stage is the part of a training step that one worker computes.
//
// Values that cross several cuts are passed on by the stages between.
type Stage struct {
	// Graph computes the values that the stage sends forward, in the last stage the loss; and, given the gradients of these values,
	// those of the stage's parameters and of the values that it received.
	Graph *graph.Graph
	// Receives are the values that the stage gets from the one before, Sends those that the one after gets, in the order of the
	// message. Both are empty at the ends.
	Receives, Sends []Crossing

	whole  *graph.Graph // of which the stage is a part
	inputs []string     // of the whole graph that the stage reads
}

// Crossing is a value that crosses a cut.
type Crossing struct {
	ID    int         // node of the whole graph
	Shape graph.Shape // of a piece, or of a rank's shard of it
	// HasGradient is false if the loss does not depend on the value in a differentiable way, or the value on no parameter: its
	// gradient is not sent.
	HasGradient bool
	// Passed marks a received value, or a gradient, that the stage sends on unchanged.
	Passed, GradientPassed bool

	trained bool // depends on a parameter
}

// dependsOnParameter marks the nodes that depend on a parameter. Gradients of others are of no use.
func dependsOnParameter(g *graph.Graph) []bool {
	depends := make([]bool, len(g.Nodes))
	for i, n := range g.Nodes {
		depends[i] = n.Kind == graph.KindParam || slices.ContainsFunc(n.In, func(id int) bool { return depends[id] })
	}
	return depends
}

// forwardOutputs names the outputs of the forward pass, which the stage computes and sends.
func (s *Stage) forwardOutputs() []string {
	names := []string{} // of the last stage the loss alone
	for _, v := range s.Sends {
		if !v.Passed {
			names = append(names, valueName(v.ID))
		}
	}
	return names
}

// Names of the inputs and outputs of stage graphs for a value of the whole graph and its gradient.
func valueName(id int) string    { return fmt.Sprintf("pipeline.%d", id) }
func gradientName(id int) string { return fmt.Sprintf("pipeline.%d.gradient", id) }

// size is the number of elements of a message of values, or of their gradients.
func size(values []Crossing, gradients bool) (n int) {
	for _, v := range values {
		if v.HasGradient || !gradients {
			n += v.Shape.Size()
		}
	}
	return n
}

// Split divides a training graph, with its loss, into the graphs of stages. The graph has the samples of one piece. Sums of the
// pieces' gradients are those of the sum of their losses.
//
// Gradients of a value with several readers are added in the order of the whole graph, and random numbers are those of the whole
// graph. What differs from one plan of the whole graph is which operations the compiler fuses across a cut.
//
// Errors: exit.Usage for a graph without loss, with outputs after the loss in a stage of their own, or with states that a step
// assigns, such as the running statistics of batch norm: with two copies of a stage each would see half of the pieces.
// Those of differentiation.
func Split(g *graph.Graph, d *Division) ([]*Stage, error) {
	if g.Loss < 0 {
		return nil, splitError("the graph has no loss", "call Builder.Loss")
	}
	if len(g.Assigns) > 0 {
		return nil, splitError(fmt.Sprintf("a step assigns state %q, and the copies of a stage would assign different values", g.Nodes[g.Assigns[0].State].Name),
			"use a network without running statistics, or with fixed ones")
	}
	at := d.bounds(g)
	last := d.Stages() - 1
	if g.Loss < at[last] {
		return nil, splitError("the last stage does not compute the loss", "divide the layers of a graph without outputs after the loss")
	}
	need, trained := g.Needed([]int{g.Loss}), dependsOnParameter(g)
	stages := make([]*Stage, d.Stages())
	for k := range stages {
		stages[k] = &Stage{whole: g}
	}
	for k, s := range stages[:last] {
		for _, id := range crossing(g, at[k+1], need) {
			s.Sends = append(s.Sends, Crossing{ID: id, Shape: g.Nodes[id].Shape, Passed: id < at[k], trained: trained[id]})
		}
		stages[k+1].Receives = slices.Clone(s.Sends)
	}
	for k, s := range slices.Backward(stages) { // the last first: it determines which gradients there are
		if k < last {
			s.Sends = slices.Clone(stages[k+1].Receives)
			for i := range s.Sends {
				s.Sends[i].Passed = s.Sends[i].ID < at[k]
			}
		}
		var err error
		s.Graph, err = stageGraph(g, s, func(n *graph.Node) bool { return need[n.ID] && n.ID >= at[k] && n.ID < at[k+1] })
		if err == nil {
			for _, n := range s.Graph.Nodes {
				if n.Kind == graph.KindInput && g.Find(n.Name) != nil {
					s.inputs = append(s.inputs, n.Name)
				}
			}
			err = s.addGradients(g, k == last)
		}
		if err != nil {
			return nil, err
		}
	}
	return stages, nil
}

// splitError is an error of Split.
func splitError(why, fix string) error {
	return &exit.Error{Code: exit.Usage, What: "the network cannot be divided into stages", Why: why, Fix: fix}
}

// stageGraph is the forward pass of a stage, given its operations. Received values are inputs, sent ones that it computes
// outputs.
func stageGraph(g *graph.Graph, s *Stage, own func(n *graph.Node) bool) (*graph.Graph, error) {
	reads := map[int]bool{}
	for _, n := range g.Nodes {
		if n.Kind == graph.KindOp && own(n) {
			for _, id := range n.In {
				reads[id] = true
			}
		}
	}
	part := &graph.Graph{Nodes: g.Nodes, Seed: g.Seed, Loss: -1}
	for _, v := range s.Sends {
		if !v.Passed {
			part.Outputs = append(part.Outputs, graph.Output{Name: valueName(v.ID), ID: v.ID})
		}
	}
	if own(g.Nodes[g.Loss]) {
		part.Loss = g.Loss
	}
	return part.Rewrite(func(n *graph.Node) bool { return reads[n.ID] || n.Kind == graph.KindOp && own(n) },
		func(b *graph.Builder, n *graph.Node, _ []graph.Value) graph.Value {
			if n.Kind != graph.KindOp || own(n) {
				return graph.Value{}
			}
			return b.Input(valueName(n.ID), n.Shape)
		})
}

// addGradients extends the forward pass of a stage by its gradients, and sets which received values have gradients.
func (s *Stage) addGradients(whole *graph.Graph, isLast bool) error {
	h, outputs := s.Graph, s.Graph.Outputs
	b := graph.Extend(h)
	inputs := map[int]graph.Value{} // received values that the stage reads and that need gradients, by node of the whole graph
	for _, v := range s.Receives {
		if n := h.Find(valueName(v.ID)); n != nil && v.trained {
			inputs[v.ID] = b.Value(n.ID)
		}
	}
	var outs, grads []graph.Value
	seeds := map[int]graph.Value{}
	if isLast {
		outs, grads = append(outs, b.Value(h.Loss)), append(grads, b.Const("", whole.Nodes[whole.Loss].Shape, []float32{1}))
	} else {
		b.Loss(b.Scalar(0)) // a training plan has a loss; the gradients are those of a later stage's
	}
	for _, v := range s.Sends {
		if !v.HasGradient {
			continue
		}
		out, isRead := inputs[v.ID]
		if !v.Passed {
			out, isRead = b.Value(outputs[slices.IndexFunc(outputs, func(o graph.Output) bool { return o.Name == valueName(v.ID) })].ID), true
		}
		if isRead {
			seeds[v.ID] = b.Input(gradientName(v.ID), v.Shape)
			outs, grads = append(outs, out), append(grads, seeds[v.ID])
		}
	}
	return s.differentiate(b, outs, grads, inputs)
}

// differentiate completes the graph: the gradients of parameters, and those of received values as outputs.
func (s *Stage) differentiate(b *graph.Builder, outs, grads []graph.Value, inputs map[int]graph.Value) error {
	g, err := b.Build()
	if err != nil {
		return err
	}
	var wrt []graph.Value
	for _, v := range s.Receives {
		if in, isRead := inputs[v.ID]; isRead {
			wrt = append(wrt, in)
		}
	}
	params := len(wrt)
	for _, n := range g.Nodes {
		if n.Kind == graph.KindParam {
			wrt = append(wrt, b.Value(n.ID))
		}
	}
	ds := graph.Pullback(b, outs, grads, wrt, op.Add)
	for k, d := range ds[params:] {
		if d.Valid() {
			g.Grads = append(g.Grads, graph.Grad{Param: wrt[params+k].ID(), Value: d.ID()})
		}
	}
	next := 0
	for i := range s.Receives {
		v := &s.Receives[i]
		sent := slices.IndexFunc(s.Sends, func(w Crossing) bool { return w.ID == v.ID && w.HasGradient })
		if _, isRead := inputs[v.ID]; !isRead {
			v.HasGradient, v.GradientPassed = sent >= 0, sent >= 0
			continue
		}
		d := ds[next]
		next++
		switch {
		case !d.Valid():
		case sent >= 0 && g.Nodes[d.ID()].Name == gradientName(v.ID): // its reads have no gradient
			v.HasGradient, v.GradientPassed = true, true
		default:
			v.HasGradient = true
			b.Output(gradientName(v.ID), d)
		}
	}
	if err := b.Err(); err != nil {
		return err
	}
	return g.Check()
}
