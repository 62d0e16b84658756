package op

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Halo is the width of the halo of a field: rows and columns that are stored in
// a buffer of their own instead of around the field.
type Halo struct{ North, South, West, East int }

// PaddedShape is the shape of a field of shape s padded by its halo.
func (f Halo) PaddedShape(s Shape) Shape {
	s = s.Clone()
	s[3] += f.North + f.South
	s[4] += f.West + f.East
	return s
}

// Shape is the shape of the halo buffer of a field [N C D H W]: [N C D cells
// 1]. Cells are ordered as follows: the northern rows, then the southern rows,
// all with the corners; then, for every row of the field, the cells in the west
// and in the east.
func (f Halo) Shape(s Shape) Shape {
	all := f.PaddedShape(s)
	return Shape{s[0], s[1], s[2], all[3]*all[4] - s[3]*s[4], 1}
}

// Locate locates the cell at row y and column x of the padded field, whose
// interior has the given rows and columns. The result is an offset within a
// level of the field or, if inHalo is true, within the halo buffer.
func (f Halo) Locate(rows, cols, y, x int) (cell int, inHalo bool) {
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

// HaloOp is an operation on fields whose halos are separate operands. The halo
// buffers follow all other operands, in the order of Operands. A halo exchange
// then writes to a small buffer, and the field is not copied.
type HaloOp struct {
	Op       *graph.Op // operation on the padded fields
	Attrs    any       // attributes of Op
	Operands []int     // operands of Op that have a halo buffer
	Halo     Halo      // width of the halo
}

// String names the operation, the operands and the halo.
func (a HaloOp) String() string {
	return fmt.Sprintf("%s %s, operands %v with halos %+v", a.Op.Name, graph.AttrText(a.Attrs), a.Operands, a.Halo)
}

// PaddedShapes are the shapes of the operands of Op: padded where a halo buffer
// exists.
func (a HaloOp) PaddedShapes(in []Shape) []Shape {
	out := append([]Shape{}, in[:len(in)-len(a.Operands)]...)
	for _, i := range a.Operands {
		out[i] = a.Halo.PaddedShape(out[i])
	}
	return out
}

// withHalo runs an operation on fields with separate halo buffers. Its window
// is that of the operation, shifted by the width of the halo.
var withHalo = Define(Spec[HaloOp]{
	Name:   "with_halo",
	Doc:    "An operation on fields whose halos are separate operands, [N C D cells 1] each.",
	Source: "Dryden et al. 2019, arXiv:1903.06681, with halos in buffers of their own",
	NoGrad: "inserted after gradients were added, where ranks exchange halos",
	Shape: func(in []Shape, a HaloOp) (Shape, error) {
		own := len(in) - len(a.Operands)
		for k, i := range a.Operands {
			if i >= own || len(in[i]) != 5 || !in[own+k].Equal(a.Halo.Shape(in[i])) {
				return nil, shapeError("operands %v, want the halo %+v of operand %d after all other operands", in, a.Halo, i)
			}
		}
		return a.Op.Shape(a.PaddedShapes(in), a.Attrs)
	},
	Window: func(in []Shape, a HaloOp) Window {
		w := a.Op.Window(a.PaddedShapes(in), a.Attrs)
		if len(w.Axes) == 5 { // positions count from the interior
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

// pad returns the field padded by its halo, for reference kernels.
func (f Halo) pad(x []float64, s Shape, halo []float64) []float64 {
	all, cells := f.PaddedShape(s), f.Shape(s)[3]
	y := make([]float64, all.Size())
	field := s[3] * s[4]
	for i := range y {
		plane, row, col := i/(all[3]*all[4]), i/all[4]%all[3], i%all[4]
		if at, inHalo := f.Locate(s[3], s[4], row, col); inHalo {
			y[i] = halo[plane*cells+at]
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

// WithHalo appends the operation a.Op on fields with separate halo buffers. The
// buffers follow all other operands in in.
//
// Shape: fields [N C D H W], halos [N C D cells 1] → the shape of a.Op on the
// padded fields.
// Source: Dryden et al. 2019, arXiv:1903.06681, spatial parallelism with halo
// exchange.
func WithHalo(b *Builder, a HaloOp, in ...Value) Value { return withHalo.add(b, a, in...) }
