package graph

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Kind is the origin of a value.
type Kind uint8

// The kinds of nodes.
const (
	KindOp    Kind = iota // result of an operation
	KindInput             // provided by the caller for every run
	KindParam             // trained parameter
	KindState             // persists between steps; assigned, not trained
	KindConst             // stored in the graph
)

// String is the kind in lower case, as printed in graphs.
func (k Kind) String() string { return [...]string{"op", "input", "param", "state", "const"}[k] }

// Role is what a parameter is for. Optimisers treat roles differently.
type Role uint8

// The roles.
const (
	Weight      Role = iota // of filters and matrices
	Bias                    // added to a result, such as one number for each channel
	Scale                   // multiplies a result, as of norms
	Embedding               // a trained input: of places, or a query
	Local                   // a value for each grid point, whose differences the loss may penalise
	Coefficient             // of the combinations that make shared filters
)

// String is the role in lower case.
func (r Role) String() string {
	return [...]string{"weight", "bias", "scale", "embedding", "local", "coefficient"}[r]
}

// Decays reports whether weight decay and trust ratios act on parameters of this role: on weights.
// Biases and scales are few and set the level of a result; embeddings and local values have penalties
// of their own; coefficients multiply filters that decay already.
func (r Role) Decays() bool { return r == Weight }

// Node is one value of the graph with its origin. Nodes are in topological
// order: every node follows its operands, and ID is its position.
type Node struct {
	ID           int // position in Graph.Nodes
	Kind         Kind
	Role         Role   // of parameters
	Name         string // of inputs, parameters, states and constants; else empty
	Op           *Op    // of operations; else nil
	Attrs        any    // of operations; the type depends on the operation
	In           []int  // IDs of the operands
	Shape        Shape
	DType        DType        // type in memory
	Layout       Layout       // layout in memory; Plain until passes choose another
	Distribution Distribution // over the mesh of ranks
	Init         Init         // of parameters and states
	Data         []float32    // of constants
	At           string       // source position of the builder call, "folder/file:line"
}

// Label is the name of the node, or its number as "%7" if it has none.
func (n *Node) Label() string {
	if n.Name != "" {
		return n.Name
	}
	return fmt.Sprintf("%%%d", n.ID)
}

// Output is a named output of the graph.
type Output struct {
	Name string
	ID   int
}

// Assign sets a state to a value at the end of a training step. Both are node
// IDs.
type Assign struct{ State, Value int }

// Grad is the gradient of the loss with respect to a parameter. Both are node
// IDs.
type Grad struct{ Param, Value int }

// Graph is a complete description of a computation: the nodes in topological
// order, and the outputs, assignments, gradients and loss.
type Graph struct {
	Nodes   []*Node // in topological order
	Outputs []Output
	Assigns []Assign // updates of states
	Grads   []Grad   // set by the pass add-gradients
	Loss    int      // node of the loss; −1 if there is none
	Seed    uint64   // of random initial values and random operations
	// Notes are decisions made while building or compiling that readers of the
	// results should see.
	Notes []string
}

// Roots are the nodes that must be computed: outputs, assigned values,
// gradients and the loss. Each occurs once, ascending.
func (g *Graph) Roots() []int {
	var ids []int
	for _, o := range g.Outputs {
		ids = append(ids, o.ID)
	}
	for _, a := range g.Assigns {
		ids = append(ids, a.Value)
	}
	for _, d := range g.Grads {
		ids = append(ids, d.Value)
	}
	if g.Loss >= 0 {
		ids = append(ids, g.Loss)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Uses counts, for every node, the operations that read it (once per operand)
// and one more if it is a root.
func (g *Graph) Uses() []int {
	n := make([]int, len(g.Nodes))
	for _, nd := range g.Nodes {
		for _, i := range nd.In {
			n[i]++
		}
	}
	for _, id := range g.Roots() {
		n[id]++
	}
	return n
}

// AliasRoot is the node that owns the memory of node id. It follows operations
// that only change the shape (Op.Alias) to their operand.
func (g *Graph) AliasRoot(id int) int {
	for g.Nodes[id].Kind == KindOp && g.Nodes[id].Op.Alias {
		id = g.Nodes[id].In[0]
	}
	return id
}

// InShapes are the shapes of the operands of n.
func (g *Graph) InShapes(n *Node) []Shape {
	s := make([]Shape, len(n.In))
	for i, id := range n.In {
		s[i] = g.Nodes[id].Shape
	}
	return s
}

// FLOPs sums the useful floating point operations of all nodes.
func (g *Graph) FLOPs() int64 {
	var sum int64
	for _, n := range g.Nodes {
		if n.Kind == KindOp {
			sum += n.Op.FLOPs(g.InShapes(n), n.Shape, n.Attrs)
		}
	}
	return sum
}

// Find returns the input, parameter, state or constant of that name, or nil.
func (g *Graph) Find(name string) *Node {
	for _, n := range g.Nodes {
		if n.Name == name && n.Kind != KindOp {
			return n
		}
	}
	return nil
}

// WriteText prints the graph: one value per line in topological order, then
// outputs, assignments, gradients, loss and notes. The text is stable, so that
// tests can compare it with golden files.
func (g *Graph) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, n := range g.Nodes {
		fmt.Fprintf(&b, "%%%d = ", n.ID)
		if n.Kind == KindOp {
			args := make([]string, len(n.In))
			for i, id := range n.In {
				args[i] = g.Nodes[id].Label()
			}
			fmt.Fprintf(&b, "%s(%s)", n.Op.Name, strings.Join(args, ", "))
			if a := AttrText(n.Attrs); a != "" {
				fmt.Fprintf(&b, " %s", a)
			}
		} else {
			fmt.Fprintf(&b, "%s %s", n.Kind, n.Name)
		}
		fmt.Fprintf(&b, " : %v %v", n.DType, n.Shape)
		if n.Layout != Plain {
			fmt.Fprintf(&b, " %v", n.Layout)
		}
		if !n.Distribution.Replicated() {
			fmt.Fprintf(&b, " %v", n.Distribution)
		}
		b.WriteByte('\n')
	}
	for _, o := range g.Outputs {
		fmt.Fprintf(&b, "output %s = %s\n", o.Name, g.Nodes[o.ID].Label())
	}
	for _, a := range g.Assigns {
		fmt.Fprintf(&b, "assign %s = %s\n", g.Nodes[a.State].Label(), g.Nodes[a.Value].Label())
	}
	for _, d := range g.Grads {
		fmt.Fprintf(&b, "gradient %s = %s\n", g.Nodes[d.Param].Label(), g.Nodes[d.Value].Label())
	}
	if g.Loss >= 0 {
		fmt.Fprintf(&b, "loss = %s\n", g.Nodes[g.Loss].Label())
	}
	for _, n := range g.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// AttrText formats the attributes of an operation. It is empty for operations
// without attributes.
func AttrText(a any) string {
	switch a.(type) {
	case nil, struct{}:
		return ""
	}
	return fmt.Sprintf("%+v", a)
}
