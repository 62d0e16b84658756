package explain

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Sizes of the picture of a graph, in pixels at 100 %.
const (
	boxWidth   = 186
	boxHeight  = 21
	rowHeight  = 32
	stageShift = 26 // from one resolution to the next
	slotGap    = 10
	dotSize    = 12  // room of an operation that moves next to nothing
	middle     = 120 // least distance of forward and backward
	margin     = 40
	pictureTop = 40
	perRow     = 3 // boxes side by side on one side
)

// tinyShare is the share of the largest operation's bytes below which an
// operation is drawn as a dot.
const tinyShare = 1e-3

// drawn is one value in the picture of a graph.
type drawn struct {
	node     *graph.Node
	class    engine.Class // empty for inputs
	backward bool
	tiny     bool
	fresh    bool // not in the stage before
	flops    int64
	bytes    int64 // read and written; of an input, its size
	in       []int // drawn operands, each once
	out      []int
	stage    int // how often the resolution was halved
	row      int
	x        float64 // left edge
}

func (d *drawn) width() float64 {
	if d.tiny {
		return dotSize
	}
	return boxWidth
}

// picture is the layered drawing of a graph: forward on the left from top to
// bottom, backward on the right from bottom to top, so that a gradient stands
// beside what it is the gradient of. Values of half the resolution stand one
// step further in.
type picture struct {
	g             *graph.Graph
	nodes         []*drawn
	at            map[int]int // place in nodes by node; of aliases, that of their operand
	rows          int
	width, height float64
}

// newPicture lays out what the results of g depend on. Parameters, states and
// constants are not drawn. isNew marks the values to be outlined.
func newPicture(g *graph.Graph, isNew func(*graph.Node) bool) *picture {
	p := &picture{g: g, at: map[int]int{}}
	need, backward := g.Needed(g.Roots()), engine.Backward(g)
	var widest, most int
	for _, n := range g.Nodes {
		area, _ := extent(g, n)
		widest = max(widest, area)
		if need[n.ID] && n.Kind == graph.KindOp {
			most = max(most, int(engine.BytesOf(g, n)))
		}
	}
	for _, n := range g.Nodes {
		if !need[n.ID] || n.Kind != graph.KindOp && n.Kind != graph.KindInput {
			continue
		}
		if n.Kind == graph.KindOp && n.Op.Alias {
			if i, ok := p.at[n.In[0]]; ok {
				p.at[n.ID] = i
			}
			continue
		}
		d := &drawn{node: n, backward: backward[n.ID], fresh: isNew(n)}
		if n.Kind == graph.KindOp {
			d.class, d.bytes, d.flops = engine.ClassOf(g, n), engine.BytesOf(g, n), n.Op.FLOPs(g.InShapes(n), n.Shape, n.Attrs)
		} else {
			d.bytes = valueBytes(n)
		}
		d.tiny = float64(d.bytes) < tinyShare*float64(most)
		if area, ok := extent(g, n); ok {
			d.stage = int(math.Round(math.Log2(float64(widest)/float64(area)) / 2))
		}
		for _, id := range n.In {
			if i, ok := p.at[id]; ok && !slices.Contains(d.in, i) {
				d.in = append(d.in, i)
				p.nodes[i].out = append(p.nodes[i].out, len(p.nodes))
			}
		}
		p.at[n.ID] = len(p.nodes)
		p.nodes = append(p.nodes, d)
	}
	p.deepen()
	p.assignRows()
	p.assignColumns()
	return p
}

// filterPoints are the points of the largest filter, 5×5: what has no more is no
// field.
const filterPoints = 25

// extent is the number of points of the horizontal field of a value, or of the
// largest of its operands if it has no field itself.
func extent(g *graph.Graph, n *graph.Node) (points int, ok bool) {
	field := func(s graph.Shape) int {
		if len(s) < 4 {
			return 0
		}
		return s[len(s)-1] * s[len(s)-2]
	}
	points = field(n.Shape)
	if n.Kind == graph.KindOp && points <= filterPoints {
		for _, s := range g.InShapes(n) {
			points = max(points, field(s))
		}
	}
	return points, points > filterPoints
}

// deepen gives values without any field the stage of their first operand.
func (p *picture) deepen() {
	for _, d := range p.nodes {
		if _, ok := extent(p.g, d.node); !ok && len(d.in) > 0 {
			d.stage = p.nodes[d.in[0]].stage
		}
	}
}

// assignRows gives every value its row: operands above results on the forward
// side, below them on the backward side, and no gradient above the values that
// it reads. Where that leaves a choice, edges are kept short.
func (p *picture) assignRows() {
	n := len(p.nodes)
	below := make([][]arc, n) // rows that must lie further down
	link := func(a, b, by int) { below[a] = append(below[a], arc{b, by}) }
	for i, d := range p.nodes {
		for _, o := range d.in {
			switch src := p.nodes[o]; {
			case !d.backward:
				link(o, i, 1)
			case src.backward:
				link(i, o, 1)
			default:
				link(o, i, 0)
			}
		}
	}
	// The forward side waits for the gradients of what lies above, so that both
	// stay side by side, wherever that contradicts nothing.
	for _, src := range p.nodes {
		if src.backward || src.tiny {
			continue
		}
		for _, i := range src.out {
			for _, f := range src.out {
				if p.nodes[i].backward && !p.nodes[f].backward && !p.nodes[i].tiny && len(p.nodes[i].out) > 0 && !reaches(below, f, i) {
					link(i, f, 0)
				}
			}
		}
	}
	order := topological(below)
	for _, i := range order {
		for _, a := range below[i] {
			p.nodes[a.to].row = max(p.nodes[a.to].row, p.nodes[i].row+a.by)
		}
	}
	p.tighten(below, order)
	least := math.MaxInt
	for _, d := range p.nodes {
		least = min(least, d.row)
	}
	for _, d := range p.nodes {
		d.row -= least
	}
	p.splitRows()
}

// sides lists the values of every row, forward and backward, the boxes first and
// of these the ones that move most.
func (p *picture) sides() (rows [][2][]*drawn) {
	for _, d := range p.nodes {
		for len(rows) <= d.row {
			rows = append(rows, [2][]*drawn{})
		}
		k := btoi(d.backward)
		rows[d.row][k] = append(rows[d.row][k], d)
	}
	for _, row := range rows {
		for _, list := range row {
			slices.SortStableFunc(list, func(a, b *drawn) int {
				return cmp.Or(cmp.Compare(btoi(a.tiny), btoi(b.tiny)), cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.stage, b.stage))
			})
		}
	}
	return rows
}

// splitRows continues rows that are too full on the rows below, which no edge
// within a row forbids.
func (p *picture) splitRows() {
	at := 0
	for _, row := range p.sides() {
		lines := 0
		for _, list := range row {
			boxes := 0
			lines = max(lines, btoi(len(list) > 0))
			for _, d := range list {
				d.row = at + boxes/perRow
				if !d.tiny {
					lines = max(lines, boxes/perRow+1)
					boxes++
				} else if boxes > 0 { // dots follow the last box
					d.row = at + (boxes-1)/perRow
				}
			}
		}
		at += lines
	}
	p.rows = at
}

// arc says that a value lies at least by rows below another.
type arc struct{ to, by int }

// reaches tells whether arcs lead from a to b.
func reaches(arcs [][]arc, a, b int) bool {
	seen := make([]bool, len(arcs))
	todo := []int{a}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if i == b {
			return true
		}
		if seen[i] {
			continue
		}
		seen[i] = true
		for _, c := range arcs[i] {
			todo = append(todo, c.to)
		}
	}
	return false
}

// topological orders the ends of arcs behind their starts.
func topological(arcs [][]arc) []int {
	waits := make([]int, len(arcs))
	for _, list := range arcs {
		for _, a := range list {
			waits[a.to]++
		}
	}
	var order []int
	for i, w := range waits {
		if w == 0 {
			order = append(order, i)
		}
	}
	for k := 0; k < len(order); k++ {
		for _, a := range arcs[order[k]] {
			if waits[a.to]--; waits[a.to] == 0 {
				order = append(order, a.to)
			}
		}
	}
	return order
}

// tighten moves values, within what the arcs leave free, to the median of where
// their neighbours would have them.
func (p *picture) tighten(below [][]arc, order []int) {
	above := make([][]arc, len(below))
	for i, list := range below {
		for _, a := range list {
			above[a.to] = append(above[a.to], arc{i, a.by})
		}
	}
	for sweep := range 8 {
		if sweep%2 == 0 {
			slices.Reverse(order)
		}
		for _, i := range order {
			d := p.nodes[i]
			lo, hi := math.MinInt, math.MaxInt
			for _, a := range above[i] {
				lo = max(lo, p.nodes[a.to].row+a.by)
			}
			for _, a := range below[i] {
				hi = min(hi, p.nodes[a.to].row-a.by)
			}
			step := 1
			if d.backward {
				step = -1
			}
			var want []int
			for _, o := range d.in {
				if p.nodes[o].backward == d.backward {
					want = append(want, p.nodes[o].row+step)
				}
			}
			for _, o := range d.out {
				if p.nodes[o].backward == d.backward {
					want = append(want, p.nodes[o].row-step)
				}
			}
			if len(want) == 0 {
				continue
			}
			slices.Sort(want)
			d.row = min(max(want[len(want)/2], lo), hi)
		}
		if sweep%2 == 0 {
			slices.Reverse(order)
		}
	}
}

// assignColumns places the values of a row side by side, from the outer edge
// in, at the step of their resolution.
func (p *picture) assignColumns() {
	for _, row := range p.sides() {
		width := 2.0 * margin
		for _, list := range row {
			x := 0.0
			for i, d := range list {
				if i > 0 {
					x += slotGap
				}
				d.x = max(x, float64(d.stage)*stageShift)
				x = d.x + d.width()
			}
			width += x
		}
		p.width = max(p.width, width)
	}
	if p.hasBackward() {
		p.width += middle
	}
	for _, d := range p.nodes {
		if d.backward {
			d.x = p.width - margin - d.x - d.width()
		} else {
			d.x += margin
		}
	}
	p.height = float64(pictureTop + p.rows*rowHeight + 12)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p *picture) hasBackward() bool {
	return slices.ContainsFunc(p.nodes, func(d *drawn) bool { return d.backward })
}

// y is the upper edge of a value's box.
func (d *drawn) y() float64 {
	y := float64(pictureTop + d.row*rowHeight)
	if d.tiny {
		y += (boxHeight - dotSize) / 2
	}
	return y
}

func (d *drawn) height() float64 {
	if d.tiny {
		return dotSize
	}
	return boxHeight
}

// svg draws the picture; bound gives the share of so much work and movement in
// the longest bound time, drawn as a line within a box.
func (p *picture) svg(bound func(flops, bytes int64) float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="graph" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="graph of operations">`, p.width, p.height, p.width, p.height)
	fmt.Fprintf(&b, `<text class="side" x="40" y="20">forward ↓</text>`)
	if p.hasBackward() {
		fmt.Fprintf(&b, `<text class="side" x="%.0f" y="20" text-anchor="end">↑ backward</text>`, p.width-40)
	}
	var most int64
	for _, d := range p.nodes {
		most = max(most, valueBytes(d.node))
	}
	for i, d := range p.nodes {
		for _, o := range d.in {
			p.edge(&b, o, i, most)
		}
	}
	for i, d := range p.nodes {
		p.box(&b, i, d, bound(d.flops, d.bytes))
	}
	b.WriteString("</svg>")
	return b.String()
}

func valueBytes(n *graph.Node) int64 { return int64(n.Elems()) * int64(n.DType.Bytes()) }

// edge draws the way of a value to one that reads it, as thick as the root of its
// share in the most bytes of a value.
func (p *picture) edge(b *strings.Builder, from, to int, most int64) {
	s, d := p.nodes[from], p.nodes[to]
	size := valueBytes(s.node)
	width := 0.6 + 5*math.Sqrt(float64(size)/float64(most))
	kind := "e"
	var path string
	switch {
	case s.backward != d.backward: // kept for a gradient
		kind = "e k"
		x0, y0 := s.x+s.width(), s.y()+s.height()/2
		x1, y1 := d.x, d.y()+d.height()/2
		m := (x0 + x1) / 2
		path = fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", x0, y0, m, y0, m, y1, x1, y1)
	case abs(s.row-d.row) <= 1 || s.tiny || d.tiny:
		x0, y0, x1, y1 := s.x+s.width()/2, s.y()+s.height(), d.x+d.width()/2, d.y()
		if d.backward {
			y0, y1 = s.y(), d.y()+d.height()
		}
		if !s.tiny && !d.tiny && s.stage != d.stage && abs(s.row-d.row) <= 1 { // a step aside
			lo, hi := max(s.x, d.x), min(s.x+s.width(), d.x+d.width())
			if lo < hi {
				x0 = (lo + hi) / 2
				x1 = x0
			}
		}
		m := (y0 + y1) / 2
		path = fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", x0, y0, x0, m, x1, m, x1, y1)
	default: // along the outer side, past the rows between
		out, x0, x1 := -1.0, s.x, d.x
		if d.backward {
			out, x0, x1 = 1, s.x+s.width(), d.x+d.width()
		}
		y0, y1 := s.y()+s.height()/2, d.y()+d.height()/2
		far := x0
		if (x1-x0)*out > 0 {
			far = x1
		}
		far += out * min(8+0.9*math.Abs(float64(s.row-d.row)), 30)
		path = fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1fL%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f",
			x0, y0, far, y0, far, y0, far, y0+math.Copysign(12, y1-y0), far, y1-math.Copysign(12, y1-y0), far, y1, far, y1, x1, y1)
	}
	fmt.Fprintf(b, `<path class="%s" data-a="%d" data-b="%d" stroke-width="%.1f" d="%s"><title>%s of %s, %s</title></path>`,
		kind, from, to, width, path, html.EscapeString(s.node.Label()), s.node.Shape, bytesText(size))
}

func abs(x int) int { return max(x, -x) }

// box draws one value.
func (p *picture) box(b *strings.Builder, i int, d *drawn, bound float64) {
	class := "n in"
	if d.class != "" {
		class = "n " + string(d.class)
	}
	if d.fresh {
		class += " new"
	}
	fmt.Fprintf(b, `<g class="%s" data-n="%d"><title>%s</title>`, class, i, html.EscapeString(p.details(d)))
	if d.tiny {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="4.5"/></g>`, d.x+dotSize/2, d.y()+dotSize/2)
		return
	}
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%d" height="%d" rx="3"/>`, d.x, d.y(), boxWidth, boxHeight)
	if d.node.Layout != graph.Plain {
		fmt.Fprintf(b, `<path class="l" d="M%.1f %.1fh3v%dh-3zm5 0h1.5v%dh-1.5z"/>`, d.x+boxWidth-7, d.y(), boxHeight, boxHeight)
	}
	if bound > 0.004 {
		fmt.Fprintf(b, `<rect class="b" x="%.1f" y="%.1f" width="%.1f" height="3"/>`, d.x+2, d.y()+boxHeight-4, bound*(boxWidth-4))
	}
	name := kindName(d.node)
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f">%s</text><text class="s" x="%.1f" y="%.1f" text-anchor="end">%s</text></g>`,
		d.x+6, d.y()+14, html.EscapeString(name), d.x+boxWidth-9, d.y()+14, shapeText(d.node.Shape, boxWidth-19-7*len(name)))
}

func kindName(n *graph.Node) string {
	if n.Kind == graph.KindOp {
		return n.Op.Name
	}
	return n.Name
}

// shapeText is a shape that fits into so many pixels: without the batch if need
// be, and empty where nothing fits.
func shapeText(s graph.Shape, room int) string {
	for first := range len(s) {
		parts := make([]string, 0, len(s))
		for _, d := range s[first:] {
			parts = append(parts, fmt.Sprint(d))
		}
		if text := strings.Join(parts, "·"); 5.4*float64(utf8.RuneCountInString(text)) <= float64(room) && (first == 0 || len(s) > 3) {
			return text
		}
		if first == 1 {
			break
		}
	}
	return ""
}

// details are the lines that appear over a value.
func (p *picture) details(d *drawn) string {
	n := d.node
	lines := []string{fmt.Sprintf("%s %s  %v", n.Label(), kindName(n), n.Shape)}
	if n.Kind != graph.KindOp {
		lines[0] = fmt.Sprintf("input %s  %v", n.Name, n.Shape)
		return strings.Join(append(lines, bytesText(d.bytes)), "\n")
	}
	for _, id := range n.In {
		lines = append(lines, fmt.Sprintf("reads %s  %v", p.g.Nodes[id].Label(), p.g.Nodes[id].Shape))
	}
	if a := graph.AttrText(n.Attrs); a != "" {
		lines = append(lines, a)
	}
	if n.Layout != graph.Plain {
		lines = append(lines, n.Layout.String()+" layout")
	}
	lines = append(lines, fmt.Sprintf("%s: %s, %s moved, %.1f FLOP per byte", d.class, flopsText(d.flops), bytesText(d.bytes), engine.Movement{FLOPs: d.flops, Bytes: d.bytes}.Intensity()))
	if n.At != "" {
		lines = append(lines, n.At)
	}
	return strings.Join(lines, "\n")
}

// bytesText is a size as people read it.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// flopsText is an amount of work as people read it.
func flopsText(n int64) string {
	switch {
	case n >= 1e12:
		return fmt.Sprintf("%.3f TFLOP", float64(n)/1e12)
	case n >= 1e9:
		return fmt.Sprintf("%.2f GFLOP", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f MFLOP", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kFLOP", float64(n)/1e3)
	}
	return fmt.Sprintf("%d FLOP", n)
}

// timeText is a time as people read it.
func timeText(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.2f s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.2f ms", s*1e3)
	}
	return fmt.Sprintf("%.1f µs", s*1e6)
}
