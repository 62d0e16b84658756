package edr

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// point is a longitude and a latitude in degrees.
type point struct{ lon, lat float64 }

// polygons are rings of points, each closed. A place is inside if an odd number of rings surround it, so holes and the
// parts of a MULTIPOLYGON need no distinction.
type polygons []ring

type ring []point

// maxVertices bounds the points of an area, hence the time for the choice of grid points.
const maxVertices = 2000

// wkt parses well-known text.
//
// Source: OGC 06-103r4, section 7.
type wkt struct {
	text string // as given, for errors
	rest string
}

// parsePoint reads POINT(lon lat).
func parsePoint(text string) (point, error) {
	w := &wkt{text, text}
	if err := w.keyword("POINT"); err != nil {
		return point{}, err
	}
	if !w.accept('(') {
		return point{}, w.fault("( is missing")
	}
	p, err := w.point()
	if err == nil && !w.accept(')') {
		err = w.fault(") is missing, or there are more than two numbers")
	}
	if err == nil {
		err = w.end()
	}
	return p, err
}

// parsePolygons reads POLYGON((lon lat, …), …) and MULTIPOLYGON(((lon lat, …), …), …).
func parsePolygons(text string) (polygons, error) {
	w := &wkt{text, text}
	multi := strings.HasPrefix(strings.ToUpper(strings.TrimSpace(text)), "MULTI")
	name := "POLYGON"
	if multi {
		name = "MULTIPOLYGON"
	}
	if err := w.keyword(name); err != nil {
		return nil, err
	}
	var out polygons
	polygon := func() error { return w.list(func() error { return w.ring(&out) }) }
	var err error
	if multi {
		err = w.list(polygon)
	} else {
		err = polygon()
	}
	if err == nil {
		err = w.end()
	}
	return out, err
}

// fault is the error of a text.
func (w *wkt) fault(why string) error {
	at := len(w.text) - len(w.rest)
	return fmt.Errorf("%s is not well-known text at character %d: %s", clip(w.text), at+1, why)
}

// space skips spaces.
func (w *wkt) space() { w.rest = strings.TrimLeftFunc(w.rest, unicode.IsSpace) }

// keyword reads the name of a geometry.
func (w *wkt) keyword(name string) error {
	w.space()
	n := strings.IndexFunc(w.rest, func(r rune) bool { return !unicode.IsLetter(r) })
	if n < 0 {
		n = len(w.rest)
	}
	if !strings.EqualFold(w.rest[:n], name) {
		return w.fault("write " + map[string]string{"POINT": "POINT(8.55 47.37)", "POLYGON": "POLYGON((5 45,10 45,10 50,5 50,5 45))", "MULTIPOLYGON": "MULTIPOLYGON(((5 45,10 45,10 50,5 45)))"}[name] + ", longitude first")
	}
	w.rest = w.rest[n:]
	return nil
}

// accept reads one character if it is next.
func (w *wkt) accept(c byte) bool {
	w.space()
	if w.rest == "" || w.rest[0] != c {
		return false
	}
	w.rest = w.rest[1:]
	return true
}

// end checks that nothing follows.
func (w *wkt) end() error {
	if w.space(); w.rest != "" {
		return w.fault("it should end here")
	}
	return nil
}

// number reads a finite number.
func (w *wkt) number() (float64, error) {
	w.space()
	n := strings.IndexFunc(w.rest, func(r rune) bool { return !strings.ContainsRune("+-.0123456789eE", r) })
	if n < 0 {
		n = len(w.rest)
	}
	v, err := strconv.ParseFloat(w.rest[:n], 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, w.fault("a number is expected")
	}
	w.rest = w.rest[n:]
	return v, nil
}

// point reads a longitude and a latitude.
func (w *wkt) point() (p point, err error) {
	if p.lon, err = w.number(); err != nil {
		return p, err
	}
	if p.lat, err = w.number(); err != nil {
		return p, err
	}
	if p.lon < -180 || p.lon > 360 || p.lat < -90 || p.lat > 90 {
		return p, w.fault(fmt.Sprintf("%g %g is no longitude (-180 to 360) and latitude (-90 to 90)", p.lon, p.lat))
	}
	return p, nil
}

// list reads items in parentheses, separated by commas.
func (w *wkt) list(item func() error) error {
	if !w.accept('(') {
		return w.fault("( is missing")
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if w.accept(')') {
			return nil
		}
		if !w.accept(',') {
			return w.fault(", or ) is missing")
		}
	}
}

// ring reads a closed ring, and adds it.
func (w *wkt) ring(to *polygons) error {
	n := 0
	for _, r := range *to {
		n += len(r)
	}
	var r ring
	err := w.list(func() error {
		p, err := w.point()
		r = append(r, p)
		if err == nil && n+len(r) > maxVertices {
			err = w.fault(fmt.Sprintf("more than %d points", maxVertices))
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case len(r) < 4:
		return w.fault("a ring has at least four points, the last equal to the first")
	case r[0] != r[len(r)-1]:
		return w.fault("a ring ends at its first point")
	}
	*to = append(*to, r)
	return nil
}

// bounds returns the box around the polygons.
func (p polygons) bounds() (west, south, east, north float64) {
	west, south, east, north = math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, r := range p {
		for _, q := range r {
			west, south, east, north = min(west, q.lon), min(south, q.lat), max(east, q.lon), max(north, q.lat)
		}
	}
	return west, south, east, north
}

// edge is the distance in degrees up to which a place is on the boundary, above the rounding of coordinates.
const edge = 1e-6

// contains reports whether a place is inside or on the boundary, by the number of edges east of it.
func (p polygons) contains(at point) bool {
	inside := false
	for _, r := range p {
		for i := 1; i < len(r); i++ {
			a, b := r[i-1], r[i]
			if onSegment(at, a, b) {
				return true
			}
			if (a.lat > at.lat) != (b.lat > at.lat) && at.lon < a.lon+(at.lat-a.lat)/(b.lat-a.lat)*(b.lon-a.lon) {
				inside = !inside
			}
		}
	}
	return inside
}

// onSegment reports whether a place is within edge of the line from a to b.
func onSegment(at, a, b point) bool {
	dx, dy := b.lon-a.lon, b.lat-a.lat
	t := 0.0
	if l := dx*dx + dy*dy; l > 0 {
		t = max(0, min(1, ((at.lon-a.lon)*dx+(at.lat-a.lat)*dy)/l))
	}
	return math.Hypot(at.lon-a.lon-t*dx, at.lat-a.lat-t*dy) <= edge
}
