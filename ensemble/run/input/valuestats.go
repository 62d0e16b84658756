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
)

// ValueStats keeps of every field that is read what tells faults of its values: counts,
// moments and a hash, not the field.
type ValueStats struct {
	Entries []ensemble.Entry
	Fields  []FieldStats // [entry]
}

// FieldStats is what is kept of one field, or of the part of it that a rank has. Its hash is 0
// only for a field that was not read.
type FieldStats struct{ fieldmath.Stats }

// NewValueStats is one of fields that will be read.
func NewValueStats(entries []ensemble.Entry) *ValueStats {
	return &ValueStats{Entries: entries, Fields: make([]FieldStats, len(entries))}
}

// Add counts field i of the entries.
func (c *ValueStats) Add(i int, values []float32) { c.Fields[i] = NewFieldStats(values) }

// NewFieldStats counts the values of one field.
func NewFieldStats(values []float32) FieldStats { return FieldStats{fieldmath.StatsOf(values)} }

// Join makes tallies of whole fields of those that ranks have of their slabs, the same
// on all ranks.
func (c *ValueStats) Join(t *team.Team) error {
	all, err := team.AllGather(t.Comm, c.Fields)
	if err != nil {
		return err
	}
	for i := range c.Fields {
		f := FieldStats{fieldmath.Stats{Min: math.Inf(1), Max: math.Inf(-1)}}
		for _, of := range all { // by rank
			if o := of[i]; o.Hash != 0 {
				f.Merge(o.Stats)
			}
		}
		c.Fields[i] = f
	}
	return nil
}

// constant tells whether a field has one value everywhere.
func (t FieldStats) constant() bool { return t.Min == t.Max && t.Missing+t.Infinite == 0 }

// rms is the root mean square of the finite values, 0 without any.
func (t FieldStats) rms() float64 {
	return math.Sqrt(t.Squares / float64(max(t.Points-t.Missing-t.Infinite, 1)))
}

// deviation is the standard deviation of the finite values.
func (t FieldStats) deviation() float64 {
	n := float64(max(t.Points-t.Missing-t.Infinite, 1))
	return math.Sqrt(max(t.Squares/n-t.Sum*t.Sum/n/n, 0))
}

// Faults lists what is wrong with the values, one fault for all fields of a variable at
// a level that have it.
func (c *ValueStats) Faults() []Fault {
	return slices.Concat(c.notFinite(), c.implausible(), c.sizeOutliers(), c.copies(), c.constants())
}

// FieldGroup names the fields that are judged together.
type FieldGroup struct {
	Variable string
	level    ensemble.Level
	Product  ensemble.Product
}

// group collects the fields that a test picks by variable, level and product, in order.
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

// groupFault makes a fault of the fields of one group.
func (c *ValueStats) groupFault(f Fault, fields []int) Fault {
	f.Fields = len(fields)
	return f.AtEntry(c.Entries[fields[0]])
}

func (k FieldGroup) String() string {
	s := k.Variable + " at " + k.level.String()
	if k.Product != ensemble.MemberField {
		s = k.Product.String() + " of " + s
	}
	return s
}

// notFinite finds fields without any value, infinite values, and points without value.
func (c *ValueStats) notFinite() (faults []Fault) {
	for _, kind := range []struct {
		is   func(t FieldStats) bool
		code exit.Code
		what string
		why  func(t FieldStats) string
		fix  string
	}{
		{func(t FieldStats) bool { return t.Missing == t.Points }, exit.BadData, "fields without any value",
			func(FieldStats) string {
				return "all values are missing: the field was never written, or is masked as a whole"
			},
			"fetch the file again, or leave the member or start out"},
		{func(t FieldStats) bool { return t.Infinite > 0 }, exit.BadData, "infinite values",
			func(t FieldStats) string {
				return fmt.Sprintf("%d of %d values of the first are infinite", t.Infinite, t.Points)
			},
			"fetch the file again, or leave the member or start out"},
		{func(t FieldStats) bool { return t.Missing > 0 && t.Missing < t.Points }, exit.OK, "missing values",
			func(t FieldStats) string { return fmt.Sprintf("%d of %d values of the first", t.Missing, t.Points) }, ""},
	} {
		names, fields := c.group(func(e ensemble.Entry, t FieldStats) bool {
			v, _ := ensemble.VariableNamed(e.Variable)
			return kind.is(t) && !(kind.code == exit.OK && v.IsMasked())
		})
		for _, k := range names {
			faults = append(faults, c.groupFault(Fault{Kind: FaultNotFinite, Code: kind.code, What: fmt.Sprintf("%s in %s of %s", kind.what, humanise.Count(len(fields[k]), "field"), k),
				Why: kind.why(c.Fields[fields[k][0]]), Fix: kind.fix}, fields[k]))
		}
	}
	return faults
}

// isImplausible tells whether a field has values that its variable cannot have.
func isImplausible(e ensemble.Entry, t FieldStats) bool {
	if t.Min > t.Max { // no finite value
		return false
	}
	switch {
	case e.Product == ensemble.Spread:
		return t.Min < 0
	case !e.Product.HasVariableUnit():
		return false
	}
	v, ok := ensemble.VariableNamed(e.Variable)
	if !ok || e.Unit != v.Unit {
		return false
	}
	r, ok := v.Plausible(e.Level)
	return ok && !(r.Contains(t.Min) && r.Contains(t.Max))
}

// implausible finds values that a variable cannot have, and guesses the unit they are in.
func (c *ValueStats) implausible() (faults []Fault) {
	names, fields := c.group(isImplausible)
	for _, k := range names {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, i := range fields[k] {
			lo, hi = min(lo, c.Fields[i].Min), max(hi, c.Fields[i].Max)
		}
		f := Fault{Kind: FaultImplausible, Code: exit.BadData, Fix: "fetch the file again, or correct the unit that it states"}
		if k.Product == ensemble.Spread {
			f.What, f.Why = fmt.Sprintf("values of %s are below 0", k), fmt.Sprintf("the least is %.6g", lo)
			faults = append(faults, c.groupFault(f, fields[k]))
			continue
		}
		v, _ := ensemble.VariableNamed(k.Variable)
		r, _ := v.Plausible(k.level)
		f.What = fmt.Sprintf("values of %s are outside %.6g to %.6g %s", k, r.Min, r.Max, v.Unit)
		f.Why = fmt.Sprintf("they reach from %.6g to %.6g", lo, hi)
		if m, ok := v.GuessUnit(k.level, lo, hi); ok {
			f.Why += fmt.Sprintf("; they look like %s", m.Unit)
		}
		faults = append(faults, c.groupFault(f, fields[k]))
	}
	return faults
}

// minPoints is how many points a field has at least, if how they differ, or do not, is to say
// anything: the value of one place is constant, changes as it likes, and comes again.
const minPoints = 16

// maxSizeRatio is how many times larger or smaller the RMS of a field may be than the median of
// its kind: less than a change from grams to kilograms, more than weather does.
const maxSizeRatio = 300

// sizeOutliers finds fields whose size is another than that of most of their kind. Of what
// falls in showers, and of variables that are not known, it is a warning: a dry day
// does that too.
func (c *ValueStats) sizeOutliers() (faults []Fault) {
	names, fields := c.group(func(e ensemble.Entry, t FieldStats) bool {
		return t.Points >= minPoints && t.rms() > 0 && !isImplausible(e, t)
	})
	for _, k := range names {
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
			Why: fmt.Sprintf("the RMS of the first is %.3g %s, that of most %.3g: a unit may have changed", c.Fields[off[0]].rms(), e.Unit, median),
			Fix: "compare the units of the files; `ensemble inspect --stats` shows the values"}
		if v, ok := ensemble.VariableNamed(e.Variable); !ok || v.Period != "" || e.Statistic != "" {
			f.Code, f.Fix = exit.OK, ""
		}
		faults = append(faults, c.groupFault(f, off))
	}
	return faults
}

// medianSize is the median of the fields' RMS.
func (c *ValueStats) medianSize(fields []int) float64 {
	size := make([]float64, len(fields))
	for n, i := range fields {
		size[n] = c.Fields[i].rms()
	}
	slices.Sort(size)
	return size[len(size)/2]
}

// minSpreadRatio is how many times smaller than the median of its kind the standard deviation of a
// field over its points is at most, if one value is almost everywhere.
const minSpreadRatio = 100

// constants finds fields of one value, or with almost one.
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
		if one != nil && !(ok && known.Period != "" && c.Fields[one[0]].Max == 0) { // no rain is no fault
			faults = append(faults, c.groupFault(Fault{Kind: FaultConstant, What: fmt.Sprintf("%s of %s constant everywhere", humanise.Count(len(one), "field"), k),
				Why: fmt.Sprintf("every value of the first is %.6g", c.Fields[one[0]].Min)}, one))
		}
		if almost != nil {
			faults = append(faults, c.groupFault(Fault{Kind: FaultConstant, What: fmt.Sprintf("%s of %s almost constant", humanise.Count(len(almost), "field"), k),
				Why: fmt.Sprintf("the standard deviation over the points of the first is %.3g, that of most %.3g", c.Fields[almost[0]].deviation(), minSpreadRatio*least)}, almost))
		}
	}
	return faults
}

// minDryRatio is how many times smaller than the median of its kind the RMS of a field is at least
// of what falls in showers, if it may come again: a drop at one point on two days.
const minDryRatio = 100

// showerSizes are the RMS of most fields of each kind of what falls in showers.
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

// copies finds fields whose values, bit by bit, are also those of another member, start
// or lead. Weather never repeats itself so; a transfer that gave a file twice does.
func (c *ValueStats) copies() (faults []Fault) {
	type values struct {
		variable string
		level    ensemble.Level
		hash     uint64
	}
	same := map[values][]int{}
	var order []values
	members := map[ensemble.Key]int{} // fields of one key but for the member
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

// copyFaults says what of fields of equal values is a fault. members has how many fields
// there are of each key but for the member.
func (c *ValueStats) copyFaults(list []int, members map[ensemble.Key]int) (faults []Fault) {
	first := c.Entries[list[0]]
	known, ok := ensemble.VariableNamed(first.Variable)
	if ok && known.IsPrescribed() {
		return nil
	}
	evolves := ok && known.Evolves(first.Level) && first.Statistic == ""
	// Members of one start and lead that are alike.
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
		if m[0] == ensemble.NoMember { // an analysis may be the control at lead 0
			m = m[1:]
		}
		if len(m) < 2 || !evolves && len(m) == members[k] {
			continue
		}
		faults = append(faults, Fault{Kind: FaultCopy, Code: exit.BadData, What: fmt.Sprintf("members %s of start %s are copies of each other", ensemble.MemberRanges(m), k.Init),
			Why: "the values are equal bit by bit", Fix: "fetch the files of these members again, or leave all but one of them out"})
	}
	if !evolves {
		return faults
	}
	// One member at other starts or leads.
	for n, i := range list {
		a := c.Entries[i]
		for _, j := range list[n+1:] {
			b := c.Entries[j]
			if a.Member != b.Member || a.Valid() == b.Valid() || a.Init != b.Init && a.Lead != b.Lead {
				continue
			}
			what := fmt.Sprintf("start %s of member %s has the values of start %s", b.Init, b.Member, a.Init)
			if a.Init == b.Init {
				what = fmt.Sprintf("lead %s of member %s at start %s has the values of lead %s", b.Lead, b.Member, b.Init, a.Lead)
			}
			faults = append(faults, Fault{Kind: FaultCopy, Code: exit.BadData, What: strings.Replace(what, "of member "+ensemble.NoMember.String()+" ", "", 1),
				Why: "the values are equal bit by bit: an old file may have a new name", Fix: "fetch the file of the later one again"})
			break
		}
	}
	return faults
}

// SortFaults orders faults for a reader: those that end work first, then by kind.
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
