package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// Rules for the removal of channels (graph.ChannelConstraints) that several operations share.

// tieAllAxes ties all axes of the first operand to those of the result.
func tieAllAxes[A any](t graph.ChannelConstraints, in []Shape, _ Shape, _ A) {
	for axis := range in[0] {
		t.TieAxes(0, axis, graph.Result, axis)
	}
}

// tieWindowed ties batch and channels, and pins the axes that windows move
// along.
//
// Source: Fang et al. 2023, arXiv:2301.12900 (dependencies between channels of layers).
func tieWindowed[A any](t graph.ChannelConstraints, _ []Shape, _ Shape, _ A) {
	t.TieAxes(0, 0, graph.Result, 0)
	t.TieAxes(0, 1, graph.Result, 1)
	pinWindows(t, 0, graph.Result)
}

// pinWindows pins the axes of values that windows move along.
func pinWindows(t graph.ChannelConstraints, values ...int) {
	for _, v := range values {
		t.PinAxes(v, t.Description()+" has windows there", 2, 3, 4)
	}
}

// tieAllButRows ties all axes but the rows of a sample.
func tieAllButRows[A any](t graph.ChannelConstraints, _ []Shape, out Shape, _ A) {
	why := "rows of a sample are combined at " + t.Location()
	t.PinAxes(0, why, 0)
	t.PinAxes(graph.Result, why, 0)
	for axis := 1; axis < len(out); axis++ {
		t.TieAxes(0, axis, graph.Result, axis)
	}
}

// tieRange ties the value part to the range of the value of that starts at lo
// along an axis.
func tieRange(t graph.ChannelConstraints, of, part int, shape Shape, along, lo int) {
	for axis, d := range shape {
		at := 0
		if axis == along {
			at = lo
		}
		t.Tie(graph.Index{Value: part, Axis: axis}, graph.Index{Value: of, Axis: axis, At: at}, d)
	}
}
