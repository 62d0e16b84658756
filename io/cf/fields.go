package cf

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Field is one horizontal slice of a variable.
type Field struct {
	// Slab is the position of the values in the file.
	Slab Slab
	// Key has initialisation, lead, level, member and product.
	Key ensemble.Key
	// Grid is shared by all fields on equal grids.
	Grid *ensemble.Grid
	// NativeUnit is the unit of the unpacked values, as the file spells it.
	NativeUnit string
	LongName   string
	// LevelType is the standard name or the name of the vertical coordinate.
	LevelType string
	// Statistic is the cell method over time; "" for an instant.
	Statistic string
	// Interval is the length of the interval that the statistic covers.
	Interval ensemble.Lead
	// Members is the size of the ensemble; 0 if unknown.
	Members int
	// Packing is the type of the stored values.
	Packing string
	// EventUnit is the unit of the limits of the event.
	EventUnit string
	// Number is 1-based, counted over fields and unused variables of the file.
	Number int
}

// Unused is a variable without fields, with the reason.
type Unused struct {
	Number int
	Name   string
	Reason string
}

// Fetch reads complete variables as float64, unpacked, with NaN for missing values.
// The keys of the result are positions in Header.Vars.
type Fetch func(vars []int) (map[int][]float64, error)

// maxFields bounds the fields of one file.
const maxFields = 5_000_000

// Fields finds the fields of a file. A data variable needs horizontal coordinates
// (latitude and longitude, x and y of a projection, or a list of stations) and a
// time. Every slice of it over the two horizontal dimensions is a field. values
// reads coordinates. share returns one Grid for all equal ones.
//
// Errors: those of values. Variables that cannot be used are returned as Unused.
// Source: CF sections 4 (coordinate types) and 5 (coordinate systems).
func Fields(h *Header, values Fetch, share func(*ensemble.Grid) *ensemble.Grid) ([]Field, []Unused, error) {
	coord := metadataVariables(h)
	var want []int
	for i := range h.Vars {
		// Grid mapping variables have no values. Larger variables are not
		// coordinates.
		if coord[i] && h.Vars[i].Numeric() && h.size(i) > 0 && h.size(i) <= 1<<24 && h.Vars[i].Text("grid_mapping_name") == "" {
			want = append(want, i)
		}
	}
	known := map[int][]float64{}
	if len(want) > 0 {
		var err error
		if known, err = values(want); err != nil {
			return nil, nil, err
		}
	}
	r := reader{h: h, coord: coord, values: known, intern: share, listed: h.referenced("coordinates")}
	var fields []Field
	var unused []Unused
	number := 0
	for i := range h.Vars {
		if coord[i] {
			continue
		}
		got, reason := r.variableFields(i)
		if reason == "" && len(fields)+len(got) > maxFields {
			reason = fmt.Sprintf("the file has more than %d fields", maxFields)
		}
		if reason != "" {
			number++
			unused = append(unused, Unused{number, h.Vars[i].Path(), reason})
			continue
		}
		for k := range got {
			number++
			got[k].Number = number
		}
		fields = append(fields, got...)
	}
	return fields, unused, nil
}

// size returns the number of values of variable i; 0 if it overflows int64.
func (h *Header) size(i int) int64 {
	n := int64(1)
	for _, d := range h.Vars[i].Dims {
		if l := h.Dims[d].Len; l == 0 || n > math.MaxInt64/l {
			return 0
		}
		n *= h.Dims[d].Len
	}
	return n
}

// reader holds the metadata of a file while its fields are enumerated.
type reader struct {
	h      *Header
	coord  map[int]bool      // variables that are not data
	values map[int][]float64 // coordinate values, by position in Header.Vars
	// intern interns grids.
	intern func(*ensemble.Grid) *ensemble.Grid
	listed map[int]bool // variables that appear in the coordinates attribute of another variable
}

// auxCoord is a coordinate of a variable. Its values vary along some of the
// variable's dimensions.
//
// Source: CF section 5 (coordinate variables, auxiliary and scalar coordinate
// variables).
type auxCoord struct {
	v     *Var
	index int // position in Header.Vars
	role  role
	// values are unpacked, in the order of the coordinate's dimensions.
	values []float64
	axes   []int // positions in the variable's dimensions
}

// value returns the coordinate at an index along each dimension of the variable.
func (a *auxCoord) value(h *Header, place []int64) float64 { return a.values[a.offset(h, place)] }

// offset returns the position of that value in values.
func (a *auxCoord) offset(h *Header, place []int64) int64 {
	k := int64(0)
	for _, p := range a.axes {
		// C order of the coordinate's own dimensions.
		k = k*a.dimLength(h, p) + place[p]
	}
	return k
}

// dimLength returns the length of dimension p of the variable, 1 if the coordinate
// does not vary along it.
func (a *auxCoord) dimLength(h *Header, p int) int64 {
	for i, q := range a.axes {
		if q == p {
			return h.Dims[a.v.Dims[i]].Len
		}
	}
	return 1
}

// auxiliaries returns the coordinates of variable i: coordinate variables of its
// dimensions, the variables in its coordinates attribute, and scalar coordinates of
// its group with a known role.
func (r *reader) auxiliaries(i int) []*auxCoord {
	v := &r.h.Vars[i]
	var out []*auxCoord
	seen := map[int]bool{i: true}
	add := func(k int) {
		if k < 0 || seen[k] || r.values[k] == nil {
			return
		}
		c := &r.h.Vars[k]
		a := &auxCoord{v: c, index: k, role: roleOf(c), values: r.values[k]}
		for _, d := range c.Dims {
			p := slices.Index(v.Dims, d)
			if p < 0 {
				return // it has a dimension that the variable lacks
			}
			a.axes = append(a.axes, p)
		}
		seen[k] = true
		out = append(out, a)
	}
	for _, d := range v.Dims {
		add(r.h.find(r.h.Dims[d].Name, v.Group))
	}
	// Auxiliary and scalar coordinates, CF sections 5.2 and 5.7.
	for _, n := range splitNames(v.Text("coordinates")) {
		add(r.h.find(n, v.Group))
	}
	for k := range r.h.Vars {
		c := &r.h.Vars[k]
		if r.coord[k] && roleOf(c) != noRole && r.h.find(c.Name, v.Group) == k && (len(c.Dims) == 0 || rolesByStandardName[c.Text("standard_name")] != noRole || isTimeUnit(c.Text("units")) || rolesByName[strings.ToLower(c.Name)] != noRole) {
			// Files that do not follow CF have scalar coordinates which no variable
			// lists.
			if !isBounds(c.Name) && !(r.listed[k] && listedOnlyRoles[roleOf(c)]) {
				add(k)
			}
		}
	}
	return out
}

// listedOnlyRoles are roles of scalar coordinates that apply only to the variables
// that list them, if any variable does. The height of one variable is not the
// height of the next.
var listedOnlyRoles = map[role]bool{roleLevel: true, roleQuantile: true, roleThreshold: true}

// isBounds reports whether a name is that of a bounds variable.
func isBounds(name string) bool {
	return strings.HasSuffix(name, "_bnds") || strings.HasSuffix(name, "_bounds")
}

// coordOfRole returns the coordinate with a role. The one with the most dimensions
// has precedence.
func coordOfRole(all []*auxCoord, want role) *auxCoord {
	var best *auxCoord
	for _, a := range all {
		if a.role == want && (best == nil || len(a.axes) > len(best.axes)) {
			best = a
		}
	}
	return best
}

// variableFields returns the fields of variable i, or the reason why it has none.
func (r *reader) variableFields(i int) ([]Field, string) {
	v := &r.h.Vars[i]
	switch {
	case !v.Numeric():
		return nil, "its type " + v.Type + " is not numeric"
	// EMOS coefficients of IMPROVER and our neighbourhood probabilities have the
	// coordinates of fields.
	case v.Text("diagnostic_standard_name") != "" || strings.HasPrefix(v.Name, "emos_coefficient"):
		return nil, "it is a table of coefficients, not a field"
	case v.Attrs["neighbourhood_radius"].Numbers != nil:
		return nil, "its values describe neighbourhoods of points, not points"
	case r.h.size(i) == 0:
		return nil, "it has no values"
	}
	all := r.auxiliaries(i)
	hor, reason := r.horizontal(v, all)
	if reason != "" {
		return nil, reason
	}
	// A coordinate that varies along horizontal dimensions, such as the altitude of
	// stations, is not a coordinate of whole fields.
	all = slices.DeleteFunc(all, func(a *auxCoord) bool {
		return slices.ContainsFunc(a.axes, func(p int) bool { return slices.Contains(hor.dims, p) })
	})
	d := describeVariable(v)
	d.Grid = hor.grid
	return r.enumerateFields(i, all, hor.dims, d)
}

// enumerateFields returns one field for each index outside of the horizontal
// dimensions. d holds what all fields have in common.
func (r *reader) enumerateFields(i int, all []*auxCoord, horizontal []int, d Field) ([]Field, string) {
	v := &r.h.Vars[i]
	c, reason := r.timeCoords(all)
	if reason != "" {
		return nil, reason
	}
	member, level := coordOfRole(all, roleMember), coordOfRole(all, roleLevel)
	// A threshold coordinate has precedence, since probability files may list
	// percentiles too.
	statistic := coordOfRole(all, roleQuantile)
	if t := coordOfRole(all, roleThreshold); t != nil {
		statistic = t
	}
	if statistic != nil && d.Key.Product == ensemble.MemberField {
		statistic.setStatistic(&d, v)
	} else {
		statistic = nil
	}
	// Each further dimension must belong to time, level, member or a statistic, or
	// have length 1.
	for p, dim := range v.Dims {
		if slices.Contains(horizontal, p) || r.h.Dims[dim].Len == 1 {
			continue
		}
		understood := false
		for _, a := range all {
			if slices.Contains(a.axes, p) && (a == member || a == level || a == statistic || c.has(a)) {
				understood = true
			}
		}
		if !understood {
			return nil, fmt.Sprintf("its dimension %q is unknown", r.h.Dims[dim].Name)
		}
	}
	for _, a := range all {
		if a.role == roleOther && d.Key.Product == ensemble.MemberField {
			return nil, fmt.Sprintf("its values are %ss, not members", strings.ToLower(a.v.Name))
		}
	}
	// place runs over all indices outside of the horizontal dimensions, the last
	// dimension fastest.
	place := make([]int64, len(v.Dims))
	start, count := make([]int64, len(v.Dims)), make([]int64, len(v.Dims))
	// The slab of a field covers the horizontal dimensions completely and one index
	// of all others.
	for p := range count {
		count[p] = 1
		if slices.Contains(horizontal, p) {
			count[p] = r.h.Dims[v.Dims[p]].Len
		}
	}
	if member != nil && len(member.axes) == 1 {
		d.Members = len(member.values)
	}
	var out []Field
	for {
		f := d
		copy(start, place)
		f.Slab = Slab{Var: i, Start: slices.Clone(start), Count: count}
		if reason := r.keyAt(&f, c, member, level, place); reason != "" {
			return nil, reason
		}
		if statistic != nil {
			if reason := r.statisticAt(&f, statistic, place); reason != "" {
				return nil, reason
			}
		}
		out = append(out, f)
		if len(out) > maxFields {
			return nil, fmt.Sprintf("it has more than %d fields", maxFields)
		}
		p := len(place) - 1
		for ; p >= 0; p-- {
			if slices.Contains(horizontal, p) {
				continue
			}
			if place[p]++; place[p] < r.h.Dims[v.Dims[p]].Len {
				break
			}
			place[p] = 0
		}
		if p < 0 {
			return out, ""
		}
	}
}

// setStatistic marks the fields of variable v as quantiles or probabilities along
// this coordinate.
func (a *auxCoord) setStatistic(d *Field, v *Var) {
	if a.role == roleQuantile {
		d.Key.Product = ensemble.Quantile
		d.Key.Variable = canonicalName(strings.TrimSuffix(v.Name, "_quantile"), v.Text("standard_name"))
		return
	}
	d.Key.Product = ensemble.Probability
	d.Key.Event.Relation = relations[a.v.Text(relationAttribute)]
	d.Key.Variable = canonicalName(eventVariable(v.Name), a.v.Text("standard_name"))
	d.EventUnit = a.v.Text("units")
}

// probabilityName matches the names of probability variables.
//
// Source: IMPROVER, names of probability cubes.
var probabilityName = regexp.MustCompile(`^probability_of_(.+)_(above|below|between)_[^_]+$`)

// eventVariable returns X of probability_of_X_above_threshold, and any other name
// unchanged.
func eventVariable(name string) string {
	if m := probabilityName.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

// statisticAt sets the quantile or the limits of the event at an index. It returns
// the reason why it cannot.
func (r *reader) statisticAt(f *Field, a *auxCoord, place []int64) string {
	x := a.value(r.h, place)
	if x != x {
		return "a value of " + a.v.Name + " is missing"
	}
	if a.role == roleQuantile {
		// Quantiles are stored as fractions or as per cent.
		if f.Key.QuantileProbability = x; a.v.Text("units") == "%" {
			f.Key.QuantileProbability /= 100
		}
		if !(f.Key.QuantileProbability >= 0 && f.Key.QuantileProbability <= 1) {
			return fmt.Sprintf("quantile %v is not between 0 and 1", f.Key.QuantileProbability)
		}
		return ""
	}
	switch e := &f.Key.Event; e.Relation {
	case ensemble.Above:
		e.Lower = x
	case ensemble.Below:
		e.Upper = x
	default:
		// An event between two limits has them as bounds of its threshold.
		b := r.h.find(a.v.Text("bounds"), a.v.Group)
		if b < 0 || len(r.values[b]) != 2*len(a.values) {
			return "its thresholds have no bounds"
		}
		k := a.offset(r.h, place)
		e.Lower, e.Upper = r.values[b][2*k], r.values[b][2*k+1]
	}
	return ""
}

// keyAt sets time, member and level of a field at an index. It returns the reason
// why it cannot.
func (r *reader) keyAt(f *Field, c timeCoords, member, level *auxCoord, place []int64) string {
	init, lead, err := c.at(r.h, place)
	if err != nil {
		return err.Error()
	}
	interval, end := c.intervalAt(r.h, place)
	if f.Statistic == "" && interval > 0 {
		known, _ := ensemble.VariableNamed(f.Key.Variable)
		f.Statistic = known.Period // bounds without cell_methods: a sum of precipitation has no other meaning
	}
	if f.Statistic != "" {
		// Fields are valid at the end of their interval, whatever the time within it
		// that the file states.
		f.Interval = ensemble.Lead(interval)
		if lead += end; c.init == nil && c.lead == nil {
			init, lead = init.Add(end), 0
		}
	}
	f.Key.Init, f.Key.Lead = ensemble.InitAt(init), ensemble.Lead(lead)
	if member != nil && f.Key.Product == ensemble.MemberField {
		m := member.value(r.h, place)
		if m != math.Trunc(m) || math.Abs(m) > 1e6 {
			return fmt.Sprintf("member number %v is not an integer", m)
		}
		f.Key.Member = ensemble.Member(m)
	}
	if level != nil {
		l, kind, reason := levelOf(level, level.value(r.h, place))
		if reason != "" {
			return reason
		}
		f.Key.Level, f.LevelType = l, kind
	}
	resolveByLevel(f)
	return ""
}

// levelOf converts a value of a vertical coordinate to a level, and returns the
// type of the level and the reason why it cannot.
//
// Unit: Pa for pressure, m for height.
// Source: CF section 4.3 (vertical coordinate): pressure units identify pressure
// levels.
func levelOf(a *auxCoord, x float64) (ensemble.Level, string, string) {
	if x != x {
		return ensemble.Level{}, "", "a level is missing"
	}
	v := a.v
	std, unit := v.Text("standard_name"), v.Text("units")
	switch {
	case pressureUnits[unit]:
		scale := map[string]float64{"Pa": 1, "kPa": 1000}[unit]
		if scale == 0 {
			scale = 100
		}
		return ensemble.Level{Kind: ensemble.Pressure, Value: x * scale}, std, ""
	// Pressure without a unit is hPa in practice.
	case std == "air_pressure" && unit == "" || strings.EqualFold(v.Name, "isobaricInhPa") || a.isobaric():
		return ensemble.PressureLevel(x), std, ""
	case (std == "height" || std == "" && strings.EqualFold(v.Name, "height")) && (unit == "m" || unit == "metre" || unit == "meters" || unit == "metres"):
		// Values stored as float32 are rounded to the nearest short decimal; 1.5
		// and 2 are exact.
		return ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: math.Round(x*1e4) / 1e4}, std, ""
	}
	kind := std
	if kind == "" {
		kind = v.Name
	}
	return ensemble.Level{Kind: ensemble.OtherLevel, Value: x}, kind, ""
}

// isobaricLevels lists the pressure levels of ERA5 and derived archives, in hPa.
var isobaricLevels = []float64{1, 2, 3, 5, 7, 10, 20, 30, 50, 70, 100, 125, 150, 175, 200, 225, 250, 300, 350, 400, 450, 500, 550, 600, 650, 700, 750, 775, 800, 825, 850,
	875, 900, 925, 950, 975, 1000}

// maxModelLevels is the largest number of model levels in use. Larger values are
// not level numbers.
const maxModelLevels = 137

// isobaric reports whether "level" without unit and standard name, as in
// WeatherBench, is pressure in hPa: all values are pressure levels of ERA5, and at
// least one exceeds the number of any model level.
func (a *auxCoord) isobaric() bool {
	if a.v.Name != "level" && a.v.Name != "pressure_level" || a.v.Text("units") != "" || a.v.Text("standard_name") != "" || len(a.values) == 0 {
		return false
	}
	for _, x := range a.values {
		if !slices.Contains(isobaricLevels, x) {
			return false
		}
	}
	return slices.Max(a.values) > maxModelLevels
}

// timeCoords holds the time coordinates of a variable.
type timeCoords struct {
	valid, init, lead *auxCoord
	validAxis         timeAxis
	initAxis          timeAxis
	bounds            []float64 // of valid, in pairs; nil without bounds
	leadBounds        []float64 // of lead
}

// has reports whether a is one of the time coordinates.
func (c timeCoords) has(a *auxCoord) bool { return a == c.valid || a == c.init || a == c.lead }

// timeCoords finds the time coordinates of a variable and parses their units.
//
// Source: CF sections 4.4 (time coordinate) and 7.1 (cell boundaries).
func (r *reader) timeCoords(all []*auxCoord) (timeCoords, string) {
	c := timeCoords{valid: coordOfRole(all, roleTime), init: coordOfRole(all, roleInit), lead: coordOfRole(all, roleLead)}
	// A lead in months or without a unit has no length and is ignored.
	if c.lead != nil {
		if _, err := timeSpan(0, c.lead.v.Text("units")); err != nil {
			c.lead = nil
		}
	}
	var err error
	if c.valid != nil {
		if c.validAxis, err = parseTimeUnit(c.valid.v.Text("units"), c.valid.v.Text("calendar")); err != nil {
			return c, err.Error()
		}
		c.bounds = r.boundsOf(c.valid)
	}
	if c.lead != nil {
		c.leadBounds = r.boundsOf(c.lead)
	}
	if c.init != nil {
		if c.initAxis, err = parseTimeUnit(c.init.v.Text("units"), c.init.v.Text("calendar")); err != nil {
			return c, err.Error()
		}
	}
	if c.init == nil && c.timeIsInit() {
		c.init, c.initAxis, c.valid, c.bounds = c.valid, c.validAxis, nil, nil
	}
	switch {
	case c.valid == nil && (c.init == nil || c.lead == nil):
		return c, "it has no time"
	}
	return c, ""
}

// boundsOf returns the bounds of a coordinate, in pairs; nil without bounds.
func (r *reader) boundsOf(a *auxCoord) []float64 {
	if b := r.h.find(a.v.Text("bounds"), a.v.Group); b >= 0 && len(r.values[b]) == 2*len(a.values) {
		return r.values[b]
	}
	return nil
}

// timeIsInit reports whether "time" is the initialisation and leads are added to
// it. WeatherBench does so with prediction_timedelta, and so do files whose leads
// have a dimension of their own. In CF the forecast_period always ends at the time.
func (c timeCoords) timeIsInit() bool {
	if c.valid == nil || c.lead == nil {
		return false
	}
	if c.lead.v.Name == "prediction_timedelta" {
		return true
	}
	ownDimension := len(c.valid.axes) > 0 && len(c.lead.axes) > 0 && !slices.ContainsFunc(c.lead.axes, func(p int) bool { return slices.Contains(c.valid.axes, p) })
	return ownDimension && c.lead.v.Text("standard_name") != "forecast_period"
}

// intervalAt returns the length of the interval at an index, and the distance of
// its end from the time that the file states. Both are 0 without bounds.
func (c timeCoords) intervalAt(h *Header, place []int64) (length, end time.Duration) {
	of := func(a *auxCoord, bounds []float64, unit time.Duration) {
		k := a.offset(h, place)
		lo, hi := min(bounds[2*k], bounds[2*k+1]), max(bounds[2*k], bounds[2*k+1])
		if hi > lo && (hi-lo)*float64(unit) < maxSpan {
			length = time.Duration((hi - lo) * float64(unit)).Round(time.Second)
			end = time.Duration((hi - a.values[k]) * float64(unit)).Round(time.Second)
		}
	}
	switch {
	case c.bounds != nil:
		of(c.valid, c.bounds, c.validAxis.unit)
	case c.leadBounds != nil:
		of(c.lead, c.leadBounds, timeUnits[strings.ToLower(strings.TrimSpace(c.lead.v.Text("units")))])
	}
	return length, end
}

// at returns initialisation and lead at an index.
//
// Errors: times outside of the range of time.Duration; initialisation, lead and
// valid time that contradict each other by more than a minute.
func (c timeCoords) at(h *Header, place []int64) (init time.Time, lead time.Duration, err error) {
	var valid time.Time
	if c.valid != nil {
		if valid, err = c.validAxis.at(c.valid.value(h, place)); err != nil {
			return
		}
	}
	if c.lead != nil {
		if lead, err = timeSpan(c.lead.value(h, place), c.lead.v.Text("units")); err != nil {
			return
		}
	}
	switch {
	case c.init != nil:
		if init, err = c.initAxis.at(c.init.value(h, place)); err != nil {
			return
		}
		if c.valid != nil {
			// With initialisation and valid time, the lead is their difference. An
			// additional lead coordinate must agree.
			between := valid.Sub(init)
			if c.lead != nil && (between-lead).Abs() > time.Minute {
				return init, lead, fmt.Errorf("its times contradict each other: init %s, lead %s, valid time %s", init.Format(time.RFC3339), lead, valid.Format(time.RFC3339))
			}
			lead = between
		}
	case c.lead != nil:
		init = valid.Add(-lead)
	default:
		init = valid // analysis
	}
	return
}
