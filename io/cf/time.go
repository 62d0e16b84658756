package cf

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// timeUnits gives the length of CF units of time by their UDUNITS names. Months and
// years have no fixed length; CF advises against them, and they are rejected.
//
// Source: CF section 4.4.
var timeUnits = map[string]time.Duration{
	"seconds": time.Second, "second": time.Second, "sec": time.Second, "secs": time.Second, "s": time.Second,
	"minutes": time.Minute, "minute": time.Minute, "min": time.Minute, "mins": time.Minute,
	"hours": time.Hour, "hour": time.Hour, "hr": time.Hour, "hrs": time.Hour, "h": time.Hour,
	"days": 24 * time.Hour, "day": 24 * time.Hour, "d": 24 * time.Hour, "weeks": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour,
	"milliseconds": time.Millisecond, "millisecond": time.Millisecond, "msec": time.Millisecond, "microseconds": time.Microsecond, "nanoseconds": time.Nanosecond,
}

// timeAxis converts numbers of a time coordinate to times.
type timeAxis struct {
	unit   time.Duration
	origin time.Time
	// single reports numbers that are stored as float32.
	single bool
}

// calendars lists the calendars that match Go's for dates of weather forecasts. The
// standard calendar is Julian before 15 October 1582, which matters for reference
// times such as year 1.
//
// Source: CF section 4.4.1.
var calendars = map[string]bool{"": true, "standard": true, "gregorian": true, "proleptic_gregorian": true}

// gregorianStart is the first day of the Gregorian calendar.
var gregorianStart = time.Date(1582, 10, 15, 0, 0, 0, 0, time.UTC)

// parseTimeUnit parses a unit such as "hours since 1900-01-01 00:00:00.0" in a
// calendar.
//
// Errors: an unknown unit or date; a calendar of model years (360_day, noleap and
// others).
// Source: CF section 4.4.
func parseTimeUnit(unit, calendar string) (timeAxis, error) {
	if !calendars[strings.ToLower(calendar)] {
		return timeAxis{}, fmt.Errorf("calendar %q is not supported: it has dates that do not exist", calendar)
	}
	name, since, ok := cutSince(unit)
	if !ok {
		return timeAxis{}, fmt.Errorf("unknown unit of time %q", unit)
	}
	u, err := spanUnit(name)
	if err != nil {
		return timeAxis{}, fmt.Errorf("unit of time %q: %w", unit, err)
	}
	origin, err := parseDate(strings.TrimSpace(since))
	if err != nil {
		return timeAxis{}, fmt.Errorf("unit of time %q: %w", unit, err)
	}
	// The standard calendar is mixed: earlier dates are Julian.
	if strings.ToLower(calendar) != "proleptic_gregorian" && origin.Before(gregorianStart) {
		origin = fromJulian(origin)
	}
	return timeAxis{unit: u, origin: origin}, nil
}

// sinceWords are the words of UDUNITS between unit and reference time.
var sinceWords = []string{" since ", " after ", " from ", " ref ", " @ "}

// cutSince splits a unit such as "hours since 1900-01-01".
func cutSince(unit string) (name, since string, ok bool) {
	lower := strings.ToLower(unit)
	for _, w := range sinceWords {
		if i := strings.Index(lower, w); i > 0 {
			return strings.TrimSpace(unit[:i]), unit[i+len(w):], true
		}
	}
	return "", "", false
}

// isTimeUnit reports whether a unit is a time since a reference (CF section 4.4).
func isTimeUnit(unit string) bool {
	_, _, ok := cutSince(unit)
	return ok
}

// calendarUnits are units of time that have no fixed length.
var calendarUnits = []string{"month", "months", "mon", "year", "years", "yr", "common_year", "common_years"}

// spanUnit returns the length of a unit of time, which may be scaled: "6 hours".
//
// Errors: no unit; months and years; a name that is no time.
func spanUnit(unit string) (time.Duration, error) {
	factor, name := factorUnit(unit)
	name = strings.ToLower(name)
	switch {
	case name == "":
		return 0, fmt.Errorf("it has no unit")
	case slices.Contains(calendarUnits, name):
		return 0, fmt.Errorf("%s have no fixed length", name)
	}
	d := time.Duration(factor * float64(timeUnits[name]))
	if d <= 0 {
		return 0, fmt.Errorf("unknown unit of time %q", unit)
	}
	return d, nil
}

// fromJulian returns the time whose date in the Julian calendar is that of t.
//
// Source: Richards, Calendars, in Explanatory Supplement to the Astronomical
// Almanac, 3rd ed., section 15.11.3; Julian day 2440588 is 1 January 1970.
func fromJulian(t time.Time) time.Time {
	// The year begins in March, so that the leap day is the last day.
	a := (14 - int(t.Month())) / 12
	y, m := t.Year()+4800-a, int(t.Month())+12*a-3
	day := t.Day() + (153*m+2)/5 + 365*y + y/4 - 32083
	clock := t.Sub(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC))
	return time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, day-2440588).Add(clock)
}

// dateTime matches the T between date and time of day, which is not that of UTC.
var dateTime = regexp.MustCompile(`([0-9])[Tt]([0-9])`)

// parseDate parses the reference time of a unit: year-month-day, optionally followed by
// a time of day and a time zone, separated by blanks or T. The result is in UTC. Leap
// seconds and the hour 24 are rejected. The year is taken as it is: "90-1-1" is in the
// year 90.
//
// Source: UDUNITS-2 manual, section "Unit Grammar", Timestamp; CF section 4.4.
func parseDate(s string) (time.Time, error) {
	bad := func() (time.Time, error) { return time.Time{}, fmt.Errorf("invalid date %q", s) }
	parts := strings.Fields(dateTime.ReplaceAllString(s, "$1 $2"))
	if len(parts) == 0 || len(parts) > 3 {
		return bad()
	}
	date := strings.Split(parts[0], "-")
	if len(date) != 3 {
		return bad()
	}
	var n [6]int
	for i, p := range date {
		v, err := strconv.Atoi(p)
		if err != nil {
			return bad()
		}
		n[i] = v
	}
	// A date may be followed by a time zone only.
	if len(parts) == 2 && isZoneName(parts[1]) {
		parts = parts[:1]
	}
	offset := time.Duration(0)
	nanos := 0
	if len(parts) > 1 {
		clock := parts[1]
		zone := ""
		if i := strings.IndexAny(clock, "UGZz+-"); i >= 0 {
			clock, zone = clock[:i], clock[i:]
		}
		if len(parts) == 3 {
			zone = parts[2]
		}
		for i, p := range strings.Split(clock, ":") {
			if i > 2 {
				return bad()
			}
			v, err := strconv.ParseFloat(p, 64)
			if err != nil || v < 0 || i < 2 && v != math.Trunc(v) {
				return bad()
			}
			n[3+i] = int(v)
			if i == 2 {
				nanos = int(math.Round((v - math.Trunc(v)) * 1e9))
			}
		}
		var err error
		if offset, err = parseZone(zone); err != nil {
			return bad()
		}
	}
	t := time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], nanos, time.UTC)
	// time.Date normalises invalid dates such as 30 February instead of rejecting
	// them.
	if t.Year() != n[0] || int(t.Month()) != n[1] || t.Day() != n[2] || n[3] > 23 || n[4] > 59 || n[5] > 59 {
		return bad()
	}
	return t.Add(-offset), nil
}

// isZoneName reports whether s is a name of UTC.
func isZoneName(s string) bool {
	return slices.Contains([]string{"Z", "UTC", "GMT"}, strings.ToUpper(s))
}

// parseZone parses a time zone: "", "Z", "UTC", "+01:00", "-0330" or "1". The result is
// what local time is ahead of UTC; at most 14 hours, the zone of Kiribati.
func parseZone(s string) (time.Duration, error) {
	if s == "" || isZoneName(s) {
		return 0, nil
	}
	sign := time.Duration(1)
	switch s[0] {
	case '-':
		sign, s = -1, s[1:]
	case '+':
		s = s[1:]
	}
	h, m, colon := strings.Cut(s, ":")
	if !colon && len(s) == 4 {
		h, m = s[:2], s[2:]
	}
	hours, err := strconv.Atoi(h)
	if err != nil || hours > 14 {
		return 0, fmt.Errorf("invalid time zone %q", s)
	}
	minutes := 0
	if m != "" {
		if minutes, err = strconv.Atoi(m); err != nil || minutes > 59 {
			return 0, fmt.Errorf("invalid time zone %q", s)
		}
	}
	return sign * (time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute), nil
}

// maxSpan bounds durations to the range of time.Duration, about 146 years.
const maxSpan = float64(1 << 62)

// errUnwritten reports a time that was never written: NaN, which is the fill value.
var errUnwritten = errors.New("no time")

// at returns the time of a number, rounded to what its type can represent.
//
// Errors: errUnwritten for NaN; a time out of range, or stored too coarsely.
func (a timeAxis) at(v float64) (time.Time, error) {
	switch {
	case v != v:
		return time.Time{}, errUnwritten
	case math.Abs(v)*a.unit.Hours() > 24*366*3000:
		return time.Time{}, fmt.Errorf("time %v is out of range", v)
	}
	whole, frac := math.Modf(v)
	// Days and the remainder are added separately, since centuries overflow a
	// Duration.
	days := whole * (a.unit.Hours() / 24)
	d := math.Floor(days)
	rest := time.Duration((whole - d*24/a.unit.Hours()) * float64(a.unit))
	t := a.origin.AddDate(0, 0, int(d)).Add(rest).Add(time.Duration(frac * float64(a.unit)))
	tolerance, err := precision(v, a.unit, a.single)
	if err != nil {
		return time.Time{}, err
	}
	for _, step := range roundTimes {
		if r := t.Round(step); r.Sub(t).Abs() <= tolerance {
			return r, nil
		}
	}
	return t.Round(time.Microsecond), nil
}

// roundTimes are the times to which imprecise ones are rounded, the coarsest first.
var roundTimes = []time.Duration{time.Hour, time.Minute, time.Second}

// maxImprecision is the largest rounding error of a stored time. Above it, times of
// hourly data would be ambiguous.
const maxImprecision = 15 * time.Minute

// precision returns the rounding error of a stored time or duration. Doubles may be
// sums of rounded numbers: two units in the last place, for example 20 microseconds
// of days since year 1. Numbers of float32 were rounded once: half a unit.
//
// Errors: a number of float32 that is not whole and has more than maxImprecision.
func precision(v float64, unit time.Duration, single bool) (time.Duration, error) {
	x := math.Abs(v)
	t := time.Duration(2 * (math.Nextafter(x, math.Inf(1)) - x) * float64(unit))
	if single {
		x := float32(x)
		t = time.Duration(0.51 * float64(math.Nextafter32(x, float32(math.Inf(1)))-x) * float64(unit))
	}
	if t > maxImprecision {
		if v != math.Trunc(v) {
			return 0, fmt.Errorf("time %v of type float is precise to %s only", v, t.Round(time.Minute))
		}
		return 0, nil
	}
	return max(t, time.Microsecond), nil
}

// spanAt converts a number with the length of its unit to a duration, rounded to
// what its type can represent.
//
// Errors: errUnwritten for NaN; a duration out of range, or stored too coarsely.
func spanAt(v float64, unit time.Duration, single bool) (time.Duration, error) {
	switch {
	case v != v:
		return 0, errUnwritten
	case math.Abs(v)*float64(unit) > maxSpan:
		return 0, fmt.Errorf("forecast period %v is out of range", v)
	}
	d := time.Duration(v * float64(unit))
	tolerance, err := precision(v, unit, single)
	if err != nil {
		return 0, err
	}
	for _, step := range roundTimes {
		if r := d.Round(step); (r - d).Abs() <= tolerance {
			return r, nil
		}
	}
	return d.Round(time.Microsecond), nil
}
