package grib

import (
	"fmt"
	"math"
	"time"
)

// timeUnit is a unit of time: a fixed length, or a number of calendar months.
type timeUnit struct {
	length time.Duration
	months int
}

// commonTimeUnits lists the codes that mean the same in both editions.
var commonTimeUnits = map[int]timeUnit{
	0: {length: time.Minute}, 1: {length: time.Hour}, 2: {length: 24 * time.Hour},
	3: {months: 1}, 4: {months: 12}, 5: {months: 120}, 6: {months: 360}, 7: {months: 1200},
	10: {length: 3 * time.Hour}, 11: {length: 6 * time.Hour}, 12: {length: 12 * time.Hour},
}

// timeUnitsOf lists the codes that one edition defines alone. Code 13 has another
// meaning in each edition.
//
// Source: FM 92 GRIB1, code table 4; FM 92 GRIB2, code table 4.4.
var timeUnitsOf = map[int]map[int]timeUnit{
	1: {13: {length: 15 * time.Minute}, 14: {length: 30 * time.Minute}, 254: {length: time.Second}},
	2: {13: {length: time.Second}},
}

// timeUnitOf returns the unit of a code in an edition.
func timeUnitOf(edition, code int) (u timeUnit, ok bool) {
	if u, ok = timeUnitsOf[edition][code]; !ok {
		u, ok = commonTimeUnits[code]
	}
	return u, ok
}

// timeUnitTable names the code table of the units of time of an edition.
func timeUnitTable(edition int) string {
	if edition == 1 {
		return "code table 4 of edition 1"
	}
	return "code table 4.4 of edition 2"
}

// addSpan returns from plus n units of time. Months and years follow the calendar.
// reason states why the result is undefined: the edition has no such unit, the
// month has no such day, or the result is too far away.
func addSpan(from time.Time, n int64, edition, code int) (to time.Time, reason string) {
	if n == 0 {
		return from, ""
	}
	u, ok := timeUnitOf(edition, code)
	if !ok {
		return from, undefinedUnit(edition, code)
	}
	per := max(int64(u.length), int64(u.months))
	if n > math.MaxInt64/2/per || n < -math.MaxInt64/2/per {
		return from, fmt.Sprintf("a forecast step of %d in unit %d of %s is too long", n, code, timeUnitTable(edition))
	}
	if u.months == 0 {
		return from.Add(time.Duration(n) * u.length), ""
	}
	months := int64(u.months) * n
	if limit := int64(12 * 290); months > limit || months < -limit { // a Duration holds 292 years
		return from, fmt.Sprintf("a forecast step of %d in unit %d of %s is too long", n, code, timeUnitTable(edition))
	}
	to = from.AddDate(0, int(months), 0)
	if to.Day() != from.Day() {
		return from, fmt.Sprintf("the forecast step is %d months from %s, and that month has no day %d", months, from.Format(time.DateOnly), from.Day())
	}
	return to, ""
}

// undefinedUnit is the reason for refusing a unit that the edition does not define.
func undefinedUnit(edition, code int) string {
	return fmt.Sprintf("the forecast step is in unit %d, which %s does not define", code, timeUnitTable(edition))
}

// DecoderStep returns the reason why the step of ecCodes is not usable in a unit of
// time: ecCodes counts months as 30 days, and accepts undefined units. It is ""
// for other units.
func DecoderStep(edition, code int) string {
	switch u, ok := timeUnitOf(edition, code); {
	case !ok:
		return undefinedUnit(edition, code)
	case u.months > 0:
		return fmt.Sprintf("the forecast step is in months, unit %d of %s, in a product definition template that is not supported", code, timeUnitTable(edition))
	}
	return ""
}
