package ensemble

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/internal/fieldmath"
)

// Axes names the axes of a Forecast, in order. Levels are the depth axis of networks, by falling pressure.
type Axes struct {
	Variables []string
	Levels    []Level
	Leads     []Lead
	// Statistics are those of all fields that are not instantaneous.
	Statistics []VariableStatistic
}

// axesInFile is the JSON form of Axes, with leads as strings.
type axesInFile struct {
	Variables []string `json:"variables"`
	Levels    []Level  `json:"levels"`
	Leads     []string `json:"leads"`

	Statistics []VariableStatistic `json:"statistics,omitempty"`
}

// MarshalJSON encodes levels and leads as in configuration files.
func (a Axes) MarshalJSON() ([]byte, error) {
	f := axesInFile{Variables: a.Variables, Levels: a.Levels, Statistics: a.Statistics}
	for _, l := range a.Leads {
		f.Leads = append(f.Leads, l.String())
	}
	return json.Marshal(f)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (a *Axes) UnmarshalJSON(text []byte) error {
	var f axesInFile
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	*a = Axes{Variables: f.Variables, Levels: f.Levels, Statistics: f.Statistics}
	for _, s := range f.Leads {
		d, err := time.ParseDuration(s)
		if err != nil {
			return err
		}
		a.Leads = append(a.Leads, Lead(d))
	}
	return nil
}

// Fields is the number of fields per member: leads × variables × levels.
func (a Axes) Fields() int { return len(a.Leads) * len(a.Variables) * len(a.Levels) }

// Find returns the positions of a key's lead, variable and level; ok is false if one is not on its axis.
func (a Axes) Find(k Key) (t, v, l int, ok bool) {
	t = slices.Index(a.Leads, k.Lead)
	v = slices.Index(a.Variables, k.Variable)
	l = FindLevel(a.Levels, k.Variable, k.Level)
	return t, v, l, t >= 0 && v >= 0 && l >= 0
}

// Forecast is an ensemble forecast of one init: the trajectories of its members.
//
// Shape: Values [lead][member][variable][level][NY*NX]; Members names the second axis.
// Unit: SI, that of each variable. Missing: NaN.
type Forecast struct {
	Init    Init
	Axes    Axes
	Members []Member
	Grid    *Grid
	Values  []float32
}

// NewForecast allocates a forecast whose fields are all missing.
func NewForecast(init Init, axes Axes, members []Member, grid *Grid) *Forecast {
	f := &Forecast{Init: init, Axes: axes, Members: members, Grid: grid}
	f.Values = make([]float32, axes.Fields()*len(members)*grid.Size())
	nan := float32(math.NaN())
	for i := range f.Values {
		f.Values[i] = nan
	}
	return f
}

// Field is the field at lead t, member m, variable v, level l (positions on the axes). It is a view, not a copy.
func (f *Forecast) Field(t, m, v, l int) []float32 {
	n := f.Grid.Size()
	at := (((t*len(f.Members)+m)*len(f.Axes.Variables)+v)*len(f.Axes.Levels) + l) * n
	return f.Values[at : at+n]
}

// FieldAt is the field of a key. It is a view, not a copy.
//
// Errors: a key that is not on the axes.
func (f *Forecast) FieldAt(k Key) ([]float32, error) {
	t, v, l, ok := f.Axes.Find(k)
	m := slices.Index(f.Members, k.Member)
	if !ok || m < 0 {
		return nil, fmt.Errorf("forecast %s does not contain %s", f.Init, k)
	}
	return f.Field(t, m, v, l), nil
}

// Put copies a decoded field to its place.
//
// Errors: a key that is not on the axes, a wrong number of points.
func (f *Forecast) Put(field *Field) error {
	to, err := f.FieldAt(field.Key)
	if err != nil {
		return err
	}
	if len(field.Values) != len(to) {
		return fmt.Errorf("forecast %s: %s has %d points, the grid has %d", f.Init, field.Key, len(field.Values), f.Grid.Size())
	}
	copy(to, field.Values)
	return nil
}

// Analysis holds the verifying fields of one valid time.
//
// Shape: Values [variable][level][NY*NX]. Unit: SI. Missing: NaN.
type Analysis struct {
	Valid     Valid
	Variables []string
	Levels    []Level
	Grid      *Grid
	Values    []float32
}

// NewAnalysis allocates an analysis whose fields are all missing.
func NewAnalysis(valid Valid, variables []string, levels []Level, grid *Grid) *Analysis {
	a := &Analysis{Valid: valid, Variables: variables, Levels: levels, Grid: grid}
	a.Values = make([]float32, len(variables)*len(levels)*grid.Size())
	nan := float32(math.NaN())
	for i := range a.Values {
		a.Values[i] = nan
	}
	return a
}

// AsAnalysis returns the fields of member m at lead t (positions on the axes) as an analysis of their valid time. They are views,
// not copies.
func (f *Forecast) AsAnalysis(t, m int) *Analysis {
	n := len(f.Axes.Variables) * len(f.Axes.Levels) * f.Grid.Size()
	at := (t*len(f.Members) + m) * n
	return &Analysis{Valid: f.Init.Valid(f.Axes.Leads[t]), Variables: f.Axes.Variables, Levels: f.Axes.Levels, Grid: f.Grid, Values: f.Values[at : at+n]}
}

// Field is the field of variable v at level l (positions). It is a view, not a copy.
func (a *Analysis) Field(v, l int) []float32 {
	n := a.Grid.Size()
	at := (v*len(a.Levels) + l) * n
	return a.Values[at : at+n]
}

// MeanStd is the function MeanStd over some members at lead t, variable v and level l. members
// are positions on the member axis.
func (f *Forecast) MeanStd(mean, std []float32, t, v, l int, members []int, ddof int) {
	fields := make([][]float32, len(members))
	for i, m := range members {
		fields[i] = f.Field(t, m, v, l)
	}
	MeanStd(mean, std, fields, ddof)
}

// MeanStd computes mean and standard deviation over members' fields at every point, as
// MeanSpread. The order of the members does not change any bit.
//
// Shape: mean and std, which are filled, and each field [point].
// Missing: a point that is NaN in one field is NaN in both results.
// Errors: panics if M ≤ ddof, which the configuration check excludes.
func MeanStd(mean, std []float32, fields [][]float32, ddof int) {
	fieldmath.MeanStd(mean, std, fields, ddof)
}

// MeanSpread is the mean and the standard deviation of M values:
//
//	mean = (1/M) Σ x_m,  spread = sqrt( Σ (x_m - mean)² / (M - ddof) )
//
// Missing: NaN in gives NaN. The spread is NaN if M ≤ ddof.
func MeanSpread(x []float64, ddof int) (mean, spread float64) {
	var sum float64
	for _, v := range x {
		sum += v
	}
	mean = sum / float64(len(x))
	var sq float64
	for _, v := range x {
		sq += (v - mean) * (v - mean)
	}
	if len(x) <= ddof {
		return mean, math.NaN()
	}
	return mean, math.Sqrt(sq / float64(len(x)-ddof))
}
