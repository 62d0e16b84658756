package product

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// ScoreFields are scores at each point of a grid, over several initialisations.
type ScoreFields struct {
	Metadata
	Grid        *ensemble.Grid
	First, Last ensemble.Init // initialisations, inclusive
	Fields      []ScoreField
}

// ScoreField is one score of one variable, level and lead at each point.
type ScoreField struct {
	Variable string
	Level    ensemble.Level
	Lead     ensemble.Lead
	Score    string // end of the variable's name in the file, such as "crps"
	LongName string // of the score: "CRPS of the network"
	Unit     string
	// Method is the CF cell method over initialisations, such as "mean"; "" for none.
	Method  string
	Values  []float32 // NaN: missing
	Comment string    // "" for none
	// Flags name the values 0, 1, … of a field of integers; nil: floating-point numbers.
	Flags []string
	// Integers states that the values are whole numbers.
	Integers bool
}

// WriteScoreFields writes scores by place and lead as CF NetCDF: a variable for each quantity and score, such as
// t_crps.
//
// Shape: [forecast_period, level, latitude, longitude]; without the dimension level for one level. Combinations of
// lead and level without a field are filled.
// Unit: as in the fields; pressure levels in hPa, leads in hours.
// Missing: _FillValue.
// Readers: data variables do not list forecast_reference_time as a coordinate, of which CDO warns; xarray and CDO open
// the file without a warning.
// Errors: those of the encoder; exit 64 for invalid Options.
// Source: CF conventions 1.8, sections 4.4 (forecast_period), 7.3 (cell methods) and 3.5 (flags).
func WriteScoreFields(ctx context.Context, enc Encoder, path string, s *ScoreFields, o Options) error {
	o, err := o.check()
	if err != nil {
		return err
	}
	b, err := scoreFile(s, o)
	if err != nil {
		return layoutError(path, err)
	}
	return b.write(ctx, enc, path)
}

// scoreFile describes the file of WriteScoreFields.
func scoreFile(s *ScoreFields, o Options) (*ncBuilder, error) {
	b := &ncBuilder{}
	if err := b.addGlobals(s.Metadata, s.First); err != nil {
		return nil, err
	}
	leads := s.leads()
	b.addLeads(leads)
	b.addInitBounds(s.First, s.Last)
	lay := newLayout(s.Grid, o.Longitude)
	hdims, aux := b.addHorizontal(&lay)
	vs := &verticalAxes{b: b}
	byName := map[string][]ScoreField{}
	var names []string
	for _, f := range s.Fields {
		name := variableOf(f).Identifier + "_" + f.Score
		if byName[name] == nil {
			names = append(names, name)
		}
		byName[name] = append(byName[name], f)
	}
	for _, name := range names {
		fields := byName[name]
		var levels []ensemble.Level
		for _, f := range fields {
			if f.Variable != fields[0].Variable {
				return nil, fmt.Errorf("%s and %s have the same name %s", f.Variable, fields[0].Variable, name)
			}
			if !slices.Contains(levels, f.Level) {
				levels = append(levels, f.Level)
			}
			if f.Level.Kind != fields[0].Level.Kind {
				return nil, fmt.Errorf("%s has levels of different kinds: %s and %s", name, fields[0].Level, f.Level)
			}
		}
		zdim, height, err := vs.axis(levels)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		dims := []string{"forecast_period"}
		if zdim != "" {
			dims = append(dims, zdim)
		}
		dims = append(dims, hdims...)
		b.addScore(name, fields, scorePlaces{leads, levels, dims, coordinates(height, aux), &lay}, o)
	}
	return b, nil
}

// scorePlaces are the axes of a variable of scores.
type scorePlaces struct {
	leads       []ensemble.Lead
	levels      []ensemble.Level
	dims        []string
	coordinates string
	layout      *layout
}

// addScore adds the variable of one score.
func (b *ncBuilder) addScore(name string, fields []ScoreField, at scorePlaces, o Options) {
	f, g := fields[0], at.layout.grid
	v := encode.Variable{Name: name, Type: encode.Float, Dimensions: at.dims, Chunks: chunks(len(at.dims), g), Deflate: o.Deflate}
	fill := encode.Attribute{Name: "_FillValue", Floats: []float32{fillValue}}
	if f.Integers || f.Flags != nil {
		v.Type, fill = encode.Int, encode.Attribute{Name: "_FillValue", Ints: []int32{missingCount}}
	}
	method := ""
	if f.Method != "" {
		method = "forecast_reference_time: " + f.Method
	}
	standard := ""
	if f.Integers {
		standard = "number_of_observations"
	}
	v.Attributes = append([]encode.Attribute{fill}, dataAttributes(standard, f.LongName, f.Unit, method, at.coordinates, mappingName(g))...)
	if f.Flags != nil {
		values := make([]int32, len(f.Flags))
		meanings := ""
		for i, word := range f.Flags {
			values[i] = int32(i)
			if i > 0 {
				meanings += " "
			}
			meanings += word
		}
		v.Attributes = append(v.Attributes, encode.Attribute{Name: "flag_values", Ints: values}, text("flag_meanings", meanings))
	}
	if f.Comment != "" {
		v.Attributes = append(v.Attributes, text("comment", f.Comment))
	}
	none := missingField(g.Size())
	size := 4 * g.Size()
	b.addVariable(v, len(at.leads)*len(at.levels)*g.Size(), func(dst []byte) {
		for t, lead := range at.leads {
			for l, level := range at.levels {
				values := none
				for _, f := range fields {
					if f.Lead == lead && f.Level == level {
						values = f.Values
					}
				}
				to := dst[(t*len(at.levels)+l)*size:][:size]
				if v.Type == encode.Float {
					at.layout.put(to, values, fillValue)
				} else {
					at.layout.putInts(to, func(p int) int32 {
						if x := values[p]; x == x {
							return int32(x)
						}
						return missingCount
					})
				}
			}
		}
	})
}

// leads returns the leads of the fields, ascending.
func (s *ScoreFields) leads() (leads []ensemble.Lead) {
	for _, f := range s.Fields {
		if !slices.Contains(leads, f.Lead) {
			leads = append(leads, f.Lead)
		}
	}
	slices.Sort(leads)
	return leads
}

// variableOf returns the variable of a score.
func variableOf(f ScoreField) ensemble.Variable {
	return Field{Variable: f.Variable, Unit: f.Unit}.variable()
}

// addLeads adds leads as a dimension. CDO takes it for a time axis by its attribute axis.
func (b *ncBuilder) addLeads(leads []ensemble.Lead) {
	b.addDimension("forecast_period", len(leads))
	hours := make([]float64, len(leads))
	for i, l := range leads {
		hours[i] = time.Duration(l).Hours()
	}
	b.addDoubles("forecast_period", []string{"forecast_period"}, hours, text("standard_name", "forecast_period"), text("long_name", "time since initialisation"),
		text("units", "hours"), text("axis", "T"), text("dtype", "timedelta64[ns]"))
}

// addInitBounds adds the first and the last initialisation as bounds of a scalar coordinate, which is their middle.
func (b *ncBuilder) addInitBounds(first, last ensemble.Init) {
	b.addBoundsDimension()
	from, to := seconds(first.Time), seconds(last.Time)
	b.addDoubles("forecast_reference_time", nil, []float64{(from + to) / 2}, text("standard_name", "forecast_reference_time"),
		text("long_name", "middle of the initialisations"), text("units", timeUnits), text("calendar", "standard"), text("bounds", "forecast_reference_time_bnds"))
	b.addDoubles("forecast_reference_time_bnds", []string{"bnds"}, []float64{from, to})
}

// missingCount is the fill value of whole numbers: NC_FILL_INT.
const missingCount int32 = -2147483647

// missingField returns a field of missing values.
func missingField(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(math.NaN())
	}
	return out
}
