package input

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Limits of the distance of a value from the other fields of its group, in units of their range.
const (
	// outlierRatio is the limit unless most members at the same valid time confirm the value with a tenth
	// of its distance.
	outlierRatio = 30
	// absurdRatio is the limit of confirmed values, and of variables whose smallest value is 0. As with
	// precipitation, one day of these may exceed all others.
	absurdRatio = 1000
	// absurdAlone is the limit of variables whose smallest value is 0 with fewer than minTimes valid times.
	absurdAlone = 1e12
	minTimes    = 10
	// minGroup is the number of fields that have a range in common.
	minGroup = 3
)

// extremes are the values of a group of fields without a plausible range: medians of the fields' minima and maxima,
// and how far each field goes beyond.
type extremes struct {
	lo, hi float64
	beyond map[int]float64 // [field]
}

// extremesOf returns the extremes of fields with finite values.
func (c *ValueStats) extremesOf(fields []int) extremes {
	var lo, hi []float64
	for _, i := range fields {
		lo, hi = append(lo, c.Fields[i].Min), append(hi, c.Fields[i].Max)
	}
	x := extremes{quantileOf(lo, 0.5), quantileOf(hi, 0.5), map[int]float64{}}
	for _, i := range fields {
		x.beyond[i] = max(c.Fields[i].Max-x.hi, x.lo-c.Fields[i].Min, 0)
	}
	return x
}

// quantileOf returns the quantile of values, rounded down to one of them.
func quantileOf(x []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return s[int(q*float64(len(s)-1))]
}

// absurd finds fields of variables without a plausible range that have values far from all other fields of the
// group: other members, and other times. groups are the groups with such fields, in order; the fields of each are in
// found.
//
// The distance of a field is how far it goes beyond the medians of minima and maxima. Its unit is the larger of their
// difference and of three quarters of the distances, so that up to a quarter of the fields may be damaged. Of variables
// whose smallest value is 0 the unit is at least the third largest distance of any valid time.
func (c *ValueStats) absurd() (groups []FieldGroup, found map[int]bool) {
	found = map[int]bool{}
	names, fields := c.group(func(e ensemble.Entry, t FieldStats) bool {
		_, known := plausibleRange(e)
		return !known && e.Product.HasVariableUnit() && t.Min <= t.Max
	})
	for _, k := range names {
		list := fields[k]
		if len(list) < minGroup {
			continue
		}
		x := c.extremesOf(list)
		var distances []float64
		byTime := map[time.Time]float64{} // largest distance at a valid time
		least := math.Inf(1)
		for _, i := range list {
			distances = append(distances, x.beyond[i])
			valid := c.Entries[i].Valid().Time
			byTime[valid] = max(byTime[valid], x.beyond[i])
			least = min(least, c.Fields[i].Min)
		}
		unit, limit, alone := max(x.hi-x.lo, quantileOf(distances, 0.75)), float64(outlierRatio), false
		if alone = least == 0; alone {
			limit = absurdRatio
			if len(byTime) < minTimes {
				limit = absurdAlone
			} else {
				var times []float64
				for _, d := range byTime {
					times = append(times, d)
				}
				slices.Sort(times)
				unit = max(unit, times[len(times)-3])
			}
		}
		n := len(found)
		for _, i := range list {
			if r := x.beyond[i] / unit; unit > 0 && r > limit && (alone || r > absurdRatio || !c.isConfirmed(list, i, x)) {
				found[i] = true
			}
		}
		if len(found) > n {
			groups = append(groups, k)
		}
	}
	return groups, found
}

// isConfirmed reports whether at least half of the other members at the same valid time and lead go a tenth as far
// beyond the medians as field i.
func (c *ValueStats) isConfirmed(list []int, i int, x extremes) bool {
	others, confirm := 0, 0
	for _, j := range list {
		if a, b := c.Entries[i], c.Entries[j]; j != i && a.Init == b.Init && a.Lead == b.Lead {
			others++
			if x.beyond[j] >= x.beyond[i]/10 {
				confirm++
			}
		}
	}
	return others > 0 && 2*confirm >= others
}

// outliers finds absurd values of variables without a plausible range.
func (c *ValueStats) outliers() (faults []Fault) {
	groups, found := c.absurd()
	if groups == nil {
		return nil
	}
	_, fields := c.group(func(ensemble.Entry, FieldStats) bool { return true })
	for _, k := range groups {
		var off, others []int
		for _, i := range fields[k] {
			if found[i] {
				off = append(off, i)
			} else if c.Fields[i].Min <= c.Fields[i].Max {
				others = append(others, i)
			}
		}
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, i := range others {
			lo, hi = min(lo, c.Fields[i].Min), max(hi, c.Fields[i].Max)
		}
		worst := c.Fields[off[0]].Max
		if m := c.Fields[off[0]].Min; lo-m > worst-hi {
			worst = m
		}
		faults = append(faults, c.groupFault(Fault{Kind: FaultImplausible, Code: exit.BadData, What: fmt.Sprintf("values of %s are far from all others in %d of %d fields", k, len(off), len(fields[k])),
			Why: fmt.Sprintf("the first has %.6g; other members and times have %.6g to %.6g", worst, lo, hi),
			Fix: "correct these values or make them missing, or leave the member or initialisation out"}, off))
	}
	return faults
}
