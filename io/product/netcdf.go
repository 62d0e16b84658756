package product

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// WriteNetCDF writes fields as CF NetCDF: variables X_mean, X_spread, X_quantile,
// probability_of_X_above_threshold, and X for members. Every field of a variable is
// given at every lead; stations have one lead.
//
// Shape: [time, quantile, threshold or realization, level, latitude, longitude], where
// time has the leads.
// The second dimension exists only if fields differ in it, and never in CDOProfile,
// where each field has a variable of its own. Variables with a single level have no
// level dimension. Projected grids have y and x, stations have station. Rows and
// columns are in the order of the input. Levels that a variable lacks are filled.
// Unit: SI; pressure levels in hPa.
// Missing: _FillValue.
// Errors: exit 70 for an invalid product (negative spread, duplicate field, a field
// that is missing at a lead); those of the encoder; exit 64 for invalid Options.
// Source: CF conventions 1.8. Names of probabilities and the attribute
// spp__relative_to_threshold follow IMPROVER.
func WriteNetCDF(ctx context.Context, enc Encoder, path string, p *Product, o Options) error {
	o, err := o.check()
	if err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	b, err := productFile(p, o)
	if err != nil {
		return layoutError(path, err)
	}
	return b.write(ctx, enc, path)
}

// stack is one NetCDF variable: the fields of one variable and kind, along the axis
// of the kind and by level.
type stack struct {
	name       string
	variable   ensemble.Variable
	stat       statistic
	levels     []ensemble.Level
	fields     []Field // [lead][position along the axis][level]
	standalone bool    // attributes hold the position on the axis; there is no dimension
}

// places returns the first field of each position along the axis, at the first lead.
func (st *stack) places() []Field {
	var out []Field
	for i := 0; i < len(st.fields) && st.fields[i].Lead == st.fields[0].Lead; i += len(st.levels) {
		out = append(out, st.fields[i])
	}
	return out
}

// stacks groups the fields of a product, in the order of compare. standalone gives each
// position along an axis a variable of its own.
//
// Errors: two variables of one name; fields of a variable at different levels, or at
// levels of different kinds, which one array cannot hold.
func stacks(p *Product, standalone bool) ([]*stack, error) {
	var out []*stack
	of := map[string]*stack{}
	for _, f := range slices.SortedFunc(slices.Values(p.Fields), compare) {
		s, _ := statisticOf(f.Kind)
		v := f.variable()
		if p.Locations != nil && f.Level.Kind == ensemble.Pressure { // a time series has one level
			v.Identifier += "_" + f.Level.String()
		}
		name := f.seriesName(v)
		if standalone {
			name = f.standaloneName(v)
		}
		st := of[name]
		if st == nil {
			st = &stack{name: name, variable: v, stat: s, standalone: standalone && s.axis != noAxis}
			of[name] = st
			out = append(out, st)
		}
		if st.variable.Name != v.Name || st.stat.kind != s.kind {
			return nil, fmt.Errorf("%s and %s have the same name %s", st.variable.Name, v.Name, name)
		}
		st.fields = append(st.fields, f)
	}
	for _, st := range out {
		if err := st.setLevels(p.Leads()); err != nil {
			return nil, err
		}
		for _, l := range st.levels {
			if l.Kind != st.levels[0].Kind {
				return nil, fmt.Errorf("%s has levels of different kinds: %s and %s", st.name, st.levels[0], l)
			}
		}
	}
	return out, nil
}

// setLevels sets the levels, and checks that the fields are those of an array.
//
// Errors: fields at different levels; a field that is missing at a lead.
func (st *stack) setLevels(leads []ensemble.Lead) error {
	first := st.fields[0]
	for _, f := range st.fields {
		if f.Lead == first.Lead && f.Statistic() == first.Statistic() {
			st.levels = append(st.levels, f.Level)
		}
	}
	places, levels := st.places(), len(st.levels)
	for i, f := range st.fields {
		if len(st.fields)%levels != 0 || f.Level != st.levels[i%levels] || f.Statistic() != st.fields[i/levels*levels].Statistic() {
			return fmt.Errorf("the fields of %s have different levels", st.name)
		}
		of := i / levels
		if len(st.fields) != len(leads)*len(places)*levels || f.Lead != leads[of/len(places)] || f.Statistic() != places[of%len(places)].Statistic() {
			return fmt.Errorf("the leads of %s have different fields", st.name)
		}
	}
	return nil
}

// productFile describes the file of a product. WriteZarr uses the same description.
//
// Errors: several leads at stations; a field that is missing at a lead; two intervals; levels without a coordinate; the name of two
// variables.
func productFile(p *Product, o Options) (*ncBuilder, error) {
	leads := p.Leads()
	if p.Locations != nil && len(leads) != 1 { // the order of values is that of grids only with one time
		return nil, fmt.Errorf("%d leads in one file of stations", len(leads))
	}
	sts, err := stacks(p, o.Profile == CDOProfile)
	if err != nil {
		return nil, err
	}
	period, err := commonPeriod(p.Fields)
	if err != nil {
		return nil, err
	}
	b := &ncBuilder{}
	if err := b.addGlobals(p.Metadata, p.Init); err != nil {
		return nil, err
	}
	b.addMemberGlobals(p.Metadata)
	b.file.Attributes = append(b.file.Attributes, encode.Attribute{Name: "spread_ddof", Ints: []int32{int32(p.DDOF)}})
	if p.Locations != nil {
		b.addGlobal("featureType", "timeSeries")
	}
	if err := b.addTimes(p.Init, leads, period); err != nil {
		return nil, err
	}
	l := newLayout(p.Grid, o.Longitude)
	hdims, aux := b.addHorizontal(&l)
	if p.Locations != nil {
		aux = append(aux, b.addStations(p.Locations)...)
	}
	vs := &verticalAxes{b: b, scalars: p.Locations != nil}
	// The axis with the most levels is first and gets the plain name.
	for _, st := range slices.SortedStableFunc(slices.Values(sts), func(a, b *stack) int { return len(b.levels) - len(a.levels) }) {
		if _, _, err := vs.axis(st.levels); err != nil {
			return nil, fmt.Errorf("%s: %w", st.variable.Name, err)
		}
	}
	as := &statisticAxes{b: b}
	for _, st := range sts {
		zdim, height, err := vs.axis(st.levels)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", st.name, err)
		}
		dims, listed := as.dimensionOf(st)
		hasAxis := len(dims) > 0
		if p.Locations != nil {
			dims = append(slices.Clone(dims), "time")
		} else { // time is first, as CDO and GDAL want it
			dims = append([]string{"time"}, dims...)
		}
		if zdim != "" {
			dims = append(dims, zdim)
		}
		dims = append(dims, hdims...)
		chunk := chunks(len(dims), p.Grid)
		if p.Locations != nil { // one series per station; time has one value, so the order of values is the same
			n := len(dims)
			dims[n-2], dims[n-1] = dims[n-1], dims[n-2]
			chunk[n-2], chunk[n-1] = chunk[n-1], chunk[n-2]
		}
		names := forecastCoordinates(height, slices.Concat(aux, listed), hasAxis)
		if p.Locations != nil { // CDO does not read stations
			names = coordinates(height, slices.Concat(forecastTimes, aux, listed))
		}
		v := encode.Variable{Name: st.name, Type: encode.Float, Dimensions: dims, Chunks: chunk, Deflate: o.Deflate}
		v.Attributes = dataAttributes(st.stat.standardName(st.variable), st.fields[0].longName(st.variable, st.stat), st.fields[0].unit(st.stat, st.variable),
			cellMethods(st, period), names, mappingName(p.Grid))
		v.Attributes = append(v.Attributes, p.statisticAttributes(st)...)
		if name := b.addCounts(p, st, dims, &l, o); name != "" {
			v.Attributes = append(v.Attributes, text("ancillary_variables", name))
		}
		b.addValues(v, st.fields, &l, o)
	}
	return b, nil
}

// addValues adds a data variable, packed if Quantise is set. The order of fields is that
// of the dimensions: axis of the kind, level.
//
// Source: CF section 8.1 (packed data), 2.5.1 (_FillValue has the type of the data).
func (b *ncBuilder) addValues(v encode.Variable, fields []Field, l *layout, o Options) {
	size := l.grid.Size()
	if o.Quantise == 0 {
		v.Attributes = append([]encode.Attribute{{Name: "_FillValue", Floats: []float32{fillValue}}}, v.Attributes...)
		b.addVariable(v, len(fields)*size, func(dst []byte) {
			for i, f := range fields {
				l.put(dst[4*i*size:4*(i+1)*size], f.Values, fillValue)
			}
		})
		return
	}
	q := newPacking(fields, o.Quantise)
	v.Type = encode.Short
	v.Attributes = append(append([]encode.Attribute{{Name: "_FillValue", Shorts: []int16{packedFill}}}, v.Attributes...),
		encode.Attribute{Name: "scale_factor", Doubles: []float64{q.scale}}, encode.Attribute{Name: "add_offset", Doubles: []float64{q.offset}})
	b.addVariable(v, len(fields)*size, func(dst []byte) {
		for i, f := range fields {
			l.putPacked(dst[2*i*size:2*(i+1)*size], f.Values, q)
		}
	})
}

// addCounts adds the variable with the number of members at each point, if it varies,
// and returns its name. The result is "" if each field has one number of members.
//
// Source: CF section 3.4 (ancillary data).
func (b *ncBuilder) addCounts(p *Product, st *stack, dims []string, l *layout, o Options) string {
	if !slices.ContainsFunc(st.fields, func(f Field) bool { return f.Counts != nil }) {
		return ""
	}
	name := st.name + "_n_members"
	size := l.grid.Size()
	v := encode.Variable{Name: name, Type: encode.Int, Dimensions: dims, Chunks: chunks(len(dims), l.grid), Deflate: o.Deflate,
		Attributes: []encode.Attribute{text("long_name", "number of members used"), text("units", "1")}}
	b.addVariable(v, len(st.fields)*size, func(dst []byte) {
		for i, f := range st.fields {
			l.putInts(dst[4*i*size:4*(i+1)*size], func(k int) int32 {
				if f.Counts != nil {
					return f.Counts[k]
				}
				return int32(p.members(f))
			})
		}
	})
	return name
}

// statisticAttributes returns the attributes of a variable that belong to its kind.
func (p *Product) statisticAttributes(st *stack) []encode.Attribute {
	out := []encode.Attribute{{Name: "ensemble_members_used", Ints: p.counts(st.fields)}}
	f := st.fields[0]
	if f.Radius > 0 {
		incomplete := 0
		for _, g := range st.fields {
			incomplete = max(incomplete, g.Incomplete)
		}
		out = append(out, encode.Attribute{Name: "neighbourhood_radius", Doubles: []float64{f.Radius}}, text("neighbourhood_radius_units", "m"),
			encode.Attribute{Name: "neighbourhood_points_incomplete", Ints: []int32{int32(incomplete)}})
	}
	if f.Distribution != "" {
		out = append(out, text("distribution", f.Distribution))
	}
	if st.stat.of == ensemble.Spread {
		out = append(out, encode.Attribute{Name: "spread_ddof", Ints: []int32{int32(p.DDOF)}})
	}
	if st.stat.axis == thresholdAxis {
		out = append(out, text(relationAttribute, relationWords[f.Event.Relation]))
	}
	if !st.standalone {
		return out
	}
	switch st.stat.axis {
	case quantileAxis:
		out = append(out, encode.Attribute{Name: "quantile", Doubles: []float64{f.Below}})
	case thresholdAxis:
		limits := []float64{f.Event.Threshold()}
		if f.Event.Relation == ensemble.Between {
			limits = []float64{f.Event.Lower, f.Event.Upper}
		}
		out = append(out, encode.Attribute{Name: "threshold", Doubles: limits}, text("threshold_units", st.variable.Unit))
	case memberAxis:
		out = append(out, encode.Attribute{Name: "realization", Ints: []int32{int32(f.Member)}})
	}
	return out
}

// counts returns the number of members: one number if it is the same for all
// fields, else one per level.
func (p *Product) counts(fields []Field) []int32 {
	var n []int32
	for _, f := range fields {
		n = append(n, int32(p.members(f)))
	}
	if c := slices.Compact(slices.Clone(n)); len(c) == 1 {
		return c
	}
	return n
}

// dataAttributes returns the attributes of a data variable, except for its fill value.
// Empty ones are left out. Source: CF sections 3.1 to 3.3, 5, 5.6 and 7.3.
func dataAttributes(standardName, longName, unit, cellMethods, coordinates, mapping string) []encode.Attribute {
	var attrs []encode.Attribute
	if standardName != "" {
		attrs = append(attrs, text("standard_name", standardName))
	}
	attrs = append(attrs, text("long_name", longName), text("units", unit))
	if cellMethods != "" {
		attrs = append(attrs, text("cell_methods", cellMethods))
	}
	if coordinates != "" {
		attrs = append(attrs, text("coordinates", coordinates))
	}
	if mapping != "" {
		attrs = append(attrs, text("grid_mapping", mapping))
	}
	return attrs
}

// mappingName returns the grid mapping variable of data variables. A projection that the
// input did not describe has none.
func mappingName(g *ensemble.Grid) string {
	if g.Kind == ensemble.Projected && g.Mapping == nil {
		return ""
	}
	return "crs"
}

// cellMethods returns the CF cell methods over time and members. Time precedes
// realization, because members are averaged after their intervals.
//
// Source: CF section 7.3.
func cellMethods(st *stack, period time.Duration) string {
	f, method := st.fields[0], st.stat.cellMethod
	if f.Radius > 0 {
		method += " (of points within " + decimal(f.Radius/1000) + " km)"
	}
	switch {
	case f.Period > 0 || f.Method != "": // the input may state a method without its interval
		return strings.TrimSpace("time: " + f.periodMethod() + " " + method)
	case period > 0: // the time of the file has bounds, which do not apply to this variable
		return strings.TrimSpace("time: point " + method)
	}
	return method
}

// periodMethod returns the CF method over the interval of a field, from the field
// or ensemble.Variables; the default is mean.
func (f Field) periodMethod() string { return cmp.Or(f.Method, f.variable().Period, "mean") }

// forecastTimes are the time coordinates, other than the dimension, that forecasts list.
var forecastTimes = []string{"forecast_reference_time", "forecast_period"}

// cdoCoordinates is how many names of the attribute coordinates CDO reads, 2.1 and later. It warns of each that is not time,
// vertical, latitude or longitude, thus of all in forecastTimes.
const cdoCoordinates = 5

// forecastCoordinates returns the attribute coordinates of a forecast: first those that CDO knows, the last one as often as it
// reads names, then the others. CDO thus opens the file without a warning, and readers that need the lead, such as iris, find
// it listed. vertical is a scalar, which may be missing. Variables with an axis of quantiles, thresholds or members, which CDO
// takes for the vertical one, name it among the others.
//
// Source: CF section 5, which permits coordinate variables of dimensions in the list.
func forecastCoordinates(vertical string, others []string, hasAxis bool) string {
	list := []string{"time"}
	if vertical != "" && hasAxis {
		others = append([]string{vertical}, others...)
	} else if vertical != "" {
		list = append(list, vertical)
	}
	list = append(list, "latitude")
	for len(list) < cdoCoordinates {
		list = append(list, "longitude")
	}
	return joined(list, forecastTimes, others)
}

// coordinates returns the attribute coordinates of what is not a forecast. Latitude and longitude are named even if they are
// dimensions: CDO 2.1 would treat a Gaussian grid with a grid mapping as a projection with equidistant rows.
func coordinates(vertical string, others []string) string {
	list := []string{"latitude", "longitude"}
	if vertical != "" {
		list = append([]string{vertical}, list...)
	}
	return joined(list, others)
}

// joined writes names, those of later lists once.
func joined(list []string, later ...[]string) string {
	for _, name := range slices.Concat(later...) {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return strings.Join(list, " ")
}

// commonPeriod returns the interval of the fields of a file. All that are not 0 must be
// equal, because time has one pair of bounds. It is 0 without intervals.
func commonPeriod(fields []Field) (time.Duration, error) {
	var period time.Duration
	for _, f := range fields {
		if f.Period == 0 {
			continue
		}
		if period != 0 && f.Period != period {
			return 0, fmt.Errorf("intervals of %s and %s in one file", period, f.Period)
		}
		period = f.Period
	}
	return period, nil
}
