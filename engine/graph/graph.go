package graph

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Kind says where a value comes from.
type Kind uint8

// The kinds of nodes.
const (
	KindOp    Kind = iota // result of an operation
	KindInput             // given for every run
	KindParam             // trained
	KindState             // kept between steps, assigned, not trained
	KindConst             // part of the graph
)

// String is the kind in lower case.
func (k Kind) String() string { return [...]string{"op", "input", "param", "state", "const"}[k] }

// Node is one value of the graph and how it comes about. Nodes are in an order
// in which every node stands after its inputs, and ID is the place in it.
type Node struct {
	ID           int
	Kind         Kind
	Name         string // of inputs, parameters, states and constants
	Op           *Op    // of operations
	Attrs        any
	In           []int
	Shape        Shape
	DType        DType
	Layout       Layout
	Distribution Distribution
	Init         Init      // of parameters and states
	Data         []float32 // of constants
	At           string    // file:line that called the builder
}

// Label is the name of the node in prints: its own, or its number.
func (n *Node) Label() string {
	if n.Name != "" {
		return n.Name
	}
	return fmt.Sprintf("%%%d", n.ID)
}

// Output is a value under a name.
type Output struct {
	Name string
	ID   int
}

// Assign sets a state to a value at the end of a step.
type Assign struct{ State, Value int }

// Grad is the gradient of the loss with respect to a parameter.
type Grad struct{ Param, Value int }

// Graph is a finished description: values in order, and which of them leave it.
type Graph struct {
	Nodes   []*Node
	Outputs []Output
	Assigns []Assign
	Grads   []Grad // filled by the pass add-gradients
	Loss    int    // node of the loss, −1 if there is none
	Seed    uint64
	// Notes are decisions taken while building that a reader of results should
	// know (scales of MS-SSIM left out, say).
	Notes []string
}

// Roots are the nodes whose values must be computed, each once, ascending.
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

// Uses counts for every node how often it is an input or leaves the graph.
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

// AliasRoot is the node whose memory a node uses: its operand for operations that only give
// another shape.
func (g *Graph) AliasRoot(id int) int {
	for g.Nodes[id].Kind == KindOp && g.Nodes[id].Op.Alias {
		id = g.Nodes[id].In[0]
	}
	return id
}

// InShapes are the shapes of the inputs of n.
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

// Find gives the input, parameter, state or constant of that name, or nil.
func (g *Graph) Find(name string) *Node {
	for _, n := range g.Nodes {
		if n.Name == name && n.Kind != KindOp {
			return n
		}
	}
	return nil
}

// WriteText prints the graph, one value a line in the order of computation,
// then what leaves it: a stable text for comparison with golden files.
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

// AttrText prints attributes; empty for operations without.
func AttrText(a any) string {
	switch a.(type) {
	case nil, struct{}:
		return ""
	}
	return fmt.Sprintf("%+v", a)
}
