package predict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
)

// inputPolicy is what a model and a policy require of the input of every initialisation.
type inputPolicy struct {
	config.Policy
	axes            ensemble.Axes
	control         bool              // whether member 0 is one of the members
	exchangeable    bool              // trained without control: no member is special
	modelMembers    []ensemble.Member // members of the model, without an excluded control
	expectedMembers []ensemble.Member // modelMembers, and others that are expected by number
	canWait         bool              // there is a deadline: missing files may still arrive
	origins         []ensemble.Origin // forecast models of the training data; nil if unknown
	count           int               // members that the network reads
	least           int               // fewest members that it was trained for
}

// newInputPolicy combines the requirements of a model with a policy.
//
// Errors: exit 64 if the policy includes a control that the model was trained without.
func newInputPolicy(m *model.Model, p config.Policy) (*inputPolicy, error) {
	k := &m.Task
	d := &inputPolicy{Policy: p, origins: m.Origins, axes: k.Features.Axes, count: len(k.UsedMembers), least: cmp.Or(k.MinMembers, len(k.UsedMembers))}
	d.exchangeable = m.Control == ensemble.NoControl
	policy := cmp.Or(p.Members.Control, m.Control, ensemble.IncludeControl)
	if policy == ensemble.IncludeControl && m.Control == ensemble.ExcludeControl {
		return nil, &exit.Error{Code: exit.Usage, What: "members.control is include, but the model was trained without the control", At: "members.control",
			Fix: "set members.control: exclude, or train with data.members.control: include"}
	}
	d.control = policy == ensemble.IncludeControl || d.exchangeable && policy == ensemble.NoControl
	for _, x := range k.UsedMembers {
		if x != 0 || d.control {
			d.modelMembers = append(d.modelMembers, x)
		}
	}
	d.expectedMembers = slices.Clone(d.modelMembers)
	for _, n := range p.Members.Expected.List {
		d.expectedMembers = append(d.expectedMembers, ensemble.Member(n))
	}
	slices.Sort(d.expectedMembers)
	d.expectedMembers = slices.Compact(d.expectedMembers)
	return d, nil
}

// allowsFewer reports whether an initialisation may be predicted with fewer members than expected.
func (d *inputPolicy) allowsFewer() bool {
	return d.Members.OnMissing == "degrade" || d.Members.OnMissing == ActionFallBack
}

// minFallbackMembers is the least number of members of a fallback forecast: two have a spread.
const minFallbackMembers = 2

// requiresControl reports whether the control is required.
func (d *inputPolicy) requiresControl() bool {
	return !d.exchangeable && slices.Contains(d.modelMembers, 0) && !slices.Contains(d.Members.Required, "none")
}

// expectedCount is the number of members that an initialisation should have.
func (d *inputPolicy) expectedCount() int {
	if list := d.Members.Expected.List; list != nil {
		return len(list)
	}
	return cmp.Or(d.Members.Expected.Count, d.count)
}

// isCandidate reports whether a field belongs to a member that could be used.
func (d *inputPolicy) isCandidate(e ensemble.Entry) bool {
	_, _, _, ok := d.axes.Find(e.Key)
	return ok && e.Product == ensemble.MemberField && e.Member != ensemble.NoMember && (e.Member != 0 || d.control)
}

// selectInput selects forecasts by the policy: the members used for each initialisation, or for only one of
// them if given. cat is the catalogue of in after the policy. No values are read.
//
// Errors: those of input.SelectForecasts; exit 66 for too few members with on_missing: degrade; 65 if the
// control is required and missing.
func selectInput(in *fio.Input, cat *ensemble.Catalogue, d *inputPolicy, only time.Time, to input.Destination) (*input.Selection, error) {
	s := &input.Selection{Axes: d.axes, Members: d.modelMembers, Available: map[ensemble.Init]input.Availability{}}
	request := input.StatisticRequest{Known: "the model"}
	_, offered, found := input.ChooseStatistics(cat, d.axes, request)
	cat = offered
	if !only.IsZero() { // of the others only the names of variables, levels, leads and members count
		_, cat, found = input.ChooseStatistics(&ensemble.Catalogue{Entries: cat.Select(func(e ensemble.Entry) bool { return e.Init.Equal(only) }), Unused: cat.Unused}, d.axes, request)
	}
	chosen, err := input.SplitFaults(found)
	if err != nil {
		return nil, err
	}
	if err := d.checkOffered(offered, input.FileList(in.Files())); err != nil {
		return nil, err
	}
	all, repeats := input.SelectUnique(cat.Entries, d.isCandidate, d.Duplicates == "last")
	faults := d.chooseMembers(s, cat, all, only, to)
	used := func(e ensemble.Entry) bool {
		r, ok := s.Available[e.Init]
		return ok && slices.Contains(r.Members, e.Member)
	}
	for _, e := range all {
		if used(e) {
			s.Entries = append(s.Entries, e)
		}
	}
	for _, r := range repeats {
		if used(r[0]) {
			s.Duplicates = append(s.Duplicates, r)
		}
	}
	if s.Warnings, err = input.SplitFaults(slices.Concat(input.CentreFaults(s.Entries), to.Faults(s.Entries), input.UnitFaults(s.Entries), faults)); err != nil {
		return nil, err
	}
	s.Warnings = slices.Concat(in.Catalogue().Warnings, chosen, s.Warnings)
	if len(s.Inits) == 0 && !only.IsZero() {
		return s, nil // the caller reports the missing initialisation
	}
	grid, err := to.Resolve(s.Entries)
	if err != nil {
		return nil, err
	}
	s.SetGrid(in, grid, to.How)
	return s, nil
}

// requiredFields returns the fields that are required of each initialisation, including those of members that are only
// expected.
func (d *inputPolicy) requiredFields() input.RequiredFields {
	return input.RequiredFields{Axes: d.axes, Members: d.expectedMembers, Exchangeable: d.exchangeable}
}

// checkOffered checks that the input has each required variable, level, lead and member at some initialisation.
func (d *inputPolicy) checkOffered(cat *ensemble.Catalogue, at string) error {
	b := d.requiredFields()
	if d.allowsFewer() {
		b.Members = nil
	}
	faults := input.CheckOffered(cat, at, b)
	if faults == nil {
		return nil
	}
	for i, f := range faults {
		if d.canWait && f.What != input.MissingControlFault("", "").What {
			faults[i].Code = exit.NotYet
		}
	}
	_, err := input.SplitFaults(faults)
	return err
}

// chooseMembers finds the initialisations of a selection and the members used for each.
func (d *inputPolicy) chooseMembers(s *input.Selection, cat *ensemble.Catalogue, all []ensemble.Entry, only time.Time, to input.Destination) (faults []input.Fault) {
	b := d.requiredFields()
	requested := func(i ensemble.Init) bool { return only.IsZero() || i.Equal(only) }
	for _, f := range input.CheckMissing(cat, slices.DeleteFunc(slices.Clone(all), func(e ensemble.Entry) bool { return !b.Contains(e) }), []input.RequiredFields{b}, requested) {
		if f.Kind == input.FaultCycles || !d.allowsFewer() {
			faults = append(faults, f)
		}
	}
	whole := completeMembers(all, d.axes, d.deviations(all, to))
	for _, i := range (&ensemble.Catalogue{Entries: all}).Inits() {
		ours := slices.ContainsFunc(all, func(e ensemble.Entry) bool { return e.Init == i && b.Contains(e) })
		if requested(i) && (ours || d.allowsFewer()) {
			s.Inits = append(s.Inits, i)
		}
	}
	for _, i := range s.Inits {
		for _, m := range slices.Sorted(maps.Keys(whole[i].deviating)) {
			if !d.allowsFewer() && d.isExpected(m) {
				faults = append(faults, whole[i].deviating[m].fault)
			}
		}
		r, fault := d.available(whole[i])
		if fault != nil {
			fault.At = "initialisation " + i.String()
			if len(faults) == 0 || d.allowsFewer() { // without degrade only the first is reported
				faults = append(faults, *fault)
			}
		}
		s.Available[i] = r
	}
	return faults
}

// completeness lists the complete members of an initialisation, and what the others miss.
type completeness struct {
	complete  []ensemble.Member // ascending
	missing   map[ensemble.Member][]ensemble.Key
	deviating map[ensemble.Member]deviation
}

// reason is why a member is not complete.
func (a *completeness) reason(m ensemble.Member, fields int) string {
	if v, ok := a.deviating[m]; ok {
		return v.reason
	}
	if k := a.missing[m]; k != nil {
		return fmt.Sprintf("%d of its %d fields are missing: %s", len(k), fields, input.MemberLeads(k))
	}
	return "all of its fields are missing"
}

// completeMembers finds, for every initialisation, the members that have all fields of the axes and do not deviate
// from the others. entries contain each name once.
func completeMembers(entries []ensemble.Entry, axes ensemble.Axes, deviating map[ensemble.Init]map[ensemble.Member]deviation) map[ensemble.Init]*completeness {
	have := map[ensemble.Key]bool{}
	seen := map[ensemble.Init]map[ensemble.Member]bool{}
	for _, e := range entries {
		have[e.Key] = true
		if seen[e.Init] == nil {
			seen[e.Init] = map[ensemble.Member]bool{}
		}
		seen[e.Init][e.Member] = true
	}
	out := map[ensemble.Init]*completeness{}
	for init, members := range seen {
		a := &completeness{missing: map[ensemble.Member][]ensemble.Key{}, deviating: deviating[init]}
		for m := range members {
			input.RequiredFields{Axes: axes, Members: []ensemble.Member{m}}.Keys(init, func(k ensemble.Key) {
				if !have[k] {
					a.missing[m] = append(a.missing[m], k)
				}
			})
			if _, other := a.deviating[m]; a.missing[m] == nil && !other {
				a.complete = append(a.complete, m)
			}
		}
		slices.Sort(a.complete)
		out[init] = a
	}
	return out
}

// replacementText states which members replace which: "members 6 and 8 replace 1 and 3". More members than missing
// ones replace an excluded control too.
func replacementText(instead, missing []ensemble.Member) string {
	names := humanise.Strings(missing[:min(len(missing), len(instead))])
	if len(names) < len(instead) {
		names = append([]string{"the excluded control"}, names...)
	}
	if len(instead) == 1 {
		return fmt.Sprintf("member %s replaces %s", instead[0], humanise.And(names))
	}
	return fmt.Sprintf("members %s replace %s", humanise.And(humanise.Strings(instead)), humanise.And(names))
}

// isExpected reports whether a member belongs to a complete input: by its number, or by the number of members.
func (d *inputPolicy) isExpected(m ensemble.Member) bool {
	return slices.Contains(d.expectedMembers, m) || d.Members.Expected.Count > 0
}

// addOthersMissing adds to the missing members those of members.expected: N that are not complete. Members that are
// nowhere have the numbers from 0, or from 1 without a control, if all others have such numbers.
func (d *inputPolicy) addOthersMissing(missing []product.MissingMember, a *completeness) []product.MissingMember {
	n := d.Members.Expected.Count
	first := ensemble.Member(1)
	if d.control {
		first = 0
	}
	last := first + ensemble.Member(n) - 1
	present := slices.Concat(a.complete, slices.Collect(maps.Keys(a.missing)), slices.Collect(maps.Keys(a.deviating)))
	inRange := !slices.ContainsFunc(present, func(m ensemble.Member) bool { return m < first || m > last })
	for m := first; m <= last; m++ {
		known := slices.ContainsFunc(missing, func(x product.MissingMember) bool { return x.Member == m })
		if !known && !slices.Contains(a.complete, m) && (inRange || slices.Contains(present, m)) {
			missing = append(missing, product.MissingMember{Member: m, Reason: a.reason(m, d.axes.Fields())})
		}
	}
	slices.SortFunc(missing, func(x, y product.MissingMember) int { return cmp.Compare(x.Member, y.Member) })
	return missing
}

// namesOf names missing members behind a number; "" if they are unknown.
func namesOf(missing []product.MissingMember) string {
	if missing == nil {
		return ""
	}
	var names []ensemble.Member
	for _, m := range missing {
		names = append(names, m.Member)
	}
	return "; missing: " + ensemble.MemberRanges(names)
}

// available chooses the members of one initialisation: the complete ones of the model and, in place of
// incomplete ones, the first complete members that the model does not list.
func (d *inputPolicy) available(a *completeness) (input.Availability, *input.Fault) {
	r, expected := input.Availability{Complete: len(a.complete)}, d.expectedCount()
	r.Short = len(a.complete) < expected
	has := func(m ensemble.Member) bool { return slices.Contains(a.complete, m) }
	for _, m := range d.expectedMembers {
		if has(m) {
			continue
		}
		r.Missing = append(r.Missing, product.MissingMember{Member: m, Reason: a.reason(m, d.axes.Fields())})
	}
	if r.Short {
		r.Missing = d.addOthersMissing(r.Missing, a)
	}
	for _, m := range d.modelMembers {
		if has(m) {
			r.Members = append(r.Members, m)
		}
	}
	var instead []ensemble.Member
	for _, m := range a.complete {
		if len(r.Members) < d.count && !slices.Contains(d.modelMembers, m) {
			r.Members, instead = append(r.Members, m), append(instead, m)
		}
	}
	slices.Sort(r.Members)
	if r.Short {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d members are complete", len(a.complete), expected)+namesOf(r.Missing))
	}
	for _, m := range slices.Sorted(maps.Keys(a.deviating)) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("member %s is left out: %s", m, a.deviating[m].reason))
	}
	if instead != nil {
		r.Warnings = append(r.Warnings, replacementText(instead, slices.DeleteFunc(slices.Clone(d.modelMembers), has)))
	}
	short := func(code exit.Code, what, fix string) (input.Availability, *input.Fault) {
		f := &input.Fault{Kind: input.FaultMissing, Code: code, What: what, Why: fmt.Sprintf("members %s of %d are complete", cmp.Or(ensemble.MemberRanges(a.complete), "none"), expected), Fix: fix}
		for _, m := range r.Missing {
			f.Why += fmt.Sprintf("; member %s: %s", m.Member, m.Reason)
		}
		return r, f
	}
	switch n := len(a.complete); {
	case d.requiresControl() && !has(0) && a.missing[0] == nil:
		c := input.MissingControlFault("", "members "+ensemble.MemberRanges(a.complete))
		return r, &c
	case d.requiresControl() && !has(0):
		return short(exit.NotYet, "the control is not complete", "wait for its file, or continue without it: members.required: [none]")
	case n < expected && !d.allowsFewer():
		return short(exit.NotYet, fmt.Sprintf("%d members are complete, %d are expected", n, expected), "wait for the others, or continue without them: members.on_missing: degrade")
	case n < d.Members.Minimum:
		return short(exit.NotYet, fmt.Sprintf("%d members are complete, at least %d are required", n, d.Members.Minimum), "wait for the others, or lower members.minimum")
	case len(r.Members) < d.least && d.Members.OnMissing == ActionFallBack && n >= minFallbackMembers:
		r.TooFew = true
		r.Warnings = append(r.Warnings, fmt.Sprintf("the network was trained for at least %d members", d.least))
	case len(r.Members) < d.least:
		return short(exit.NotYet, fmt.Sprintf("%d members are complete, the model was trained for %d to %d", n, d.least, d.count),
			"wait for the others, train with data.members.minimum for fewer, or use the fallback forecast: members.on_missing: fallback")
	}
	return r, nil
}
