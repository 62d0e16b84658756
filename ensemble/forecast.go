package ensemble

import (
	"fmt"
	"math"
	"slices"
)

// Axes names what a Forecast holds, in order. Levels are the depth axis of the
// networks, pressure falling.
type Axes struct {
	Variables []string
	Levels    []Level
	Leads     []Lead
}

// Fields is the number of fields one member has: leads × variables × levels.
func (a Axes) Fields() int { return len(a.Leads) * len(a.Variables) * len(a.Levels) }

// Find gives the positions of a key's lead, variable and level, or ok false.
func (a Axes) Find(k Key) (t, v, l int, ok bool) {
	t = slices.Index(a.Leads, k.Lead)
	v = slices.Index(a.Variables, k.Variable)
	l = slices.Index(a.Levels, k.Level)
	return t, v, l, t >= 0 && v >= 0 && l >= 0
}

// Forecast is one start of an ensemble: all trajectories of its members.
//
// Shape: Values [lead][member][variable][level][NY*NX]; Members names the
// second axis.
// Unit: SI, each variable its own. Missing: NaN.
type Forecast struct {
	Init    Init
	Axes    Axes
	Members []Member
	Grid    *Grid
	Values  []float32
}

// NewForecast makes a forecast whose fields are all missing.
func NewForecast(init Init, axes Axes, members []Member, grid *Grid) *Forecast {
	f := &Forecast{Init: init, Axes: axes, Members: members, Grid: grid}
	f.Values = make([]float32, axes.Fields()*len(members)*grid.Size())
	nan := float32(math.NaN())
	for i := range f.Values {
		f.Values[i] = nan
	}
	return f
}

// Field is the field at lead t, member m, variable v, level l (positions, not
// values). It is a view, not a copy.
func (f *Forecast) Field(t, m, v, l int) []float32 {
	n := f.Grid.Size()
	at := (((t*len(f.Members)+m)*len(f.Axes.Variables)+v)*len(f.Axes.Levels) + l) * n
	return f.Values[at : at+n]
}

// Put stores a decoded field at its place.
//
// Errors: if the key has no place here or the number of points differs.
func (f *Forecast) Put(field *Field) error {
	t, v, l, ok := f.Axes.Find(field.Key)
	m := slices.Index(f.Members, field.Key.Member)
	if !ok || m < 0 {
		return fmt.Errorf("forecast %s has no place for %s", f.Init, field.Key)
	}
	if len(field.Values) != f.Grid.Size() {
		return fmt.Errorf("forecast %s: %s has %d points, the grid %d", f.Init, field.Key, len(field.Values), f.Grid.Size())
	}
	copy(f.Field(t, m, v, l), field.Values)
	return nil
}

// Analysis holds the reference fields of one valid time.
//
// Shape: Values [variable][level][NY*NX]. Unit: SI. Missing: NaN.
type Analysis struct {
	Valid     Valid
	Variables []string
	Levels    []Level
	Grid      *Grid
	Values    []float32
}

// NewAnalysis makes an analysis whose fields are all missing.
func NewAnalysis(valid Valid, variables []string, levels []Level, grid *Grid) *Analysis {
	a := &Analysis{Valid: valid, Variables: variables, Levels: levels, Grid: grid}
	a.Values = make([]float32, len(variables)*len(levels)*grid.Size())
	nan := float32(math.NaN())
	for i := range a.Values {
		a.Values[i] = nan
	}
	return a
}

// Field is the field of variable v at level l (positions). It is a view.
func (a *Analysis) Field(v, l int) []float32 {
	n := a.Grid.Size()
	at := (v*len(a.Levels) + l) * n
	return a.Values[at : at+n]
}

// MeanStd computes the mean and the standard deviation over chosen members.
//
//	mean = (1/M) Σ x_m,  std = sqrt( Σ (x_m - mean)² / (M - ddof) )
//
// Shape: mean and std [NY*NX] are filled; members are positions on the member
// axis. Missing: a point missing in one member is missing in both results.
// Errors: panics if M ≤ ddof, which the configuration check excludes.
func (f *Forecast) MeanStd(mean, std []float32, t, v, l int, members []int, ddof int) {
	n := len(members)
	if n <= ddof {
		panic(fmt.Sprintf("standard deviation over %d members with divisor M-%d", n, ddof))
	}
	fields := make([][]float32, n)
	for i, m := range members {
		fields[i] = f.Field(t, m, v, l)
	}
	for p := range f.Grid.Size() {
		var sum float64
		for _, x := range fields {
			sum += float64(x[p])
		}
		mu := sum / float64(n)
		var sq float64
		for _, x := range fields {
			d := float64(x[p]) - mu
			sq += d * d
		}
		mean[p] = float32(mu)
		std[p] = float32(math.Sqrt(sq / float64(n-ddof)))
	}
}
