package product

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// WriteNetCDF writes the fields of one lead as CF NetCDF, variables X_mean and
// X_spread with a time dimension of length 1.
//
// Shape: [time, level, latitude, longitude]; without the level for variables
// that stand on one place, and y, x for projected grids. Rows and columns run as
// the input's did. Levels that a variable lacks are filled.
// Unit: SI; pressure levels in hPa.
// Missing: _FillValue.
// Errors: exit 70 for a product that must not be published (a negative spread,
// a field twice, several leads); those of the encoder; exit 64 for Options.
// Source: CF conventions 1.8.
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
		return cannotHold(path, err)
	}
	return b.write(ctx, enc, path)
}

// stack is one NetCDF variable: the fields of one variable and kind, one a level.
type stack struct {
	variable ensemble.Variable
	stat     statistic
	levels   []ensemble.Level
	fields   []Field
}

// stacks groups the fields of a product, in the order of compare.
func stacks(p *Product) ([]stack, error) {
	var out []stack
	for _, f := range slices.SortedFunc(slices.Values(p.Fields), compare) {
		s, _ := statisticOf(f.Kind)
		n := len(out)
		if n == 0 || out[n-1].variable.Name != f.Variable || out[n-1].stat.kind != f.Kind {
			out = append(out, stack{variable: f.variable(), stat: s})
			n++
		}
		st := &out[n-1]
		if n := len(st.levels); n > 0 && st.levels[n-1].Kind != f.Level.Kind {
			return nil, fmt.Errorf("%s stands at %s and at %s", f.Variable, st.levels[n-1], f.Level)
		}
		st.levels = append(st.levels, f.Level)
		st.fields = append(st.fields, f)
	}
	return out, nil
}

// productFile lays the file out.
func productFile(p *Product, o Options) (*ncBuilder, error) {
	leads := p.Leads()
	if len(leads) != 1 {
		return nil, fmt.Errorf("%d leads for one file", len(leads))
	}
	sts, err := stacks(p)
	if err != nil {
		return nil, err
	}
	period, err := commonPeriod(p.Fields)
	if err != nil {
		return nil, err
	}
	b := &ncBuilder{}
	if err := b.globals(p.Metadata, p.Init); err != nil {
		return nil, err
	}
	b.globalMembers(p.Metadata)
	b.file.Attributes = append(b.file.Attributes, encode.Attribute{Name: "spread_ddof", Ints: []int32{int32(p.DDOF)}})
	if err := b.times(p.Init, leads, period); err != nil {
		return nil, err
	}
	l := newLayout(p.Grid, o.Longitude)
	hdims, aux := b.horizontal(&l)
	vs := &verticals{b: b}
	// The axis with the most levels comes first and so gets the plain name.
	for _, st := range slices.SortedStableFunc(slices.Values(sts), func(a, b stack) int { return len(b.levels) - len(a.levels) }) {
		if _, _, err := vs.axis(st.levels); err != nil {
			return nil, fmt.Errorf("%s: %w", st.variable.Name, err)
		}
	}
	names := map[string]string{}
	for _, st := range sts {
		name := st.variable.Identifier + "_" + string(st.stat.kind)
		if other, dup := names[name]; dup {
			return nil, fmt.Errorf("%s and %s are both called %s", other, st.variable.Name, name)
		}
		names[name] = st.variable.Name
		zdim, height, err := vs.axis(st.levels)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		dims := []string{"time"}
		if zdim != "" {
			dims = append(dims, zdim)
		}
		dims = append(dims, hdims...)
		v := encode.Variable{Name: name, Type: encode.Float, Dimensions: dims, Chunks: chunks(len(dims), p.Grid), Deflate: o.Deflate}
		v.Attributes = dataAttributes(st.variable, st.variable.LongName+", "+st.stat.longName, cellMethods(st, period),
			coordinates(forecastTimes(o.Profile), height, aux), mappingName(o.Profile, p.Grid))
		v.Attributes = append(v.Attributes,
			encode.Attribute{Name: "ensemble_members_used", Ints: p.counts(st.fields)})
		if st.stat.of == ensemble.Spread {
			v.Attributes = append(v.Attributes, encode.Attribute{Name: "spread_ddof", Ints: []int32{int32(p.DDOF)}})
		}
		b.variable(v, len(st.fields)*p.Grid.Size(), func(dst []byte) {
			n := 4 * p.Grid.Size()
			for i, f := range st.fields {
				l.put(dst[i*n:(i+1)*n], f.Values, fillValue)
			}
		})
	}
	return b, nil
}

// counts is how many members were used: one number if it is the same for all
// fields, else one a level.
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

// dataAttributes are the attributes of a data variable.
func dataAttributes(v ensemble.Variable, longName, cellMethods, coordinates, mapping string) []encode.Attribute {
	attrs := []encode.Attribute{{Name: "_FillValue", Floats: []float32{fillValue}}}
	if v.StandardName != "" {
		attrs = append(attrs, text("standard_name", v.StandardName))
	}
	attrs = append(attrs, text("long_name", longName), text("units", v.Unit))
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

// mappingName is the grid mapping variable that data variables name. CDO 2.1
// takes a Gaussian grid that has one for a projection with equidistant rows, so
// its profile leaves the name out there.
func mappingName(profile Profile, g *ensemble.Grid) string {
	if profile == CDOProfile && g.Kind == ensemble.RegularGaussian {
		return ""
	}
	return "crs"
}

// cellMethods says what was done over time and over the members.
func cellMethods(st stack, period time.Duration) string {
	switch {
	case st.fields[0].Period > 0:
		return "time: " + periodMethod(st.variable) + " " + st.stat.cellMethod
	case period > 0: // the file's time has bounds, this variable does not use them
		return "time: point " + st.stat.cellMethod
	}
	return st.stat.cellMethod
}

// periodMethod is the CF method over an interval; a variable that the
// vocabulary gives none is a mean.
func periodMethod(v ensemble.Variable) string {
	if v.Period == "" {
		return "mean"
	}
	return v.Period
}

// forecastTimes are the time coordinates besides the dimension that a data
// variable lists. CDO 2.1 does not know them and warns of each, so its profile
// does not list them.
func forecastTimes(profile Profile) []string {
	if profile == CDOProfile {
		return nil
	}
	return []string{"forecast_reference_time", "forecast_period"}
}

// coordinates lists what CF cannot find by dimension.
func coordinates(times []string, height string, aux []string) string {
	list := slices.Clone(times)
	if height != "" {
		list = append(list, height)
	}
	return strings.Join(append(list, aux...), " ")
}

// commonPeriod is the length of the intervals in a file: all that are not 0
// must be equal, for time has one pair of bounds.
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
