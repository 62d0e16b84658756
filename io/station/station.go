// Package station reads lists of stations: tables with a header, separated by
// commas or semicolons, and GeoJSON.
package station

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// maxSize bounds a list, so that a data file passed by mistake is rejected.
const maxSize = 64 << 20

// headings lists the accepted column names, by content. They are compared in lower case;
// properties of GeoJSON have the same names.
var headings = map[string][]string{
	"id":       {"id", "station_id", "station", "wmo", "wmo_id", "code"},
	"name":     {"name", "station_name"},
	"lat":      {"lat", "latitude"},
	"lon":      {"lon", "longitude", "long"},
	"altitude": {"altitude", "alt", "elevation", "elev", "height", "altitude_m", "elevation_m", "height_m"},
}

// Read reads a list of stations. A table needs columns for id, latitude and
// longitude. GeoJSON must be a FeatureCollection of points; the id is that of the
// feature or a property.
//
// The content decides about the format, not the name of the file: text that begins with
// { is GeoJSON, all else a table. A byte order mark is accepted, since spreadsheets
// write one. Stations keep the order of the file, which is that of the points of their
// grid.
//
// Longitudes from −360 to 360 are accepted; ensemble.StationGrid converts them.
// Altitudes outside of −500 to 9000 m are probably in another unit.
//
// Unit: degrees; altitude in metres.
// Missing: NaN for an absent or empty altitude.
// Errors: exit 66 for an absent file; 65 for an invalid or duplicate station, with its
// line.
// Source: RFC 4180 (CSV), RFC 7946 (GeoJSON).
func Read(path string) ([]ensemble.Station, error) {
	text, err := filesystem.ReadFile(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	bad := func(at, why, fix string) error {
		return &exit.Error{Code: exit.BadData, What: "not a list of stations", At: path + at, Why: why, Fix: fix}
	}
	if len(text) > maxSize {
		return nil, bad("", fmt.Sprintf("%d bytes", len(text)), "give a table of stations")
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	var out []ensemble.Station
	if t := bytes.TrimSpace(text); len(t) > 0 && t[0] == '{' {
		out, err = parseGeoJSON(t)
	} else {
		out, err = parseTable(text)
	}
	if err != nil {
		return nil, bad("", err.Error(), "write a heading such as id,latitude,longitude,altitude and one line a station, or GeoJSON points")
	}
	seen := map[string]bool{}
	for i, s := range out {
		at := fmt.Sprintf(", station %d", i+1)
		switch {
		case s.ID == "":
			return nil, bad(at, "it has no id", "add an id")
		case seen[s.ID]:
			return nil, bad(at, "id "+s.ID+" is listed twice", "give each station a unique id")
		case !(math.Abs(s.Lat) <= 90) || !(math.Abs(s.Lon) <= 360):
			return nil, bad(at, fmt.Sprintf("latitude %g, longitude %g", s.Lat, s.Lon), "correct the coordinates; GeoJSON has the longitude first")
		case s.Altitude < -500 || s.Altitude > 9000:
			return nil, bad(at, fmt.Sprintf("altitude %g m", s.Altitude), "give metres above mean sea level, or nothing if it is not known")
		}
		seen[s.ID] = true
	}
	if len(out) == 0 {
		return nil, bad("", "it is empty", "add stations")
	}
	return out, nil
}

// parseTable parses a CSV table with a header. The separator with more occurrences
// in the header is used.
//
// Lines that begin with # are comments. Headings are compared without case, and unknown
// columns are ignored. Numbers have a decimal point, also between semicolons, so a
// decimal comma is an error.
//
// Errors: an unreadable table, a missing or double column, a cell that is no number; the
// line is that of the station, counted from 1 behind the heading.
// Source: RFC 4180.
func parseTable(text []byte) ([]ensemble.Station, error) {
	r := csv.NewReader(bytes.NewReader(text))
	r.Comment, r.TrimLeadingSpace = '#', true
	if first, _, _ := bytes.Cut(text, []byte("\n")); bytes.Count(first, []byte(";")) > bytes.Count(first, []byte(",")) {
		r.Comma = ';'
	}
	rows, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, nil
	}
	at := map[string]int{}
	for i, head := range rows[0] {
		for what, words := range headings {
			if slices.Contains(words, strings.ToLower(strings.TrimSpace(head))) {
				if _, twice := at[what]; twice {
					return nil, fmt.Errorf("two columns for %s", what)
				}
				at[what] = i
			}
		}
	}
	for _, what := range []string{"id", "lat", "lon"} {
		if _, ok := at[what]; !ok {
			return nil, fmt.Errorf("no column %s in the heading %s", strings.Join(headings[what], " or "), strings.Join(rows[0], ","))
		}
	}
	cell := func(row []string, what string) string {
		if i, ok := at[what]; ok {
			return strings.TrimSpace(row[i])
		}
		return ""
	}
	var out []ensemble.Station
	for n, row := range rows[1:] {
		s := ensemble.Station{ID: cell(row, "id"), Name: cell(row, "name"), Altitude: math.NaN()}
		for _, f := range []struct {
			what string
			to   *float64
		}{{"lat", &s.Lat}, {"lon", &s.Lon}, {"altitude", &s.Altitude}} {
			word := cell(row, f.what)
			if word == "" && f.what == "altitude" {
				continue
			}
			if *f.to, err = strconv.ParseFloat(word, 64); err != nil {
				return nil, fmt.Errorf("station %d: %s is %q, not a number", n+1, f.what, word)
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// parseGeoJSON parses a FeatureCollection of points.
//
// Positions are longitude, latitude and, optionally, altitude. The id is that of the
// feature, or a property with one of the headings.
//
// Errors: invalid JSON, another type of document, a feature that is no point.
// Source: RFC 7946, sections 3.1.1 (position), 3.2 (feature) and 3.3 (collection).
func parseGeoJSON(text []byte) ([]ensemble.Station, error) {
	var doc struct {
		Type     string
		Features []struct {
			ID         any
			Properties map[string]any
			Geometry   struct {
				Type        string
				Coordinates json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if doc.Type != "FeatureCollection" {
		return nil, fmt.Errorf("JSON of type %q, not a FeatureCollection", doc.Type)
	}
	var out []ensemble.Station
	for i, f := range doc.Features {
		var c []float64
		if f.Geometry.Type != "Point" || json.Unmarshal(f.Geometry.Coordinates, &c) != nil || len(c) < 2 {
			return nil, fmt.Errorf("feature %d is not a point", i+1)
		}
		s := ensemble.Station{Lat: c[1], Lon: c[0], Altitude: math.NaN()}
		if len(c) > 2 {
			s.Altitude = c[2]
		}
		property := func(what string) any {
			for _, word := range headings[what] {
				if v, ok := f.Properties[word]; ok && v != nil {
					return v
				}
			}
			return nil
		}
		for _, w := range []struct {
			v  any
			to *string
		}{{property("id"), &s.ID}, {f.ID, &s.ID}, {property("name"), &s.Name}} {
			if w.v != nil {
				*w.to = fmt.Sprint(w.v)
			}
		}
		if h, ok := property("altitude").(float64); ok {
			s.Altitude = h
		}
		out = append(out, s)
	}
	return out, nil
}
