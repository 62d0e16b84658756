package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// Rules by which channels are followed (graph.Ties), for operations that have them in common.

// alike ties all axes of the first operand with those of the result.
func alike[A any](t graph.Ties, in []Shape, _ Shape, _ A) {
	for axis := range in[0] {
		t.Whole(0, axis, graph.Result, axis)
	}
}

// alikeInWindows treats every channel alike, and keeps what windows move along.
func alikeInWindows[A any](t graph.Ties, _ []Shape, _ Shape, _ A) {
	t.Whole(0, 0, graph.Result, 0)
	t.Whole(0, 1, graph.Result, 1)
	pinWindows(t, 0, graph.Result)
}

// pinWindows keeps the axes of values that windows move along.
func pinWindows(t graph.Ties, values ...int) {
	for _, v := range values {
		t.Pin(v, t.What()+" has windows there", 2, 3, 4)
	}
}

// alikeBehindRows treats all but the rows of a sample alike.
func alikeBehindRows[A any](t graph.Ties, _ []Shape, out Shape, _ A) {
	why := "the rows of a sample are joined at " + t.At()
	t.Pin(0, why, 0)
	t.Pin(graph.Result, why, 0)
	for axis := 1; axis < len(out); axis++ {
		t.Whole(0, axis, graph.Result, axis)
	}
}

// tieRange ties a part of a value, from lo on along an axis, with the value that it is.
func tieRange(t graph.Ties, of, part int, shape Shape, along, lo int) {
	for axis, d := range shape {
		at := 0
		if axis == along {
			at = lo
		}
		t.Tie(graph.Index{Value: part, Axis: axis}, graph.Index{Value: of, Axis: axis, At: at}, d)
	}
}
