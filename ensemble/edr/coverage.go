package edr

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// object is a JSON object of a standard.
type object = map[string]any

// Identifiers of standards.
const (
	crs84         = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
	ucum          = "http://www.opengis.net/def/uom/UCUM/"
	standardNames = "http://vocab.nerc.ac.uk/standard_name/"
)

// coverages encodes a selection as CoverageJSON: a coverage if all parameters have the same times and levels, else a
// collection of them. Numbers have the fewest digits that identify their float32.
//
// Source: OGC 21-069r2, sections 5 (domains), 6 (parameters) and 7 (NdArray).
func (sel *selection) coverages(f *forecast, q *request) []byte {
	var list []object
	for _, b := range sel.blocks {
		list = append(list, sel.coverage(b, f, q))
	}
	var document any = list[0]
	if len(list) > 1 {
		document = object{"type": "CoverageCollection", "coverages": list}
	}
	text, err := json.Marshal(document)
	if err != nil {
		panic(err) // texts, finite numbers and null always marshal
	}
	return append(text, '\n')
}

// coverage encodes a block.
func (sel *selection) coverage(b *block, f *forecast, q *request) object {
	latitudes := sel.grid.Lat
	if !isRegular(sel.grid) {
		latitudes = []float64{sel.grid.LatAt(0, 0)}
	}
	times := make([]string, len(b.leads))
	for i, l := range b.leads {
		times[i] = f.Init.Time.Add(time.Duration(l)).UTC().Format(time.RFC3339)
	}
	axes := object{"x": object{"values": sel.lon}, "y": object{"values": latitudes}, "t": object{"values": times}}
	referencing := []object{
		{"coordinates": []string{"x", "y"}, "system": object{"type": "GeographicCRS", "id": crs84}},
		{"coordinates": []string{"t"}, "system": object{"type": "TemporalRS", "calendar": "Gregorian"}},
	}
	names, shape := []string{"t"}, []int{len(times)}
	if z := verticalAxis(b.levels); z != nil {
		axes["z"] = object{"values": z}
		referencing = append(referencing, object{"coordinates": []string{"z"}, "system": verticalSystem(b.levels[0].Kind)})
		names, shape = append(names, "z"), append(shape, len(b.levels))
	}
	names, shape = append(names, "y", "x"), append(shape, len(latitudes), len(sel.lon))
	parameters, ranges := object{}, object{}
	for i, p := range b.parameters {
		parameters[p.Name] = p.coverageJSON()
		ranges[p.Name] = object{"type": "NdArray", "dataType": "float", "axisNames": names, "shape": shape, "values": sel.numbers(b.values[i])}
	}
	return object{
		"type":       "Coverage",
		"domain":     object{"type": "Domain", "domainType": domainType(q, b), "axes": axes, "referencing": referencing},
		"parameters": parameters,
		"ranges":     ranges,
		"ensemble":   sel.remarks(f, q),
	}
}

// remarks returns what an answer states beyond the standard.
func (sel *selection) remarks(f *forecast, q *request) object {
	out := object{"forecast_reference_time": f.Init.Time.UTC().Format(time.RFC3339), "instance": f.Init.Name, "status": f.Init.Manifest.Status, "interpolation": "none: values of grid points"}
	if q.name == "position" {
		out["interpolation"] = "nearest grid point, whose coordinates are x and y"
		out["requested"] = q.text
	}
	return out
}

// domainType is the name of a common domain type.
//
// Source: OGC 21-069r2, section 9.11.
func domainType(q *request, b *block) string {
	switch {
	case q.name != "position":
		return "Grid"
	case len(b.levels) == 1:
		return "PointSeries"
	case len(b.leads) == 1:
		return "VerticalProfile"
	}
	return "Grid"
}

// verticalAxis returns the vertical coordinates of levels; nil if they have no numbers.
func verticalAxis(levels []ensemble.Level) []float64 {
	var out []float64
	for i, l := range levels {
		z, ok := levelValue(l)
		switch {
		case ok:
		case len(levels) == 1:
			return nil
		default:
			z = float64(i) // layers and model levels: their order
		}
		out = append(out, z)
	}
	return out
}

// verticalSystem describes the vertical coordinate.
func verticalSystem(kind ensemble.LevelKind) object {
	name, unit, direction := "height above the surface", "m", "up"
	switch kind {
	case ensemble.Pressure:
		name, unit, direction = "pressure", "hPa", "down"
	case ensemble.DepthBelowLand:
		name, direction = "depth below land", "down"
	case ensemble.HeightAboveSoil:
	default:
		name, unit = "number of the level", "1"
	}
	return object{"type": "VerticalCRS", "cs": object{"csAxes": []object{{"name": object{"en": name}, "direction": direction, "unit": object{"symbol": unit}}}}}
}

// ucumUnit spells a unit of UDUNITS in UCUM: m s-1 is m.s-1.
func ucumUnit(unit string) string { return strings.ReplaceAll(unit, " ", ".") }

// coverageJSON describes a parameter in an answer.
func (p *parameter) coverageJSON() object {
	property := object{"label": object{"en": p.label()}}
	if p.StandardName != "" {
		property["id"] = standardNames + p.StandardName + "/"
	}
	return object{"type": "Parameter", "description": object{"en": p.description()}, "observedProperty": property,
		"unit": object{"label": object{"en": p.Unit}, "symbol": object{"value": ucumUnit(p.Unit), "type": ucum}}}
}

// description is the label with CF's cell methods.
func (p *parameter) description() string {
	if p.CellMethods == "" {
		return p.label()
	}
	return p.label() + " (" + p.CellMethods + ")"
}

// numbers encodes values in the order of the columns of the answer.
func (sel *selection) numbers(values []float32) json.RawMessage {
	out := append(make([]byte, 0, 10*len(values)+2), '[')
	nx := len(sel.columns)
	for row := 0; row < len(values); row += nx {
		for _, i := range sel.columns {
			if len(out) > 1 {
				out = append(out, ',')
			}
			if v := float64(values[row+i]); math.IsNaN(v) || math.IsInf(v, 0) {
				out = append(out, "null"...)
			} else {
				out = strconv.AppendFloat(out, v, 'g', -1, 32)
			}
		}
	}
	return append(out, ']')
}
