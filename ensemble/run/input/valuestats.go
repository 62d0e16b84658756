package input

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/fieldmath"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/io/unit"
)

// ValueStats accumulates statistics of every field that is read, from which faults of values are detected:
// counts, moments and a hash. Fields themselves are not kept.
//
// Memory: about 100 bytes per field.
type ValueStats struct {
	Entries []ensemble.Entry // fields that will be read
	Fields  []FieldStats     // [entry]

	// References: the fields are analyses or observations, whatever their keys. Some without any value
	// are no fault: their dates are left out.
	References bool
	// IgnoreEmpty leaves references without any value to the caller.
	IgnoreEmpty bool
}

// FieldStats are the statistics of one field, or of a rank's slab of it. The hash is 0 only if the field was not
// read.
type FieldStats struct{ fieldmath.Stats }

// NewValueStats returns empty statistics for fields that will be read.
func NewValueStats(entries []ensemble.Entry) *ValueStats {
	return &ValueStats{Entries: entries, Fields: make([]FieldStats, len(entries))}
}

// Add adds the values of field i.
func (c *ValueStats) Add(i int, values []float32) { c.Fields[i] = NewFieldStats(values) }

// NewFieldStats computes the statistics of one field.
func NewFieldStats(values []float32) FieldStats { return FieldStats{fieldmath.StatsOf(values)} }

// Join combines the statistics of slabs into those of complete fields, the same on all ranks.
func (c *ValueStats) Join(t *team.Team) error {
	all, err := team.AllGather(t.Comm, c.Fields)
	if err != nil {
		return err
	}
	for i := range c.Fields {
		f := FieldStats{fieldmath.Stats{Min: math.Inf(1), Max: math.Inf(-1)}}
		for _, of := range all { // statistics of each rank
			if o := of[i]; o.Hash != 0 {
				f.Merge(o.Stats)
			}
		}
		c.Fields[i] = f
	}
	return nil
}

// constant reports whether a field has the same value at all points.
func (t FieldStats) constant() bool { return t.Min == t.Max && t.Missing+t.Infinite == 0 }

// rms is the root mean square √(Σx²/n) of the n finite values; 0 without any.
func (t FieldStats) rms() float64 {
	return math.Sqrt(t.Squares / float64(max(t.Points-t.Missing-t.Infinite, 1)))
}

// deviation is the standard deviation √(Σx²/n − (Σx/n)²) of the n finite values.
func (t FieldStats) deviation() float64 {
	n := float64(max(t.Points-t.Missing-t.Infinite, 1))
	return math.Sqrt(max(t.Squares/n-t.Sum*t.Sum/n/n, 0))
}

// Faults returns the faults of the values, one per test and group of fields.
func (c *ValueStats) Faults() []Fault {
	return slices.Concat(c.notFinite(), c.implausible(), c.outliers(), c.sizeOutliers(), c.copies(), c.constants())
}

// FieldGroup identifies a group of fields that are tested together.
type FieldGroup struct {
	Variable string
	level    ensemble.Level
	Product  ensemble.Product
}

// group groups the fields that pick accepts by variable, level and product, in order.
func (c *ValueStats) group(pick func(e ensemble.Entry, t FieldStats) bool) (names []FieldGroup, fields map[FieldGroup][]int) {
	fields = map[FieldGroup][]int{}
	for i, t := range c.Fields {
		e := c.Entries[i]
		if t.Hash == 0 || !pick(e, t) {
			continue
		}
		k := FieldGroup{e.Variable, e.Level, e.Product}
		if fields[k] == nil {
			names = append(names, k)
		}
		fields[k] = append(fields[k], i)
	}
	for _, list := range fields {
		slices.SortFunc(list, func(a, b int) int { return c.Entries[a].Compare(c.Entries[b]) })
	}
	slices.SortFunc(names, func(a, b FieldGroup) int {
		return ensemble.Key{Variable: a.Variable, Level: a.level, Product: a.Product}.Compare(ensemble.Key{Variable: b.Variable, Level: b.level, Product: b.Product})
	})
	return names, fields
}

// groupFault completes a fault with the fields of a group.
func (c *ValueStats) groupFault(f Fault, fields []int) Fault {
	f.Fields = len(fields)
	return f.AtEntry(c.Entries[fields[0]])
}

// String describes the group: "t at 850hPa".
func (k FieldGroup) String() string {
	s := k.Variable + " at " + k.level.String()
	if k.Product != ensemble.MemberField {
		s = k.Product.String() + " of " + s
	}
	return s
}

// isReference reports whether a field is an analysis or an observation.
func (c *ValueStats) isReference(e ensemble.Entry) bool {
	return c.References || e.Member == ensemble.NoMember && e.Lead == 0 && e.Product == ensemble.MemberField
}

// Empty returns the fields without any value.
func (c *ValueStats) Empty() (out []ensemble.Entry) {
	for i, t := range c.Fields {
		if t.Hash != 0 && t.Missing == t.Points {
			out = append(out, c.Entries[i])
		}
	}
	return out
}

// emptyReferences finds references without any value among others of the same variable and level that
// have some: gaps of observations. It returns the groups of which all are empty as faults of notFinite.
func (c *ValueStats) emptyReferences() (gaps []Fault, isGap func(e ensemble.Entry) bool) {
	names, all := c.group(func(e ensemble.Entry, _ FieldStats) bool { return c.isReference(e) })
	gap := map[FieldGroup]bool{}
	for _, k := range names {
		var empty []int
		for _, i := range all[k] {
			if c.Fields[i].Missing == c.Fields[i].Points {
				empty = append(empty, i)
			}
		}
		if gap[k] = c.IgnoreEmpty || len(empty) < len(all[k]); gap[k] && len(empty) > 0 && !c.IgnoreEmpty {
			gaps = append(gaps, c.groupFault(EmptyFault(k, len(empty), len(all[k])), empty))
		}
	}
	return gaps, func(e ensemble.Entry) bool {
		return c.isReference(e) && gap[FieldGroup{e.Variable, e.Level, e.Product}]
	}
}

// EmptyFault returns the warning about references without any value, or the fault if all are such.
func EmptyFault(k FieldGroup, empty, all int) Fault {
	f := Fault{Kind: FaultNotFinite, What: fmt.Sprintf("%d of %s of %s without any value: their dates are left out", empty, humanise.Count(all, "field"), k)}
	if empty == all {
		f.Code, f.What = exit.BadData, fmt.Sprintf("fields without any value in %s of %s", humanise.Count(all, "field"), k)
		f.Why, f.Fix = "all values are missing: the fields were not written, or are masked completely", "transfer the files again, or give other analyses"
	}
	return f
}

// notFinite finds fields without values, infinite values and missing values.
func (c *ValueStats) notFinite() (faults []Fault) {
	faults, isGap := c.emptyReferences()
	for _, kind := range []struct {
		is   func(t FieldStats) bool
		code exit.Code
		what string
		why  func(t FieldStats) string
		fix  string
	}{
		{func(t FieldStats) bool { return t.Missing == t.Points }, exit.BadData, "fields without any value",
			func(FieldStats) string {
				return "all values are missing: the field was not written, or is masked completely"
			},
			"transfer the file again, or exclude the member or initialisation"},
		{func(t FieldStats) bool { return t.Infinite > 0 }, exit.BadData, "infinite values",
			func(t FieldStats) string {
				return fmt.Sprintf("%d of %d values of the first are infinite", t.Infinite, t.Points)
			},
			"transfer the file again, or exclude the member or initialisation"},
		{func(t FieldStats) bool { return t.Missing > 0 && t.Missing < t.Points }, exit.OK, "missing values",
			func(t FieldStats) string { return fmt.Sprintf("%d of %d values of the first", t.Missing, t.Points) }, ""},
	} {
		names, fields := c.group(func(e ensemble.Entry, t FieldStats) bool {
			v, _ := ensemble.VariableNamed(e.Variable)
			return kind.is(t) && !(t.Missing == t.Points && isGap(e)) && !(kind.code == exit.OK && v.IsMasked())
		})
		for _, k := range names {
			faults = append(faults, c.groupFault(Fault{Kind: FaultNotFinite, Code: kind.code, What: fmt.Sprintf("%s in %s of %s", kind.what, humanise.Count(len(fields[k]), "field"), k),
				Why: kind.why(c.Fields[fields[k][0]]), Fix: kind.fix}, fields[k]))
		}
	}
	return faults
}

// isImplausible reports whether a field has values outside the range of its variable.
func isImplausible(e ensemble.Entry, t FieldStats) bool {
	if t.Min > t.Max { // without a finite value
		return false
	}
	if e.Product == ensemble.Spread {
		return t.Min < 0
	}
	r, ok := plausibleRange(e)
	return ok && !(r.Contains(t.Min) && r.Contains(t.Max))
}

// plausibleRange returns the range of the values of a field; ok is false if none is known.
func plausibleRange(e ensemble.Entry) (r ensemble.Range, ok bool) {
	v, ok := ensemble.VariableNamed(e.Variable)
	if !ok || e.Unit != v.Unit || !e.Product.HasVariableUnit() {
		return r, false
	}
	return v.Plausible(e.Level)
}

// implausible finds values outside the range of a variable, and suggests the unit that they may have.
func (c *ValueStats) implausible() (faults []Fault) {
	names, fields := c.group(isImplausible)
	for _, k := range names {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, i := range fields[k] {
			lo, hi = min(lo, c.Fields[i].Min), max(hi, c.Fields[i].Max)
		}
		f := Fault{Kind: FaultImplausible, Code: exit.BadData, Fix: "transfer the file again, or correct its unit"}
		if k.Product == ensemble.Spread {
			f.What, f.Why = fmt.Sprintf("values of %s are below 0", k), fmt.Sprintf("the minimum is %.6g", lo)
			faults = append(faults, c.groupFault(f, fields[k]))
			continue
		}
		v, _ := ensemble.VariableNamed(k.Variable)
		r, _ := v.Plausible(k.level)
		f.What = fmt.Sprintf("values of %s are outside %.6g to %.6g %s", k, r.Min, r.Max, v.Unit)
		f.Why = fmt.Sprintf("the range is %.6g to %.6g", lo, hi)
		if m, ok := v.GuessUnit(k.level, lo, hi); ok {
			f.Why += fmt.Sprintf("; they look like %s", m.Unit)
			if first := c.Entries[fields[k][0]]; unit.Normalise(first.NativeUnit) == v.Unit && unit.ToSI(m.Unit, v.Unit).SI == v.Unit {
				f.Fix = NamingFix("units", first, m.Unit)
			}
		}
		faults = append(faults, c.groupFault(f, fields[k]))
	}
	return faults
}

// minPoints is the least number of points for tests that compare values over a field. At single points
// constant, jumping and repeated values are normal.
const minPoints = 16

// maxSizeRatio is the largest plausible ratio of a field's RMS to the median of its group, or the inverse: below the
// 1000 between grams and kilograms, above weather's variability.
const maxSizeRatio = 300

// sizeOutliers finds fields whose RMS differs from the median of their group by more than maxSizeRatio. For
// precipitation and unknown variables this is a warning: a dry day causes it too.
func (c *ValueStats) sizeOutliers() (faults []Fault) {
	names, fields := c.group(func(e ensemble.Entry, t FieldStats) bool {
		return t.Points >= minPoints && t.rms() > 0 && !isImplausible(e, t)
	})
	_, reported := c.absurd()
	for _, k := range names {
		fields[k] = slices.DeleteFunc(fields[k], func(i int) bool { return reported[i] })
		median := c.medianSize(fields[k])
		off := slices.DeleteFunc(slices.Clone(fields[k]), func(i int) bool {
			r := c.Fields[i].rms() / median
			return r < maxSizeRatio && r > 1.0/maxSizeRatio
		})
		if len(off) == 0 {
			continue
		}
		e := c.Entries[off[0]]
		f := Fault{Kind: FaultUnit, Code: exit.BadData, What: fmt.Sprintf("the size of %s jumps in %d of %d fields", k, len(off), len(fields[k])),
			Why: fmt.Sprintf("the RMS of the first is %.3g %s, the median RMS is %.3g: a unit may have changed", c.Fields[off[0]].rms(), e.Unit, median),
			Fix: "compare the units of the files; `ensemble inspect --stats` shows the values"}
		if v, ok := ensemble.VariableNamed(e.Variable); !ok || v.Period != "" || e.Statistic != "" {
			f.Code, f.Fix = exit.OK, ""
		}
		faults = append(faults, c.groupFault(f, off))
	}
	return faults
}

// medianSize is the median RMS of fields.
func (c *ValueStats) medianSize(fields []int) float64 {
	size := make([]float64, len(fields))
	for n, i := range fields {
		size[n] = c.Fields[i].rms()
	}
	slices.Sort(size)
	return size[len(size)/2]
}

// minSpreadRatio is the ratio of the group's median standard deviation to that of a field from which on the field
// counts as almost constant.
const minSpreadRatio = 100

// constants finds fields that are constant or almost constant.
func (c *ValueStats) constants() (faults []Fault) {
	names, fields := c.group(func(e ensemble.Entry, t FieldStats) bool {
		return t.Points >= minPoints && e.Product.HasVariableUnit() && t.Min <= t.Max
	})
	for _, k := range names {
		known, ok := ensemble.VariableNamed(k.Variable)
		var one, almost []int
		var deviations []float64
		for _, i := range fields[k] {
			deviations = append(deviations, c.Fields[i].deviation())
		}
		slices.Sort(deviations)
		least := deviations[len(deviations)/2] / minSpreadRatio
		for _, i := range fields[k] {
			switch t := c.Fields[i]; {
			case t.constant():
				one = append(one, i)
			case ok && known.Period == "" && t.deviation() < least:
				almost = append(almost, i)
			}
		}
		if one != nil && !(ok && known.Period != "" && c.Fields[one[0]].Max == 0) { // no precipitation is normal
			faults = append(faults, c.groupFault(Fault{Kind: FaultConstant, What: fmt.Sprintf("%s of %s with the same value at all points", humanise.Count(len(one), "field"), k),
				Why: fmt.Sprintf("every value of the first is %.6g", c.Fields[one[0]].Min)}, one))
		}
		if almost != nil {
			faults = append(faults, c.groupFault(Fault{Kind: FaultConstant, What: fmt.Sprintf("%s of %s almost constant", humanise.Count(len(almost), "field"), k),
				Why: fmt.Sprintf("the standard deviation over the points of the first is %.3g, the median is %.3g", c.Fields[almost[0]].deviation(), minSpreadRatio*least)}, almost))
		}
	}
	return faults
}

// minDryRatio is the ratio of the group's median RMS to that of a precipitation field from which on equal fields are
// not reported: a drop at the same point on two days.
const minDryRatio = 100

// showerSizes is the median RMS of each group of precipitation fields.
func (c *ValueStats) showerSizes() map[FieldGroup]float64 {
	names, fields := c.group(func(e ensemble.Entry, t FieldStats) bool {
		v, ok := ensemble.VariableNamed(e.Variable)
		return ok && v.Period != "" && t.rms() > 0
	})
	sizes := map[FieldGroup]float64{}
	for _, k := range names {
		sizes[k] = c.medianSize(fields[k])
	}
	return sizes
}

// copies finds fields with exactly the values of another member, initialisation or lead. Weather does not
// repeat bit by bit; a file that was transferred twice does.
func (c *ValueStats) copies() (faults []Fault) {
	type values struct {
		variable string
		level    ensemble.Level
		hash     uint64
	}
	same := map[values][]int{}
	var order []values
	members := map[ensemble.Key]int{} // number of fields per key without member
	showers := c.showerSizes()
	for i, t := range c.Fields {
		e := c.Entries[i]
		if t.Hash == 0 || e.Product != ensemble.MemberField || t.Points < minPoints || t.constant() || t.Missing == t.Points ||
			t.rms() < showers[FieldGroup{e.Variable, e.Level, e.Product}]/minDryRatio {
			continue
		}
		k := e.Key
		k.Member = ensemble.NoMember
		members[k]++
		v := values{e.Variable, e.Level, t.Hash}
		if len(same[v]) == 1 {
			order = append(order, v)
		}
		same[v] = append(same[v], i)
	}
	slices.SortFunc(order, func(a, b values) int { return c.Entries[same[a][0]].Compare(c.Entries[same[b][0]]) })
	found := map[string][]int{}
	by := map[string]Fault{}
	var texts []string
	for _, v := range order {
		list := same[v]
		slices.SortFunc(list, func(a, b int) int { return c.Entries[a].Compare(c.Entries[b]) })
		for _, f := range c.copyFaults(list, members) {
			if found[f.What] == nil {
				texts, by[f.What] = append(texts, f.What), f
			}
			found[f.What] = append(found[f.What], list[0])
		}
	}
	slices.Sort(texts)
	for _, text := range texts {
		f := c.groupFault(by[text], found[text])
		faults = append(faults, f)
	}
	return faults
}

// copyFaults returns the faults within fields of equal values. members counts the fields of each key without its
// member.
func (c *ValueStats) copyFaults(list []int, members map[ensemble.Key]int) (faults []Fault) {
	first := c.Entries[list[0]]
	known, ok := ensemble.VariableNamed(first.Variable)
	if ok && known.IsPrescribed() {
		return nil
	}
	evolves := ok && known.Evolves(first.Level) && first.Statistic == ""
	// Equal members of one initialisation and lead.
	alike := map[ensemble.Key][]ensemble.Member{}
	var keys []ensemble.Key
	for _, i := range list {
		k := c.Entries[i].Key
		k.Member = ensemble.NoMember
		if alike[k] == nil {
			keys = append(keys, k)
		}
		alike[k] = append(alike[k], c.Entries[i].Member)
	}
	for _, k := range keys {
		m := slices.Compact(alike[k])
		if m[0] == ensemble.NoMember { // the control may equal the analysis at lead 0
			m = m[1:]
		}
		if len(m) < 2 || !evolves && len(m) == members[k] {
			continue
		}
		faults = append(faults, Fault{Kind: FaultCopy, Code: exit.BadData, What: fmt.Sprintf("members %s of initialisation %s are copies of each other", ensemble.MemberRanges(m), k.Init),
			Why: "the values are equal bit by bit", Fix: "fetch the files of these members again, or exclude all but one of them"})
	}
	if !evolves {
		return faults
	}
	// One member at other initialisations or leads.
	for n, i := range list {
		a := c.Entries[i]
		for _, j := range list[n+1:] {
			b := c.Entries[j]
			if a.Member != b.Member || a.Valid() == b.Valid() || a.Init != b.Init && a.Lead != b.Lead {
				continue
			}
			what := fmt.Sprintf("initialisation %s of member %s has the values of initialisation %s", b.Init, b.Member, a.Init)
			if a.Init == b.Init {
				what = fmt.Sprintf("lead %s of member %s, initialisation %s, has the values of lead %s", b.Lead, b.Member, b.Init, a.Lead)
			}
			faults = append(faults, Fault{Kind: FaultCopy, Code: exit.BadData, What: strings.Replace(what, "of member "+ensemble.NoMember.String()+" ", "", 1),
				Why: "the values are equal bit by bit: an old file may have been renamed", Fix: "fetch the file of the later one again"})
			break
		}
	}
	return faults
}

// SortFaults sorts faults: those that end a job first, then by kind.
func SortFaults(faults []Fault) {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		warn := func(f Fault) int {
			if f.Code == exit.OK {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(warn(a), warn(b)), cmp.Compare(slices.Index(FaultKinds, a.Kind), slices.Index(FaultKinds, b.Kind)))
	})
}
