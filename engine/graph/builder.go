package graph

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Builder collects the values of a graph. It keeps its first error, with the
// operation and the source line that called it. After an error every call
// returns an invalid Value and changes nothing.
type Builder struct {
	g      *Graph
	err    error
	random uint64 // number of random operations so far; each one gets its own stream
	at     string // source position of the node that is being rewritten; "" in a new graph
}

// New returns an empty builder. The seed determines all random initial values
// and dropout.
func New(seed uint64) *Builder { return &Builder{g: &Graph{Loss: -1, Seed: seed}} }

// Extend returns a builder that appends to g. The builder owns g from then on.
func Extend(g *Graph) *Builder {
	b := &Builder{g: g}
	for _, n := range g.Nodes {
		if n.Kind == KindOp && n.Op.Random {
			b.random++
		}
	}
	return b
}

// ValueOf is the value of node id of the graph that the builder extends. It is invalid if
// there is no such node.
func (b *Builder) ValueOf(id int) Value {
	if b.err != nil || id < 0 || id >= len(b.g.Nodes) {
		return Value{}
	}
	return Value{b, id}
}

// Value refers to one value of a graph under construction. The zero Value is
// invalid: operations return it after an error.
type Value struct {
	b  *Builder
	id int
}

// Value returns the value of node id, for graphs that are extended.
func (b *Builder) Value(id int) Value { return Value{b, id} }

// Valid reports whether the value belongs to a graph.
func (v Value) Valid() bool { return v.b != nil }

// ID is the index of the value in Graph.Nodes, or −1 if the value is invalid.
func (v Value) ID() int {
	if v.b == nil {
		return -1
	}
	return v.id
}

// Shape is the size of each axis, or nil if the value is invalid. The caller
// must not change it.
func (v Value) Shape() Shape {
	if v.b == nil {
		return nil
	}
	return v.b.g.Nodes[v.id].Shape
}

// Dim is the size of one axis. A negative axis counts from the last one. Dim is
// 1 for an invalid value or an axis out of range, so that code which builds
// networks can compute sizes after an error.
func (v Value) Dim(axis int) int {
	s := v.Shape()
	if axis < 0 {
		axis += len(s)
	}
	if axis < 0 || axis >= len(s) {
		return 1
	}
	return s[axis]
}

// DType is the type of the elements. It is Float32 for an invalid value.
func (v Value) DType() DType {
	if v.b == nil {
		return Float32
	}
	return v.b.g.Nodes[v.id].DType
}

// Distribution is the distribution over the mesh. The zero value means that
// every rank holds the whole value.
func (v Value) Distribution() Distribution {
	if v.b == nil {
		return Distribution{}
	}
	return v.b.g.Nodes[v.id].Distribution
}

// Name is the name of an input, parameter, state or constant. It is empty for
// results of operations.
func (v Value) Name() string {
	if v.b == nil {
		return ""
	}
	return v.b.g.Nodes[v.id].Name
}

// Const returns the data of a constant, and false for any other value. The
// caller must not change the data.
func (v Value) Const() ([]float32, bool) {
	if v.b == nil || v.b.g.Nodes[v.id].Kind != KindConst {
		return nil, false
	}
	return v.b.g.Nodes[v.id].Data, true
}

// caller returns "folder/file:line" of the innermost stack frame outside
// packages graph and op: the line of the network that called the builder. Tests
// inside these packages count as callers.
func caller() string {
	var pc [24]uintptr
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc[:])])
	for {
		f, more := frames.Next()
		inside := strings.Contains(f.Function, "/engine/graph.") || strings.Contains(f.Function, "/engine/op.")
		if !inside || strings.HasSuffix(f.File, "_test.go") || !more {
			return fmt.Sprintf("%s:%d", filepath.Join(filepath.Base(filepath.Dir(f.File)), filepath.Base(f.File)), f.Line)
		}
	}
}

// position is the source position of new nodes: that of the node that is being rewritten, or the caller.
func (b *Builder) position() string {
	if b.at != "" {
		return b.at
	}
	return caller()
}

// Fail records an error of the operation named by what, unless an error is
// recorded already. It returns the invalid Value.
func (b *Builder) Fail(what string, err error) Value {
	if b.err == nil {
		b.err = &exit.Error{
			Code: exit.Usage,
			What: fmt.Sprintf("cannot build the network: %s", what),
			At:   b.position(),
			Why:  err.Error(),
			Fix:  "change the sizes of the grid or the options of the network named here",
			Err:  err,
		}
	}
	return Value{}
}

// Err is the first error so far, or nil.
func (b *Builder) Err() error { return b.err }

// Seed is the seed of the graph.
func (b *Builder) Seed() uint64 { return b.g.Seed }

// Note records a decision that readers of the results should see, such as
// scales of MS-SSIM that were left out.
func (b *Builder) Note(format string, args ...any) {
	if b.err == nil {
		b.g.Notes = append(b.g.Notes, fmt.Sprintf(format, args...))
	}
}

// NextRandom returns the next stream number for a random operation, counted
// from 1. The number, not the node, keys the stream: rewrites of the graph do
// not change the random numbers.
func (b *Builder) NextRandom() uint64 {
	b.random++
	return b.random
}

// leaf appends a node that is not an operation: an input, parameter, state or
// constant.
func (b *Builder) leaf(n *Node) Value {
	if b.err != nil {
		return Value{}
	}
	err := n.Shape.check()
	if err == nil {
		err = n.Init.check(n.Shape)
	}
	if err == nil && n.Kind == KindConst && len(n.Data) != n.Shape.Size() {
		err = fmt.Errorf("constant has %d values, shape %v: %w", len(n.Data), n.Shape, ErrShape)
	}
	if err == nil && n.Kind != KindConst && n.Name == "" {
		err = errors.New("name is empty")
	}
	if err == nil && n.Name != "" && b.g.Find(n.Name) != nil {
		err = fmt.Errorf("name %q is already used", n.Name)
	}
	if err != nil {
		return b.Fail(fmt.Sprintf("%s %q", n.Kind, n.Name), err)
	}
	return b.add(n)
}

// add appends a node that was checked before, and sets its ID and source line.
func (b *Builder) add(n *Node) Value {
	n.ID = len(b.g.Nodes)
	if n.At == "" {
		n.At = b.position()
	}
	b.g.Nodes = append(b.g.Nodes, n)
	return Value{b, n.ID}
}

// Input appends a value that the caller provides for every run.
func (b *Builder) Input(name string, s Shape) Value {
	return b.leaf(&Node{Kind: KindInput, Name: name, Shape: s.Clone()})
}

// Param appends a trained parameter with the role Weight. Its memory belongs to
// the engine's Store, under its name.
func (b *Builder) Param(name string, s Shape, init Init) Value {
	return b.ParamOf(Weight, name, s, init)
}

// ParamOf is Param for a parameter of any role.
func (b *Builder) ParamOf(r Role, name string, s Shape, init Init) Value {
	return b.leaf(&Node{Kind: KindParam, Role: r, Name: name, Shape: s.Clone(), Init: init})
}

// State appends a value that persists between steps and is not trained, such as
// running statistics of batch normalisation.
func (b *Builder) State(name string, s Shape, init Init) Value {
	return b.leaf(&Node{Kind: KindState, Name: name, Shape: s.Clone(), Init: init})
}

// Const appends a constant of shape s. The name may be empty. The values are
// not copied: the caller must not change them.
func (b *Builder) Const(name string, s Shape, v []float32) Value {
	return b.leaf(&Node{Kind: KindConst, Name: name, Shape: s.Clone(), Data: v})
}

// Scalar appends a constant without axes.
func (b *Builder) Scalar(v float64) Value { return b.Const("", Shape{}, []float32{float32(v)}) }

// Node appends an operation. Package op calls it for every operation.
//
// Errors: recorded in the builder, if an operand belongs to another graph, if
// the operands differ in element type, or if the shape rule of the operation
// fails.
func (b *Builder) Node(o *Op, attrs any, in ...Value) Value {
	if b.err != nil {
		return Value{}
	}
	ids := make([]int, len(in))
	shapes := make([]Shape, len(in))
	for i, v := range in {
		if v.b != b {
			return b.Fail(o.Name, fmt.Errorf("operand %d is not a value of this graph", i+1))
		}
		ids[i], shapes[i] = v.id, v.Shape()
		if d := b.g.Nodes[v.id].DType; d != b.g.Nodes[in[0].id].DType {
			return b.Fail(o.Name, fmt.Errorf("operands differ in element type: %v and %v", b.g.Nodes[in[0].id].DType, d))
		}
	}
	s, err := o.Shape(shapes, attrs)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return b.Fail(o.Name, err)
	}
	n := &Node{Kind: KindOp, Op: o, Attrs: attrs, In: ids, Shape: s}
	if len(in) > 0 {
		n.DType = in[0].DType()
	}
	return b.add(n)
}

// Output makes v an output of the graph under a unique name.
func (b *Builder) Output(name string, v Value) {
	if b.err != nil {
		return
	}
	if v.b != b || slices.ContainsFunc(b.g.Outputs, func(o Output) bool { return o.Name == name }) {
		b.Fail("output "+name, errors.New("name is already used, or the value belongs to another graph"))
		return
	}
	b.g.Outputs = append(b.g.Outputs, Output{name, v.id})
}

// Assign sets a state to v at the end of each training step, after all
// operations that read the state. Both must have the same shape.
func (b *Builder) Assign(state, v Value) {
	if b.err != nil {
		return
	}
	if state.b != b || v.b != b || b.g.Nodes[state.id].Kind != KindState || !state.Shape().Equal(v.Shape()) {
		b.Fail("assign "+state.Name(), fmt.Errorf("cannot assign shape %[2]v to shape %[1]v: the target must be a state of the same shape: %[3]w",
			state.Shape(), v.Shape(), ErrShape))
		return
	}
	b.g.Assigns = append(b.g.Assigns, Assign{state.id, v.id})
}

// Loss marks the scalar whose gradient trains the parameters. A graph has at
// most one loss.
func (b *Builder) Loss(v Value) {
	if b.err != nil {
		return
	}
	if v.b != b || v.Shape().Size() != 1 || b.g.Loss >= 0 {
		b.Fail("loss", fmt.Errorf("loss has shape %v, want one element, marked once: %w", v.Shape(), ErrShape))
		return
	}
	b.g.Loss = v.id
}

// Build checks and returns the graph, or the first error.
//
// Errors: *exit.Error (exit.Usage) with the operation and the source line that
// called it. Shape errors wrap ErrShape.
func (b *Builder) Build() (*Graph, error) {
	if b.err != nil {
		return nil, b.err
	}
	if err := b.g.Check(); err != nil {
		return nil, err
	}
	return b.g, nil
}
