package product

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// fillValue marks missing points: NC_FILL_FLOAT, the default of netCDF. It is
// exactly 15 × 2^119.
const fillValue float32 = 0x1.ep+122

// earthRadius is the radius of the sphere of latitude-longitude forecasts, in
// metres.
//
// Source: FM 92 GRIB2, code table 3.2, entry 6.
const earthRadius = 6371229.0

// timeUnits is the unit of all times. As float64 it is precise to a microsecond, and its
// zone is UTC by CF section 4.4.
const timeUnits = "seconds since 1970-01-01 00:00:00"

// ncBuilder collects a NetCDF file: the description for the child, and the
// functions that write the values to the payload.
type ncBuilder struct {
	file encode.NetCDF
	payload
}

// text returns a text attribute.
func text(name, v string) encode.Attribute { return encode.Attribute{Name: name, Text: v} }

// addDimension adds a dimension. Names are unique in a file; freeDim finds unused ones.
func (b *ncBuilder) addDimension(name string, size int) {
	b.file.Dimensions = append(b.file.Dimensions, encode.Dimension{Name: name, Size: size})
}

// addGlobal adds a global attribute. The library drops empty texts, so these become
// "not stated".
func (b *ncBuilder) addGlobal(name, v string) {
	if v == "" {
		v = "not stated"
	}
	b.file.Attributes = append(b.file.Attributes, text(name, v))
}

// addVariable adds a variable with n values that fill writes. fill runs later, in write,
// so that only one copy of the values exists: that in the memory shared with the child.
func (b *ncBuilder) addVariable(v encode.Variable, n int, fill func(dst []byte)) {
	v.Values = b.block(n*v.Type.Size(), fill)
	b.file.Variables = append(b.file.Variables, v)
}

// addDoubles adds a coordinate variable of doubles. nil dims make a scalar. values must
// not change until the file is written.
func (b *ncBuilder) addDoubles(name string, dims []string, values []float64, attrs ...encode.Attribute) {
	b.addVariable(encode.Variable{Name: name, Type: encode.Double, Dimensions: dims, Attributes: attrs}, len(values), func(dst []byte) {
		for i, v := range values {
			binary.LittleEndian.PutUint64(dst[8*i:], math.Float64bits(v))
		}
	})
}

// addInts adds a variable of integers.
func (b *ncBuilder) addInts(name string, dims []string, values []int32, attrs ...encode.Attribute) {
	b.addVariable(encode.Variable{Name: name, Type: encode.Int, Dimensions: dims, Attributes: attrs}, len(values), func(dst []byte) {
		for i, v := range values {
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(v))
		}
	})
}

// write lets the child create the file, and puts it in place.
//
// Errors: those of encodeError.
func (b *ncBuilder) write(ctx context.Context, enc Encoder, path string) error {
	return b.payload.write(ctx, enc, path, encode.KindNetCDF, b.file)
}

// addGlobals adds the global attributes.
//
// The order is fixed, so that equal products have equal bytes; the history has the time
// of Metadata.created, not of the clock.
//
// Errors: a SOURCE_DATE_EPOCH that is not a number.
// Source: CF section 2.6.2 (description of file contents).
func (b *ncBuilder) addGlobals(m Metadata, init ensemble.Init) error {
	created, err := m.created(init)
	if err != nil {
		return err
	}
	b.file.Attributes = append(b.file.Attributes, text("Conventions", "CF-1.8"))
	b.addGlobal("title", m.Title)
	b.addGlobal("institution", m.Institution)
	b.addGlobal("source", m.Source)
	b.addGlobal("history", fmt.Sprintf("%s ensemble %s: %s", created.Format(time.RFC3339), m.Version, m.Command))
	b.addGlobal("references", m.References)
	b.addGlobal("license", m.License)
	b.addGlobal("forecast_type", m.ForecastType)
	if m.ModelChecksum != "" {
		b.addGlobal("model_checksum", m.ModelChecksum)
	}
	var sums []string
	for _, in := range m.Inputs {
		sums = append(sums, "sha256:"+in.SHA256+" "+in.Path)
	}
	b.addGlobal("input_checksums", strings.Join(sums, "; "))
	return nil
}

// addMemberGlobals adds global attributes about the members and their use. Attributes of
// features that are not in use are left out, except for those that each reader may want:
// the members and the policy for the control.
func (b *ncBuilder) addMemberGlobals(m Metadata) {
	var list []string
	for _, id := range m.Members {
		list = append(list, id.String())
	}
	b.file.Attributes = append(b.file.Attributes,
		encode.Attribute{Name: "ensemble_members_used", Ints: []int32{int32(len(m.Members))}})
	b.addGlobal("ensemble_members", strings.Join(list, " "))
	b.addGlobal("control_policy", m.Control)
	if m.Fallback != "" {
		b.addGlobal("fallback", m.Fallback)
	}
	if m.LeadsRead != "" {
		b.addGlobal("leads_read", m.LeadsRead)
	}
	if m.Coupling != "" {
		b.addGlobal("member_coupling", m.Coupling)
	}
	if m.TemplateTimes != nil {
		var times []string
		for _, t := range m.TemplateTimes {
			times = append(times, t.String())
		}
		b.addGlobal("member_template_times", strings.Join(times, " "))
	}
	if m.MemberAges != nil {
		var ages []string
		for _, a := range m.MemberAges {
			ages = append(ages, ensemble.Lead(a).String())
		}
		b.addGlobal("ensemble_member_ages", strings.Join(ages, " "))
	}
}

// addHorizontal adds horizontal dimensions, coordinates and the grid mapping. It
// returns the names of the dimensions, and the auxiliary coordinates that data
// variables must list.
//
// A list of stations has one dimension; a latitude-longitude grid has its axes as
// coordinate variables; a projected grid has axes x and y and two-dimensional latitude
// and longitude, which readers without the projection use.
//
// Unit: degrees, and metres for axes of projections.
// Source: CF sections 5.2 (two-dimensional coordinates), 5.6 (grid mappings) and 9
// (discrete sampling geometries).
func (b *ncBuilder) addHorizontal(l *layout) (dims, aux []string) {
	g := l.grid
	if g.Kind == ensemble.Points {
		b.addDimension("station", g.NX)
		b.addDoubles("latitude", []string{"station"}, g.Lat, text("standard_name", "latitude"), text("long_name", "latitude of the station"), text("units", "degrees_north"))
		b.addDoubles("longitude", []string{"station"}, l.lon, text("standard_name", "longitude"), text("long_name", "longitude of the station"), text("units", "degrees_east"))
		b.addSphere()
		return []string{"station"}, []string{"latitude", "longitude"}
	}
	if g.Kind != ensemble.Projected {
		b.addDimension("latitude", g.NY)
		b.addDimension("longitude", g.NX)
		b.addDoubles("latitude", []string{"latitude"}, l.lat, text("standard_name", "latitude"), text("long_name", "latitude"),
			text("units", "degrees_north"), text("axis", "Y"))
		b.addDoubles("longitude", []string{"longitude"}, l.lon, text("standard_name", "longitude"), text("long_name", "longitude"),
			text("units", "degrees_east"), text("axis", "X"))
		b.addSphere()
		return []string{"latitude", "longitude"}, nil
	}
	// The axes of a rotated pole are in degrees, those of all other projections in
	// metres.
	yName, xName, units, suffix := "projection_y_coordinate", "projection_x_coordinate", "m", " coordinate of projection"
	if g.Mapping["grid_mapping_name"] == "rotated_latitude_longitude" {
		yName, xName, units, suffix = "grid_latitude", "grid_longitude", "degrees", " coordinate of the rotated grid"
	}
	b.addDimension("y", g.NY)
	b.addDimension("x", g.NX)
	// Grids from two-dimensional coordinates alone have no axes.
	if l.x != nil {
		b.addDoubles("y", []string{"y"}, l.y, text("standard_name", yName), text("long_name", "y"+suffix), text("units", units), text("axis", "Y"))
		b.addDoubles("x", []string{"x"}, l.x, text("standard_name", xName), text("long_name", "x"+suffix), text("units", units), text("axis", "X"))
	}
	lat, lon := make([]float64, 0, g.Size()), make([]float64, 0, g.Size())
	for _, r := range l.rows {
		for _, c := range l.cols {
			lat, lon = append(lat, g.LatAt(r, c)), append(lon, wrapLongitude(g.LonAt(r, c), l.from))
		}
	}
	both := []string{"y", "x"}
	b.addDoubles("latitude", both, lat, text("standard_name", "latitude"), text("long_name", "latitude"), text("units", "degrees_north"))
	b.addDoubles("longitude", both, lon, text("standard_name", "longitude"), text("long_name", "longitude"), text("units", "degrees_east"))
	if g.Mapping != nil {
		b.addInts("crs", nil, []int32{0}, mappingAttributes(g.Mapping)...)
	}
	return both, []string{"latitude", "longitude"}
}

// addSphere adds the grid mapping of latitudes and longitudes.
//
// Source: CF appendix F, latitude_longitude.
func (b *ncBuilder) addSphere() {
	b.addInts("crs", nil, []int32{0}, text("grid_mapping_name", "latitude_longitude"),
		encode.Attribute{Name: "earth_radius", Doubles: []float64{earthRadius}},
		encode.Attribute{Name: "longitude_of_prime_meridian", Doubles: []float64{0}})
}

// addStations adds ids, names and altitudes of stations. It returns the variables that
// data variables must list. Texts are char arrays padded with zeros, because the classic
// model has no strings (CF section 2.2); names and altitudes are left out if no station
// has one.
//
// Source: CF section 9.5 (cf_role timeseries_id) and appendix H.2 (time series).
func (b *ncBuilder) addStations(places []ensemble.Station) []string {
	words := func(name string, of func(ensemble.Station) string, attrs ...encode.Attribute) {
		width := 1
		for _, s := range places {
			width = max(width, len(of(s)))
		}
		b.addDimension(name+"_length", width)
		b.addVariable(encode.Variable{Name: name, Type: encode.Char, Dimensions: []string{"station", name + "_length"}, Attributes: attrs}, len(places)*width, func(dst []byte) {
			clear(dst)
			for i, s := range places {
				copy(dst[i*width:(i+1)*width], of(s))
			}
		})
	}
	words("station_id", func(s ensemble.Station) string { return s.ID }, text("long_name", "id of the station"), text("cf_role", "timeseries_id"))
	listed := []string{"station_id"}
	if slices.ContainsFunc(places, func(s ensemble.Station) bool { return s.Name != "" }) {
		words("station_name", func(s ensemble.Station) string { return s.Name }, text("long_name", "name of the station"))
		listed = append(listed, "station_name")
	}
	if slices.ContainsFunc(places, func(s ensemble.Station) bool { return s.Altitude == s.Altitude }) {
		attrs := []encode.Attribute{text("standard_name", "altitude"), text("long_name", "altitude of the station"), text("units", "m"), text("positive", "up")}
		altitudes, missing := make([]float64, len(places)), false
		for i, s := range places {
			if altitudes[i] = s.Altitude; s.Altitude != s.Altitude {
				altitudes[i], missing = float64(fillValue), true
			}
		}
		if missing {
			attrs = append([]encode.Attribute{{Name: "_FillValue", Doubles: []float64{float64(fillValue)}}}, attrs...)
		}
		b.addDoubles("altitude", []string{"station"}, altitudes, attrs...)
		listed = append(listed, "altitude")
	}
	return listed
}

// mappingAttributes returns the attributes of a CF grid mapping: its name first, then
// the others by name. Values are those of Grid.Mapping. Other types and empty texts are
// left out.
func mappingAttributes(m map[string]any) []encode.Attribute {
	var out []encode.Attribute
	if name, ok := m["grid_mapping_name"].(string); ok {
		out = append(out, text("grid_mapping_name", name))
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k == "grid_mapping_name" {
			continue
		}
		switch v := m[k].(type) {
		case string:
			if v != "" {
				out = append(out, text(k, v))
			}
		case float64:
			out = append(out, encode.Attribute{Name: k, Doubles: []float64{v}})
		case []float64:
			out = append(out, encode.Attribute{Name: k, Doubles: v})
		case float32:
			out = append(out, encode.Attribute{Name: k, Doubles: []float64{float64(v)}})
		case int:
			out = append(out, encode.Attribute{Name: k, Ints: []int32{int32(v)}})
		case int32:
			out = append(out, encode.Attribute{Name: k, Ints: []int32{v}})
		}
	}
	return out
}

// seconds returns a time in timeUnits. Nanoseconds of int64 reach from 1678 to 2262.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// addTimes adds the time coordinates of one initialisation and its leads: valid
// time as the dimension, initialisation as a scalar, leads along the dimension or,
// if there is only one, as a scalar. period > 0 adds bounds of intervals that end
// at the valid time.
//
// Leads are integers of 32 bits, in hours where all are whole hours, else in seconds.
//
// Errors: a lead that exceeds 32 bits.
// Source: CF sections 4.4 (time) and 7.1 (bounds).
func (b *ncBuilder) addTimes(init ensemble.Init, leads []ensemble.Lead, period time.Duration) error {
	b.addDimension("time", len(leads))
	valid := make([]float64, len(leads))
	for i, l := range leads {
		valid[i] = seconds(init.Valid(l).Time)
	}
	attrs := []encode.Attribute{text("standard_name", "time"), text("long_name", "valid time"), text("units", timeUnits),
		text("calendar", "standard"), text("axis", "T")}
	if period > 0 {
		attrs = append(attrs, text("bounds", "time_bnds"))
	}
	b.addDoubles("time", []string{"time"}, valid, attrs...)
	if period > 0 {
		b.addBoundsDimension()
		bounds := make([]float64, 0, 2*len(leads))
		for _, v := range valid {
			bounds = append(bounds, v-period.Seconds(), v)
		}
		b.addDoubles("time_bnds", []string{"time", "bnds"}, bounds)
	}
	b.addDoubles("forecast_reference_time", nil, []float64{seconds(init.Time)}, text("standard_name", "forecast_reference_time"),
		text("long_name", "initialisation time of the forecast"), text("units", timeUnits), text("calendar", "standard"))
	unit, name := time.Hour, "hours"
	for _, l := range leads {
		if time.Duration(l)%time.Hour != 0 {
			unit, name = time.Second, "seconds"
		}
	}
	periods := make([]int32, len(leads))
	for i, l := range leads {
		n := time.Duration(l) / unit
		if n > math.MaxInt32 || n < math.MinInt32 {
			return fmt.Errorf("lead %s exceeds a forecast period of 32 bits", l)
		}
		periods[i] = int32(n)
	}
	// xarray decodes units in the plural, and requires the attribute dtype.
	pattrs := []encode.Attribute{text("standard_name", "forecast_period"), text("long_name", "time since initialisation"),
		text("units", name), text("dtype", "timedelta64[ns]")}
	if len(leads) == 1 {
		b.addInts("forecast_period", nil, periods, pattrs...)
	} else {
		b.addInts("forecast_period", []string{"time"}, periods, pattrs...)
	}
	return nil
}

// addBoundsDimension adds the dimension of bounds, once. All bounds of a file share it.
func (b *ncBuilder) addBoundsDimension() {
	if !slices.ContainsFunc(b.file.Dimensions, func(d encode.Dimension) bool { return d.Name == "bnds" }) {
		b.addDimension("bnds", 2)
	}
}

// verticalAxes adds the vertical coordinates of a file, each once.
type verticalAxes struct {
	b       *ncBuilder
	seen    []vertical
	scalars bool // a single pressure level is a scalar coordinate too
}

// vertical is one axis of levels, or one scalar height.
type vertical struct {
	levels []ensemble.Level
	name   string
	scalar bool
}

// axis returns the vertical coordinate for these levels, which are of one kind: a
// dimension, a scalar coordinate to be listed, or neither for the surface.
//
// Unit: hPa for pressure, as most readers expect, m for heights and depths, 1 for model
// levels.
// Errors: several levels of a kind without a coordinate.
// Source: CF section 4.3 (vertical coordinate, attribute positive) and 5.7 (scalar
// coordinates).
func (vs *verticalAxes) axis(levels []ensemble.Level) (dim, scalar string, err error) {
	for _, v := range vs.seen {
		if slices.Equal(v.levels, levels) {
			if v.scalar {
				return "", v.name, nil
			}
			return v.name, "", nil
		}
	}
	values := make([]float64, len(levels))
	for i, l := range levels {
		values[i] = l.Value
	}
	v := vertical{levels: levels}
	switch kind := levels[0].Kind; {
	case slices.ContainsFunc(levels, func(l ensemble.Level) bool { return l.IsLayer }):
		if v.name, v.scalar, err = vs.addLayers(levels); err != nil {
			return "", "", err
		}
	case kind == ensemble.Pressure:
		for i := range values {
			values[i] /= 100
		}
		if vs.scalars && len(levels) == 1 {
			v.name, v.scalar = vs.freeDim("pressure_"+levels[0].String()), true
			vs.b.addDoubles(v.name, nil, values, text("standard_name", "air_pressure"), text("long_name", "pressure"), text("units", "hPa"), text("positive", "down"))
			break
		}
		v.name = vs.freeDim("pressure")
		vs.b.addDimension(v.name, len(levels))
		vs.b.addDoubles(v.name, []string{v.name}, values, text("standard_name", "air_pressure"), text("long_name", "pressure"),
			text("units", "hPa"), text("positive", "down"), text("axis", "Z"))
	case kind == ensemble.HeightAboveSoil && len(levels) == 1:
		v.name, v.scalar = vs.freeDim("height_"+nameNumber(values[0])+"m"), true
		vs.b.addDoubles(v.name, nil, values, heightAttributes()...)
	case kind == ensemble.HeightAboveSoil:
		v.name = vs.freeDim("height")
		vs.b.addDimension(v.name, len(levels))
		vs.b.addDoubles(v.name, []string{v.name}, values, heightAttributes()...)
	case kind == ensemble.DepthBelowLand:
		v.name = vs.freeDim("depth")
		vs.b.addDimension(v.name, len(levels))
		vs.b.addDoubles(v.name, []string{v.name}, values, text("standard_name", "depth"), text("long_name", "depth below land"), text("units", "m"), text("positive", "down"), text("axis", "Z"))
	case kind == ensemble.OtherLevel && len(levels) > 1:
		v.name = vs.freeDim("level")
		vs.b.addDimension(v.name, len(levels))
		vs.b.addDoubles(v.name, []string{v.name}, values, text("long_name", "model level or layer"), text("units", "1"), text("axis", "Z"))
	case len(levels) > 1:
		return "", "", fmt.Errorf("%d levels of kind %s", len(levels), levels[0])
	default:
		return "", "", nil
	}
	vs.seen = append(vs.seen, v)
	if v.scalar {
		return "", v.name, nil
	}
	return v.name, "", nil
}

// addLayers adds a coordinate with bounds: scalar for one layer.
//
// The value of a layer is its middle: the geometric mean for pressure, which is the
// middle in height of an isothermal layer, and the arithmetic mean for heights and
// depths.
//
// Errors: levels beside layers, layers of a kind without a coordinate.
// Source: CF section 7.1 (bounds), 4.3 (vertical coordinate).
func (vs *verticalAxes) addLayers(levels []ensemble.Level) (name string, scalar bool, err error) {
	kinds := map[ensemble.LevelKind]struct {
		name, standard, long, units, positive string
		scale                                 float64
	}{
		ensemble.Pressure:        {"pressure_layer", "air_pressure", "pressure", "hPa", "down", 100},
		ensemble.HeightAboveSoil: {"height_layer", "height", "height above the surface", "m", "up", 1},
		ensemble.DepthBelowLand:  {"depth_layer", "depth", "depth below land", "m", "down", 1},
	}
	k, ok := kinds[levels[0].Kind]
	if !ok || slices.ContainsFunc(levels, func(l ensemble.Level) bool { return !l.IsLayer }) {
		return "", false, fmt.Errorf("levels and layers together, or layers of a kind without a coordinate: %v", levels)
	}
	var values, bounds []float64
	for _, l := range levels {
		middle := (l.Value + l.End) / 2
		if l.Kind == ensemble.Pressure && l.Value > 0 {
			middle = math.Sqrt(l.Value * l.End) // the middle in height; never a standard level by chance
		}
		values, bounds = append(values, middle/k.scale), append(bounds, l.Value/k.scale, l.End/k.scale)
	}
	name, scalar = vs.freeDim(k.name), len(levels) == 1
	var dims []string
	if !scalar {
		dims = []string{name}
		vs.b.addDimension(name, len(levels))
	}
	vs.b.addBoundsDimension()
	vs.b.addDoubles(name, dims, values, text("standard_name", k.standard), text("long_name", k.long+", of layers"), text("units", k.units), text("positive", k.positive), text("axis", "Z"), text("bounds", name+"_bnds"))
	vs.b.addDoubles(name+"_bnds", append(slices.Clone(dims), "bnds"), bounds)
	return name, scalar, nil
}

// heightAttributes returns the attributes of a height coordinate.
func heightAttributes() []encode.Attribute {
	return []encode.Attribute{text("standard_name", "height"), text("long_name", "height above the surface"), text("units", "m"),
		text("positive", "up"), text("axis", "Z")}
}

// freeDim returns an unused coordinate name.
func (vs *verticalAxes) freeDim(name string) string {
	return unusedName(name, func(try string) bool {
		return slices.ContainsFunc(vs.seen, func(v vertical) bool { return v.name == try })
	})
}

// unusedName returns the first of name, name_2, name_3 … that is not used.
func unusedName(name string, taken func(try string) bool) string {
	for n, try := 2, name; ; n++ {
		if !taken(try) {
			return try
		}
		try = fmt.Sprintf("%s_%d", name, n)
	}
}

// chunks returns the shape of a chunk with one field: 1 along all dimensions but the
// last two. A reader of one field then inflates one chunk. There are two dimensions at
// least.
func chunks(dims int, g *ensemble.Grid) []int {
	c := make([]int, dims)
	for i := range c {
		c[i] = 1
	}
	c[dims-2], c[dims-1] = g.NY, g.NX
	return c
}
