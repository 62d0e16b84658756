package edr

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/published"
)

// kind is a kind of query.
type kind struct {
	name    string
	where   string // query parameter with the geometry
	example string
	formats []string // the first is the default
}

// Formats of answers, as the parameter f names them.
const (
	coverageJSON = "CoverageJSON"
	netCDF       = "NetCDF"
)

// kinds lists the kinds of query.
var kinds = []kind{
	{"position", "coords", "POINT(8.55 47.37)", []string{coverageJSON}},
	{"area", "coords", "POLYGON((5 45,10 45,10 50,5 50,5 45))", []string{coverageJSON, netCDF}},
	{"cube", "bbox", "5,45,10,50", []string{coverageJSON, netCDF}},
}

// queryNames lists the kinds of query and the list of instances.
func queryNames() string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ") + " and instances"
}

// request is a query without syntax errors.
type request struct {
	kind
	text   string // of the geometry
	names  []string
	format string
	at     func(time.Time) bool // valid times; nil: all
	levels func(z float64) bool // values of levels; nil: all
	shown  map[string]string    // parameters as given, for errors
	line   string               // of the request, for the history of a file
	region func(*ensemble.Grid) (region, error)
}

// parseRequest parses the parameters of a query.
//
// Errors: an unknown query; an unknown, repeated, missing or malformed parameter.
func parseRequest(name string, values url.Values) (*request, error) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return nil, notFound("unknown query " + clip(name) + "; a collection has " + queryNames())
	}
	q := &request{kind: kinds[i], shown: map[string]string{}}
	known := []string{q.where, "parameter-name", "datetime", "z", "crs", "f"}
	for key, given := range values {
		switch {
		case !slices.Contains(known, key):
			return nil, badRequest("unknown parameter " + clip(key) + "; " + name + " has " + strings.Join(known, ", "))
		case len(given) > 1:
			return nil, badRequest("parameter " + key + " is given twice")
		}
		q.shown[key] = given[0]
	}
	if q.text = q.shown[q.where]; q.text == "" {
		return nil, badRequest(fmt.Sprintf("parameter %s is missing, such as %s=%s", q.where, q.where, q.example))
	}
	if crs := q.shown["crs"]; crs != "" && crs != "CRS84" && crs != crs84 {
		return nil, badRequest("crs " + clip(crs) + " is not available; it is CRS84: longitude and latitude in degrees")
	}
	q.format = q.formats[0]
	if f := q.shown["f"]; f != "" {
		i := slices.IndexFunc(q.formats, func(o string) bool { return strings.EqualFold(o, f) })
		if i < 0 {
			return nil, badRequest("format " + clip(f) + " is not available; " + name + " has " + strings.Join(q.formats, ", "))
		}
		q.format = q.formats[i]
	}
	if names := q.shown["parameter-name"]; names != "" {
		q.names = strings.Split(names, ",")
	}
	var err error
	if text := q.shown["datetime"]; text != "" {
		if q.at, err = parseTimes(text); err != nil {
			return nil, err
		}
	}
	if text := q.shown["z"]; text != "" {
		if q.levels, err = parseLevels(text); err != nil {
			return nil, err
		}
	}
	return q, q.parseRegion()
}

// parseTimes reads an instant or an interval, open if one end is "..".
//
// Source: OGC 19-086r6, parameter datetime; RFC 3339.
func parseTimes(text string) (func(time.Time) bool, error) {
	instant := func(s string) (time.Time, error) {
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
			if t, err := time.Parse(layout, s); err == nil {
				return t, nil
			}
		}
		return time.Time{}, badRequest("datetime " + clip(text) + " is no time such as 2026-01-03T00:00:00Z, and no interval such as 2026-01-03T00:00:00Z/2026-01-04T00:00:00Z or ../2026-01-04T00:00:00Z")
	}
	from, to, interval := strings.Cut(text, "/")
	if !interval {
		t, err := instant(text)
		return t.Equal, err
	}
	var ends [2]time.Time
	for i, s := range []string{from, to} {
		if s == ".." || s == "" {
			continue
		}
		var err error
		if ends[i], err = instant(s); err != nil {
			return nil, err
		}
	}
	return func(t time.Time) bool {
		return (ends[0].IsZero() || !t.Before(ends[0])) && (ends[1].IsZero() || !t.After(ends[1]))
	}, nil
}

// parseLevels reads 850, 850,500 (a list), 500/850 (an interval), or R4/700/50 (four values from 700 on, every 50).
//
// Source: OGC 19-086r6, parameter z.
func parseLevels(text string) (func(float64) bool, error) {
	wrong := badRequest("z " + clip(text) + " is no level such as 850, list such as 850,500, interval such as 500/850, or sequence such as R3/500/100")
	numbers := func(words []string) (out []float64, err error) {
		for _, w := range words {
			v, err := strconv.ParseFloat(strings.TrimSpace(w), 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, wrong
			}
			out = append(out, v)
		}
		return out, nil
	}
	if sequence, ok := strings.CutPrefix(text, "R"); ok {
		v, err := numbers(strings.Split(sequence, "/"))
		if err != nil || len(v) != 3 || v[0] < 1 || v[0] != math.Trunc(v[0]) {
			return nil, wrong
		}
		return func(z float64) bool {
			n := math.Round((z - v[1]) / v[2])
			return n >= 0 && n < v[0] && math.Abs(v[1]+n*v[2]-z) < 1e-6
		}, nil
	}
	if strings.Contains(text, "/") {
		v, err := numbers(strings.Split(text, "/"))
		if err != nil || len(v) != 2 {
			return nil, wrong
		}
		return func(z float64) bool { return z >= min(v[0], v[1]) && z <= max(v[0], v[1]) }, nil
	}
	v, err := numbers(strings.Split(text, ","))
	return func(z float64) bool { return slices.Contains(v, z) }, err
}

// levelValue returns the vertical coordinate of a level: pressure in hPa, height and depth in m. ok is false for levels
// without a number, such as the surface, and for layers.
func levelValue(l ensemble.Level) (z float64, ok bool) {
	switch {
	case l.IsLayer:
		return 0, false
	case l.Kind == ensemble.Pressure:
		return l.Value / 100, true
	}
	return l.Value, l.Kind == ensemble.HeightAboveSoil || l.Kind == ensemble.DepthBelowLand
}

// parseRegion parses the geometry.
func (q *request) parseRegion() error {
	switch q.name {
	case "position":
		at, err := parsePoint(q.text)
		if err != nil {
			return badRequest(q.where + " " + err.Error())
		}
		q.region = func(g *ensemble.Grid) (region, error) { return nearest(g, at) }
	case "area":
		p, err := parsePolygons(q.text)
		if err != nil {
			return badRequest(q.where + " " + err.Error())
		}
		west, south, east, north := p.bounds()
		if east-west > 360 {
			return badRequest("the area is wider than 360 degrees")
		}
		q.region = func(g *ensemble.Grid) (region, error) {
			return crop(g, ensemble.Area{North: north, West: west, South: south, East: east}, p)
		}
	case "cube":
		a, err := q.parseBox()
		if err != nil {
			return err
		}
		q.region = func(g *ensemble.Grid) (region, error) { return crop(g, a, nil) }
	}
	return nil
}

// parseBox reads west,south,east,north or west,south,low,east,north,high. West may be larger than east, for a box across
// the date line.
func (q *request) parseBox() (a ensemble.Area, err error) {
	wrong := badRequest("bbox " + clip(q.text) + " is no box such as " + q.example + ": west, south, east, north in degrees, or with levels west, south, low, east, north, high")
	var v []float64
	for _, w := range strings.Split(q.text, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(w), 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return a, wrong
		}
		v = append(v, x)
	}
	if len(v) == 6 {
		if q.levels != nil {
			return a, badRequest("levels are given both in bbox and in z")
		}
		low, high := min(v[2], v[5]), max(v[2], v[5])
		q.levels = func(z float64) bool { return z >= low && z <= high }
		q.shown["z"] = fmt.Sprintf("%g/%g", low, high)
		v = []float64{v[0], v[1], v[3], v[4]}
	}
	switch {
	case len(v) != 4 || min(v[0], v[2]) < -180 || max(v[0], v[2]) > 360 || v[1] < -90 || v[3] > 90:
		return a, wrong
	case v[1] > v[3]:
		return a, badRequest("bbox " + clip(q.text) + ": south is north of north; the order is west, south, east, north")
	}
	return ensemble.Area{North: v[3], West: v[0], South: v[1], East: v[2]}, nil
}

// query answers a query for values.
func (s *Service) query(ctx context.Context, c *collection, of *published.Init, name string, values url.Values) (a Answer, err error) {
	q, err := parseRequest(name, values)
	if err != nil {
		return a, err
	}
	q.line = "GET " + c.path(of.Name) + "/" + name + "?" + values.Encode()
	err = s.with(ctx, of, func(f *forecast) error {
		sel, err := f.choose(c, q, s.limits.Values)
		if err != nil {
			return err
		}
		if err := f.read(ctx, sel); err != nil {
			return err
		}
		if q.format == netCDF {
			a, err = s.netCDF(ctx, f, sel, q)
			return err
		}
		a = Answer{Status: http.StatusOK, Type: typeCoverage, Body: sel.coverages(f, q)}
		return nil
	})
	return a, err
}

// replacements is how often products may be replaced during a query.
const replacements = 3

// with calls use with an open initialisation, when fewer than Limits.Concurrent others do. It calls use again if the
// products were replaced meanwhile.
//
// Errors: those of open and use; ctx.Err().
func (s *Service) with(ctx context.Context, of *published.Init, use func(*forecast) error) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	replaced := &fault{http.StatusServiceUnavailable, "Unavailable", "the products of " + of.Name + " are being replaced: ask again"}
	for try := 1; ; try++ {
		err := s.attempt(ctx, of, use)
		same, cerr := s.current(of)
		switch {
		case cerr != nil:
			return cerr
		case same:
			var f *fault
			if err != nil && !errors.As(err, &f) {
				s.reader.Forget(of.Name) // what went wrong with its files may pass
			}
			return err
		case try == replacements:
			return replaced
		}
		s.reader.Forget(of.Name)
		if of, err = s.products.Find(of.Name); err != nil {
			return replaced
		}
	}
}

// attempt calls use with an open initialisation.
func (s *Service) attempt(ctx context.Context, of *published.Init, use func(*forecast) error) error {
	f, err := s.open(ctx, of)
	if err != nil {
		return err
	}
	defer f.Release()
	return use(f)
}
