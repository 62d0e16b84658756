package cf

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/unit"
)

// Field is one horizontal slice of a variable.
type Field struct {
	// Slab is the position of the values in the file.
	Slab Slab
	// Key has initialisation, lead, level, member and product. The initialisation of
	// static fields is zero.
	Key ensemble.Key
	// Grid is shared by all fields on equal grids.
	Grid *ensemble.Grid
	// NativeUnit is the unit of the unpacked values, as the file spells it.
	NativeUnit string
	LongName   string
	// Guessed reports a quantity or level that only the name of the variable states, in a form of no convention.
	Guessed bool
	// LevelType is the standard name or the name of the vertical coordinate.
	LevelType string
	// Statistic is the cell method over time; "" for an instant. Several are joined:
	// "maximum of mean".
	Statistic string
	// Interval is the length of the interval that the statistic covers. Valid times
	// and leads are its end.
	Interval ensemble.Lead
	// Members is the size of the ensemble; 0 if unknown.
	Members int
	// Packing is the type of the stored values.
	Packing string
	// EventUnit is the unit of the limits of the event.
	EventUnit string
	// Difference reports values that are differences, whose unit has no offset
	// (units_metadata).
	Difference bool
	// Number is 1-based, counted over fields and unused variables of the file.
	// Numbers of the fields of a variable follow the order of its dimensions; those
	// of records without a time are skipped.
	Number int
}

// Unused is a variable or record without fields, with the reason.
type Unused struct {
	Number int
	Name   string
	Reason string
}

// Fetch reads slabs as float64, unpacked, with NaN for missing values. The result has
// the order of slabs. One call has all coordinates of a file, so that a child gets one
// request.
type Fetch func(slabs []Slab) ([][]float64, error)

// Options configures Fields. Values and Share are required.
type Options struct {
	// Values reads coordinates.
	Values Fetch
	// Share returns one Grid for all equal ones.
	Share func(*ensemble.Grid) *ensemble.Grid
	// Static finds variables without a time too, such as land masks.
	Static bool
	// Naming states quantities and units in place of the file.
	Naming ensemble.Naming
	// Lead is that of fields that have none; nil without statement. Fields with valid times
	// only have it if they are members, or IsForecast.
	Lead       *ensemble.Lead
	IsForecast bool // IsForecast reports that the file is known to have forecasts.
}

// Content is what Fields finds in a file.
type Content struct {
	Fields   []Field
	Unused   []Unused
	UsedLead bool // UsedLead reports that Options.Lead was needed.
	// Warnings lists what was decided where the file leaves a question open, and
	// attributes that are ignored.
	Warnings []string
}

// maxFields bounds the fields of one file. A record of a Field is a few hundred bytes,
// so this is the memory that an index may need.
const maxFields = 5_000_000

// Fields finds the fields of a file. A data variable needs horizontal coordinates
// (latitude and longitude, x and y of a projection, or a list of stations) and a
// time. Every slice of it over the two horizontal dimensions is a field.
//
// Errors: those of o.Values. Variables that cannot be used are returned as Unused.
// Cost: one call of o.Values for all coordinates, and one for each variable with a
// cyclic column; time and memory grow with the number of fields.
// Source: CF sections 4 (coordinate types) and 5 (coordinate systems).
func Fields(h *Header, o Options) (Content, error) {
	h, replaced := withUnits(h, o.Naming)
	r := reader{h: h, opt: o, coord: metadataVariables(h), values: map[int][]float64{}, listed: h.referenced("coordinates")}
	if err := r.readCoordinates(); err != nil {
		return Content{}, err
	}
	out := Content{Warnings: replaced}
	number := 0
	for i := range h.Vars {
		if r.coord[i] {
			continue
		}
		r.warnings, r.records = nil, nil
		got, reason := r.variableFields(i)
		if reason == "" && len(out.Fields)+len(got) > maxFields {
			reason = fmt.Sprintf("the file has more than %d fields", maxFields)
		}
		if reason != "" {
			number++
			out.Unused = append(out.Unused, Unused{number, h.Vars[i].Path(), reason})
			continue
		}
		for _, w := range r.warnings {
			out.Warnings = append(out.Warnings, "variable "+h.Vars[i].Path()+": "+w)
		}
		for _, u := range r.records {
			u.Number += number
			out.Unused = append(out.Unused, u)
			out.Warnings = append(out.Warnings, "variable "+u.Name+": "+u.Reason)
		}
		for k := range got {
			got[k].Number += number
		}
		number += r.slots
		out.Fields = append(out.Fields, got...)
	}
	out.UsedLead = r.usedLead
	return out, nil
}

// readCoordinates reads all variables that may be coordinates. Two-dimensional latitudes
// and longitudes are the largest. The limit of 2²⁶ values is half a gigabyte of float64.
func (r *reader) readCoordinates() error {
	var want []int
	var slabs []Slab
	for i := range r.h.Vars {
		// Grid mapping variables have no values. Larger variables are not
		// coordinates.
		v := &r.h.Vars[i]
		if r.coord[i] && v.Numeric() && r.h.size(i) > 0 && r.h.size(i) <= 1<<26 && v.Text("grid_mapping_name") == "" {
			want, slabs = append(want, i), append(slabs, r.h.Whole(i))
		}
	}
	if len(want) == 0 {
		return nil
	}
	values, err := r.opt.Values(slabs)
	if err != nil {
		return err
	}
	for k, i := range want {
		r.values[i] = values[k]
	}
	return nil
}

// Whole returns the slab of all values of variable i.
func (h *Header) Whole(i int) Slab {
	s := Slab{Var: i}
	for _, d := range h.Vars[i].Dims {
		s.Start, s.Count = append(s.Start, 0), append(s.Count, h.Dims[d].Len)
	}
	return s
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
	opt    Options
	coord  map[int]bool      // variables that are not data
	values map[int][]float64 // coordinate values, by position in Header.Vars
	listed map[int]bool      // variables that appear in the coordinates attribute of another variable

	warnings []string // of the current variable
	records  []Unused // records of the current variable without a time
	usedLead bool     // a variable needed Options.Lead
	// statistic is the cell method over time of the current variable.
	statistic string
	slots     int // indices of the current variable outside of the horizontal dimensions
}

// warn records a decision about the current variable, once.
func (r *reader) warn(format string, args ...any) {
	if w := fmt.Sprintf(format, args...); !slices.Contains(r.warnings, w) {
		r.warnings = append(r.warnings, w)
	}
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
	// reason is why the values cannot be used; "" if they can.
	reason string
}

// value returns the coordinate at an index along each dimension of the variable.
func (a *auxCoord) value(h *Header, place []int64) float64 { return a.values[a.offset(h, place)] }

// offset returns the position of that value in values.
func (a *auxCoord) offset(h *Header, place []int64) int64 {
	k := int64(0)
	for i, p := range a.axes {
		// C order of the coordinate's own dimensions.
		k = k*h.Dims[a.v.Dims[i]].Len + place[p]
	}
	return k
}

// auxiliaries returns the coordinates of variable i: coordinate variables of its
// dimensions, the variables in its coordinates attribute, and scalar coordinates of its
// group with a known role. It returns the reason why a listed one cannot be used. A
// variable that is found in two ways is returned once. Without the reason, a lost
// coordinate of time or member would silently give its fields a wrong key.
func (r *reader) auxiliaries(i int) (out []*auxCoord, reason string) {
	v := &r.h.Vars[i]
	seen := map[int]bool{i: true}
	add := func(k int) {
		if k < 0 || seen[k] {
			return
		}
		if a := r.coordinate(v, k); a != nil {
			seen[k], out = true, append(out, a)
		}
	}
	for _, d := range v.Dims {
		add(r.h.find(r.h.Dims[d].Name, v.Group))
	}
	// Auxiliary and scalar coordinates, CF sections 5.2 and 5.7.
	for _, n := range splitNames(v.Text("coordinates")) {
		k := r.h.find(n, v.Group)
		if add(k); k >= 0 && !seen[k] && keyRoles[roleOf(&r.h.Vars[k])] && r.values[k] != nil {
			return nil, fmt.Sprintf("its coordinate %q has a dimension that the variable lacks", n)
		}
		if k < 0 && keyRoles[rolesByName[strings.ToLower(n)]] {
			r.warn("its coordinate %q is not in the file", n)
		}
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
	return out, ""
}

// keyRoles are roles of coordinates that identify a field: without them, its time or
// member would be wrong.
var keyRoles = map[role]bool{roleTime: true, roleInit: true, roleLead: true, roleMember: true}

// coordinate returns variable k as a coordinate of v; nil if it has a dimension that v
// lacks, or no values. Texts are coordinates of members only, by position. The unit is
// converted here (definitions, column convert), and a unit that is not understood is
// kept as a.reason: it matters only if the coordinate is used.
func (r *reader) coordinate(v *Var, k int) *auxCoord {
	c := &r.h.Vars[k]
	a := &auxCoord{v: c, index: k, role: roleOf(c), values: r.values[k]}
	dims := c.Dims
	if !c.Numeric() && a.role == roleMember {
		if c.Type == "char" && len(dims) > 0 {
			dims = dims[:len(dims)-1] // the last dimension is that of the characters
		}
		if len(dims) != 1 {
			if slices.Contains(splitNames(v.Text("coordinates")), c.Name) || r.h.find(c.Name, v.Group) == k {
				r.warn("its member %q is a text, which is not read: give the member by filename_pattern", c.Name)
			}
			return nil
		}
		a.values = positions(r.h.Dims[dims[0]].Len)
	}
	if a.values == nil {
		return nil
	}
	for _, d := range dims {
		p := slices.Index(v.Dims, d)
		if p < 0 {
			return nil
		}
		a.axes = append(a.axes, p)
	}
	if !c.Numeric() {
		r.warn("members of %q are texts: they are numbered from 1 by position", c.Name)
	}
	if convert := definitions[a.role].convert; convert != nil && c.Numeric() {
		if values, reason := convert(c, a.values); reason != "" {
			a.reason = reason
		} else {
			a.values = values
		}
	}
	return a
}

// positions returns 1 … n.
func positions(n int64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(i + 1)
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

// coordOfRole returns the coordinate with a role. The one with the most dimensions has
// precedence. The first of equal ones stays; nil without any.
func coordOfRole(all []*auxCoord, want role) *auxCoord {
	var best *auxCoord
	for _, a := range all {
		if a.role == want && (best == nil || len(a.axes) > len(best.axes)) {
			best = a
		}
	}
	return best
}

// variableFields returns the fields of variable i, or the reason why it has none. The
// steps are those of CF: coordinates (section 5), grid (5.1, 5.2, 5.6), quantity (3),
// then one field for each index of the other dimensions.
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
	all, reason := r.auxiliaries(i)
	if reason != "" {
		return nil, reason
	}
	hor, reason := r.horizontal(v, all)
	if reason != "" {
		return nil, reason
	}
	// A coordinate that varies along horizontal dimensions, such as the altitude of
	// stations, is not a coordinate of whole fields.
	kept := all[:0:0]
	for _, a := range all {
		switch local := slices.ContainsFunc(a.axes, func(p int) bool { return slices.Contains(hor.dims, p) }); {
		case local && keyRoles[a.role]:
			return nil, fmt.Sprintf("its coordinate %q varies from point to point", a.v.Name)
		case !local:
			kept = append(kept, a)
		}
	}
	d, reason := describeVariable(v, r.axisRole(kept), r.opt.Naming)
	if reason != "" {
		return nil, reason
	}
	d.Grid = hor.grid
	for _, w := range slices.Concat(d.warnings, PackingOf(v).Warnings, unknownAttributes(v)) {
		r.warn("%s", w)
	}
	fields, reason := r.enumerateFields(i, kept, hor, d)
	if reason == "" && len(fields) > 0 && hor.cyclic >= 0 {
		r.compareCyclic(fields[0], hor.cyclic)
	}
	return fields, reason
}

// fieldCoords holds the coordinates of a variable outside of the horizontal ones.
type fieldCoords struct {
	time                     timeCoords
	member, level, statistic *auxCoord
	levels                   []ensemble.Level // of the values of level
	levelType                string
}

// has reports whether a is one of the coordinates.
func (c *fieldCoords) has(a *auxCoord) bool {
	return a == c.member || a == c.level || a == c.statistic || c.time.has(a)
}

// fieldCoords finds the coordinates that identify fields, or the reason why the variable
// has no fields. d is completed by the statistic. Every dimension has to be explained. A
// field under a wrong key would be worse than none, so an unknown dimension of more than
// one value gives a reason.
func (r *reader) fieldCoords(v *Var, all []*auxCoord, hor horizontalGrid, d *description) (c fieldCoords, reason string) {
	r.statistic = d.Statistic
	if c.time, reason = r.timeCoords(v, all); reason != "" {
		return c, reason
	}
	bounded := c.time.bounds != nil || c.time.leadBounds != nil || c.time.counted
	if d.Statistic == "" && bounded {
		known, _ := ensemble.VariableNamed(d.Key.Variable)
		d.Statistic = known.Period // bounds without cell_methods: a sum of precipitation has no other meaning
	}
	if d.Statistic == "" && bounded && v.Text("cell_methods") == "" && c.time.hasLength() {
		r.warn("its times have bounds and it has no cell_methods: its values are taken for those at its times; a statistic over the intervals has to be written (`ncatted -a cell_methods,%s,c,c,\"time: mean\" FILE`)", v.Name)
	}
	if d.Statistic != "" && !bounded {
		r.warn("its values are a %s over time, and its times have no bounds: they are taken for the end of an interval of unknown length", d.Statistic)
	}
	c.member, c.level = coordOfRole(all, roleMember), coordOfRole(all, roleLevel)
	// A threshold coordinate has precedence, since probability files may list
	// percentiles too.
	c.statistic = coordOfRole(all, roleQuantile)
	if t := coordOfRole(all, roleThreshold); t != nil {
		c.statistic = t
	}
	if c.statistic != nil && d.Key.Product == ensemble.MemberField {
		c.statistic.setStatistic(d, v)
	} else {
		c.statistic = nil
	}
	for _, a := range all {
		if a.role == roleOther && d.Key.Product == ensemble.MemberField {
			return c, fmt.Sprintf("its values are %ss, not members", strings.ToLower(a.v.Name))
		}
		if a.reason != "" && c.has(a) {
			return c, a.reason
		}
	}
	// Each further dimension must belong to time, level, member or a statistic, or
	// have length 1.
	for p, dim := range v.Dims {
		name := r.h.Dims[dim].Name
		understood := slices.ContainsFunc(all, func(a *auxCoord) bool { return slices.Contains(a.axes, p) && c.has(a) })
		switch of := rolesByName[strings.ToLower(name)]; {
		case understood || slices.Contains(hor.dims, p):
		case of == roleMember && c.member == nil:
			c.member = &auxCoord{v: &Var{Name: name, Dims: []int{dim}}, index: -1, role: roleMember, values: positions(r.h.Dims[dim].Len), axes: []int{p}}
			r.warn("its dimension %q has no coordinate: members are numbered from 1 by position", name)
		case keyRoles[of]:
			return c, fmt.Sprintf("its dimension %q has no coordinate", name)
		case r.h.Dims[dim].Len > 1:
			return c, fmt.Sprintf("its dimension %q is unknown", name)
		}
	}
	if c.member != nil && len(c.member.values) > 1 && len(c.member.axes) > 0 && (d.Key.Product == ensemble.EnsembleMean || d.Key.Product == ensemble.Spread) {
		return c, fmt.Sprintf("its cell_methods state a statistic over members, but it has the members %q", c.member.v.Name)
	}
	return c, r.readLevels(v, all, &c, d)
}

// readLevels converts the levels of a variable, with their bounds to layers, and
// compares them with the level in its name. It returns the reason why they cannot be
// used. A level in the name may differ from the coordinate by a factor of 2, as 2t at
// 1.5 m does.
func (r *reader) readLevels(v *Var, all []*auxCoord, c *fieldCoords, d *description) (reason string) {
	if c.level == nil {
		return ""
	}
	if d.stated != nil && d.stated.HasLevel && len(c.level.values) == 1 {
		if l, _, why := r.levelOf(c.level, c.level.values[0]); why != "" || l != d.stated.Level {
			r.warn("its coordinate %q is not used: its level is stated as %s", c.level.v.Name, d.stated.Level)
			c.level = nil
			return ""
		}
	}
	c.levels = make([]ensemble.Level, len(c.level.values))
	for k, x := range c.level.values {
		if c.levels[k], c.levelType, reason = r.levelOf(c.level, x); reason != "" {
			return reason
		}
		// Depth in the sea is not depth below land.
		if standard, _ := quantityOf(v); c.levels[k].Kind == ensemble.DepthBelowLand && (strings.Contains(standard, "sea_") || strings.Contains(standard, "ocean")) {
			c.levels[k] = ensemble.Level{Kind: ensemble.OtherLevel, Value: c.levels[k].Value}
		}
		l, named := c.levels[k], d.level
		if named == nil || l.Kind == ensemble.OtherLevel || l.Kind == named.Kind && l.Value >= named.Value/2 && l.Value <= named.Value*2 {
			continue
		}
		return fmt.Sprintf("its name states the level %s, and its coordinate %q %s", named, c.level.v.Name, l)
	}
	return r.readLayers(c, parseCellMethods(v.Text("cell_methods")).over(roleLevel, r.axisRole(all)))
}

// readLayers makes layers of levels with bounds. method is the cell method over
// levels.
//
// Bounds are two values for each level, in the order of the levels. Pressure levels of
// CMIP have bounds too and are no layers (cellsOfLevels), unless a method over levels
// states that the values are those of the layers.
//
// Source: CF section 7.1 (cell boundaries).
func (r *reader) readLayers(c *fieldCoords, method string) (reason string) {
	bounds := r.boundsOf(c.level)
	if bounds == nil {
		return ""
	}
	layers := make([]ensemble.Level, len(c.levels))
	for k, l := range c.levels {
		if l.Kind != ensemble.Pressure && l.Kind != ensemble.HeightAboveSoil && l.Kind != ensemble.DepthBelowLand {
			return ""
		}
		var ends [2]ensemble.Level
		for i := range ends {
			if ends[i], _, reason = r.levelOf(c.level, bounds[2*k+i]); reason != "" {
				return "bounds: " + reason
			}
		}
		layers[k] = ensemble.Layer(l.Kind, ends[0].Value, ends[1].Value)
	}
	if method == "" && cellsOfLevels(c.levels, layers) {
		r.warn("its pressure levels %q have bounds, which are ignored: its values are taken for those at the levels", c.level.v.Name)
		return ""
	}
	c.levels = layers
	return ""
}

// enumerateFields returns one field for each index outside of the horizontal
// dimensions. d holds what all fields have in common.
//
// Numbers count all indices, those of unwritten records too, so that variableSlabs of
// package fio computes a slab from a number.
func (r *reader) enumerateFields(i int, all []*auxCoord, hor horizontalGrid, d description) ([]Field, string) {
	v := &r.h.Vars[i]
	c, reason := r.fieldCoords(v, all, hor, &d)
	if reason != "" {
		return nil, reason
	}
	if known, ok := ensemble.VariableNamed(d.Key.Variable); ok && known.OnManyLevels() && c.level == nil && d.level == nil && d.stated == nil && d.Key.Product == ensemble.MemberField {
		r.warn("no level is stated, and it is listed at the surface; `names: {%s: %s@850hPa}` under `data:` states that it is at 850 hPa", v.Name, known.Name)
	}
	// place runs over all indices outside of the horizontal dimensions, the last
	// dimension fastest.
	place := make([]int64, len(v.Dims))
	start, count := make([]int64, len(v.Dims)), make([]int64, len(v.Dims))
	// The slab of a field covers the horizontal dimensions completely and one index
	// of all others.
	for p := range count {
		count[p] = 1
		if k := slices.Index(hor.dims, p); k >= 0 {
			count[p] = hor.lengths[k]
		}
	}
	if c.member != nil && len(c.member.axes) == 1 {
		d.Members = len(c.member.values)
	}
	var out []Field
	for r.slots = 1; ; r.slots++ {
		f := d.Field
		copy(start, place)
		f.Slab, f.Number = Slab{Var: i, Start: slices.Clone(start), Count: count}, r.slots
		reason, unwritten := r.keyAt(&f, &c, d.level, place)
		switch {
		case unwritten:
			r.addRecord(v, reason)
		case reason != "":
			return nil, reason
		default:
			out = append(out, f)
		}
		if r.slots > maxFields {
			return nil, fmt.Sprintf("it has more than %d fields", maxFields)
		}
		p := len(place) - 1
		for ; p >= 0; p-- {
			if slices.Contains(hor.dims, p) {
				continue
			}
			if place[p]++; place[p] < r.h.Dims[v.Dims[p]].Len {
				break
			}
			place[p] = 0
		}
		if p >= 0 {
			continue
		}
		if len(out) == 0 {
			return nil, r.records[0].Reason
		}
		return out, ""
	}
}

// addRecord adds a record of the current variable without a time, once.
func (r *reader) addRecord(v *Var, reason string) {
	if !slices.ContainsFunc(r.records, func(u Unused) bool { return u.Reason == reason }) {
		r.records = append(r.records, Unused{r.slots, v.Path(), reason})
	}
}

// setStatistic marks the fields of variable v as quantiles or probabilities along this
// coordinate. The quantity of a probability is that of its threshold (IMPROVER), the
// quantity of a quantile that of the variable.
func (a *auxCoord) setStatistic(d *description, v *Var) {
	if a.role == roleQuantile {
		d.Key.Product = ensemble.Quantile
		standard, _ := quantityOf(v)
		d.setName(strings.TrimSuffix(v.Name, "_quantile"), standard)
		return
	}
	d.Key.Product = ensemble.Probability
	d.Key.Event.Relation = relations[a.v.Text(relationAttribute)]
	d.EventUnit = a.v.Text("units")
	d.Key.Variable, d.level, _ = identify(eventVariable(v.Name), a.v.Text("standard_name"), d.EventUnit)
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
//
// Unit: a quantile probability in [0, 1]; limits of events in the unit of the threshold.
func (r *reader) statisticAt(f *Field, a *auxCoord, place []int64) string {
	x := a.value(r.h, place)
	if x != x {
		return "a value of " + a.v.Name + " is missing"
	}
	if a.role == roleQuantile {
		// Quantiles are stored as fractions or as per cent.
		if f.Key.QuantileProbability = x; unit.ToSI(a.v.Text("units"), "1").Scale == 0.01 {
			f.Key.QuantileProbability /= 100
		}
		if !(f.Key.QuantileProbability >= 0 && f.Key.QuantileProbability <= 1) {
			return fmt.Sprintf("quantile %v is not between 0 and 1", f.Key.QuantileProbability)
		}
		return ""
	}
	switch e := &f.Key.Event; e.Relation {
	case ensemble.Above, ensemble.AtLeast:
		e.Lower = x
	case ensemble.Below, ensemble.AtMost:
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
// why it cannot, and whether this is that the time was never written.
func (r *reader) keyAt(f *Field, c *fieldCoords, named *ensemble.Level, place []int64) (reason string, unwritten bool) {
	init, lead, interval, reason, unwritten := c.time.at(r.h, place, f.Statistic != "")
	if reason != "" {
		return reason, unwritten
	}
	f.Key.Init, f.Key.Lead = ensemble.InitAt(init), ensemble.Lead(lead)
	if f.Statistic != "" {
		f.Interval = ensemble.Lead(interval)
	}
	if c.member != nil && f.Key.Product == ensemble.MemberField {
		m := c.member.value(r.h, place)
		if m != math.Trunc(m) || m < 0 || m > 1e6 {
			return fmt.Sprintf("member number %v is not an integer from 0", m), false
		}
		f.Key.Member = ensemble.Member(m)
	}
	if c.level != nil {
		f.Key.Level, f.LevelType = c.levels[c.level.offset(r.h, place)], c.levelType
	} else if named != nil {
		f.Key.Level = *named
	}
	resolveByLevel(f)
	if v, ok := ensemble.VariableNamed(f.Key.Variable); ok && c.level != nil && len(c.level.axes) == 0 && (v.Level.Kind == ensemble.Surface || v.Level.Kind == ensemble.MeanSea) &&
		f.Key.Level.Kind == ensemble.HeightAboveSoil && f.Key.Level.Value <= 10 {
		r.warn("its height %q of %s is that of other variables: %s is at %s", c.level.v.Name, f.Key.Level, v.Name, v.Level)
		f.Key.Level = v.Level // a file of 2t and tp has one scalar height
	}
	if c.statistic != nil {
		return r.statisticAt(f, c.statistic, place), false
	}
	return "", false
}
