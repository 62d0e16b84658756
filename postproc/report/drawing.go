package report

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"io"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
)

// Drawing is a picture of a fixed size that can be written as PNG or PDF.
type Drawing struct {
	width, height vg.Length
	paint         func(draw.Canvas)
}

// Image draws the picture with 96 pixels per inch, for notebooks.
func (d Drawing) Image() image.Image { return d.raster(cellSize.dpi).Image() }

func (d Drawing) raster(dpi int) *vgimg.Canvas {
	canvas := vgimg.NewWith(vgimg.UseWH(d.width, d.height), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	d.paint(draw.New(canvas))
	return canvas
}

// WritePDF writes the picture as a page of PDF with embedded fonts. Fields are images, all else is vector graphics.
//
// Errors: those of the writer.
func (d Drawing) WritePDF(w io.Writer) error {
	canvas := vgpdf.New(d.width, d.height)
	d.paint(draw.New(pdfCanvas{canvas}))
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("report: PDF: %w", err)
	}
	return nil
}

// pdfCanvas corrects what vgpdf does otherwise than the canvas of PNG: it draws images upside down, and writes text in
// code page 1252 as if it were UTF-8.
type pdfCanvas struct{ *vgpdf.Canvas }

// DrawImage implements vg.Canvas.
func (c pdfCanvas) DrawImage(at vg.Rectangle, m image.Image) {
	c.Push()
	defer c.Pop()
	c.Translate(vg.Point{Y: at.Min.Y + at.Max.Y})
	c.Scale(1, -1)
	c.Canvas.DrawImage(at, m)
}

// FillString implements vg.Canvas. Characters outside the code page become question marks. Bold text is regular text
// drawn twice, since vgpdf embeds one font for all weights.
func (c pdfCanvas) FillString(f font.Face, at vg.Point, text string) {
	text = codePage1252(text)
	if f.Font.Weight > 0 {
		f = font.DefaultCache.Lookup(font.Font{Typeface: f.Font.Typeface, Variant: f.Font.Variant}, f.Font.Size)
		c.Canvas.FillString(f, vg.Point{X: at.X + 0.03*f.Font.Size, Y: at.Y}, text)
	}
	c.Canvas.FillString(f, at, text)
}

// codePage1252 encodes a text. Minus signs become en dashes, which have their shape, and narrow spaces no-break spaces.
func codePage1252(text string) string {
	var out []byte
	for _, r := range text {
		switch {
		case r < 0x80 || r >= 0xa0 && r <= 0xff:
			out = append(out, byte(r))
		case r == '−' || r == '–':
			out = append(out, 0x96)
		case r == '…':
			out = append(out, 0x85)
		case r == '\u202f' || r == '\u2009':
			out = append(out, 0xa0)
		default:
			out = append(out, '?')
		}
	}
	return string(out)
}

// The sizes of a sheet of maps.
//
// Unit: points of 1/72 inch.
const (
	sheetTwo   = 7.2 * vg.Inch // width of two columns
	sheetThree = 9.4 * vg.Inch // of three
	sheetTop   = 0.5 * vg.Inch // for the title
	sheetBar   = 0.7 * vg.Inch // for the colour bar
	mapTitle   = 0.24 * vg.Inch
	mapGap     = 0.3 * vg.Inch
)

// Drawing draws all maps of the panel: a single one as PNG does, at a smaller size for notebooks; several in columns
// under one title, with one colour bar.
//
// Errors: a map that does not fill its grid.
func (p Panel) Drawing() (Drawing, error) {
	if err := p.check(); err != nil {
		return Drawing{}, err
	}
	if len(p.Maps) == 1 {
		return p.mapDrawing(0, cellSize), nil
	}
	return p.sheet(), nil
}

// sheet draws several maps: two columns for two and four, else three.
func (p *Panel) sheet() Drawing {
	columns, width := 3, sheetThree
	if n := len(p.Maps); n == 2 || n == 4 {
		columns, width = 2, sheetTwo
	}
	rows := (len(p.Maps) + columns - 1) / columns
	s := newScale(p)
	var pictures []*picture
	for j := range p.Maps {
		pictures = append(pictures, newPicture(p, j, s))
	}
	cell := (width - 0.2*vg.Inch) / vg.Length(columns)
	row := mapTitle + mapGap + (cell-besideMap)*vg.Length(pictures[0].view.aspect)
	height := sheetTop + vg.Length(rows)*row + sheetBar
	return Drawing{width, height, func(all draw.Canvas) {
		title := sans(14, "bold", ink)
		title.YAlign = text.YTop
		drawTitle(all, title, vg.Point{X: 0.2 * vg.Inch, Y: height - 0.12*vg.Inch}, spaced(p.Title))
		for j, c := range pictures {
			left := 0.1*vg.Inch + vg.Length(j%columns)*cell
			top := height - sheetTop - vg.Length(j/columns)*row
			box := draw.Canvas{Canvas: all.Canvas, Rectangle: vg.Rectangle{
				Min: vg.Point{X: left + 0.1*vg.Inch, Y: top - row + 0.04*vg.Inch}, Max: vg.Point{X: left + cell - 0.25*vg.Inch, Y: top - mapTitle}}}
			axes := c.plot(cell - besideMap)
			axes.Draw(box)
			drawTitle(box, sans(11, "", quiet), vg.Point{X: axes.DataCanvas(box).Min.X, Y: top - mapTitle + 3}, capitalise(c.m.Title))
		}
		pictures[0].drawBar(draw.Crop(all, 0.6*vg.Inch, -0.6*vg.Inch, 0.1*vg.Inch, -(height - sheetBar + 0.1*vg.Inch)))
	}}
}

// chartColours are the colours of lines in picture.css, and chartDashes their dashes.
var (
	chartColours = [lineStyles]color.RGBA{{0x12, 0x4a, 0x8c, 255}, {0xa3, 0x47, 0x00, 255}, {0x1f, 0x29, 0x33, 255}, {0x0d, 0x6b, 0x5e, 255}, {0x7a, 0x3b, 0x8f, 255}, {0x5c, 0x52, 0x00, 255}}
	chartDashes  = [lineStyles][]vg.Length{nil, {6, 3}, {1.5, 2}, {7, 2, 1.5, 2}, {4, 1.5, 1, 1.5, 1, 1.5}, {10, 3}}
	gridInk      = color.RGBA{0xe4, 0xe7, 0xea, 255}
)

// Space around the plot of a chart, as in its SVG.
const (
	chartWidth, chartHeight = 7.6 * vg.Inch, 3.3 * vg.Inch
	chartRight              = 1.7 * vg.Inch // for the names of lines
)

// Drawing draws the chart as Picture does: a name at the end of each line.
func (c *Chart) Drawing() Drawing {
	return Drawing{chartWidth, chartHeight, func(all draw.Canvas) {
		title := sans(12, "bold", ink)
		title.YAlign = text.YTop
		drawTitle(all, title, vg.Point{X: 0.15 * vg.Inch, Y: chartHeight - 0.1*vg.Inch}, c.Title)
		p := plot.New()
		p.X.Label.Text, p.Y.Label.Text = c.X, c.yTitle()
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = c.ranges()
		if c.LogY {
			p.Y.Scale = plot.LogScale{}
		}
		c.setAxes(p)
		p.Add(chartLines{c})
		box := draw.Crop(all, 0.1*vg.Inch, -chartRight, 0.08*vg.Inch, -0.38*vg.Inch)
		p.Draw(box)
		c.drawNames(all, p, p.DataCanvas(box))
	}}
}

// setAxes sets ticks and styles of the axes.
func (c *Chart) setAxes(p *plot.Plot) {
	yTicks, yPlaces := ticks(p.Y.Min, p.Y.Max, c.LogY)
	var y []plot.Tick
	for _, t := range yTicks {
		y = append(y, plot.Tick{Value: t, Label: decimals(t, yPlaces)})
	}
	var x []plot.Tick
	values, labels := c.xTicks(p.X.Min, p.X.Max)
	for i, t := range values {
		x = append(x, plot.Tick{Value: t, Label: labels[i]})
	}
	for axis, marks := range map[*plot.Axis][]plot.Tick{&p.X: x, &p.Y: y} {
		axis.Tick.Marker = plot.ConstantTicks(marks)
		for style, size := range map[*text.Style]vg.Length{&axis.Tick.Label: 10, &axis.Label.TextStyle: 11} {
			old := *style
			*style = sans(size, "", quiet)
			style.XAlign, style.YAlign, style.Rotation = old.XAlign, old.YAlign, old.Rotation
		}
		axis.Tick.LineStyle = draw.LineStyle{Color: quiet, Width: 0.6}
		axis.LineStyle = draw.LineStyle{Color: quiet, Width: 0.8}
		axis.Padding = 0
	}
}

// chartLines draws the lines of a chart with their intervals. It implements plot.Plotter.
type chartLines struct{ *Chart }

// Plot implements plot.Plotter.
func (c chartLines) Plot(canvas draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&canvas)
	yTicks, _ := ticks(p.Y.Min, p.Y.Max, c.LogY)
	for _, t := range yTicks {
		canvas.StrokeLine2(draw.LineStyle{Color: gridInk, Width: 0.8}, canvas.Min.X, ty(t), canvas.Max.X, ty(t))
	}
	if c.Zero {
		canvas.StrokeLine2(draw.LineStyle{Color: quiet, Width: 1}, canvas.Min.X, ty(0), canvas.Max.X, ty(0))
	}
	for k, l := range c.Lines {
		style := draw.LineStyle{Color: chartColours[k%lineStyles], Width: 1.6, Dashes: chartDashes[k%lineStyles]}
		var run []vg.Point
		flush := func() {
			if len(run) == 1 {
				canvas.DrawGlyph(draw.GlyphStyle{Color: style.Color, Radius: 2.2, Shape: draw.CircleGlyph{}}, run[0])
			} else if len(run) > 1 {
				canvas.StrokeLines(style, run)
			}
			run = nil
		}
		for i, v := range l.Y {
			if !c.shows(v) {
				flush()
				continue
			}
			run = append(run, vg.Point{X: tx(l.X[i]), Y: ty(v)})
			if i < len(l.Low) && c.shows(l.Low[i]) && c.shows(l.High[i]) {
				canvas.StrokeLine2(draw.LineStyle{Color: style.Color, Width: 0.9}, tx(l.X[i]), ty(l.Low[i]), tx(l.X[i]), ty(l.High[i]))
			}
		}
		flush()
	}
}

// drawNames writes the name of each line at its end, moved apart where names would overlap, with a line to the end.
func (c *Chart) drawNames(all draw.Canvas, p *plot.Plot, data draw.Canvas) {
	tx, ty := p.Transforms(&data)
	type end struct {
		k    int
		x, y vg.Length
	}
	var ends []end
	for k, l := range c.Lines {
		for i := len(l.Y) - 1; i >= 0; i-- {
			if c.shows(l.Y[i]) {
				ends = append(ends, end{k, tx(l.X[i]), ty(l.Y[i])})
				break
			}
		}
	}
	slices.SortStableFunc(ends, func(a, b end) int { return cmp.Compare(b.y, a.y) })
	const apart = 13
	at := data.Max.Y + apart
	lowest := data.Min.Y
	for i, e := range ends {
		room := lowest + vg.Length(len(ends)-1-i)*apart
		at = min(at-apart, max(e.y, room))
		style := sans(10, "", chartColours[e.k%lineStyles])
		style.YAlign = text.YCenter
		x := data.Max.X + 14
		all.StrokeLine2(draw.LineStyle{Color: quiet, Width: 0.5}, e.x+2, e.y, x-3, at)
		all.FillText(style, vg.Point{X: x, Y: at}, c.Lines[e.k].Name)
	}
}
