package run

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
)

// ration is what a policy leaves of one start.
type ration struct {
	members  []ensemble.Member       // that are used, ascending
	missing  []product.MissingMember // of those that should be used, with reasons
	short    bool                    // fewer are complete than expected
	few      bool                    // fewer are complete than the network reads: a fall-back forecasts
	differ   int                     // fields that are there twice and differ
	warnings []string
}

// demand is what a model and a policy ask of every start.
type demand struct {
	config.Policy
	axes    ensemble.Axes
	control bool              // whether the control is one of the members
	own     []ensemble.Member // of the model, without a control that is left out
	listed  []ensemble.Member // own, and those that are expected by number
	waits   bool              // there is a deadline: what is nowhere may still come
	count   int               // members that the model takes
	least   int               // fewest that it was trained for
}

// demandOf joins a model's demands with a policy.
//
// Errors: exit 64 for a control that the model was trained without.
func demandOf(m *model.Model, p config.Policy) (*demand, error) {
	k := &m.Task
	d := &demand{Policy: p, axes: k.Features.Axes, count: len(k.Used), least: cmp.Or(k.Least, len(k.Used))}
	policy := cmp.Or(p.Members.Control, m.Control, "include")
	if policy == "include" && m.Control == "exclude" {
		return nil, &exit.Error{Code: exit.Usage, What: "members.control is include, the model was trained without the control", At: "members.control",
			Fix: "set members.control: exclude, or train with data.members.control: include"}
	}
	d.control = policy == "include"
	for _, x := range k.Used {
		if x != 0 || d.control {
			d.own = append(d.own, x)
		}
	}
	d.listed = slices.Clone(d.own)
	for _, n := range p.Members.Expected.List {
		d.listed = append(d.listed, ensemble.Member(n))
	}
	slices.Sort(d.listed)
	d.listed = slices.Compact(d.listed)
	return d, nil
}

// degrades tells whether a start may go on with fewer members than expected.
func (d *demand) degrades() bool {
	return d.Members.OnShort == "degrade" || d.Members.OnShort == thenFallBack
}

// fewestFallBack are the members that a fall-back needs: they have a spread.
const fewestFallBack = 2

// requires tells whether there is no product without the control.
func (d *demand) requires() bool {
	return slices.Contains(d.own, 0) && !slices.Contains(d.Members.Required, "none")
}

// expected is how many members a start should have.
func (d *demand) expected() int {
	if list := d.Members.Expected.List; list != nil {
		return len(list)
	}
	return cmp.Or(d.Members.Expected.Count, d.count)
}

// candidate tells whether a field is of a member that could be used.
func (d *demand) candidate(e ensemble.Entry) bool {
	_, _, _, ok := d.axes.Find(e.Key)
	return ok && e.Product == ensemble.MemberField && e.Statistic == "" && e.Member != ensemble.NoMember && (e.Member != 0 || d.control)
}

// selectInput is selectForecasts by a policy: it finds the members that each start goes on
// with, of one start only if it is given. cat is the catalogue of in, as the policy sees it.
// No values are read.
//
// Errors: those of selectForecasts; exit 66 for a start with too few members under
// on_short: degrade, 65 if the control is required and absent.
func selectInput(in *fio.Input, cat *ensemble.Catalogue, d *demand, only time.Time, to destination) (*selection, error) {
	at := place(in.Files())
	s := &selection{axes: d.axes, members: d.own, rations: map[ensemble.Init]ration{}}
	var faults []Fault
	b := block{axes: d.axes}
	if !d.degrades() {
		b.members = d.listed
	}
	if faults = offers(cat, at, b); faults != nil {
		for i, f := range faults {
			if d.waits && f.What != controlAbsent("", "").What {
				faults[i].Code = exit.NotYet
			}
		}
		_, err := refusal(faults)
		return nil, err
	}
	all, repeats := pick(cat.Entries, d.candidate, d.Duplicates == "last")
	b.members = d.listed
	wanted := func(i ensemble.Init) bool { return only.IsZero() || i.Equal(only) }
	for _, f := range lacking(cat, slices.DeleteFunc(slices.Clone(all), func(e ensemble.Entry) bool { return !b.holds(e) }), []block{b}, wanted) {
		if f.Kind == FaultCycles || !d.degrades() {
			faults = append(faults, f)
		}
	}
	whole := wholeMembers(all, d.axes)
	var inits []ensemble.Init
	for _, i := range (&ensemble.Catalogue{Entries: all}).Inits() {
		ours := slices.ContainsFunc(all, func(e ensemble.Entry) bool { return e.Init == i && b.holds(e) })
		if wanted(i) && (ours || d.degrades()) {
			inits = append(inits, i)
		}
	}
	for _, i := range inits {
		r, fault := d.ration(whole[i])
		if fault != nil {
			fault.At = "start " + i.String()
			if len(faults) == 0 || d.degrades() { // else it is one that was found
				faults = append(faults, *fault)
			}
		}
		s.rations[i] = r
	}
	s.inits = inits
	used := func(e ensemble.Entry) bool {
		r, ok := s.rations[e.Init]
		return ok && slices.Contains(r.members, e.Member)
	}
	for _, e := range all {
		if used(e) {
			s.entries = append(s.entries, e)
		}
	}
	for _, r := range repeats {
		if used(r[0]) {
			s.repeats = append(s.repeats, r)
		}
	}
	var err error
	if s.warnings, err = refusal(slices.Concat(centreFaults(s.entries), to.faults(s.entries), unitFaults(s.entries), faults)); err != nil {
		return nil, err
	}
	s.warnings = slices.Concat(in.Catalogue().Warnings, s.warnings)
	if len(s.inits) == 0 && !only.IsZero() {
		return s, nil // the caller says that the cycle is not there
	}
	grid, err := to.settle(s.entries)
	if err != nil {
		return nil, err
	}
	s.bring(in, grid, to.how)
	return s, nil
}

// attendance is which members of a start have all their fields, and what the others lack.
type attendance struct {
	whole   []ensemble.Member // ascending
	lacking map[ensemble.Member][]ensemble.Key
}

// wholeMembers says of every start which of its members have all fields of the axes.
// entries have each name once.
func wholeMembers(entries []ensemble.Entry, axes ensemble.Axes) map[ensemble.Init]*attendance {
	have := map[ensemble.Key]bool{}
	seen := map[ensemble.Init]map[ensemble.Member]bool{}
	for _, e := range entries {
		have[e.Key] = true
		if seen[e.Init] == nil {
			seen[e.Init] = map[ensemble.Member]bool{}
		}
		seen[e.Init][e.Member] = true
	}
	out := map[ensemble.Init]*attendance{}
	for init, members := range seen {
		a := &attendance{lacking: map[ensemble.Member][]ensemble.Key{}}
		for m := range members {
			block{axes, []ensemble.Member{m}}.keys(init, func(k ensemble.Key) {
				if !have[k] {
					a.lacking[m] = append(a.lacking[m], k)
				}
			})
			if a.lacking[m] == nil {
				a.whole = append(a.whole, m)
			}
		}
		slices.Sort(a.whole)
		out[init] = a
	}
	return out
}

// ration chooses the members of one start: those of the model that are whole, and in the
// place of others the first whole ones that the model does not name.
func (d *demand) ration(a *attendance) (ration, *Fault) {
	r, expected := ration{}, d.expected()
	r.short = len(a.whole) < expected
	has := func(m ensemble.Member) bool { return slices.Contains(a.whole, m) }
	for _, m := range d.listed {
		if has(m) {
			continue
		}
		reason := "none of its fields is there"
		if k := a.lacking[m]; k != nil {
			reason = fmt.Sprintf("%d of its %d fields are missing: %s", len(k), d.axes.Fields(), memberLeads(k))
		}
		r.missing = append(r.missing, product.MissingMember{Member: m, Reason: reason})
	}
	for _, m := range d.own {
		if has(m) {
			r.members = append(r.members, m)
		}
	}
	var instead []ensemble.Member
	for _, m := range a.whole {
		if len(r.members) < d.count && !slices.Contains(d.own, m) {
			r.members, instead = append(r.members, m), append(instead, m)
		}
	}
	slices.Sort(r.members)
	if r.short {
		r.warnings = append(r.warnings, fmt.Sprintf("%d of %d members are complete", len(a.whole), expected))
	}
	if instead != nil {
		r.warnings = append(r.warnings, fmt.Sprintf("member %s stands in for members that are left out or missing", ensemble.MemberRanges(instead)))
	}
	short := func(code exit.Code, what, fix string) (ration, *Fault) {
		f := &Fault{Kind: FaultMissing, Code: code, What: what, Why: fmt.Sprintf("complete are members %s of %d", cmp.Or(ensemble.MemberRanges(a.whole), "none"), expected), Fix: fix}
		for _, m := range r.missing {
			f.Why += fmt.Sprintf("; member %s: %s", m.Member, m.Reason)
		}
		return r, f
	}
	switch n := len(a.whole); {
	case d.requires() && !has(0) && a.lacking[0] == nil:
		c := controlAbsent("", "members "+ensemble.MemberRanges(a.whole))
		return r, &c
	case d.requires() && !has(0):
		return short(exit.NotYet, "the control is not complete", "wait for its file, or go on without it with members.required: [none]")
	case n < expected && !d.degrades():
		return short(exit.NotYet, fmt.Sprintf("%d members are complete, %d are expected", n, expected), "wait for the others, or go on without them with members.on_short: degrade")
	case n < d.Members.Minimum:
		return short(exit.NotYet, fmt.Sprintf("%d members are complete, at least %d must be", n, d.Members.Minimum), "wait for the others, or lower members.minimum")
	case len(r.members) < d.least && d.Members.OnShort == thenFallBack && n >= fewestFallBack:
		r.few = true
		r.warnings = append(r.warnings, fmt.Sprintf("the network was trained for %d members and more", d.least))
	case len(r.members) < d.least:
		return short(exit.NotYet, fmt.Sprintf("%d members are complete, the model was trained for %d to %d", n, d.least, d.count),
			"wait for the others, train with data.members.least for fewer, or let a baseline forecast with members.on_short: fall_back")
	}
	return r, nil
}

// degraded tells whether a start goes on with less than was expected.
func (r ration) degraded() bool { return r.short || r.differ > 0 || len(r.missing) > 0 }

// tabulated is a table of a start's fields by member and lead, members that are alike
// in one row; "" if there is too much of it.
func (s *start) tabulated() string {
	const mostLeads, mostRows = 12, 12
	count := map[ensemble.Member]map[ensemble.Lead]int{}
	leads := map[ensemble.Lead]bool{}
	add := func(k ensemble.Key, n int) {
		if count[k.Member] == nil {
			count[k.Member] = map[ensemble.Lead]int{}
		}
		count[k.Member][k.Lead] += n
		leads[k.Lead] = true
	}
	for k := range s.have {
		add(k, 1)
	}
	for _, k := range s.missing {
		add(k, 0)
	}
	columns := make([]ensemble.Lead, 0, len(leads))
	for t := range leads {
		columns = append(columns, t)
	}
	slices.Sort(columns)
	alike := map[string][]ensemble.Member{}
	for m, of := range count {
		var cells strings.Builder
		for _, t := range columns {
			fmt.Fprintf(&cells, " %6d", of[t])
		}
		alike[cells.String()] = append(alike[cells.String()], m)
	}
	if len(columns) > mostLeads || len(alike) > mostRows || len(count) < 2 {
		return ""
	}
	type row struct{ members, cells string }
	var rows []row
	first := map[string]ensemble.Member{}
	for cells, m := range alike {
		slices.Sort(m)
		name := strings.ReplaceAll(ensemble.MemberRanges(m), ", ", ",")
		rows, first[name] = append(rows, row{name, cells}), m[0]
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(first[a.members], first[b.members]) })
	var b strings.Builder
	fmt.Fprintf(&b, "\n    %-12s", "members")
	for _, t := range columns {
		fmt.Fprintf(&b, " %6s", t)
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "\n    %-12s%s", r.members, r.cells)
	}
	return b.String()
}
