package cuda

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// formulas are the names of the scalar formulas of formulas.cuh by operation.
var formulas = func() map[string]string {
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^DEVICE float (f_(\w+))\(`).FindAllStringSubmatch(kernels.Program("chain.cu").Source, -1) {
		all[m[2]] = m[1]
	}
	return all
}()

// chain makes the kernel of a chain of elementwise operations: a program of its own, with
// the formulas in registers and the steps of stretched operands as constants. Every thread
// computes an element of the result; what is read is read once.
func (b *Backend) chain(q backend.Request, c op.Chain) (backend.Kernel, error) {
	p := kernels.Program("chain.cu")
	p.Source += chainSource(q, c)
	args := make([]any, 0, len(q.In)+2)
	for _, t := range q.In {
		args = append(args, at(t))
	}
	n := elems(q.Out)
	w := &work{b: b}
	w.call(p, "chain", over(n), append(args, at(q.Out), n)...)
	return w.kernel("chain " + c.String())
}

// chainSource writes the kernel of a chain.
func chainSource(q backend.Request, c op.Chain) string {
	var s strings.Builder
	fmt.Fprintf(&s, "\nKERNEL chain(")
	for i, t := range q.In {
		fmt.Fprintf(&s, "const %s *x%d, ", stored(t), i)
	}
	fmt.Fprintf(&s, "%s *y, int64_t n) {\n\tfor (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {\n", stored(q.Out))
	last := q.Out.Layout == graph.Last
	if last {
		writePlace(&s, q.Out.Shape)
	}
	for i, t := range q.In {
		fmt.Fprintf(&s, "\t\tfloat v%d = load(x%d + %s);\n", i, i, index(t, q.Out))
	}
	for k, l := range c.Links {
		args := make([]string, 0, len(l.Args)+1)
		for _, a := range l.Args {
			args = append(args, fmt.Sprintf("v%d", a))
		}
		if p, ok := l.Attrs.(float64); ok {
			args = append(args, literal(p))
		}
		fmt.Fprintf(&s, "\t\tfloat v%d = %s(%s);\n", c.Operands+k, formulas[l.Op.Name], strings.Join(args, ", "))
	}
	result := fmt.Sprintf("v%d", c.Operands+len(c.Links)-1)
	if f := q.Out.Shape; last && f[1] != graph.Last.Lanes(f[1]) {
		result = fmt.Sprintf("c < %d ? %s : 0.0f", f[1], result)
	}
	fmt.Fprintf(&s, "\t\tstore(y + i, %s);\n\t}\n}\n", result)
	return s.String()
}

// literal is a number in a program, exactly.
func literal(p float64) string { return strconv.FormatFloat(float64(float32(p)), 'x', -1, 32) + "f" }

// writePlace writes where element i of a field with channels last lies: lane c, sample a0
// and coordinates a2, a3, a4. The compiler drops what is not used.
func writePlace(s *strings.Builder, shape graph.Shape) {
	fmt.Fprintf(s, "\t\tint c = i %% %d;\n\t\tint64_t r = i / %d;\n", graph.Last.Lanes(shape[1]), graph.Last.Lanes(shape[1]))
	for axis := 4; axis >= 2; axis-- {
		fmt.Fprintf(s, "\t\tint a%d = r %% %d;\n\t\tr /= %d;\n", axis, max(shape[axis], 1), max(shape[axis], 1))
	}
	fmt.Fprintf(s, "\t\tint64_t a0 = r;\n")
}

// index is the place of the value of operand t that belongs to element i of the result.
func index(t, out backend.Tensor) string {
	if t.Shape.Equal(out.Shape) && t.Layout == out.Layout {
		return "i"
	}
	var terms []string
	if out.Layout == graph.Last { // a plain operand, stretched
		steps := t.Shape.Strides()
		for axis, d := range t.Shape {
			switch {
			case d == 1:
			case axis == 1: // lanes beyond the channels read the last one
				terms = append(terms, fmt.Sprintf("int64_t(c < %d ? c : %d) * %d", d, d-1, steps[axis]))
			default:
				terms = append(terms, fmt.Sprintf("int64_t(a%d) * %d", axis, steps[axis]))
			}
		}
	} else {
		dims, steps := op.NewLoop(out.Shape, []graph.Shape{t.Shape}).Axes(0)
		behind := int64(1)
		for axis := len(dims) - 1; axis >= 0; axis-- {
			if steps[axis] != 0 {
				terms = append(terms, fmt.Sprintf("i / %d %% %d * %d", behind, max(dims[axis], 1), steps[axis]))
			}
			behind *= int64(max(dims[axis], 1))
		}
	}
	if terms == nil {
		return "0"
	}
	return strings.Join(terms, " + ")
}
