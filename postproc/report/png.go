package report

import (
	"fmt"
	"image"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// The colours of text, axes, coastlines with their halo, and meridians on dark and on light fields.
// They follow picture.css, so that a PNG file and a page look alike. Ink and quiet have a contrast
// of at least 4.5 to white (WCAG 2.2, success criterion 1.4.3):
//
//	contrast = (L₁ + 0.05) / (L₂ + 0.05)   with the luminances L₁ ≥ L₂, see luminance
var (
	ink      = color.RGBA{0x1c, 0x22, 0x28, 255}
	quiet    = color.RGBA{0x4a, 0x52, 0x5a, 255}
	shoreInk = color.RGBA{0x14, 0x18, 0x1c, 255}
	haloInk  = color.NRGBA{0xff, 0xff, 0xff, 0x8c}
	onDark   = color.NRGBA{0xff, 0xff, 0xff, 0x66} // meridians
	onPale   = color.NRGBA{0x14, 0x18, 0x1c, 0x38}
)

// PNG returns a function that writes map j of the panel as a PNG file: title, valid time,
// coastlines, graticule, extremes, and the colour bar that all maps of the panel share. The file is
// 1045 pixels wide and has 8 bits for each of red, green and blue, without transparency, since
// viewers have dark backgrounds. It is drawn when the function is called, so that maps that are not
// requested cost nothing.
//
// Source: PNG specification, second edition, section 11.2.2 (colour type 2).
// Errors: a map that does not fill its grid; those of the writer.
func (p Panel) PNG(j int) func(io.Writer) error {
	return func(w io.Writer) error {
		m, err := p.paint(j, sheetSize)
		if err != nil {
			return err
		}
		if _, err := (vgimg.PngCanvas{Canvas: m}).WriteTo(w); err != nil {
			return fmt.Errorf("report: map %q: %w", p.Maps[j].Title, err)
		}
		return nil
	}
}

// size bounds the size of a picture. The map keeps its aspect ratio, titles and colour bar
// their space.
//
// Unit: points of 1/72 inch; dpi in pixels per inch.
type size struct {
	// Largest and least width, largest height; 0: no bound.
	width, least, height vg.Length
	dpi                  int
}

// The sizes of a PNG file and of a picture in a notebook.
var (
	sheetSize = size{9.5 * vg.Inch, 9.5 * vg.Inch, 0, 110}
	cellSize  = size{7.2 * vg.Inch, 5.6 * vg.Inch, 6 * vg.Inch, 96}
)

// Space at the side of the map for labels, and above and below for titles and the colour bar.
const (
	besideMap = 0.85 * vg.Inch
	aroundMap = 1.75 * vg.Inch
)

// dimensions returns width and height of a picture whose map has the aspect ratio height/width.
// The width is reduced, down to least, if the height would exceed its bound. With equal width and
// least the height has no bound.
func (s size) dimensions(aspect float64) (w, h vg.Length) {
	w = min(s.width, max(s.least, besideMap+(s.height-aroundMap)/vg.Length(aspect)))
	return w, (w-besideMap)*vg.Length(aspect) + aroundMap
}

// paint draws map j of the panel on a canvas of the given size.
//
// Errors: as Panel.check.
func (p *Panel) paint(j int, s size) (*vgimg.Canvas, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return p.mapDrawing(j, s).raster(s.dpi), nil
}

// mapDrawing draws map j of the panel: title and valid time at the top, the map with its axes, and the colour bar at
// the bottom. Title and bar begin at the left edge of the map, whose position follows from the width of the labels of
// the y axis.
func (p *Panel) mapDrawing(j int, s size) Drawing {
	c := newPicture(p, j, newScale(p))
	width, height := s.dimensions(c.view.aspect)
	return Drawing{width, height, func(all draw.Canvas) {
		title := sans(14, "bold", ink)
		title.YAlign = text.YTop
		upper := draw.Crop(all, 0.1*vg.Inch, -0.3*vg.Inch, 0.8*vg.Inch, -0.66*vg.Inch)
		axes := c.plot(width - besideMap)
		axes.Draw(upper)
		left := axes.DataCanvas(upper).Min.X
		drawTitle(all, title, vg.Point{X: left, Y: height - 0.12*vg.Inch}, spaced(c.panel.Title))
		drawTitle(all, sans(11, "", quiet), vg.Point{X: left, Y: height - 0.53*vg.Inch}, capitalise(c.m.Title)+", valid "+c.panel.when())
		c.drawBar(draw.Crop(all, left+12, -0.3*vg.Inch-12, 0.1*vg.Inch, -(height - 0.72*vg.Inch)))
	}}
}

// drawTitle draws words to the right of at, in a smaller size if the canvas is too narrow for them.
func drawTitle(canvas draw.Canvas, s text.Style, at vg.Point, words string) {
	const margin = 0.1 * vg.Inch
	if w, room := s.Width(words), canvas.Max.X-margin-at.X; w > room {
		s.Font.Size *= room / w
	}
	canvas.FillText(s, at, words)
}

// sans is a text style in the font of gonum/plot, Liberation Sans, aligned to the lower left.
//
// Unit: size in points.
func sans(size vg.Length, weight string, c color.Color) text.Style {
	s := text.Style{Handler: plot.DefaultTextHandler, XAlign: text.XLeft, YAlign: text.YBottom}
	s.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if weight == "bold" {
		s.Font.Weight = 3
	}
	s.Color = c
	return s
}

// plot defines the axes of the map with the labels of the graticule as ticks, and adds the field
// as an image. The axes are coordinates of the view, degrees or metres; the ticks are labelled with
// longitude and latitude, as many as fit into the width of the map. Stations have no image.
func (c *picture) plot(width vg.Length) *plot.Plot {
	v := c.view
	p := plot.New()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = v.x0, v.x1, v.y0, v.y1
	for _, a := range []struct {
		axis   *plot.Axis
		labels []label
	}{{&p.X, apart(c.below, sans(10, "", quiet), width/vg.Length(v.x1-v.x0))}, {&p.Y, c.left}} {
		var ticks []plot.Tick
		for _, l := range a.labels {
			ticks = append(ticks, plot.Tick{Value: l.at, Label: l.text})
		}
		a.axis.Tick.Marker = plot.ConstantTicks(ticks)
		old := a.axis.Tick.Label
		a.axis.Tick.Label = sans(10, "", quiet)
		a.axis.Tick.Label.XAlign, a.axis.Tick.Label.YAlign = old.XAlign, old.YAlign
		a.axis.Tick.LineStyle = draw.LineStyle{Color: quiet, Width: 0.6}
		a.axis.LineStyle = draw.LineStyle{Color: quiet, Width: 0.6}
		a.axis.Padding = 0
	}
	if c.m.Grid.Kind != ensemble.Points {
		p.Add(plotter.NewImage(c.image(), v.x0, v.y0, v.x1, v.y1))
	}
	p.Add(c)
	return p
}

// apart returns the labels of an axis with one text in two, three or more left, so that texts do not touch. scale is the
// length of a unit of the axis.
func apart(all []label, s text.Style, scale vg.Length) []label {
	const gap = 4 // points
	for every := 1; ; every++ {
		thinned, end := slices.Clone(all), vg.Length(math.Inf(-1))
		fits := true
		for i := range thinned {
			if i%every > 0 {
				thinned[i].text = ""
				continue
			}
			at, half := vg.Length(thinned[i].at)*scale, s.Width(thinned[i].text)/2
			fits = fits && at-half >= end+gap
			end = at + half
		}
		if fits || every >= len(all) {
			return thinned
		}
	}
}

// image is the field as an image with 1000 columns, about the resolution of the canvas at its
// largest size.
func (c *picture) image() image.Image {
	return c.view.raster(c.m.Values, c.m.Muted, c.scale, 1000)
}

// Plot draws graticule, coastlines, outline, frame, stations and extremes above the field. It
// implements plot.Plotter.
func (c *picture) Plot(canvas draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&canvas)
	v := c.view
	// stroke draws lines of the plane, clipped to the map.
	stroke := func(lines [][]point, style draw.LineStyle) {
		for _, l := range lines {
			pts := make([]vg.Point, len(l))
			for i, q := range l {
				pts[i] = vg.Point{X: tx(q.x), Y: ty(q.y)}
			}
			canvas.StrokeLines(style, canvas.ClipLinesXY(pts)...)
		}
	}
	// Layers as in the SVG: graticule, coastlines and outline on halos, frame, stations, extremes.
	meridians := draw.LineStyle{Color: onDark, Width: 0.6}
	if c.isPale() {
		meridians.Color = onPale
	}
	stroke(c.lines, meridians)
	coast := c.coast()
	stroke(coast, draw.LineStyle{Color: haloInk, Width: 2})
	stroke(coast, draw.LineStyle{Color: shoreInk, Width: 0.7})
	c.strokeIsolines(canvas, tx, ty)
	outline := c.outline()
	stroke(outline, draw.LineStyle{Color: haloInk, Width: 4})
	stroke(outline, draw.LineStyle{Color: ink, Width: 2})
	stroke([][]point{{{v.x0, v.y0}, {v.x1, v.y0}, {v.x1, v.y1}, {v.x0, v.y1}, {v.x0, v.y0}}}, draw.LineStyle{Color: quiet, Width: 0.8})
	if c.m.Grid.Kind == ensemble.Points {
		for k, q := range c.m.Values {
			at := v.place(k)
			centre := vg.Point{X: tx(at.x), Y: ty(at.y)}
			if f := float64(q); !math.IsNaN(f) && !math.IsInf(f, 0) {
				canvas.DrawGlyph(draw.GlyphStyle{Color: c.scale.colours[c.scale.band(f)], Radius: 4, Shape: draw.CircleGlyph{}}, centre)
			}
			canvas.DrawGlyph(draw.GlyphStyle{Color: ink, Radius: 4, Shape: draw.RingGlyph{}}, centre)
		}
	}
	if c.low >= 0 && c.low != c.high {
		c.drawMarks(canvas, tx, ty)
	}
}

// strokeIsolines draws the isolines of the map, all of the same width and without labels, since the
// colour bar has the values. The lattice is that of a map of 560 SVG units, 160 columns.
func (c *picture) strokeIsolines(canvas draw.Canvas, tx, ty func(float64) vg.Length) {
	v := c.view
	if !(c.panel.Isolines > 0) || v.cols == nil || v.rows == nil {
		return
	}
	l := v.sample(c.m.Values, 560)
	for _, level := range levels(c.m.Values, c.panel.Isolines) {
		for _, line := range l.isolines(level) {
			pts := make([]vg.Point, len(line))
			for i, p := range line {
				pts[i] = vg.Point{X: tx(v.x0 + p.x/float64(l.nx-1)*(v.x1-v.x0)), Y: ty(v.y1 - p.y/float64(l.ny-1)*(v.y1-v.y0))}
			}
			canvas.StrokeLines(draw.LineStyle{Color: ink, Width: 0.8}, pts)
		}
	}
}

// drawMarks draws a triangle with its value at each extreme, on a white outline: eight shifted
// copies of the text in white below the text itself, because the canvas cannot outline letters. A
// triangle at the border is moved inwards, so that it is visible as a whole.
func (c *picture) drawMarks(canvas draw.Canvas, tx, ty func(float64) vg.Length) {
	var at [2]point
	var width [2]float64
	style := sans(11, "bold", ink)
	style.YAlign = text.YCenter
	words := c.extremes()
	for i, k := range []int{c.high, c.low} {
		p := c.view.place(k)
		at[i] = point{float64(min(max(tx(p.x), canvas.Min.X+7), canvas.Max.X-7)), float64(min(max(ty(p.y), canvas.Min.Y+8), canvas.Max.Y-8))}
		width[i] = float64(style.Width(words[i]))
	}
	for i, t := range placeMarkTexts(at, width, float64(canvas.Min.X), float64(canvas.Max.X)) {
		x, y, up := vg.Length(at[i].x), vg.Length(at[i].y), vg.Length(1-2*i)
		triangle := []vg.Point{{X: x, Y: y + 6*up}, {X: x + 5.6, Y: y - 4*up}, {X: x - 5.6, Y: y - 4*up}}
		canvas.StrokeLines(draw.LineStyle{Color: color.White, Width: 2}, append(triangle, triangle[0], triangle[1]))
		canvas.FillPolygon(ink, triangle)
		words, here := words[i], style
		if t.left {
			here.XAlign = text.XRight
		}
		behind := here
		behind.Color = color.NRGBA{255, 255, 255, 0xd0}
		for _, o := range []vg.Point{{X: -1.2}, {X: 1.2}, {Y: -1.2}, {Y: 1.2}, {X: 0.9, Y: 0.9}, {X: -0.9, Y: -0.9}, {X: 0.9, Y: -0.9}, {X: -0.9, Y: 0.9}} {
			canvas.FillText(behind, vg.Point{X: x + vg.Length(t.dx) + o.X, Y: y + vg.Length(t.dy) + o.Y}, words)
		}
		canvas.FillText(here, vg.Point{X: x + vg.Length(t.dx), Y: y + vg.Length(t.dy)}, words)
	}
}

// drawBar draws the colour bar with its unit, and a sample of the hatching if values are missing.
// It has the same bands and labels as scale.bar.
func (c *picture) drawBar(canvas draw.Canvas) {
	s := c.scale
	left, right := canvas.Min.X, canvas.Max.X
	if c.missing > 0 {
		right -= 1.1 * vg.Inch
	}
	top := canvas.Max.Y
	bottom := top - 0.16*vg.Inch
	box := func(x0, x1 vg.Length) []vg.Point {
		return []vg.Point{{X: x0, Y: bottom}, {X: x1, Y: bottom}, {X: x1, Y: top}, {X: x0, Y: top}, {X: x0, Y: bottom}}
	}
	// The bands; each is drawn 0.3 wider, so that no gap shows between them.
	each := (right - left) / vg.Length(len(s.colours))
	for i, k := range s.colours {
		canvas.FillPolygon(k, box(left+vg.Length(i)*each, left+vg.Length(i+1)*each+0.3))
	}
	frame := draw.LineStyle{Color: quiet, Width: 0.6}
	// arrow is a triangle at an open end of the scale.
	arrow := func(x, tip vg.Length, c color.Color) {
		points := []vg.Point{{X: x, Y: bottom}, {X: tip, Y: (bottom + top) / 2}, {X: x, Y: top}, {X: x, Y: bottom}}
		canvas.FillPolygon(c, points)
		canvas.StrokeLines(frame, points)
	}
	if s.under {
		arrow(left, left-10, s.colours[0])
	}
	if s.over {
		arrow(right, right+10, s.colours[len(s.colours)-1])
	}
	canvas.StrokeLines(frame, box(left, right))
	style := sans(10, "", quiet)
	style.XAlign, style.YAlign = text.XCenter, text.YTop
	for i := range s.bounds {
		if s.label[i] {
			x := left + vg.Length(i)*each
			canvas.StrokeLine2(frame, x, bottom, x, bottom-3)
			canvas.FillText(style, vg.Point{X: x, Y: bottom - 5}, s.bound(i))
		}
	}
	u := c.panel.Unit
	if u == "degC" {
		u = "°C"
	}
	if u != "1" { // in UDUNITS notation: the font has no superscript minus
		canvas.FillText(style, vg.Point{X: (left + right) / 2, Y: bottom - 19}, u)
	}
	if c.missing > 0 {
		at := right + 0.25*vg.Inch
		swatch := image.NewRGBA(image.Rect(0, 0, 44, 26))
		for j := range 26 {
			for i := range 44 {
				swatch.Set(i, j, hatchColour(i, j))
			}
		}
		canvas.DrawImage(vg.Rectangle{Min: vg.Point{X: at, Y: bottom}, Max: vg.Point{X: at + 0.3*vg.Inch, Y: top}}, swatch)
		style.XAlign, style.YAlign = text.XLeft, text.YCenter
		canvas.FillText(style, vg.Point{X: at + 0.38*vg.Inch, Y: (top + bottom) / 2}, "missing")
	}
}
