package graph

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Check verifies the invariants of a graph, which hold before and after every
// pass:
//
//   - Nodes are numbered by position, and operands precede the operations that
//     read them.
//   - Shapes follow from the shape rules of the operations.
//   - Names are unique.
//   - Outputs, assignments, gradients and the loss refer to existing nodes of
//     fitting shape.
//
// Errors: *exit.Error (exit.Bug), since the builder rejects such graphs.
func (g *Graph) Check() error {
	names := map[string]bool{}
	for i, n := range g.Nodes {
		if err := g.checkNode(i, n); err != nil {
			return invariantError(n.At, fmt.Errorf("node %%%d: %w", i, err))
		}
		if n.Kind != KindOp && n.Name != "" {
			if names[n.Name] {
				return invariantError(n.At, fmt.Errorf("name %q is used twice", n.Name))
			}
			names[n.Name] = true
		}
	}
	for _, id := range g.Roots() {
		if id < 0 || id >= len(g.Nodes) {
			return invariantError("", fmt.Errorf("output, gradient or loss refers to missing node %%%d", id))
		}
	}
	for _, a := range g.Assigns {
		if s := g.Nodes[a.State]; s.Kind != KindState || !s.Shape.Equal(g.Nodes[a.Value].Shape) {
			return invariantError(s.At, fmt.Errorf("value of shape %v is assigned to %s %s of shape %v", g.Nodes[a.Value].Shape, s.Kind, s.Name, s.Shape))
		}
	}
	for _, d := range g.Grads {
		if p := g.Nodes[d.Param]; p.Kind != KindParam || !p.Shape.Equal(g.Nodes[d.Value].Shape) {
			return invariantError(p.At, fmt.Errorf("gradient of %s %s of shape %v has shape %v", p.Kind, p.Name, p.Shape, g.Nodes[d.Value].Shape))
		}
	}
	if g.Loss >= 0 && g.Nodes[g.Loss].Shape.Size() != 1 {
		return invariantError(g.Nodes[g.Loss].At, fmt.Errorf("loss has shape %v, want one element", g.Nodes[g.Loss].Shape))
	}
	return nil
}

// checkNode checks one node against its operands.
func (g *Graph) checkNode(i int, n *Node) error {
	if n.ID != i {
		return fmt.Errorf("has ID %d", n.ID)
	}
	if err := n.Distribution.check(n.Shape); err != nil {
		return err
	}
	if n.Kind != KindOp {
		if len(n.In) > 0 || n.Op != nil {
			return fmt.Errorf("%s has operands, want none", n.Kind)
		}
		if n.Kind == KindConst && len(n.Data) != n.Shape.Size() {
			return fmt.Errorf("constant of shape %v has %d values", n.Shape, len(n.Data))
		}
		return n.Shape.check()
	}
	for _, id := range n.In {
		if id < 0 || id >= i {
			return fmt.Errorf("%s reads %%%d, which does not precede it", n.Op.Name, id)
		}
		if g.Nodes[id].DType.Computed() != n.DType.Computed() {
			return fmt.Errorf("%s of type %v reads type %v", n.Op.Name, n.DType, g.Nodes[id].DType)
		}
	}
	s, err := n.Op.Shape(g.InShapes(n), n.Attrs)
	if err != nil {
		return fmt.Errorf("%s: %w", n.Op.Name, err)
	}
	if !s.Equal(n.Shape) {
		return fmt.Errorf("%s has shape %v, its shape rule gives %v", n.Op.Name, n.Shape, s)
	}
	return nil
}

// invariantError wraps a broken invariant of the compiler.
func invariantError(at string, err error) error {
	return &exit.Error{Code: exit.Bug, What: "invalid graph", At: at, Why: err.Error(),
		Fix: "report this with the configuration", Err: err}
}
