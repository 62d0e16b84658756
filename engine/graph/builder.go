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

// Builder collects the values of a graph. It keeps its first error with the
// name of the operation and the line that called it; after that every call
// returns an invalid Value and does nothing.
type Builder struct {
	g      *Graph
	err    error
	random uint64 // random operations so far: each gets a stream of its own
}

// New gives an empty builder. The seed is that of all random starts and of
// dropout.
func New(seed uint64) *Builder { return &Builder{g: &Graph{Loss: -1, Seed: seed}} }

// Extend continues a finished graph, which the builder takes over.
func Extend(g *Graph) *Builder {
	b := &Builder{g: g}
	for _, n := range g.Nodes {
		if n.Kind == KindOp && n.Op.Random {
			b.random++
		}
	}
	return b
}

// Value is one value of a graph under construction. The zero Value is invalid:
// it is what operations return after an error.
type Value struct {
	b  *Builder
	id int
}

// Valid tells whether the value belongs to a graph.
func (v Value) Valid() bool { return v.b != nil }

// ID is the number of the value in its graph, −1 if invalid.
func (v Value) ID() int {
	if v.b == nil {
		return -1
	}
	return v.id
}

// Shape is the shape; nil for an invalid value. The caller must not change it.
func (v Value) Shape() Shape {
	if v.b == nil {
		return nil
	}
	return v.b.g.Nodes[v.id].Shape
}

// Dim is the size of one axis (negative counts from the end), and 1 for an
// invalid value or an axis that is not there, so that network code may compute
// with it after an error.
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

// DType is the type of the elements.
func (v Value) DType() DType {
	if v.b == nil {
		return Float32
	}
	return v.b.g.Nodes[v.id].DType
}

// Distribution is the distribution over the mesh.
func (v Value) Distribution() Distribution {
	if v.b == nil {
		return Distribution{}
	}
	return v.b.g.Nodes[v.id].Distribution
}

// Name is the name of an input, parameter, state or constant.
func (v Value) Name() string {
	if v.b == nil {
		return ""
	}
	return v.b.g.Nodes[v.id].Name
}

// Const gives the data of a constant.
func (v Value) Const() ([]float32, bool) {
	if v.b == nil || v.b.g.Nodes[v.id].Kind != KindConst {
		return nil, false
	}
	return v.b.g.Nodes[v.id].Data, true
}

// caller finds the line outside packages graph and op that led here.
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

// Fail records an error of the operation called what, unless one is recorded
// already, and returns the invalid Value.
func (b *Builder) Fail(what string, err error) Value {
	if b.err == nil {
		b.err = &exit.Error{
			Code: exit.Usage,
			What: fmt.Sprintf("the network cannot be built: %s", what),
			At:   caller(),
			Why:  err.Error(),
			Fix:  "change the sizes of the grid or the options of the network named here",
			Err:  err,
		}
	}
	return Value{}
}

// Err is the first error so far.
func (b *Builder) Err() error { return b.err }

// Seed is the seed of the graph.
func (b *Builder) Seed() uint64 { return b.g.Seed }

// Note records a decision that a reader of results should know.
func (b *Builder) Note(format string, args ...any) {
	if b.err == nil {
		b.g.Notes = append(b.g.Notes, fmt.Sprintf(format, args...))
	}
}

// NextRandom numbers the random operations of the graph.
func (b *Builder) NextRandom() uint64 {
	b.random++
	return b.random
}

// leaf adds a node that is no operation.
func (b *Builder) leaf(n *Node) Value {
	if b.err != nil {
		return Value{}
	}
	err := n.Shape.check()
	if err == nil {
		err = n.Init.check(n.Shape)
	}
	if err == nil && n.Kind == KindConst && len(n.Data) != n.Shape.Size() {
		err = fmt.Errorf("%d values for %v: %w", len(n.Data), n.Shape, ErrShape)
	}
	if err == nil && n.Kind != KindConst && n.Name == "" {
		err = errors.New("the name is empty")
	}
	if err == nil && n.Name != "" && b.g.Find(n.Name) != nil {
		err = fmt.Errorf("the name %q is used twice", n.Name)
	}
	if err != nil {
		return b.Fail(fmt.Sprintf("%s %q", n.Kind, n.Name), err)
	}
	return b.add(n)
}

// add appends a node that is known to be sound.
func (b *Builder) add(n *Node) Value {
	n.ID = len(b.g.Nodes)
	if n.At == "" {
		n.At = caller()
	}
	b.g.Nodes = append(b.g.Nodes, n)
	return Value{b, n.ID}
}

// Input is a value that is given for every run.
func (b *Builder) Input(name string, s Shape) Value {
	return b.leaf(&Node{Kind: KindInput, Name: name, Shape: s.Clone()})
}

// Param is a trained parameter. It lives in the engine's Store under its name.
func (b *Builder) Param(name string, s Shape, init Init) Value {
	return b.leaf(&Node{Kind: KindParam, Name: name, Shape: s.Clone(), Init: init})
}

// State is a value kept between steps and not trained (running statistics).
func (b *Builder) State(name string, s Shape, init Init) Value {
	return b.leaf(&Node{Kind: KindState, Name: name, Shape: s.Clone(), Init: init})
}

// Const is a constant; an empty name is allowed. The values are not copied.
func (b *Builder) Const(name string, s Shape, v []float32) Value {
	return b.leaf(&Node{Kind: KindConst, Name: name, Shape: s.Clone(), Data: v})
}

// Scalar is a constant without axes.
func (b *Builder) Scalar(v float64) Value { return b.Const("", Shape{}, []float32{float32(v)}) }

// Node appends an operation: the entry point of package op.
func (b *Builder) Node(o *Op, attrs any, in ...Value) Value {
	if b.err != nil {
		return Value{}
	}
	ids := make([]int, len(in))
	shapes := make([]Shape, len(in))
	for i, v := range in {
		if v.b != b {
			return b.Fail(o.Name, fmt.Errorf("operand %d is no value of this graph", i+1))
		}
		ids[i], shapes[i] = v.id, v.Shape()
		if d := b.g.Nodes[v.id].DType; d != b.g.Nodes[in[0].id].DType {
			return b.Fail(o.Name, fmt.Errorf("operands are %v and %v", b.g.Nodes[in[0].id].DType, d))
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

// Output names a value that leaves the graph.
func (b *Builder) Output(name string, v Value) {
	if b.err != nil {
		return
	}
	if v.b != b || slices.ContainsFunc(b.g.Outputs, func(o Output) bool { return o.Name == name }) {
		b.Fail("output "+name, errors.New("the name is used twice or the value is not of this graph"))
		return
	}
	b.g.Outputs = append(b.g.Outputs, Output{name, v.id})
}

// Assign sets a state to v at the end of each training step, after everything
// that reads the state.
func (b *Builder) Assign(state, v Value) {
	if b.err != nil {
		return
	}
	if state.b != b || v.b != b || b.g.Nodes[state.id].Kind != KindState || !state.Shape().Equal(v.Shape()) {
		b.Fail("assign "+state.Name(), fmt.Errorf("%v is set to %v; the target must be a state of the same shape: %w",
			state.Shape(), v.Shape(), ErrShape))
		return
	}
	b.g.Assigns = append(b.g.Assigns, Assign{state.id, v.id})
}

// Loss marks the scalar whose gradient trains the parameters.
func (b *Builder) Loss(v Value) {
	if b.err != nil {
		return
	}
	if v.b != b || v.Shape().Size() != 1 || b.g.Loss >= 0 {
		b.Fail("loss", fmt.Errorf("the loss has shape %v; it must be one number, marked once: %w", v.Shape(), ErrShape))
		return
	}
	b.g.Loss = v.id
}

// Build returns the graph, or the first error.
//
// Errors: *exit.Error (exit.Usage) with the operation and the line that called
// it; shape errors wrap ErrShape.
func (b *Builder) Build() (*Graph, error) {
	if b.err != nil {
		return nil, b.err
	}
	if err := b.g.Check(); err != nil {
		return nil, err
	}
	return b.g, nil
}
