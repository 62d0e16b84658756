package report

import (
	"fmt"
	"html/template"
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Figure is a rendered Map with its statistics.
type Figure struct {
	Title string
	SVG   template.HTML
	// Low and High are minimum and maximum, LowAt and HighAt their locations; "–" without
	// values.
	Low, LowAt   string
	High, HighAt string
	// Mean is area-weighted; Missing counts the missing points.
	Mean, Missing, Unit string
	Reference           string // as in Map
}

// Figures returns the maps of a rendered panel. Their page needs Styles, and Shapes once.
func (r RenderedPanel) Figures() []Figure { return r.row.Pictures }

// Bar returns the colour bar of a rendered panel, with the unit.
func (r RenderedPanel) Bar() template.HTML { return r.row.Bar }

// Styles are the colours and rules of pictures.
func Styles() template.CSS { return template.CSS(pictureStyles) }

// DarkStyles are the colours of pictures in the dark colour scheme.
func DarkStyles() template.CSS { return template.CSS(darkStyles) }

// Shapes is the element with the coastlines and the hatching that the maps of a page refer to.
func Shapes() template.HTML {
	return template.HTML(fmt.Sprintf(`<svg class="away" aria-hidden="true"><defs><g class="coast"><path id="%s" d="%s" fill="none" vector-effect="non-scaling-stroke"/></g><pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="7" height="7" fill="#eeeeec"/><rect width="1.6" height="7" fill="#8a8a8a"/></pattern></defs></svg>`,
		coastID, coastPath()))
}

// Locate returns the place at a position on map j of the panel, as Render draws it. On projections it is that
// of the nearest grid point.
//
// Unit: x and y from the upper left corner of the picture, both in widths of the picture; degrees.
// The result is false beside the map, and on a projection whose points have no latitudes and longitudes.
func (p *Panel) Locate(j int, x, y float64) (Place, bool) {
	g := p.Maps[j].Grid
	v, w := newView(g), p.mapWidth()
	mw := w - marginLeft - marginRight
	right, down := (x*w-marginLeft)/mw, (y*w-marginTop)/(mw*v.aspect)
	if !(right >= 0 && right <= 1 && down >= 0 && down <= 1) {
		return Place{}, false
	}
	at := point{v.x0 + right*(v.x1-v.x0), v.y1 - down*(v.y1-v.y0)}
	switch {
	case g.Kind != ensemble.Projected:
		return Place{Lon: east(at.x), Lat: at.y}, true
	case len(g.Lat) != g.Size() || len(g.Lon) != g.Size():
		return Place{}, false
	}
	k := nearestLine(v.rows, at.y)*g.NX + nearestLine(v.cols, at.x)
	return Place{Lon: east(g.Lon[k]), Lat: g.Lat[k]}, true
}

// nearestLine is the index of the grid line that is nearest to a coordinate.
func nearestLine(lines []gridLine, at float64) int {
	best, distance := 0, math.Inf(1)
	for _, l := range lines {
		if d := math.Abs(l.at - at); d < distance {
			best, distance = l.index, d
		}
	}
	return best
}

// Ticks returns about six round numbers within a range, and their texts.
func Ticks(low, high float64) (at []float64, texts []string) {
	at, after := ticks(low, high, false)
	for _, t := range at {
		texts = append(texts, decimals(t, after))
	}
	return at, texts
}

// Decimals formats a number with d decimals and a Unicode minus sign; "–" for NaN.
func Decimals(v float64, d int) string { return decimals(v, d) }

// Unit formats a UDUNITS unit with superscripts; "" for "1".
func Unit(u string) string { return unit(u) }

// LatitudeText formats a latitude in degrees: 47.5° N.
func LatitudeText(y float64) string { return latitude(y) }

// LongitudeText formats a longitude in degrees: 8.5° E.
func LongitudeText(x float64) string { return longitude(x) }

// Position is the inverse of Locate. The result is false for a place beside the map.
//
// Unit: in widths of the picture, from its upper left corner.
func (p *Panel) Position(j int, at Place) (x, y float64, ok bool) {
	v, w := newView(p.Maps[j].Grid), p.mapWidth()
	q := point{at.Lon, at.Lat}
	if v.grid.Kind == ensemble.Projected {
		if v.projected == nil {
			return 0, 0, false
		}
		if q, ok = v.projected.find(at.Lon, at.Lat); !ok {
			return 0, 0, false
		}
	} else {
		for q.x = east(q.x); q.x < v.x0; {
			q.x += 360
		}
	}
	mw := w - marginLeft - marginRight
	return (marginLeft + (q.x-v.x0)/(v.x1-v.x0)*mw) / w, (marginTop + (v.y1-q.y)/(v.y1-v.y0)*mw*v.aspect) / w, v.inside(q)
}
