package pass

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// LossScale is the input that multiplies the loss before differentiation, if
// gradients are stored as float16. Without it small gradients would underflow.
//
// Source: Micikevicius et al. 2018, arXiv:1710.03740 (loss scaling).
const LossScale = "loss_scale"

// addGradients extends the graph by reverse-mode differentiation of the loss. Gradients of filters have the block mask
// of the filter, or that of Options.GradientMasks.
//
// Errors: those of differentiation; a mask that does not fit its filter.
func addGradients(u *Unit) error {
	if u.Infer || len(u.Graph.Grads) > 0 {
		return nil
	}
	err := u.differentiate()
	if err != nil {
		return err
	}
	for id, filter := range FilterGradients(u.Graph, u.GradientMasks) {
		n := u.Graph.Nodes[id]
		if err := u.GradientMasks[filter].Check(n.Shape); err != nil {
			return fmt.Errorf("gradient of %s: %w", filter, err)
		}
		n.Attrs = op.WithMask(n.Attrs, u.GradientMasks[filter])
	}
	return nil
}

// differentiate adds the gradients of the loss, which LossScale multiplies if they are stored as float16.
func (u *Unit) differentiate() error {
	if u.Precision != graph.Float16 {
		return u.Graph.AddGradients(op.Add)
	}
	return u.Graph.AddScaledGradients(func(b *graph.Builder, loss graph.Value) graph.Value {
		return op.Mul(b, loss, b.Input(LossScale, loss.Shape()))
	}, op.Add)
}

// FilterGradients finds the convolutions that compute gradients of the filters in masks, with the names of the filters,
// by node. The gradient of a filter may be a sum of several, and be converted or exchanged afterwards.
func FilterGradients(g *graph.Graph, masks map[string]op.BlockMask) map[int]string {
	found := map[int]string{}
	var visit func(id int, filter *graph.Node)
	visit = func(id int, filter *graph.Node) {
		n := g.Nodes[id]
		switch {
		case n.Kind != graph.KindOp || n.Shape.Size() != filter.Shape.Size():
		case isFilterGradient(n):
			found[id] = filter.Name
		default:
			for _, in := range n.In {
				visit(in, filter)
			}
		}
	}
	for _, d := range g.Grads {
		if _, ok := masks[g.Nodes[d.Param].Name]; ok {
			visit(d.Value, g.Nodes[d.Param])
		}
	}
	return found
}

// isFilterGradient reports whether n computes the gradient of a convolution's filter, with or without a halo.
func isFilterGradient(n *graph.Node) bool {
	if h, ok := n.Attrs.(op.HaloOp); ok {
		return h.Op.Conv.Is(graph.ConvFilter)
	}
	return n.Op.Conv.Is(graph.ConvFilter)
}
