package program

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Type is what a vertex stands for. The numbers are those of ProGraML.
type Type uint8

// The types.
const (
	Instruction Type = iota // an operation, or a link of a chain
	Variable                // a result, an input or a state
	Constant                // a parameter or a stored value
)

// Flow is what an edge stands for. The numbers are those of ProGraML.
type Flow uint8

// The flows.
const (
	Control Flow = iota // from an instruction to the next one
	Data                // from an operand to its reader, or from an instruction to its result
	Call                // from a chain to its first link, or from its last link to the chain
)

// Vertex is one vertex.
type Vertex struct {
	ID   int    `json:"id"` // position in Graph.Vertices
	Type Type   `json:"type"`
	Text string `json:"text"` // name of the operation, or type and shape of the value
	// Function is 0 for the step, and for links of a chain the number of the chain, from 1.
	Function int `json:"function"`
	// Node is the index of the operation or value in graph.Graph.Nodes; −1 for links and their values.
	Node     int      `json:"node"`
	Features Features `json:"features"`
}

// Features are numbers and names of a vertex, for prediction.
type Features struct {
	Name       string      `json:"name,omitempty"`       // of inputs, parameters, states and constants
	Attributes string      `json:"attributes,omitempty"` // of the operation
	Shape      graph.Shape `json:"shape"`                // of the value, or of the result of an instruction
	Layout     string      `json:"layout"`               // of the value in memory
	FLOPs      int64       `json:"flops,omitempty"`      // useful floating point operations of an instruction
	Bytes      int64       `json:"bytes"`                // in memory, of a value
}

// Edge is one edge. Position is the number of the operand on data edges to an instruction, else 0.
type Edge struct {
	Flow     Flow `json:"flow"`
	Source   int  `json:"source"`
	Target   int  `json:"target"`
	Position int  `json:"position"`
}

// Graph is the program graph of a step.
type Graph struct {
	Vertices []Vertex // instructions of the step in order of execution, then links and values by first use
	Edges    []Edge   // control edges of the step, then by instruction
	steps    int      // number of instructions of the step
}

// Of returns the program graph of operations of g in their order of execution, as indices of g.Nodes. It depends on nothing else and is
// the same for each call.
//
// Cost: O(vertices + edges).
func Of(g *graph.Graph, order []int) *Graph {
	b := &builder{of: g, out: &Graph{steps: len(order)}, values: map[int]int{}}
	for i, id := range order {
		n := g.Nodes[id]
		f := featuresOf(n)
		f.Bytes = 0
		f.FLOPs, f.Attributes = n.Op.FLOPs(g.InShapes(n), n.Shape, n.Attrs), graph.AttrText(n.Attrs)
		b.vertex(Vertex{Type: Instruction, Text: n.Op.Name, Node: id, Features: f})
		if i > 0 {
			b.edge(Control, i-1, i, 0)
		}
	}
	for i, id := range order {
		n := g.Nodes[id]
		operands := make([]int, len(n.In))
		for p, in := range n.In {
			operands[p] = b.value(g.AliasRoot(in))
			b.edge(Data, operands[p], i, p)
		}
		b.edge(Data, i, b.value(id), 0)
		if c, ok := n.Attrs.(op.Chain); ok {
			b.function(i, c, operands, n)
		}
	}
	return b.out
}

// builder extends a program graph.
type builder struct {
	of        *graph.Graph
	out       *Graph
	values    map[int]int // vertex of each value by its node
	functions int         // number of chains so far
}

// vertex adds a vertex and returns its ID.
func (b *builder) vertex(v Vertex) int {
	v.ID = len(b.out.Vertices)
	b.out.Vertices = append(b.out.Vertices, v)
	return v.ID
}

// edge adds an edge.
func (b *builder) edge(f Flow, source, target, position int) {
	b.out.Edges = append(b.out.Edges, Edge{f, source, target, position})
}

// value returns the vertex of the value of a node, which is added at its first use.
func (b *builder) value(id int) int {
	at, ok := b.values[id]
	if !ok {
		n := b.of.Nodes[id]
		v := Vertex{Type: Variable, Text: textOf(n), Node: id, Features: featuresOf(n)}
		if n.Kind == graph.KindParam || n.Kind == graph.KindConst {
			v.Type = Constant
		}
		at = b.vertex(v)
		b.values[id] = at
	}
	return at
}

// function adds the links of a chain, whose operands are the vertices operands. They run one after the other; the last one returns to
// the chain, whose result is that of the chain.
func (b *builder) function(site int, c op.Chain, operands []int, n *graph.Node) {
	b.functions++
	values := operands
	last := -1
	for k, l := range c.Links {
		f := Features{Attributes: graph.AttrText(l.Attrs), Shape: n.Shape, Layout: n.Layout.String()}
		at := b.vertex(Vertex{Type: Instruction, Text: l.Op.Name, Function: b.functions, Node: -1, Features: f})
		if k == 0 {
			b.edge(Call, site, at, 0)
		} else {
			b.edge(Control, last, at, 0)
		}
		for p, a := range l.Args {
			b.edge(Data, values[a], at, p)
		}
		last = at
		if k < len(c.Links)-1 {
			inner := b.vertex(Vertex{Type: Variable, Text: textOf(n), Function: b.functions, Node: -1, Features: featuresOf(n)})
			b.edge(Data, at, inner, 0)
			values = append(values[:len(values):len(values)], inner)
		}
	}
	b.edge(Call, last, site, 0)
}

// textOf is the type of a value, as in the text of a graph.
func textOf(n *graph.Node) string { return fmt.Sprintf("%v %v", n.DType, n.Shape) }

// featuresOf are the features of the value of a node.
func featuresOf(n *graph.Node) Features {
	return Features{Name: n.Name, Shape: n.Shape, Layout: n.Layout.String(), Bytes: int64(n.Elems()) * int64(n.DType.Bytes())}
}

// Producers returns for each instruction of the step, in order of execution, the place in this order of the instruction that makes each
// operand, by position; −1 for inputs, states, parameters and constants.
func (g *Graph) Producers() [][]int {
	makes := map[int]int{}
	out := make([][]int, g.steps)
	for _, e := range g.Edges {
		if e.Flow == Data && e.Source < g.steps {
			makes[e.Target] = e.Source
		}
	}
	for _, e := range g.Edges {
		if e.Flow != Data || e.Target >= g.steps {
			continue
		}
		from, ok := makes[e.Source]
		if !ok {
			from = -1
		}
		out[e.Target] = append(out[e.Target], from) // edges of an instruction ascend by position
	}
	return out
}
