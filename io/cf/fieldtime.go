package cf

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// timeCoords holds the time coordinates of a variable.
type timeCoords struct {
	valid, init, lead   *auxCoord
	validAxis, initAxis timeAxis
	leadUnit            time.Duration
	// bounds of valid and lead, in pairs; nil without bounds.
	bounds, leadBounds []float64
	// months reports leads in calendar months; with counted, their numbers count the
	// months from that of the initialisation, 1.
	months, counted bool
	// ignoredLead is a lead without a length; valid times have its information.
	ignoredLead *auxCoord
	// start is the initialisation that the file states in a global attribute; zero if
	// coordinates have the initialisation, or nothing has.
	start time.Time
	// stated is the lead that the user states, for a variable that has none; else nil.
	stated *ensemble.Lead
	// static reports a variable without a time.
	static bool
}

// has reports whether a is one of the time coordinates.
func (c timeCoords) has(a *auxCoord) bool {
	return a != nil && (a == c.valid || a == c.init || a == c.lead || a == c.ignoredLead)
}

// hasLength reports whether an interval between bounds has a length.
func (c timeCoords) hasLength() bool {
	for _, b := range [][]float64{c.bounds, c.leadBounds} {
		for k := 0; k+1 < len(b); k += 2 {
			if b[k] != b[k+1] {
				return true
			}
		}
	}
	return false
}

// timeCoords finds the time coordinates of a variable and parses their units, or
// returns the reason why its times are not known.
//
// Two of initialisation, lead and valid time define the third; a valid time alone is an
// analysis, or the forecast of a WRF file.
//
// Source: CF sections 4.4 (time coordinate) and 7.1 (cell boundaries).
func (r *reader) timeCoords(v *Var, all []*auxCoord) (c timeCoords, reason string) {
	if c.valid, c.init, reason = r.validAndInit(v, all); reason != "" {
		return c, reason
	}
	if c.lead, reason = r.chooseTime(v, all, roleLead); reason != "" {
		return c, reason
	}
	var err error
	if c.valid != nil {
		if c.valid.v.Text("climatology") != "" {
			return c, fmt.Sprintf("its times %q are those of a climatology", c.valid.v.Name)
		}
		if c.validAxis, err = r.axisOf(c.valid); err != nil {
			return c, err.Error()
		}
		c.bounds = r.boundsOf(c.valid)
	}
	if c.init != nil {
		if c.initAxis, err = r.axisOf(c.init); err != nil {
			return c, err.Error()
		}
	}
	if c.lead != nil {
		if reason := r.readLead(&c); reason != "" {
			return c, reason
		}
	}
	if reason := r.timeIsInit(&c); reason != "" {
		return c, reason
	}
	if c.months && c.init == nil {
		return c, fmt.Sprintf("its leads %q are months and it has no initialisation: %s", c.lead.v.Name, addValidTimes)
	}
	if c.counted && c.months && r.statistic == "" {
		return c, fmt.Sprintf("its leads %q count months, and it states no statistic over them: write it (`ncatted -a cell_methods,%s,c,c,\"time: mean\" FILE`)", c.lead.v.Name, v.Name)
	}
	if c.valid != nil && c.init == nil && c.lead == nil {
		if text := r.h.Attrs[startAttribute].Text; text != "" {
			if c.start, err = parseDate(strings.Replace(text, "_", " ", 1)); err != nil {
				return c, fmt.Sprintf("global attribute %s: %s", startAttribute, err)
			}
		}
	}
	r.stateLead(v, &c, all)
	if c.valid != nil || c.init != nil && (c.lead != nil || c.stated != nil) {
		return c, ""
	}
	return c, r.withoutTime(v, &c)
}

// stateLead takes the lead that is stated for a variable without one. It has either initialisations, or valid times of a
// forecast, which is in a file of forecasts or has members.
func (r *reader) stateLead(v *Var, c *timeCoords, all []*auxCoord) {
	hasMembers := coordOfRole(all, roleMember) != nil || slices.ContainsFunc(v.Dims, func(d int) bool { return rolesByName[strings.ToLower(r.h.Dims[d].Name)] == roleMember })
	switch {
	case c.lead != nil || c.ignoredLead != nil || !c.start.IsZero() || (c.init == nil) == (c.valid == nil):
	case c.init == nil && (!hasMembers && !r.opt.IsForecast || r.opt.Naming.Scope == ensemble.AnalysisFiles):
	case r.opt.Lead != nil:
		c.stated, r.usedLead = r.opt.Lead, true
		if c.init == nil {
			r.warn("its times %q are taken for valid times, %s after the initialisation, as stated for the file", c.valid.v.Name, *r.opt.Lead)
		}
	case c.init == nil && hasMembers && !isControl(all):
		r.warn("its times %q are taken for valid times, and it has no lead: it is read as a forecast of 0h; another one %s", c.valid.v.Name, statesLead)
	}
}

// isControl reports whether the only member is number 0, which reanalyses without members also state.
func isControl(all []*auxCoord) bool {
	member := coordOfRole(all, roleMember)
	return member != nil && len(member.values) == 1 && member.values[0] == 0
}

// statesLead names the key and the flag for a lead, which is an example.
const statesLead = "is stated by `file_leads: 24h` under `data:` of train.yaml, and by `--file-leads 24h` on the command line"

// startAttribute is the global attribute in which WRF states the initialisation.
const startAttribute = "SIMULATION_START_DATE"

// withoutTime returns the reason why a variable without valid times is not used. A
// variable without any time is static.
func (r *reader) withoutTime(v *Var, c *timeCoords) string {
	attribute := statesTime(v)
	switch {
	case c.init != nil:
		return fmt.Sprintf("it has no time: it has the initialisation %q and neither lead nor valid time; its lead %s", c.init.v.Name, statesLead)
	case c.lead != nil:
		return fmt.Sprintf("it has no time: it has the lead %q and neither initialisation nor valid time", c.lead.v.Name)
	case attribute != "":
		return fmt.Sprintf("it has no time: attribute %s states one, which is not read: add a coordinate", attribute)
	case !r.opt.Static:
		return "it has no time: a static field, which data.auxiliary and output.orography read"
	}
	c.static = true
	return ""
}

// axisOf parses the unit of a time coordinate. It also records whether the numbers are
// float32, of which hours since 1900 are precise to minutes only.
func (r *reader) axisOf(a *auxCoord) (timeAxis, error) {
	axis, err := parseTimeUnit(a.v.Text("units"), a.v.Text("calendar"))
	axis.single = a.v.Type == "float"
	return axis, err
}

// boundsOf returns the bounds of a coordinate, in pairs; nil without bounds. Bounds of
// another size than two for each value are ignored (CF section 7.1).
func (r *reader) boundsOf(a *auxCoord) []float64 {
	if b := r.h.find(a.v.Text("bounds"), a.v.Group); b >= 0 && len(r.values[b]) == 2*len(a.values) {
		return r.values[b]
	}
	return nil
}

// readLead reads the unit of the lead. A lead without a length is used only as an
// axis of valid times.
func (r *reader) readLead(c *timeCoords) string {
	unit, err := spanUnit(c.lead.v.Text("units"))
	if err == nil {
		c.leadUnit, c.leadBounds = unit, r.boundsOf(c.lead)
		return ""
	}
	name := c.lead.v.Name
	c.months, c.counted = leadMonths(c.lead.v)
	covers := c.valid != nil && c.init != nil && !slices.ContainsFunc(c.lead.axes, func(p int) bool { return !slices.Contains(c.valid.axes, p) })
	if covers {
		c.ignoredLead, c.lead, c.months = c.lead, nil, false
		return ""
	}
	if c.months {
		c.leadBounds = r.boundsOf(c.lead)
		r.warn("its leads %q are taken for calendar months", name)
		return ""
	}
	why := fmt.Sprintf("its leads %q cannot be used: %s", name, err)
	if c.lead.v.Text("units") == "" {
		return fmt.Sprintf("%s: write it (`ncatted -a units,%s,c,c,hours FILE`)", why, name)
	}
	return why + ": " + addValidTimes
}

// addValidTimes is the fix for leads whose valid time is not known.
const addValidTimes = `add valid times, a coordinate with standard_name "time"`

// monthUnits are units of calendar months.
var monthUnits = []string{"month", "months", "mon"}

// monthNumberNames are names of coordinates that count calendar months from 1, as the
// Copernicus Climate Data Store writes them.
var monthNumberNames = []string{"forecast_month", "forecastmonth", "leadtime_month"}

// leadMonths reports whether leads are calendar months, and whether they count them
// from 1. UDUNITS has months of a twelfth of a year, by which no forecast is made.
//
// Source: CF section 4.4: units of month and year are not recommended.
func leadMonths(v *Var) (months, counted bool) {
	unit := strings.ToLower(strings.TrimSpace(v.Text("units")))
	inMonths := slices.Contains(monthUnits, unit)
	counted = slices.Contains(monthNumberNames, strings.ToLower(v.Name)) && (inMonths || unit == "" || unit == "1")
	return inMonths || counted, counted
}

// monthsAfter returns the time a number of calendar months after an initialisation. Five
// centuries are the limit, which no forecast has.
//
// Errors: a number that is not whole; a day of the month that other months lack.
func monthsAfter(init time.Time, n float64) (time.Time, error) {
	switch {
	case n != n:
		return time.Time{}, errUnwritten
	case n != math.Trunc(n) || n < 0 || n > 12*500:
		return time.Time{}, fmt.Errorf("lead %v is not a number of calendar months: %s", n, addValidTimes)
	case init.Day() > 28:
		return time.Time{}, fmt.Errorf("its initialisation %s has no such day in other months: %s", init.Format(time.DateOnly), addValidTimes)
	}
	return init.AddDate(0, int(n), 0), nil
}

// monthLead returns lead and interval of calendar months at an index. The lead is the
// end of the last month and the interval is from the begin of the first, so they depend
// on the initialisation: February has 28 or 29 days.
//
// Errors: those of monthsAfter; counted months of an initialisation that is not the
// first of a month at 0 UTC.
func (c timeCoords) monthLead(h *Header, place []int64, init time.Time, statistic bool) (lead, interval time.Duration, err error) {
	last := c.lead.value(h, place)
	first := last
	switch k := c.lead.offset(h, place); {
	case c.counted && (init.Day() != 1 || init.Hour() != 0):
		return 0, 0, fmt.Errorf("its months %q begin with that of the initialisation, which is %s: %s", c.lead.v.Name, init.Format(time.RFC3339), addValidTimes)
	case c.counted:
		first = last - 1
	case c.leadBounds != nil && statistic:
		first, last = min(c.leadBounds[2*k], c.leadBounds[2*k+1]), max(c.leadBounds[2*k], c.leadBounds[2*k+1])
	}
	end, err := monthsAfter(init, last)
	if err != nil {
		return 0, 0, err
	}
	begin, err := monthsAfter(init, first)
	return end.Sub(init), end.Sub(begin), err
}

// validAndInit chooses the coordinates of valid time and initialisation. Each is nil if
// the variable lacks it.
func (r *reader) validAndInit(v *Var, all []*auxCoord) (valid, init *auxCoord, reason string) {
	if init, reason = r.chooseTime(v, all, roleInit); reason != "" {
		return nil, nil, reason
	}
	times := ofRole(all, roleTime)
	// Of two times without an initialisation, the one named valid_time is valid, and
	// so is the one along more dimensions. The other is the initialisation.
	if init == nil && len(times) == 2 && times[0].v.Text("standard_name") == times[1].v.Text("standard_name") {
		for k, a := range times {
			b := times[1-k]
			extends := len(a.axes) > len(b.axes) && len(b.axes) > 0 && !slices.ContainsFunc(b.axes, func(p int) bool { return !slices.Contains(a.axes, p) })
			if (isValidTime(a) || extends) && !isValidTime(b) && !sameCoordinate(a, b) {
				return a, b, ""
			}
		}
	}
	valid, reason = r.chooseTime(v, all, roleTime)
	return valid, init, reason
}

// isValidTime reports whether the name of a coordinate states a valid time.
func isValidTime(a *auxCoord) bool {
	name := strings.ToLower(a.v.Name)
	return name == "valid_time" || name == "validtime"
}

// ofRole returns the coordinates with a role.
func ofRole(all []*auxCoord, want role) (out []*auxCoord) {
	for _, a := range all {
		if a.role == want {
			out = append(out, a)
		}
	}
	return out
}

// sameCoordinate reports whether two coordinates have the same values along the same
// dimensions.
func sameCoordinate(a, b *auxCoord) bool {
	return slices.Equal(a.axes, b.axes) && slices.Equal(a.values, b.values) && a.v.Text("units") == b.v.Text("units")
}

// chooseTime returns the coordinate with a role. Of several that differ, it is the
// one with the standard name of the role, or else the only one that is a coordinate
// variable or listed. It returns a reason if neither decides.
func (r *reader) chooseTime(v *Var, all []*auxCoord, want role) (*auxCoord, string) {
	found := ofRole(all, want)
	listed := splitNames(v.Text("coordinates"))
	for _, rule := range []func(a *auxCoord) bool{
		func(a *auxCoord) bool { return rolesByStandardName[a.v.Text("standard_name")] == want },
		func(a *auxCoord) bool { return r.isCoordinateVariable(a) || slices.Contains(listed, a.v.Name) },
		isValidTime,
	} {
		if n := len(slices.DeleteFunc(slices.Clone(found), func(a *auxCoord) bool { return !rule(a) })); len(found) > 1 && n > 0 {
			found = slices.DeleteFunc(found, func(a *auxCoord) bool { return !rule(a) })
		}
	}
	for len(found) > 1 && sameCoordinate(found[0], found[1]) {
		found = slices.Delete(found, 1, 2)
	}
	switch len(found) {
	case 0:
		return nil, ""
	case 1:
		return found[0], ""
	}
	a, b := found[0].v.Name, found[1].v.Name
	return nil, fmt.Sprintf("it has two times, %q and %q: write into one which it is (`ncatted -a standard_name,%s,o,c,forecast_reference_time FILE`, or time, or forecast_period)", a, b, b)
}

// timeIsInit decides whether "time" is the initialisation, to which leads are added,
// where the file has no other initialisation. WeatherBench does so with
// prediction_timedelta, and so do files whose leads have a dimension of their own. In
// CF the forecast_period always ends at the time. It returns a reason if nothing
// decides.
func (r *reader) timeIsInit(c *timeCoords) string {
	if c.init != nil || c.valid == nil || c.lead == nil {
		return ""
	}
	toInit := func() {
		c.init, c.initAxis, c.valid, c.bounds = c.valid, c.validAxis, nil, nil
	}
	standard := c.lead.v.Text("standard_name") == "forecast_period"
	shared := slices.ContainsFunc(c.lead.axes, func(p int) bool { return slices.Contains(c.valid.axes, p) })
	switch {
	case c.lead.v.Name == "prediction_timedelta":
		toInit()
	// An initialisation has no interval, and no lead along its own dimension.
	case standard, c.bounds != nil, isValidTime(c.valid), shared:
	case len(c.lead.axes) > 0:
		if c.valid.v.Text("standard_name") == "time" {
			r.warn("its %q is taken for the initialisation, because its leads %q have a dimension of their own", c.valid.v.Name, c.lead.v.Name)
		}
		toInit()
	case c.valid.v.Text("standard_name") == "time", c.lead.values[0] == 0:
	default:
		name := c.valid.v.Name
		return fmt.Sprintf("its %q can be the initialisation or the valid time of the lead %q: write it (`ncatted -a standard_name,%s,o,c,forecast_reference_time FILE`, or time)", name, c.lead.v.Name, name)
	}
	return ""
}

// at returns initialisation, lead and interval at an index. With interval, the field
// is a statistic over the bounds of the time, and valid time and lead are the end of
// the interval. reason is not empty for times out of range, for initialisation, lead
// and valid time that contradict each other by more than a minute, and, with
// unwritten, for a time that is a fill value.
func (c timeCoords) at(h *Header, place []int64, statistic bool) (init time.Time, lead, interval time.Duration, reason string, unwritten bool) {
	if c.static {
		return
	}
	var from *auxCoord
	fail := func(err error) (time.Time, time.Duration, time.Duration, string, bool) {
		if errors.Is(err, errUnwritten) {
			return init, 0, 0, from.unwritten(place), true
		}
		return init, 0, 0, err.Error(), false
	}
	var valid time.Time
	var shift time.Duration // from the time to the end of the interval
	var err error
	if from = c.valid; from != nil {
		if valid, err = c.validAxis.at(from.value(h, place)); err != nil {
			return fail(err)
		}
		if c.bounds != nil && statistic {
			k := from.offset(h, place)
			low, err := c.validAxis.at(c.bounds[2*k])
			if err != nil {
				return fail(err)
			}
			high, err := c.validAxis.at(c.bounds[2*k+1])
			if err != nil {
				return fail(err)
			}
			if high.Before(low) {
				low, high = high, low
			}
			interval, shift, valid = high.Sub(low), high.Sub(valid), high
		}
	}
	if c.stated != nil {
		lead = time.Duration(*c.stated)
	}
	if from = c.lead; from != nil && !c.months {
		if lead, err = spanAt(from.value(h, place), c.leadUnit, from.v.Type == "float"); err != nil {
			return fail(err)
		}
		if c.leadBounds == nil || !statistic {
			lead += shift
		} else {
			k := from.offset(h, place)
			low, err := spanAt(c.leadBounds[2*k], c.leadUnit, from.v.Type == "float")
			if err != nil {
				return fail(err)
			}
			high, err := spanAt(c.leadBounds[2*k+1], c.leadUnit, from.v.Type == "float")
			if err != nil {
				return fail(err)
			}
			if lead = max(low, high); interval == 0 {
				interval = (high - low).Abs()
			}
		}
	}
	if from = c.init; from != nil {
		if init, err = c.initAxis.at(from.value(h, place)); err != nil {
			return fail(err)
		}
	}
	if from = c.lead; c.months {
		if lead, interval, err = c.monthLead(h, place, init, statistic); err != nil {
			return fail(err)
		}
	}
	return c.combine(init, valid, lead, interval)
}

// combine completes initialisation and lead from what a file has. A file with the valid
// time only has analyses, whose lead is 0.
func (c timeCoords) combine(init, valid time.Time, lead, interval time.Duration) (time.Time, time.Duration, time.Duration, string, bool) {
	switch {
	case c.init != nil && c.valid != nil:
		// With initialisation and valid time, the lead is their difference. An
		// additional lead coordinate must agree.
		between := valid.Sub(init)
		if c.lead != nil && (between-lead).Abs() > time.Minute {
			return init, lead, interval, fmt.Sprintf("its times contradict each other: init %s, lead %s, valid time %s", init.Format(time.RFC3339), lead, valid.Format(time.RFC3339)), false
		}
		lead = between
	case c.init != nil:
	case c.lead != nil, c.stated != nil:
		init = valid.Add(-lead)
	case !c.start.IsZero():
		init, lead = c.start, valid.Sub(c.start)
	default:
		init = valid // analysis
	}
	return init, lead, interval, "", false
}

// unwritten returns the reason why a field at an index has no time.
func (a *auxCoord) unwritten(place []int64) string {
	if len(a.axes) == 0 {
		return fmt.Sprintf("its time %q was never written", a.v.Name)
	}
	var record []string
	for _, p := range a.axes {
		record = append(record, fmt.Sprint(place[p]+1))
	}
	return fmt.Sprintf("record %s of %q has no time: it was never written", strings.Join(record, ", "), a.v.Name)
}
