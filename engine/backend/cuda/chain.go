package cuda

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// formulas maps operations to the names of their scalar formulas in formulas.cuh.
var formulas = func() map[string]string {
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^DEVICE float (f_(\w+))\(`).FindAllStringSubmatch(kernels.Program("chain.cu").Source, -1) {
		all[m[2]] = m[1]
	}
	return all
}()

// chain generates and prepares the kernel of a chain of elementwise operations.
//
// Each chain is a program of its own: formulas in registers, strides of broadcast
// operands as constants. Each thread computes adjacent elements of the result, 16 bytes
// or eight channels, and reads every operand once.
//
// Shape: operands broadcast to the shape of the result, as in NumPy.
// Cost: memory traffic of operands and result; one compilation per chain and shape,
// which the cache keeps.
func (b *Backend) chain(q backend.Request, c op.Chain) (backend.Kernel, error) {
	p := kernels.Program("chain.cu")
	s := newChainSource(q)
	p.Source += s.write(c)
	n := elems(q.Out) / int64(s.width)
	w := &work{b: b}
	w.call(p, "chain", gridFor(n), append(addresses(q), n)...)
	return w.kernel("chain " + c.String())
}

// chainSource generates the CUDA source of a chain. A thread
//
//   - loads its elements of every operand into registers,
//   - evaluates the links for each element,
//   - stores the results in one access.
type chainSource struct {
	strings.Builder
	q     backend.Request
	last  bool // the result has its channels last
	width int  // elements per thread
}

// newChainSource chooses the number of elements per thread: eight channels of
// channels-last fields; four of plain values if all addresses and the rows of broadcast
// operands are aligned; else one.
func newChainSource(q backend.Request) *chainSource {
	s := &chainSource{q: q, last: q.Out.Layout == graph.ChannelsLast, width: widthLast}
	if s.last {
		return s
	}
	s.width = 4
	ok := elems(q.Out)%4 == 0 && address(at(q.Out))%16 == 0
	for _, t := range q.In {
		if s.whole(t) {
			ok = ok && address(at(t))%16 == 0
		} else {
			dims, _ := op.NewLoop(q.Out.Shape, []graph.Shape{t.Shape}).Axes(0)
			ok = ok && (t.Shape.Size() == 1 || dims[len(dims)-1]%4 == 0)
		}
	}
	if !ok {
		s.width = 1
	}
	return s
}

// whole reports whether operand t has the shape and layout of the result.
func (s *chainSource) whole(t backend.Tensor) bool {
	return t.Shape.Equal(s.q.Out.Shape) && t.Layout == s.q.Out.Layout
}

// write generates the kernel.
func (s *chainSource) write(c op.Chain) string {
	out := s.q.Out
	index := "uint32_t" // of elements
	if elems(out) > math.MaxInt32 {
		index = "int64_t"
	}
	fmt.Fprintf(s, "\nKERNEL chain(")
	for i, t := range s.q.In {
		fmt.Fprintf(s, "const %s *x%d, ", stored(t), i)
	}
	fmt.Fprintf(s, "%s *y, int64_t n) {\n\tfor (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {\n", stored(out))
	fmt.Fprintf(s, "\t\t%s i = static_cast<%s>(t) * %d;\n", index, index, s.width)
	if s.last {
		s.writePlace(index)
	}
	for i, t := range s.q.In {
		fmt.Fprintf(s, "\t\tfloat x%d_[%d];\n", i, s.width)
		s.writeLoad(i, t)
	}
	fmt.Fprintf(s, "\t\tfloat y_[%d];\n#pragma unroll\n\t\tfor (int k = 0; k < %d; k++) {\n", s.width, s.width)
	for i := range s.q.In {
		fmt.Fprintf(s, "\t\t\tfloat v%d = x%d_[k];\n", i, i)
	}
	for k, l := range c.Links {
		args := make([]string, 0, len(l.Args)+1)
		for _, a := range l.Args {
			args = append(args, fmt.Sprintf("v%d", a))
		}
		if p, ok := l.Attrs.(float64); ok {
			args = append(args, literal(p))
		}
		fmt.Fprintf(s, "\t\t\tfloat v%d = %s(%s);\n", c.Operands+k, formulas[l.Op.Name], strings.Join(args, ", "))
	}
	result := fmt.Sprintf("v%d", c.Operands+len(c.Links)-1)
	if s.last && out.Shape[1]%widthLast != 0 {
		result = fmt.Sprintf("c + k < %d ? %s : 0.0f", out.Shape[1], result)
	}
	fmt.Fprintf(s, "\t\t\ty_[k] = %s;\n\t\t}\n", result)
	if s.width == 1 {
		s.WriteString("\t\tstore(y + i, y_[0]);\n")
	} else {
		fmt.Fprintf(s, "\t\tstore%d(y + i, y_);\n", s.width)
	}
	s.WriteString("\t}\n}\n")
	return s.String()
}

// writeLoad generates the code that reads operand i.
func (s *chainSource) writeLoad(i int, t backend.Tensor) {
	at, moves := s.index(t)
	switch {
	case s.whole(t) && s.width > 1:
		fmt.Fprintf(s, "\t\tload%d(x%d + i, x%d_);\n", s.width, i, i)
	case moves:
		fmt.Fprintf(s, "#pragma unroll\n\t\tfor (int k = 0; k < %d; k++)\n\t\t\tx%d_[k] = load(x%d + %s);\n", s.width, i, i, at)
	default:
		fmt.Fprintf(s, "\t\tx%d_[0] = load(x%d + %s);\n", i, i, at)
		if s.width > 1 {
			fmt.Fprintf(s, "#pragma unroll\n\t\tfor (int k = 1; k < %d; k++)\n\t\t\tx%d_[k] = x%d_[0];\n", s.width, i, i)
		}
	}
}

// literal returns the exact C++ literal of a float32.
func literal(p float64) string { return strconv.FormatFloat(float64(float32(p)), 'x', -1, 32) + "f" }

// writePlace generates the coordinates of element i of a channels-last field: first of
// eight channels c, sample a0, grid point a2, a3, a4. The compiler removes unused ones.
func (s *chainSource) writePlace(index string) {
	shape, lanes := s.q.Out.Shape, graph.ChannelsLast.PaddedChannels(s.q.Out.Shape[1])
	fmt.Fprintf(s, "\t\t%s c = i %% %d, r = i / %d;\n", index, lanes, lanes)
	for axis := 4; axis >= 2; axis-- {
		fmt.Fprintf(s, "\t\t%s a%d = r %% %d;\n\t\tr /= %d;\n", index, axis, max(shape[axis], 1), max(shape[axis], 1))
	}
	fmt.Fprintf(s, "\t\t%s a0 = r;\n", index)
}

// index returns the C++ expression for the index of operand t at element i + k of the
// result. moves is false if the index is the same for all k.
func (s *chainSource) index(t backend.Tensor) (at string, moves bool) {
	out := s.q.Out
	if s.whole(t) {
		return "i + k", true
	}
	var terms []string
	if s.last { // a plain operand that is broadcast: use the coordinates of writePlace
		steps := t.Shape.Strides()
		for axis, d := range t.Shape {
			switch {
			case d == 1:
			case axis == 1:
				moves = true
				lane := "(c + k)"
				if d%widthLast != 0 { // padding channels read the last one
					lane = fmt.Sprintf("(c + k < %d ? c + k : %d)", d, d-1)
				}
				terms = append(terms, fmt.Sprintf("%s * %d", lane, steps[axis]))
			default:
				terms = append(terms, fmt.Sprintf("a%d * %d", axis, steps[axis]))
			}
		}
	} else {
		// A plain result: divide its index into merged axes, outermost last.
		dims, steps := op.NewLoop(out.Shape, []graph.Shape{t.Shape}).Axes(0)
		inner := int64(1)
		for axis := len(dims) - 1; axis >= 0; axis-- {
			if steps[axis] != 0 {
				element := "i"
				if axis == len(dims)-1 {
					element, moves = "(i + k)", true
				}
				terms = append(terms, fmt.Sprintf("%s / %d %% %d * %d", element, inner, max(dims[axis], 1), steps[axis]))
			}
			inner *= int64(max(dims[axis], 1))
		}
	}
	if terms == nil {
		return "0", false
	}
	return strings.Join(terms, " + "), moves
}
