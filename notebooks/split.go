package notebooks

import (
	"context"
	"fmt"
	"html"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/plan"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/spatial"
)

// Split is the domain decomposition of a training step over a mesh of ranks: the subdomains of the
// ranks and their halo exchanges.
type Split struct {
	*plan.SplitResult
	err error
}

// Err returns the error of a mesh that MustSplit could not use in a declaration, or nil. The other methods store this
// error.
func (s *Split) Err() error { return s.err }

func (s *Split) setErr(err error) { s.SplitResult, s.err = &plan.SplitResult{}, err }

// Split decomposes the training step of the run over a mesh such as "lat:2 lon:2". The mesh of the
// training does not matter. The step is not executed.
//
// Errors: 64 for a mesh that does not fit the grid.
func (r *Run) Split(mesh string) (*Split, error) {
	c, err := r.config()
	if err != nil {
		return nil, err
	}
	return runJob(func(ctx context.Context, _ job) (*Split, error) {
		s, err := plan.Split(ctx, c, mesh)
		return &Split{SplitResult: s}, err
	})
}

// MustSplit calls Split and ends the cell on an error.
func (r *Run) MustSplit(mesh string) *Split { return must(r.Split(mesh)) }

// Table returns a table of the halo exchanges of the forward pass: the shape of the value, the halo
// widths of rank 0 and the largest number of bytes that a rank sends. The backward pass exchanges
// gradients in the opposite direction.
func (s *Split) Table() *Table {
	if s.err != nil {
		return &Table{err: s.err}
	}
	t := &Table{Section: answer.Section{Title: fmt.Sprintf("mesh %s: halo exchanges of the forward pass", s.Mesh),
		Columns: append(answer.TextColumns("value of", "needed by", "whole value", "rows of rank 0", "columns of rank 0"), answer.NumberColumn("sent (kB)", "", "%.1f"))}}
	var bytes int64
	for _, h := range s.Halos {
		t.Rows = append(t.Rows, []any{h.Producer, h.Consumer, h.Shape, extent(h.Own[0].Rows, h.Need[0].Rows), extent(h.Own[0].Columns, h.Need[0].Columns), float64(h.Bytes) / 1e3})
		bytes += h.Bytes
	}
	t.Rows = append(t.Rows, []any{"all", "", "", "", "", float64(bytes) / 1e3})
	return t
}

// extent formats the length of an interval and its halo widths on both sides.
func extent(own, need spatial.Interval) string {
	return fmt.Sprintf("%d: %d before, %d after", own.Len(), max(own.Lo-need.Lo, 0), max(need.Hi-own.Hi, 0))
}

// Show adds the table to the cell.
func (s *Split) Show() { s.Table().Show() }

// rankColours are the colours of the ranks. They repeat after four ranks.
var rankColours = []string{"#cfe0f3", "#f6dcc0", "#d5ead9", "#e6d9ee"}

// Picture draws the subdomains of the ranks on the grid, and the halo of rank 0 for the first
// exchange of the forward pass.
func (s *Split) Picture() *Picture {
	if s.err != nil {
		return &Picture{err: s.err}
	}
	const w, left, top = 720.0, 8.0, 30.0
	cell := (w - 2*left) / float64(s.Grid.NX)
	h := top + cell*float64(s.Grid.NY) + 12
	x, y := func(c int) float64 { return left + cell*float64(c) }, func(r int) float64 { return top + cell*float64(r) }
	title := fmt.Sprintf("mesh %s on %d rows and %d columns", s.Mesh, s.Grid.NY, s.Grid.NX)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="split" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s"><text class="h" x="%.0f" y="18">%[3]s</text>`, w, h, html.EscapeString(title), left)
	rect := func(class, fill string, p plan.SplitPart) {
		fmt.Fprintf(&b, `<rect class="%s" fill="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, fill, x(p.Columns.Lo), y(p.Rows.Lo),
			cell*float64(p.Columns.Len()), cell*float64(p.Rows.Len()))
	}
	for rank, p := range s.Parts {
		rect("part", rankColours[rank%len(rankColours)], p)
	}
	if len(s.Halos) > 0 {
		for _, p := range haloParts(s.Halos[0], s.Grid.NX) {
			rect("halo", "none", p)
		}
	}
	for c := 0; c <= s.Grid.NX; c++ {
		fmt.Fprintf(&b, `<path class="g" d="M%.1f %.1fV%.1f"/>`, x(c), top, y(s.Grid.NY))
	}
	for r := 0; r <= s.Grid.NY; r++ {
		fmt.Fprintf(&b, `<path class="g" d="M%.1f %.1fH%.1f"/>`, left, y(r), x(s.Grid.NX))
	}
	for rank, p := range s.Parts {
		fmt.Fprintf(&b, `<text class="r" x="%.1f" y="%.1f" text-anchor="middle">rank %d: rows %d–%d, columns %d–%d</text>`, (x(p.Columns.Lo)+x(p.Columns.Hi))/2, (y(p.Rows.Lo)+y(p.Rows.Hi))/2,
			rank, p.Rows.Lo, p.Rows.Hi-1, p.Columns.Lo, p.Columns.Hi-1)
	}
	b.WriteString("</svg>")
	return pictureOf(report.Standalone(title, b.String(), splitStyles))
}

const splitStyles = `.part { stroke: #1c2228; stroke-width: 1.4; } .halo { stroke: #a34700; stroke-width: 2; stroke-dasharray: 5 3; fill: #a34700; fill-opacity: .16; }
.g { stroke: #1c2228; stroke-opacity: .1; stroke-width: .6; } .h { font-size: 14px; font-weight: 650; fill: #1c2228; }
.r { font-size: 13px; font-weight: 600; fill: #1c2228; stroke: #fff; stroke-width: 3; stroke-opacity: .8; paint-order: stroke; }`

// haloParts returns the parts of the halo of rank 0 on a periodic grid with n columns: north,
// south, west and east of its subdomain.
func haloParts(h plan.SplitHalo, n int) (out []plan.SplitPart) {
	own, need := h.Own[0], h.Need[0]
	add := func(rows, columns spatial.Interval) {
		if rows.Len() <= 0 || columns.Len() <= 0 {
			return
		}
		for _, shift := range []int{-n, 0, n} {
			part := spatial.Interval{Lo: max(columns.Lo+shift, 0), Hi: min(columns.Hi+shift, n)}
			if part.Len() > 0 {
				out = append(out, plan.SplitPart{Rows: rows, Columns: part})
			}
		}
	}
	add(spatial.Interval{Lo: need.Rows.Lo, Hi: own.Rows.Lo}, need.Columns)
	add(spatial.Interval{Lo: own.Rows.Hi, Hi: need.Rows.Hi}, need.Columns)
	add(own.Rows, spatial.Interval{Lo: need.Columns.Lo, Hi: own.Columns.Lo})
	add(own.Rows, spatial.Interval{Lo: own.Columns.Hi, Hi: need.Columns.Hi})
	return out
}

// CompareLosses returns a table of the training losses of several runs for each epoch, with their
// largest relative difference.
//
// Errors, stored in the table: errors of reading the runs.
func CompareLosses(runs ...*Run) *Table {
	t := &Table{Section: answer.Section{Columns: answer.NumberColumns("", "epoch")}}
	var lines []report.Line
	for _, r := range runs {
		c, err := r.config()
		if err != nil {
			return &Table{err: err}
		}
		charts, err := reports.LossCharts(r.Dir)
		if err != nil || len(charts) == 0 {
			return &Table{err: err}
		}
		lines = append(lines, charts[0].Lines[0])
		t.Columns = append(t.Columns, answer.NumberColumn(meshName(c), "", "%.9f"))
	}
	t.Columns = append(t.Columns, answer.NumberColumn("largest difference", "", "%.1e"))
	for i := range lines[0].X {
		row := []any{lines[0].X[i]}
		low, high := lines[0].Y[i], lines[0].Y[i]
		for _, l := range lines {
			if i >= len(l.Y) {
				row = append(row, nil)
				continue
			}
			low, high = min(low, l.Y[i]), max(high, l.Y[i])
			row = append(row, l.Y[i])
		}
		t.Rows = append(t.Rows, append(row, (high-low)/high))
	}
	return t
}

// meshName returns the mesh of a training, or "one rank".
func meshName(c *config.TrainConfig) string {
	if m := c.Train.Train.Mesh; m != "" {
		return m
	}
	return "one rank"
}
