package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// Rules by which channels are followed (graph.ChannelConstraints), for operations that have them in common.

// tieAllAxes ties all axes of the first operand with those of the result.
func tieAllAxes[A any](t graph.ChannelConstraints, in []Shape, _ Shape, _ A) {
	for axis := range in[0] {
		t.TieAxes(0, axis, graph.Result, axis)
	}
}

// tieWindowed treats every channel alike, and keeps what windows move along.
func tieWindowed[A any](t graph.ChannelConstraints, _ []Shape, _ Shape, _ A) {
	t.TieAxes(0, 0, graph.Result, 0)
	t.TieAxes(0, 1, graph.Result, 1)
	pinWindows(t, 0, graph.Result)
}

// pinWindows keeps the axes of values that windows move along.
func pinWindows(t graph.ChannelConstraints, values ...int) {
	for _, v := range values {
		t.PinAxes(v, t.Description()+" has windows there", 2, 3, 4)
	}
}

// tieAllButRows treats all but the rows of a sample alike.
func tieAllButRows[A any](t graph.ChannelConstraints, _ []Shape, out Shape, _ A) {
	why := "the rows of a sample are joined at " + t.Location()
	t.PinAxes(0, why, 0)
	t.PinAxes(graph.Result, why, 0)
	for axis := 1; axis < len(out); axis++ {
		t.TieAxes(0, axis, graph.Result, axis)
	}
}

// tieRange ties a part of a value, from lo on along an axis, with the value that it is.
func tieRange(t graph.ChannelConstraints, of, part int, shape Shape, along, lo int) {
	for axis, d := range shape {
		at := 0
		if axis == along {
			at = lo
		}
		t.Tie(graph.Index{Value: part, Axis: axis}, graph.Index{Value: of, Axis: axis, At: at}, d)
	}
}
