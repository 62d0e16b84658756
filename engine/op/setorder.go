package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// Swap is the attribute of set_swap: the number of rows per set.
type Swap struct{ Size int }

// setSwap exchanges rows of a set with levels. It is a permutation, so its
// gradient is the inverse permutation of dy.
var setSwap = Define(Spec[Swap]{
	Name: "set_swap",
	Doc: "Exchanges the T rows of each sample with the levels of the fields: x [N·T C D H W] → [N·D C T H W], " +
		"so that operations along levels act along leads.",
	Source: "elementary",
	Shape: func(in []Shape, a Swap) (Shape, error) {
		n, err := setSamples(in[0], a.Size)
		if err == nil && len(in[0]) != 5 {
			err = shapeError("x is %v, want [N·%d C D H W]", in[0], a.Size)
		}
		if err != nil {
			return nil, err
		}
		x := in[0]
		return Shape{n * x[2], x[1], a.Size, x[3], x[4]}, nil
	},
	Window: func(in []Shape, a Swap) Window {
		w := setWindow(in, 0, a.Size)
		w.FullAxes = []int{2}
		return w
	},
	FLOPs: zeroFLOPs[Swap],
	TieChannels: func(t graph.ChannelConstraints, _ []Shape, _ Shape, _ Swap) {
		why := "rows of a sample and levels are exchanged at " + t.Location()
		t.PinAxes(0, why, 0, 2)
		t.PinAxes(graph.Result, why, 0, 2)
		for _, axis := range []int{1, 3, 4} {
			t.TieAxes(0, axis, graph.Result, axis)
		}
	},
	Ref: func(c Call, a Swap) {
		x := c.InShape[0]
		EachSwap(x, a.Size, func(y, yStep, from, fromStep, n, run int) {
			copyRuns(c.Out[y:], yStep, c.In[0][from:], fromStep, run, n)
		})
	},
	Cases: []Case[Swap]{
		{Name: "one level", In: []Shape{{6, 2, 1, 5, 7}}, A: Swap{3}},
		{Name: "levels", In: []Shape{{4, 3, 3, 5, 7}}, A: Swap{2}},
		{Name: "as many as levels", In: []Shape{{6, 2, 3, 2, 5}}, A: Swap{3}},
		{Name: "one row", In: []Shape{{2, 2, 4, 3, 5}}, A: Swap{1}},
	},
})

// EachSwap visits the copies that make up set_swap of x: n runs of run
// elements, from offset from of x to offset y of the result, with the distances
// fromStep and yStep between runs.
func EachSwap(x Shape, rows int, visit func(y, yStep, from, fromStep, n, run int)) {
	channels, levels, run := x[1], x[2], x[3:].Size()
	for n := range x[0] / rows {
		for t := range rows {
			for d := range levels {
				y := ((n*levels+d)*channels*rows + t) * run
				from := ((n*rows+t)*channels*levels + d) * run
				visit(y, rows*run, from, levels*run, channels, run)
			}
		}
	}
}

// SetSwap exchanges the rows of each sample with the levels of the fields.
// Operations along levels then act along leads.
//
// Shape: x [N·size C D H W] → [N·D C size H W].
// Gradient: SetSwap of dy with D rows.
// Errors: ErrShape.
func SetSwap(b *Builder, x Value, size int) Value { return setSwap.add(b, Swap{size}, x) }

// Grid is the attribute of set_transpose: the rows of a set form a matrix of
// Rows·Columns, stored row by row.
type Grid struct{ Rows, Columns int }

// setTranspose transposes the rows of each set. Its gradient is the transpose
// back.
var setTranspose = Define(Spec[Grid]{
	Name: "set_transpose",
	Doc: "Transposes the two indices of the rows of each sample: x [N·A·B …], row a·B + b of a set, → [N·B·A …], row b·A + a. " +
		"The members of one lead, or the leads of one member, become adjacent.",
	Source: "elementary",
	Shape: func(in []Shape, a Grid) (Shape, error) {
		if a.Rows < 1 || a.Columns < 1 {
			return nil, shapeError("sets of %d×%d rows, want at least 1×1", a.Rows, a.Columns)
		}
		if _, err := setSamples(in[0], a.Rows*a.Columns); err != nil {
			return nil, err
		}
		return in[0].Clone(), nil
	},
	Window: func(in []Shape, a Grid) Window { return setWindow(in, 0, a.Rows*a.Columns) },
	FLOPs:  zeroFLOPs[Grid],
	Ref: func(c Call, a Grid) {
		EachTransposed(c.InShape[0], a, func(y, yStep, from, fromStep, n, run int) {
			copyRuns(c.Out[y:], yStep, c.In[0][from:], fromStep, run, n)
		})
	},
	Cases: []Case[Grid]{
		{Name: "5-D", In: []Shape{{12, 2, 2, 3, 5}}, A: Grid{2, 3}},
		{Name: "2-D", In: []Shape{{8, 3}}, A: Grid{4, 1}},
	},
})

// EachTransposed visits the copies that make up set_transpose of x. See
// EachSwap.
func EachTransposed(x Shape, a Grid, visit func(y, yStep, from, fromStep, n, run int)) {
	run := x[1:].Size()
	for n := range x[0] / (a.Rows * a.Columns) {
		first := n * a.Rows * a.Columns
		for r := range a.Rows {
			visit((first+r)*run, a.Rows*run, (first+r*a.Columns)*run, run, a.Columns, run)
		}
	}
}

// SetTranspose transposes the two indices of the rows of each sample, such as
// lead and member.
//
// Shape: x [N·rows·columns …] → [N·columns·rows …].
// Gradient: SetTranspose of dy with columns and rows exchanged.
// Errors: ErrShape.
func SetTranspose(b *Builder, x Value, rows, columns int) Value {
	return setTranspose.add(b, Grid{rows, columns}, x)
}

func init() {
	setSwap.SetGrad(func(b *Builder, in []Value, _, dy Value, _ Swap) []Value {
		return []Value{SetSwap(b, dy, in[0].Dim(2))}
	})
	setTranspose.SetGrad(func(b *Builder, _ []Value, _, dy Value, a Grid) []Value {
		return []Value{SetTranspose(b, dy, a.Columns, a.Rows)}
	})
}
