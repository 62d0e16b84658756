package product

import (
	"context"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// WriteEnsembleNetCDF writes all members of one initialisation as CF NetCDF, one
// variable per quantity.
//
// Shape: [realization, time, level, latitude, longitude], where time has the leads;
// without level for variables with a single level. Such a variable needs a Forecast with
// that level only.
// Unit, Missing: as WriteNetCDF.
// Errors: those of the encoder; exit 64 for invalid Options; exit 70 for axes that the
// format does not support.
// Source: CF conventions 1.8.
func WriteEnsembleNetCDF(ctx context.Context, enc Encoder, path string, f *ensemble.Forecast, m Metadata, o Options) error {
	o, err := o.check()
	if err != nil {
		return err
	}
	b, err := ensembleFile(f, m, o)
	if err != nil {
		return layoutError(path, err)
	}
	return b.write(ctx, enc, path)
}

// layoutError reports axes that a format does not support, which is an error of the
// caller.
func layoutError(path string, err error) error {
	return &exit.Error{Code: exit.Bug, What: "fields that the file format does not support", At: path, Why: err.Error(),
		Fix: "report it with the config; nothing was published", Err: err}
}

// ensembleFile describes the file of WriteEnsembleNetCDF. Outer positions are numbered
// member·leads + lead, as the dimensions realization and time are nested.
func ensembleFile(f *ensemble.Forecast, m Metadata, o Options) (*ncBuilder, error) {
	b := &ncBuilder{}
	if err := b.addGlobals(m, f.Init); err != nil {
		return nil, err
	}
	b.addRealization("realization", f.Members)
	if err := b.addTimes(f.Init, f.Axes.Leads, 0); err != nil {
		return nil, err
	}
	return b, b.addSeries([]string{"realization", "time"}, len(f.Members)*len(f.Axes.Leads), f.Grid, f.Axes.Variables, f.Axes.Levels, o,
		func(outer, v, l int) []float32 {
			return f.Field(outer%len(f.Axes.Leads), outer/len(f.Axes.Leads), v, l)
		})
}

// WriteAnalysesNetCDF writes analyses of several valid times as CF NetCDF, one
// variable per quantity. All analyses must have the grid, variables and levels of
// the first.
//
// Shape: [time, level, latitude, longitude].
// Unit, Missing: as WriteNetCDF.
// Errors: as WriteEnsembleNetCDF.
func WriteAnalysesNetCDF(ctx context.Context, enc Encoder, path string, as []*ensemble.Analysis, m Metadata, o Options) error {
	o, err := o.check()
	if err != nil {
		return err
	}
	b, err := analysesFile(as, m, o)
	if err != nil {
		return layoutError(path, err)
	}
	return b.write(ctx, enc, path)
}

// analysesFile describes the file of WriteAnalysesNetCDF.
//
// Errors: no analysis; analyses with different axes.
func analysesFile(as []*ensemble.Analysis, m Metadata, o Options) (*ncBuilder, error) {
	if len(as) == 0 {
		return nil, fmt.Errorf("no analysis")
	}
	first := as[0]
	times := make([]float64, len(as))
	for i, a := range as {
		if a.Grid != first.Grid || !slices.Equal(a.Variables, first.Variables) || !slices.Equal(a.Levels, first.Levels) {
			return nil, fmt.Errorf("the analysis of %s has other axes than that of %s", a.Valid, first.Valid)
		}
		times[i] = seconds(a.Valid.Time)
	}
	b := &ncBuilder{}
	if err := b.addGlobals(m, ensemble.Init{Time: first.Valid.Time}); err != nil {
		return nil, err
	}
	b.addDimension("time", len(as))
	b.addDoubles("time", []string{"time"}, times, text("standard_name", "time"), text("long_name", "valid time"),
		text("units", timeUnits), text("calendar", "standard"), text("axis", "T"))
	return b, b.addSeries([]string{"time"}, len(as), first.Grid, first.Variables, first.Levels, o,
		func(outer, v, l int) []float32 { return as[outer].Field(v, l) })
}

// addSeries adds horizontal and vertical coordinates, and one variable per quantity over
// the outer dimensions. These have n positions in total; with members, the time coordinates of a
// forecast are listed. field returns the values at an outer position, in normal order; lay.put
// converts them to the order of the file.
//
// Errors: a variable that is not in ensemble.Variables; levels without a coordinate.
func (b *ncBuilder) addSeries(outer []string, n int, g *ensemble.Grid, variables []string, levels []ensemble.Level, o Options,
	field func(outer, v, l int) []float32) error {
	lay := newLayout(g, o.Longitude)
	hdims, aux := b.addHorizontal(&lay)
	vs := &verticalAxes{b: b}
	zdim, height, err := vs.axis(levels)
	if err != nil {
		return err
	}
	dims := slices.Clone(outer)
	if zdim != "" {
		dims = append(dims, zdim)
	}
	dims = append(dims, hdims...)
	listed := coordinates(height, aux)
	if slices.Contains(outer, "realization") {
		listed = forecastCoordinates(height, aux, true)
	}
	size := 4 * g.Size()
	for v, name := range variables {
		q, ok := ensemble.VariableNamed(name)
		if !ok {
			return fmt.Errorf("no variable %q in the vocabulary", name)
		}
		nv := encode.Variable{Name: q.Identifier, Type: encode.Float, Dimensions: dims, Chunks: chunks(len(dims), g), Deflate: o.Deflate,
			Attributes: append([]encode.Attribute{{Name: "_FillValue", Floats: []float32{fillValue}}},
				dataAttributes(q.StandardName, q.LongName, q.Unit, "", listed, mappingName(g))...)}
		b.addVariable(nv, n*len(levels)*g.Size(), func(dst []byte) {
			for k := range n {
				for l := range levels {
					at := (k*len(levels) + l) * size
					lay.put(dst[at:at+size], field(k, v, l), fillValue)
				}
			}
		})
	}
	return nil
}
