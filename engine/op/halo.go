package op

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Halo is how many rows and columns of a field lie apart from it, in a frame.
type Halo struct{ North, South, West, East int }

// PaddedShape is the shape of a field together with its frame.
func (f Halo) PaddedShape(s Shape) Shape {
	s = s.Clone()
	s[3] += f.North + f.South
	s[4] += f.West + f.East
	return s
}

// Shape is the shape of the frame of a field [N C D H W]: [N C D cells 1]. Cells are those of
// the rows in the north, then in the south, all as long as the field with its frame, then
// of every row of the field what is west and what is east of it.
func (f Halo) Shape(s Shape) Shape {
	all := f.PaddedShape(s)
	return Shape{s[0], s[1], s[2], all[3]*all[4] - s[3]*s[4], 1}
}

// Locate is where the cell of row y and column x of a field of so many rows and columns lies,
// counted with the frame: in the field, or in the frame.
func (f Halo) Locate(rows, cols, y, x int) (cell int, inFrame bool) {
	all := f.West + cols + f.East
	y -= f.North
	switch {
	case y < 0:
		return (y+f.North)*all + x, true
	case y >= rows:
		return (y-rows+f.North)*all + x, true
	}
	side := (f.North+f.South)*all + y*(f.West+f.East)
	x -= f.West
	switch {
	case x < 0:
		return side + x + f.West, true
	case x >= cols:
		return side + x - cols + f.West, true
	}
	return y*cols + x, false
}

// HaloOp is an operation of which some operands come without their outermost rows and
// columns; these are operands behind all others, in the order of Operands.
type HaloOp struct {
	Op       *graph.Op
	Attrs    any
	Operands []int
	Halo     Halo
}

// String names what is computed.
func (a HaloOp) String() string {
	return fmt.Sprintf("%s %s, operands %v in frames %+v", a.Op.Name, graph.AttrText(a.Attrs), a.Operands, a.Halo)
}

// PaddedShapes are the shapes of the operands of the operation itself.
func (a HaloOp) PaddedShapes(in []Shape) []Shape {
	out := append([]Shape{}, in[:len(in)-len(a.Operands)]...)
	for _, i := range a.Operands {
		out[i] = a.Halo.PaddedShape(out[i])
	}
	return out
}

var withHalo = Define(Spec[HaloOp]{
	Name:   "with_halo",
	Doc:    "An operation on fields whose outermost rows and columns are operands of their own, [N C D cells 1] each.",
	Source: "halos of Dryden et al. 2019, arXiv:1903.06681, that need no copy of what they surround",
	NoGrad: "it is made after gradients have been added",
	Shape: func(in []Shape, a HaloOp) (Shape, error) {
		own := len(in) - len(a.Operands)
		for k, i := range a.Operands {
			if i >= own || len(in[i]) != 5 || !in[own+k].Equal(a.Halo.Shape(in[i])) {
				return nil, shapeError("operands %v, want the frame %+v of operand %d behind all others", in, a.Halo, i)
			}
		}
		return a.Op.Shape(a.PaddedShapes(in), a.Attrs)
	},
	Window: func(in []Shape, a HaloOp) Window {
		w := a.Op.Window(a.PaddedShapes(in), a.Attrs)
		if len(w.Axes) == 5 { // positions count from behind the frame
			sign := 1
			if w.Adjoint {
				sign = -1
			}
			w.Axes = append([]WindowAxis{}, w.Axes...)
			w.Axes[3].Pad += sign * a.Halo.North
			w.Axes[4].Pad += sign * a.Halo.West
		}
		return w
	},
	FLOPs: func(in []Shape, out Shape, a HaloOp) int64 { return a.Op.FLOPs(a.PaddedShapes(in), out, a.Attrs) },
	Ref: func(c Call, a HaloOp) {
		own := len(c.In) - len(a.Operands)
		inner := Call{In: append([][]float64{}, c.In[:own]...), InShape: a.PaddedShapes(c.InShape), Out: c.Out, OutShape: c.OutShape}
		for k, i := range a.Operands {
			inner.In[i] = a.Halo.pad(c.In[i], c.InShape[i], c.In[own+k])
		}
		a.Op.Ref(inner, a.Attrs)
	},
	Cases: haloCases(),
})

// pad is a field with its frame.
func (f Halo) pad(x []float64, s Shape, frame []float64) []float64 {
	all, cells := f.PaddedShape(s), f.Shape(s)[3]
	y := make([]float64, all.Size())
	field := s[3] * s[4]
	for i := range y {
		plane, row, col := i/(all[3]*all[4]), i/all[4]%all[3], i%all[4]
		if at, apart := f.Locate(s[3], s[4], row, col); apart {
			y[i] = frame[plane*cells+at]
		} else {
			y[i] = x[plane*field+at]
		}
	}
	return y
}

// haloCases are convolutions of a field in two parts, and their gradients.
func haloCases() []Case[HaloOp] {
	around, corner := Halo{1, 1, 1, 1}, Halo{0, 1, 1, 0}
	padded := func(n int) Conv { return Conv{Pad: [3]Pad{{Size: 1}, {Size: n}, {Size: n}}}.withDefaults() }
	x, x2, w, y := Shape{2, 3, 2, 5, 6}, Shape{2, 2, 2, 5, 6}, Shape{4, 5, 3, 3, 3}, Shape{2, 4, 2, 5, 6}
	back := func(a Conv, rows, cols int) any {
		return FusedConvGrad{ConvGrad: convGrad(a, Shape{2, 5, 2, rows, cols})}
	}
	return []Case[HaloOp]{
		{Name: "forward", In: []Shape{x, x2, w, {4}, around.Shape(x), around.Shape(x2)}, A: HaloOp{convFused.Op, FusedConv{padded(0), true}, []int{0, 1}, around}},
		{Name: "gradient of the data", In: []Shape{w, y, around.Shape(y)}, A: HaloOp{convFusedGradData.Op, back(padded(2), 5, 6), []int{1}, around}},
		{Name: "gradient of the data, at a corner", In: []Shape{w, y, corner.Shape(y)}, A: HaloOp{convFusedGradData.Op, back(padded(1), 6, 7), []int{1}, corner}},
		{Name: "gradient of the filter", In: []Shape{x, x2, y, around.Shape(x), around.Shape(x2)}, A: HaloOp{convFusedGradFilter.Op, convGrad(padded(0), w), []int{0, 1}, around}},
	}
}

// WithHalo is the operation o whose operands with the numbers given have frames, which
// follow all others in in.
func WithHalo(b *Builder, a HaloOp, in ...Value) Value { return withHalo.add(b, a, in...) }
