package explain

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Sizes of the charts in pixels.
const (
	chartWidth  = 1220
	chartLeft   = 78
	chartRight  = 12
	chartInner  = chartWidth - chartLeft - chartRight
	memoryInner = 420
)

// memoryMap draws the arena over time: one rectangle per buffer, from the first to the last operation of its
// lifetime, at its offset. The line above is the total of live buffers; the strip below shows the operations
// by class.
func memoryMap(e *engine.Explanation) string {
	var b strings.Builder
	const top, strip = 18, 12
	height := top + memoryInner + strip + 40
	n := float64(len(e.Ops))
	x := func(t float64) float64 { return chartLeft + t/n*chartInner }
	y := func(at int64) float64 {
		return top + memoryInner*(1-float64(at)/float64(max(e.ArenaBytes, 1)))
	}
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="memory of the arena over the operations">`, chartWidth, height)
	unit, name := float64(1<<20), "MiB"
	if e.ArenaBytes < 4<<20 {
		unit, name = 1<<10, "KiB"
	}
	for _, at := range ticks(float64(e.ArenaBytes) / unit) {
		py := y(int64(at * unit))
		fmt.Fprintf(&b, `<path class="grid" d="M%d %.1fH%d"/><text class="tick" x="%d" y="%.1f" text-anchor="end">%g</text>`,
			chartLeft, py, chartWidth-chartRight, chartLeft-8, py+4, at)
	}
	fmt.Fprintf(&b, `<text class="tick" x="%d" y="12" text-anchor="end">%s</text>`, chartLeft-8, name)
	for _, s := range e.Buffers {
		first, last := max(float64(s.First), 0), min(float64(s.Last)+1, n)
		node := e.Graph.Nodes[s.Node]
		class := "m in"
		if node.Kind == graph.KindOp {
			class = "m " + string(engine.ClassOf(e.Graph, node))
		}
		fmt.Fprintf(&b, `<rect class="%s" x="%.2f" y="%.2f" width="%.2f" height="%.2f"><title>%s</title></rect>`,
			class, x(first), y(s.Offset+s.Size), max(x(last)-x(first), 0.6), max(y(s.Offset)-y(s.Offset+s.Size), 0.4), html.EscapeString(bufferText(e, s)))
	}
	// live bytes at each operation
	live := make([]int64, len(e.Ops))
	for _, s := range e.Buffers {
		for t := max(s.First, 0); t <= min(s.Last, len(e.Ops)-1); t++ {
			live[t] += s.Size
		}
	}
	b.WriteString(`<path class="live" d="`)
	for t := range e.Ops {
		word := "L"
		if t == 0 {
			word = "M"
		}
		fmt.Fprintf(&b, "%s%.2f %.2fH%.2f", word, x(float64(t)), y(live[t]), x(float64(t+1)))
	}
	b.WriteString(`"/>`)
	for t, o := range e.Ops {
		fmt.Fprintf(&b, `<rect class="m %s" x="%.2f" y="%d" width="%.2f" height="%d"><title>%s</title></rect>`,
			o.Class, x(float64(t)), top+memoryInner+6, max(float64(chartInner)/n-0.4, 0.4), strip, html.EscapeString(opText(t, o)))
	}
	for t := 1; t < len(e.Ops); t++ {
		if e.Ops[t].Backward && !e.Ops[t-1].Backward {
			fmt.Fprintf(&b, `<path class="turn" d="M%.1f %dV%d"/><text class="tick" x="%.1f" y="%d">backward →</text><text class="tick" x="%.1f" y="%d" text-anchor="end">← forward</text>`,
				x(float64(t)), top-6, top+memoryInner+6+strip, x(float64(t))+5, top-6, x(float64(t))-5, top-6)
			break
		}
	}
	for _, t := range ticks(n) {
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%d" text-anchor="middle">%g</text>`, x(t), top+memoryInner+strip+20, t)
	}
	fmt.Fprintf(&b, `<text class="tick" x="%d" y="%d" text-anchor="middle">operation</text></svg>`, chartLeft+chartInner/2, height-4)
	return b.String()
}

// bufferText is the tooltip of a buffer.
func bufferText(e *engine.Explanation, s engine.Buffer) string {
	when := fmt.Sprintf("operations %d to %d", s.First, s.Last)
	if s.First < 0 || s.Last >= len(e.Ops) {
		when = fmt.Sprintf("from operation %d to the end", max(s.First, 0))
	}
	return fmt.Sprintf("%s %v\n%s at byte %d\n%s", strings.Join(s.Values, " → "), e.Graph.Nodes[s.Node].Shape, bytesText(s.Size), s.Offset, when)
}

// opText is the tooltip of an operation.
func opText(t int, o engine.PlannedOp) string {
	text := fmt.Sprintf("%d: %%%d %s %v\n%s, %s, bound by %s: %s", t, o.Node, o.Op, o.Shape, flopsText(o.FLOPs), bytesText(o.Bytes), o.Bound, timeText(o.BoundS))
	if o.Layer != "" {
		text += "\n" + o.Layer
	}
	return text
}

// ticks returns about five round numbers from 0 to at most top.
func ticks(top float64) []float64 {
	if !(top > 0) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10(top/4)))
	for _, f := range []float64{5, 2} {
		if top/(step*f) >= 4 {
			step *= f
			break
		}
	}
	var out []float64
	for v := 0.0; v <= top*1.0001; v += step {
		out = append(out, math.Round(v*1e6)/1e6)
	}
	return out
}

// timeline draws the operations one after the other, as long as their estimated time, forward and backward on
// separate lines. Operations limited by memory bandwidth are pale.
func timeline(e *engine.Explanation) string {
	var b strings.Builder
	var sums [2]float64
	for _, o := range e.Ops {
		sums[boolToInt(o.Backward)] += o.BoundS
	}
	longest := max(sums[0], sums[1])
	lines := 1 + boolToInt(sums[1] > 0)
	const line = 44
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="bound time of the operations">`, chartWidth, lines*line+30)
	scale := func(s float64) float64 { return s / longest * chartInner }
	for i, name := range []string{"forward", "backward"}[:lines] {
		fmt.Fprintf(&b, `<text class="tick" x="%d" y="%d" text-anchor="end">%s</text><text class="tick" x="%d" y="%d" text-anchor="end">%s</text>`,
			chartLeft-8, i*line+18, name, chartLeft-8, i*line+32, timeText(sums[i]))
	}
	var at [2]float64
	for t, o := range e.Ops {
		i := boolToInt(o.Backward)
		class := "m " + string(o.Class)
		if o.Bound == engine.ByMemory {
			class += " pale"
		}
		w := scale(o.BoundS)
		fmt.Fprintf(&b, `<rect class="%s" x="%.2f" y="%d" width="%.2f" height="%d"><title>%s</title></rect>`, class, chartLeft+scale(at[i]), i*line+6, w, line-12, html.EscapeString(opText(t, o)))
		if name := strings.TrimSuffix(o.Layer, ".weight"); w > 12+6.8*float64(len(name)) && name != "" {
			fmt.Fprintf(&b, `<text class="lab" x="%.2f" y="%d" text-anchor="middle">%s</text>`, chartLeft+scale(at[i])+w/2, i*line+line/2+4, html.EscapeString(name))
		}
		at[i] += o.BoundS
	}
	unit, name := 1e-3, "ms"
	if longest < 1e-3 {
		unit, name = 1e-6, "µs"
	}
	for _, t := range ticks(longest / unit) {
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%d" text-anchor="middle">%g %s</text>`, min(chartLeft+scale(t*unit), chartWidth-22), lines*line+16, t, name)
	}
	b.WriteString("</svg>")
	return b.String()
}

// shares draws how FLOPs, bytes and estimated time are divided among the classes.
func shares(e *engine.Explanation) string {
	var b strings.Builder
	const line = 34
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="shares of the classes">`, chartWidth, 3*line)
	for i, m := range []struct {
		name  string
		of    func(engine.ClassSum) float64
		total float64
	}{
		{"work", func(c engine.ClassSum) float64 { return float64(c.FLOPs) }, float64(e.FLOPs)},
		{"bytes", func(c engine.ClassSum) float64 { return float64(c.Bytes) }, float64(e.Bytes)},
		{"bound", func(c engine.ClassSum) float64 { return c.BoundS }, e.BoundS},
	} {
		fmt.Fprintf(&b, `<text class="tick" x="%d" y="%d" text-anchor="end">%s</text>`, chartLeft-8, i*line+20, m.name)
		x := float64(chartLeft)
		for _, c := range e.Classes {
			part := ratio(m.of(c), m.total)
			w := part * chartInner
			fmt.Fprintf(&b, `<rect class="m %s" x="%.2f" y="%d" width="%.2f" height="%d"><title>%s: %.2f %% (%d operations)</title></rect>`, c.Class, x, i*line+3, w, line-8, c.Class, 100*part, c.Ops)
			if w > 44 {
				fmt.Fprintf(&b, `<text class="lab" x="%.2f" y="%d" text-anchor="middle">%.1f %%</text>`, x+w/2, i*line+20, 100*part)
			}
			x += w
		}
	}
	b.WriteString("</svg>")
	return b.String()
}
