package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"image/png"
	"math"
	"strings"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/report/coastline"
)

// The margins of a map for the labels of the graticule, in SVG units: latitudes on the left, longitudes
// below; half a label of a longitude extends beyond the map on the right.
const (
	marginLeft   = 40.0
	marginRight  = 10.0
	marginTop    = 6.0
	marginBottom = 18.0
)

// fullResolution is the area of maps, in square SVG units, up to which a page has images of full resolution:
// about 70 maps of a global grid at three in a row. It bounds the bytes of a page, most of which are images.
const fullResolution = 4.5e6

// resolution is the resolution of the images on a page whose maps have this total area in square SVG
// units, in pixels per SVG unit: 2 on pages with few maps, 0.6 with many. It decreases faster than the
// root of the area, since coarse images need more bytes for each pixel: an image of bands compresses by the
// length of their borders, which decreases with the resolution, not with its square.
func resolution(area float64) float64 {
	return 2 * math.Min(1, math.Max(0.3, math.Pow(fullResolution/math.Max(area, 1), 0.75)))
}

// area is the total area of the images of a panel in square SVG units. The aspect ratio of a projected grid
// is taken as that of its rows and columns.
func (p *Panel) area() (sum float64) {
	for i := range p.Maps {
		g, aspect := p.Maps[i].Grid, 1.0
		if g == nil || g.Kind == ensemble.Points || p.Maps[i].Spaghetti != nil {
			continue
		}
		if aspect = float64(g.NY) / float64(max(1, g.NX)); g.Kind != ensemble.Projected {
			aspect = newView(g).aspect
		}
		w := p.mapWidth() - marginLeft - marginRight
		sum += w * w * aspect
	}
	return sum
}

// columns is the number of maps side by side: four are two rows of two, five and more have rows of three.
func (p *Panel) columns() int {
	if len(p.Maps) > 4 {
		return 3
	}
	return []int{1, 1, 2, 3, 2}[len(p.Maps)]
}

// mapWidth is the width of each map with its margins, in SVG units. Fewer columns have wider maps, so that
// labels have about the same size on a page of a given width.
func (p *Panel) mapWidth() float64 {
	if p.Stamps {
		return 190
	}
	return []float64{0, 480, 440, 400}[p.columns()]
}

// coastID is the id of the coastline element, which all maps of a page reference.
const coastID = "coast"

// coastPath is the coastlines as an SVG path with relative coordinates, computed once. A map
// scales it by its viewBox. A tenth of a degree is less than a pixel of a global map; on a map of a small
// region the steps are visible.
//
// Unit: tenths of a degree, y southwards.
var coastPath = sync.OnceValue(func() string {
	var b strings.Builder
	for _, l := range coastline.Lines() {
		// Points that round to the previous one are left out, except the last.
		px, py := 0, 0
		for i, p := range l {
			x, y := int(math.Round(p.Lon*10)), int(math.Round(-p.Lat*10))
			switch {
			case i == 0:
				fmt.Fprintf(&b, "M%d %dl", x, y)
			case x != px || y != py || i == len(l)-1:
				fmt.Fprintf(&b, "%d %d ", x-px, y-py)
			}
			px, py = x, y
		}
	}
	return b.String()
})

// svg draws the map with a total width of w units. A position (x, y) in the plane is at
//
//	marginLeft + (x−x0)/(x1−x0) · mw,   marginTop + (y1−y)/(y1−y0) · mh,   mh = aspect · mw
//
// Layers from bottom to top: the field as an embedded PNG image (stations and spaghetti: a grey
// background), graticule, coastlines on a white halo, isolines or spaghetti, outline, stations, frame,
// labels, extremes. On longitude and latitude the coastlines are references to one element of the
// page. Stamps have no labels and extremes.
//
// The image has a palette of bands, one byte for each pixel and no filter: a palette holds up to 256
// colours, and that of a map has two for the hatching and two for each band. Nothing is loaded from
// elsewhere: the image is a data URL in base64.
//
// Unit: pixels is the resolution of the image in pixels per unit.
// Errors: those of the PNG encoder.
// Source: PNG specification, second edition, sections 11.2.3 (PLTE) and 12.8 (filter selection);
// RFC 2397 (data URL).
func (c *picture) svg(w, pixels float64) (string, error) {
	v := c.view
	mw := w - marginLeft - marginRight
	mh := mw * v.aspect
	x := func(p float64) float64 { return marginLeft + (p-v.x0)/(v.x1-v.x0)*mw }
	y := func(p float64) float64 { return marginTop + (v.y1-p)/(v.y1-v.y0)*mh }
	var b strings.Builder
	box := fmt.Sprintf("0 0 %s %s", num(w), num(marginTop+mh+marginBottom))
	if c.panel.Stamps { // without margins
		box = fmt.Sprintf("%s %s %s %s", num(marginLeft-1), num(marginTop-1), num(mw+2), num(mh+2))
	}
	fmt.Fprintf(&b, `<svg class="map" viewBox="%s" role="img" aria-label="%s">`, box, html.EscapeString(c.alt()))
	if c.m.Grid.Kind == ensemble.Points || c.m.Spaghetti != nil {
		fmt.Fprintf(&b, `<rect x="%s" y="%s" width="%s" height="%s" fill="#f4f4f2"/>`, num(marginLeft), num(marginTop), num(mw), num(mh))
	} else {
		var buf bytes.Buffer // default compression: the best level takes 13 times as long and saves a tenth of the bytes
		if err := png.Encode(&buf, v.raster(c.m.Values, c.m.Muted, c.scale, int(math.Round(mw*pixels)))); err != nil {
			return "", fmt.Errorf("report: map %q: %w", c.m.Title, err)
		}
		fmt.Fprintf(&b, `<image x="%s" y="%s" width="%s" height="%s" preserveAspectRatio="none" href="data:image/png;base64,%s"/>`,
			num(marginLeft), num(marginTop), num(mw), num(mh), base64.StdEncoding.EncodeToString(buf.Bytes()))
	}
	c.layers(&b, x, y, mw, mh)
	if c.panel.Stamps {
		b.WriteString(`</svg>`)
		return b.String(), nil
	}
	c.axes(&b, x, y, w, mh)
	if c.low >= 0 && c.low != c.high && c.m.Spaghetti == nil && c.m.Muted == nil && !c.panel.Probability {
		c.marks(&b, x, y, mw, mh)
	}
	b.WriteString(`</svg>`)
	return b.String(), nil
}

// layers draws what lies between the field and the labels. Coastlines and outline have a white halo, so that
// they are visible on dark and on light bands. The inner svg element clips what extends beyond the frame.
func (c *picture) layers(b *strings.Builder, x, y func(float64) float64, mw, mh float64) {
	v := c.view
	// Graticule: dark lines on light fields.
	class := "graticule"
	if c.isPale() {
		class = "graticule pale"
	}
	fmt.Fprintf(b, `<path class="%s" d="`, class)
	for _, l := range c.lines {
		b.WriteString(path(l, x, y))
	}
	b.WriteString(`"/>`)
	// Coastlines: paths on projections, references with an offset for every turn elsewhere.
	if c.m.Grid.Kind == ensemble.Projected {
		var d strings.Builder
		for _, l := range c.coast() {
			d.WriteString(path(l, x, y))
		}
		fmt.Fprintf(b, `<path class="halo" d="%s"/><path class="shore" d="%s"/>`, d.String(), d.String())
	} else {
		fmt.Fprintf(b, `<svg x="%s" y="%s" width="%s" height="%s" viewBox="%s %s %s %s" preserveAspectRatio="none">`,
			num(marginLeft), num(marginTop), num(mw), num(mh), num(v.x0*10), num(-v.y1*10), num((v.x1-v.x0)*10), num((v.y1-v.y0)*10))
		for _, class := range []string{"halo", "shore"} {
			for _, t := range v.turns() {
				fmt.Fprintf(b, `<use class="%s" href="#%s" x="%s"/>`, class, coastID, num(t*10))
			}
		}
		b.WriteString(`</svg>`)
	}
	switch {
	case c.m.Spaghetti != nil:
		b.WriteString(c.spaghettiSVG(mw))
	case c.panel.Isolines > 0:
		b.WriteString(c.isolinesSVG(mw))
	}
	if len(c.m.Outline) > 1 { // clipped to the frame
		var d strings.Builder
		for _, l := range c.outline() {
			line, west, east := make([]point, len(l)), false, false
			for i, p := range l {
				line[i] = point{x(p.x), y(p.y)}
				west, east = west || p.x < v.x1, east || p.x > v.x0
			}
			if west && east { // else the copy lies beside the map
				d.WriteString(polyline(simplified(line)))
			}
		}
		fmt.Fprintf(b, `<svg x="%s" y="%s" width="%s" height="%s" viewBox="%s %s %s %s"><path class="outline halo" d="%s"/><path class="outline" d="%s"/></svg>`,
			num(marginLeft), num(marginTop), num(mw), num(mh), num(marginLeft), num(marginTop), num(mw), num(mh), d.String(), d.String())
	}
	if c.m.Grid.Kind == ensemble.Points {
		c.stations(b, x, y)
	}
	fmt.Fprintf(b, `<rect class="frame" x="%s" y="%s" width="%s" height="%s"/>`, num(marginLeft), num(marginTop), num(mw), num(mh))
}

// stations draws a dot for each station, small ones for missing and muted values below the others. Dots of the
// same band are one path. Each is a line without length with round caps (SVG 2, section 13.5.4), drawn twice:
// a dark, wider one below is the rim.
func (c *picture) stations(b *strings.Builder, x, y func(float64) float64) {
	n := len(c.scale.colours)
	dots := make([]strings.Builder, 2*n+1) // missing, then pale bands, then bands
	for k, q := range c.m.Values {
		p := c.view.place(k)
		f, at := float64(q), 0
		if !math.IsNaN(f) && !math.IsInf(f, 0) {
			at = 1 + c.scale.band(f)
			if c.m.Muted == nil || !c.m.Muted[k] {
				at += n
			}
		}
		fmt.Fprintf(&dots[at], "M%.1f %.1fh0", x(p.x), y(p.y))
	}
	// Dots are the round caps of lines without length: a fifth of the bytes of circles.
	for at := range dots {
		d := dots[at].String()
		switch {
		case d == "":
		case at == 0:
			fmt.Fprintf(b, `<path class="station missing" d="%s"/>`, d)
		case at <= n:
			fmt.Fprintf(b, `<path class="station muted" d="%s"/><path class="station small" style="stroke:%s" d="%s"/>`, d, hex(pale(c.scale.colours[at-1])), d)
		default:
			fmt.Fprintf(b, `<path class="station" d="%s"/><path class="station inner" style="stroke:%s" d="%s"/>`, d, hex(c.scale.colours[at-1-n]), d)
		}
	}
}

// axes writes the labels of meridians and parallels; those that would overlap the previous one are left
// out.
func (c *picture) axes(b *strings.Builder, x, y func(float64) float64, w, mh float64) {
	last := math.Inf(-1)
	for _, l := range c.below {
		if at := x(l.at); at-last > 34 {
			anchor := "middle"
			if at > w-marginRight-8 { // a label at the right border ends at it
				anchor, at = "end", w-1
			}
			fmt.Fprintf(b, `<text class="tick" x="%s" y="%s" text-anchor="%s">%s</text>`, num(at), num(marginTop+mh+13), anchor, l.text)
			last = at
		}
	}
	last = math.Inf(1)
	for _, l := range c.left {
		if at := y(l.at); last-at > 13 {
			fmt.Fprintf(b, `<text class="tick" x="%s" y="%s" text-anchor="end">%s</text>`, num(marginLeft-4), num(at+3.5), l.text)
			last = at
		}
	}
}

// marks draws a triangle with the value at each extreme, pointing upwards at the maximum and
// downwards at the minimum. A triangle at the border is moved inwards.
func (c *picture) marks(b *strings.Builder, x, y func(float64) float64, mw, mh float64) {
	var at [2]point
	var width [2]float64
	words := c.extremes()
	for i, k := range []int{c.high, c.low} {
		p := c.view.place(k)
		at[i] = point{math.Min(math.Max(x(p.x), marginLeft+5), marginLeft+mw-5), math.Min(math.Max(y(p.y), marginTop+7), marginTop+mh-7)}
		width[i] = textWidth(words[i], 11)
	}
	shapes := []string{"0,-5 4.8,3.4 -4.8,3.4", "0,5 4.8,-3.4 -4.8,-3.4"}
	for i, t := range placeMarkTexts(at, width, marginLeft, marginLeft+mw) {
		anchor := "start"
		if t.left {
			anchor = "end"
		}
		fmt.Fprintf(b, `<g class="mark" transform="translate(%s %s)"><polygon points="%s"/><text x="%s" y="%s" text-anchor="%s">%s</text></g>`,
			num(at[i].x), num(at[i].y), shapes[i], num(t.dx), num(t.dy+4), anchor, words[i])
	}
}

// extremes returns the labels of the maximum and the minimum, in this order.
func (c *picture) extremes() [2]string {
	return [2]string{"max " + c.scale.text(float64(c.m.Values[c.high])), "min " + c.scale.text(float64(c.m.Values[c.low]))}
}

// path formats a line as the data of an SVG path: "M x y" for the first point, "L x y" for the
// others.
func path(l []point, x, y func(float64) float64) string {
	var b strings.Builder
	for i, p := range l {
		b.WriteString(map[bool]string{true: "M", false: "L"}[i == 0])
		b.WriteString(num(x(p.x)) + " " + num(y(p.y)))
	}
	return b.String()
}

// num formats a coordinate with at most two decimals, to keep the page small:
//
//	12.500 → 12.5,   −0.001 → 0
func num(v float64) string {
	s := fmt.Sprintf("%.2f", v)
	s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

// bar draws the colour bar of a panel: bands, arrows at open ends, numbers at labelled bounds,
// the unit, and a sample of the hatching if there are missing values.
//
// Unit: SVG units of a viewBox of height 38; the bar is 560 wide.
func (s *scale) bar(u string, missing bool) string {
	const w, h, rim = 560.0, 13.0, 26.0
	n := len(s.colours)
	u = unit(u)
	width := w + 9*float64(len([]rune(u)))
	sample := width + 14
	if missing {
		width = sample + 100
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="bar" viewBox="0 0 %s 38" role="img" aria-label="%s">`, num(width), html.EscapeString(s.alt(u, missing)))
	// The bands; each is drawn 0.3 wider, so that no gap shows between them.
	each := (w - 2*rim) / float64(n)
	for i, c := range s.colours {
		fmt.Fprintf(&b, `<rect x="%s" y="3" width="%s" height="%s" fill="%s"/>`, num(rim+float64(i)*each), num(each+0.3), num(h), hex(c))
	}
	// Arrows at open ends, in the colour of the outermost band.
	for _, e := range []struct {
		open   bool
		x, tip float64
		c      int
	}{{s.under, rim, rim - 12, 0}, {s.over, w - rim, w - rim + 12, n - 1}} {
		if e.open {
			fmt.Fprintf(&b, `<path d="M%s 3L%s %sL%s %sz" fill="%s" stroke="#4a525a" stroke-width="0.8"/>`, num(e.x), num(e.tip), num(3+h/2), num(e.x), num(3+h), hex(s.colours[e.c]))
		}
	}
	fmt.Fprintf(&b, `<rect class="frame" x="%s" y="3" width="%s" height="%s"/>`, num(rim), num(w-2*rim), num(h))
	for i := range s.bounds {
		if s.label[i] {
			at := rim + float64(i)*each
			fmt.Fprintf(&b, `<path class="frame" d="M%s 16v4"/><text class="tick" x="%s" y="33" text-anchor="middle">%s</text>`, num(at), num(at), s.bound(i))
		}
	}
	if u != "" {
		fmt.Fprintf(&b, `<text class="tick unit" x="%s" y="14">%s</text>`, num(w-8), html.EscapeString(u))
	}
	if missing {
		fmt.Fprintf(&b, `<rect x="%s" y="3" width="22" height="13" fill="url(#hatch)" class="swatch"/><text class="tick" x="%s" y="13">missing</text>`, num(sample), num(sample+28))
	}
	b.WriteString(`</svg>`)
	return b.String()
}

// alt describes the colour scale as text, for screen readers: range, bands, open ends and
// hatching.
func (s *scale) alt(u string, missing bool) string {
	n := len(s.colours)
	t := fmt.Sprintf("Colour scale from %s to %s %s in %d bands of %s.", s.text(s.bounds[0]), s.text(s.bounds[n]), u, n, decimals(s.step, places(s.step)))
	if s.under || s.over {
		t += " Few values lie beyond its ends, which are drawn as arrows."
	}
	if missing {
		t += " Missing values are hatched."
	}
	return t
}
