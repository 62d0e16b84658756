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
	Slab       Slab
	Key        ensemble.Key
	Grid       *ensemble.Grid
	NativeUnit string
	LongName   string
	LevelType  string
	Statistic  string
	Interval   ensemble.Lead
	Members    int
	Packing    string
	EventUnit  string // of the limits of the key's event
	Number     int    // 1-based, over the fields and unused variables of the file
}

// Unused is a variable that no fields were made of, and why.
type Unused struct {
	Number int
	Name   string
	Reason string
}

// Fetch reads whole variables as doubles, unpacked, NaN where missing.
type Fetch func(vars []int) (map[int][]float64, error)

// maxFields bounds the fields of one file.
const maxFields = 5_000_000

// Fields finds the fields of a file: variables with a latitude and a longitude (or
// x and y of a projection, or a list of places) and a time. share makes one Grid of
// equal ones.
//
// Errors: those of values.
func Fields(h *Header, values Fetch, share func(*ensemble.Grid) *ensemble.Grid) ([]Field, []Unused, error) {
	coord := metadataVariables(h)
	var want []int
	for i := range h.Vars {
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

// size is the number of values of a variable.
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

// reader is what Fields knows of a file.
type reader struct {
	h      *Header
	coord  map[int]bool
	values map[int][]float64
	intern func(*ensemble.Grid) *ensemble.Grid
	listed map[int]bool // variables that some other one lists as its coordinate
}

// auxCoord is a coordinate of a variable: its numbers vary along some of the variable's
// dimensions.
type auxCoord struct {
	v      *Var
	index  int
	role   role
	values []float64
	axes   []int // positions in the variable's dimensions
}

// value is the coordinate's value at a place, an index along each dimension.
func (a *auxCoord) value(h *Header, place []int64) float64 { return a.values[a.offset(h, place)] }

// offset is where the coordinate's value at a place stands among its values.
func (a *auxCoord) offset(h *Header, place []int64) int64 {
	k := int64(0)
	for _, p := range a.axes {
		k = k*a.dimLength(h, p) + place[p]
	}
	return k
}

func (a *auxCoord) dimLength(h *Header, p int) int64 {
	for i, q := range a.axes {
		if q == p {
			return h.Dims[a.v.Dims[i]].Len
		}
	}
	return 1
}

// auxiliaries are the coordinates of variable i: those of its dimensions, those it
// names, and scalars of known standard name in its group.
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
				return // it varies along something this variable does not
			}
			a.axes = append(a.axes, p)
		}
		seen[k] = true
		out = append(out, a)
	}
	for _, d := range v.Dims {
		add(r.h.find(r.h.Dims[d].Name, v.Group))
	}
	for _, n := range splitNames(v.Text("coordinates")) {
		add(r.h.find(n, v.Group))
	}
	for k := range r.h.Vars {
		c := &r.h.Vars[k]
		if r.coord[k] && roleOf(c) != noRole && r.h.find(c.Name, v.Group) == k && (len(c.Dims) == 0 || rolesByStandardName[c.Text("standard_name")] != noRole || isTimeUnit(c.Text("units")) || rolesByName[strings.ToLower(c.Name)] != noRole) {
			if !isBounds(c.Name) && !(r.listed[k] && listedOnlyRoles[roleOf(c)]) {
				add(k)
			}
		}
	}
	return out
}

// listedOnlyRoles are the roles of scalars that belong to those variables only that list them,
// where any does: the height of one is not that of the next.
var listedOnlyRoles = map[role]bool{roleLevel: true, roleQuantile: true, roleThreshold: true}

func isBounds(name string) bool {
	return strings.HasSuffix(name, "_bnds") || strings.HasSuffix(name, "_bounds")
}

// coordOfRole gives the coordinate of a role, the one along most dimensions first.
func coordOfRole(all []*auxCoord, want role) *auxCoord {
	var best *auxCoord
	for _, a := range all {
		if a.role == want && (best == nil || len(a.axes) > len(best.axes)) {
			best = a
		}
	}
	return best
}

// variableFields makes the fields of one variable, or says why not.
func (r *reader) variableFields(i int) ([]Field, string) {
	v := &r.h.Vars[i]
	switch {
	case !v.Numeric():
		return nil, "it holds no numbers but type " + v.Type
	case v.Text("diagnostic_standard_name") != "" || strings.HasPrefix(v.Name, "emos_coefficient"):
		return nil, "it is a table of coefficients, not a field"
	case v.Attrs["neighbourhood_radius"].Numbers != nil:
		return nil, "it is of the points around each point, not of the point"
	case r.h.size(i) == 0:
		return nil, "it has no values"
	}
	all := r.auxiliaries(i)
	hor, reason := r.horizontal(v, all)
	if reason != "" {
		return nil, reason
	}
	// What varies from point to point, such as the altitude of stations, is no
	// coordinate of whole fields.
	all = slices.DeleteFunc(all, func(a *auxCoord) bool {
		return slices.ContainsFunc(a.axes, func(p int) bool { return slices.Contains(hor.dims, p) })
	})
	d := describeVariable(v)
	d.Grid = hor.grid
	return r.enumerateFields(i, all, hor.dims, d)
}

// enumerateFields walks all places of a variable outside its horizontal dimensions.
func (r *reader) enumerateFields(i int, all []*auxCoord, horizontal []int, d Field) ([]Field, string) {
	v := &r.h.Vars[i]
	c, reason := r.timeCoords(all)
	if reason != "" {
		return nil, reason
	}
	member, level := coordOfRole(all, roleMember), coordOfRole(all, roleLevel)
	statistic := coordOfRole(all, roleQuantile)
	if t := coordOfRole(all, roleThreshold); t != nil {
		statistic = t
	}
	if statistic != nil && d.Key.Product == ensemble.MemberField {
		statistic.setStatistic(&d, v)
	} else {
		statistic = nil
	}
	// Every further dimension must be one of time, level or member, or have length 1.
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
			return nil, fmt.Sprintf("its dimension %q is not understood", r.h.Dims[dim].Name)
		}
	}
	for _, a := range all {
		if a.role == roleOther && d.Key.Product == ensemble.MemberField {
			return nil, fmt.Sprintf("it holds %ss, which are no members", strings.ToLower(a.v.Name))
		}
	}
	place := make([]int64, len(v.Dims))
	start, count := make([]int64, len(v.Dims)), make([]int64, len(v.Dims))
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

// setStatistic says that variable v holds quantiles or probabilities along a coordinate.
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

// probabilityName is the form of the names of probabilities.
var probabilityName = regexp.MustCompile(`^probability_of_(.+)_(above|below|between)_[^_]+$`)

// eventVariable is X of the name probability_of_X_above_threshold.
func eventVariable(name string) string {
	if m := probabilityName.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

// statisticAt fills in the quantile or the limits of the event at a place.
func (r *reader) statisticAt(f *Field, a *auxCoord, place []int64) string {
	x := a.value(r.h, place)
	if x != x {
		return "a " + a.v.Name + " is missing"
	}
	if a.role == roleQuantile {
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
		b := r.h.find(a.v.Text("bounds"), a.v.Group)
		if b < 0 || len(r.values[b]) != 2*len(a.values) {
			return "its thresholds have no bounds"
		}
		k := a.offset(r.h, place)
		e.Lower, e.Upper = r.values[b][2*k], r.values[b][2*k+1]
	}
	return ""
}

// keyAt fills in time, member and level at a place.
func (r *reader) keyAt(f *Field, c timeCoords, member, level *auxCoord, place []int64) string {
	init, lead, interval, err := c.at(r.h, place)
	if err != nil {
		return err.Error()
	}
	f.Key.Init, f.Key.Lead = ensemble.InitAt(init), ensemble.Lead(lead)
	if f.Statistic != "" {
		f.Interval = ensemble.Lead(interval)
	}
	if member != nil && f.Key.Product == ensemble.MemberField {
		m := member.value(r.h, place)
		if m != math.Trunc(m) || math.Abs(m) > 1e6 {
			return fmt.Sprintf("member number %v is no whole number", m)
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

// levelOf makes a level of a vertical coordinate.
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
	case std == "air_pressure" && unit == "" || strings.EqualFold(v.Name, "isobaricInhPa") || a.isobaric():
		return ensemble.PressureLevel(x), std, ""
	case (std == "height" || std == "" && strings.EqualFold(v.Name, "height")) && (unit == "m" || unit == "metre" || unit == "meters" || unit == "metres"):
		// A float32 of 1.5 or 2 is exact; others become the nearest short decimal.
		return ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: math.Round(x*1e4) / 1e4}, std, ""
	}
	kind := std
	if kind == "" {
		kind = v.Name
	}
	return ensemble.Level{Kind: ensemble.OtherLevel, Value: x}, kind, ""
}

// isobaricLevels are the pressures in hPa on which ERA5 and the archives made of it lie.
var isobaricLevels = []float64{1, 2, 3, 5, 7, 10, 20, 30, 50, 70, 100, 125, 150, 175, 200, 225, 250, 300, 350, 400, 450, 500, 550, 600, 650, 700, 750, 775, 800, 825, 850,
	875, 900, 925, 950, 975, 1000}

// maxModelLevels is how many levels a model has at most: numbers above are no level's.
const maxModelLevels = 137

// isobaric tells whether "level", without a unit or standard name as in WeatherBench, is
// pressure in hPa: its values are such levels, and not all could be numbers of model
// levels.
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

// timeCoords is the time coordinates of a variable.
type timeCoords struct {
	valid, init, lead *auxCoord
	validAxis         timeAxis
	initAxis          timeAxis
	bounds            []float64 // of valid: pairs, in its order; nil without
}

func (c timeCoords) has(a *auxCoord) bool { return a == c.valid || a == c.init || a == c.lead }

// timeCoords finds the time coordinates and understands their units.
func (r *reader) timeCoords(all []*auxCoord) (timeCoords, string) {
	c := timeCoords{valid: coordOfRole(all, roleTime), init: coordOfRole(all, roleInit), lead: coordOfRole(all, roleLead)}
	// A "lead" that counts months or has no unit says nothing of its own.
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
		if b := r.h.find(c.valid.v.Text("bounds"), c.valid.v.Group); b >= 0 && len(r.values[b]) == 2*len(c.valid.values) {
			c.bounds = r.values[b]
		}
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

// timeIsInit tells whether leads are added to the time rather than taken from it: as
// WeatherBench has it, where leads are called prediction_timedelta, and where they have a
// dimension of their own beside that of the time. In CF the forecast_period ends at the
// time, whatever its dimensions.
func (c timeCoords) timeIsInit() bool {
	if c.valid == nil || c.lead == nil {
		return false
	}
	if c.lead.v.Name == "prediction_timedelta" {
		return true
	}
	apart := len(c.valid.axes) > 0 && len(c.lead.axes) > 0 && !slices.ContainsFunc(c.lead.axes, func(p int) bool { return slices.Contains(c.valid.axes, p) })
	return apart && c.lead.v.Text("standard_name") != "forecast_period"
}

// at gives start, lead and interval at a place.
func (c timeCoords) at(h *Header, place []int64) (init time.Time, lead, interval time.Duration, err error) {
	var valid time.Time
	if c.valid != nil {
		if valid, err = c.validAxis.at(c.valid.value(h, place)); err != nil {
			return
		}
		if c.bounds != nil {
			k := c.valid.offset(h, place)
			if lo, hi := c.bounds[2*k], c.bounds[2*k+1]; hi > lo {
				interval = time.Duration((hi - lo) * float64(c.validAxis.unit)).Round(time.Second)
			}
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
			between := valid.Sub(init)
			if c.lead != nil && (between-lead).Abs() > time.Minute {
				return init, lead, interval, fmt.Errorf("its times contradict each other: start %s, period %s, valid %s", init.Format(time.RFC3339), lead, valid.Format(time.RFC3339))
			}
			lead = between
		}
	case c.lead != nil:
		init = valid.Add(-lead)
	default:
		init = valid // an analysis
	}
	return
}
