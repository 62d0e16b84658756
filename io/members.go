package fio

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/grib"
)

// MemberOptions defines the member numbers of fields that do not state them, and
// selects members by centre. The zero value uses the numbers in the fields and, if
// they have none, numbers in file names that follow a known convention.
//
// Source: the number of a field is the coordinate with the standard name realization (CF
// standard name table), or octet 36 of GRIB template 4.1 and
// 4.11; the centre is WMO-No. 306, common code table C-11 (C-1 in edition 1).
type MemberOptions struct {
	// FromName finds the member number in the name of a file, or else in its path:
	// its first group. This number has precedence over that of the fields.
	FromName *regexp.Regexp
	// Centres selects members by originating centre, such as "ecmf"; nil selects
	// all. Members of the first centre keep their numbers; CentreStride is added
	// for each further centre.
	Centres     []string
	Percentiles bool // Percentiles uses equidistant quantiles as members, numbered from 1.
	// Unnumbered makes fields without a member the control, member 0: since IFS cycle
	// 50r1 the control is in the files of the deterministic forecast.
	Unnumbered bool
	// Pairs numbers the positive perturbation n of GRIB 2n−1 and the negative one 2n,
	// for producers that give both the number n.
	Pairs bool
}

// CentreStride is the difference between the member numbers of two centres. GRIB has one octet for
// the number of a member, so numbers of one centre are below it; larger ones are refused.
const CentreStride = 1000

// memberFilePatterns lists file names that contain member numbers.
//
// Source: NOAA, products of GEFS (gec00.t00z.pgrb2a.0p50.f000) and of GEFSv12
// reforecasts (tmp_pres_2000010100_p01.grib2).
var memberFilePatterns = []*regexp.Regexp{
	regexp.MustCompile(`^ge[cp]([0-9]{2})(?:[^0-9]|$)`),
	regexp.MustCompile(`_[cp]([0-9]{2})\.[^.]+$`),
}

// memberCounts counts how members were assigned, over all files.
type memberCounts struct {
	mu         sync.Mutex
	fromName   int // fields whose member is in the file name only
	files      int // files with such fields
	overridden int // fields whose own number was replaced by that of the file name
	centres    map[string]bool
}

// assignMembers applies the MemberOptions to the fields of a file. The order matters:
// pairs change the numbers of the fields, a file name replaces them, a centre adds its
// stride, and quantiles become members at the end.
func (in *Input) assignMembers(f *file) {
	if in.opt.Members.Pairs {
		numberPairs(f)
	}
	if in.opt.Members.Unnumbered {
		for i := range f.entries {
			if e := &f.entries[i]; e.Product == ensemble.MemberField && e.Member == ensemble.NoMember {
				e.Member = 0
			}
		}
	}
	in.membersFromNames(f)
	in.selectCentres(f)
	if in.opt.Members.Percentiles {
		in.quantilesToMembers(f)
	}
}

// numberPairs gives positive and negative perturbations different numbers. Other fields, such as the
// control, keep theirs.
//
// Faults: a perturbation with the number 0, which would give a negative one.
// Source: WMO-No. 306, code table 4.6: 2 (negatively perturbed), 3 (positively perturbed
// forecast).
func numberPairs(f *file) {
	for i := range f.entries {
		e := &f.entries[i]
		positive := e.MemberType == grib.PositivePerturbation.String()
		if !positive && e.MemberType != grib.NegativePerturbation.String() {
			continue
		}
		if e.Member < 1 {
			f.faults = append(f.faults, &exit.Error{Code: exit.BadData, What: "perturbation with number 0", At: fmt.Sprintf("%s, message %d", f.path, e.Message),
				Why: "with members.pairs, numbers of perturbations begin at 1", Fix: "assign numbers with members.filename_pattern"})
			return
		}
		if e.Member *= 2; positive {
			e.Member--
		}
	}
}

// warnUnnumbered warns about fields without a member beside members of the same
// quantity, initialisation and lead. The catalogue is in order. Entries without a member
// precede members of the same quantity in the order of Entry.Compare, so only the next
// entries are searched. Without the warning a control would be lost silently.
func (in *Input) warnUnnumbered() {
	entries := in.cat.Entries
	n, first := 0, 0
	for i, e := range entries {
		if e.Member != ensemble.NoMember || e.Product != ensemble.MemberField {
			continue
		}
		for _, o := range entries[i+1:] {
			if o.Lead != e.Lead || o.Variable != e.Variable || o.Level != e.Level || o.Product != e.Product || !o.Init.Equal(e.Init.Time) {
				break
			}
			if o.Member != ensemble.NoMember {
				if n++; n == 1 {
					first = i
				}
				break
			}
		}
	}
	if n > 0 {
		e := entries[first]
		in.cat.Warnings = append(in.cat.Warnings, fmt.Sprintf("%d fields have no member number beside members of the same initialisation and lead, the first in %s, message %d (%s): they are not members. "+
			"If they are the control, set members.unnumbered: control (in train.yaml data.members.unnumbered), or --unnumbered", n, e.File, e.Message, e))
	}
}

// numberFrom returns the first group of a pattern as a number. The result is false if
// the pattern does not match, has no group, or the group is not a number below 2³¹.
func numberFrom(pattern *regexp.Regexp, name string) (ensemble.Member, bool) {
	m := pattern.FindStringSubmatch(name)
	if len(m) < 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(m[1], 10, 31)
	return ensemble.Member(n), err == nil
}

// MemberFromName returns the member number in the name of a file, by a pattern or,
// if that is nil, by a known convention.
func MemberFromName(path string, pattern *regexp.Regexp) (ensemble.Member, bool) {
	base := filepath.Base(path)
	if pattern != nil {
		if m, ok := numberFrom(pattern, base); ok {
			return m, true
		}
		return numberFrom(pattern, filepath.ToSlash(path))
	}
	for _, p := range memberFilePatterns {
		if m, ok := numberFrom(p, base); ok {
			return m, true
		}
	}
	return 0, false
}

// membersFromNames assigns the member number in the name of a file to its fields. A
// pattern of the user replaces the numbers in the fields; a known convention only
// completes missing ones.
//
// Faults: with a pattern, a file whose name does not match and whose fields have no
// member either.
func (in *Input) membersFromNames(f *file) {
	pattern := in.opt.Members.FromName
	member, ok := MemberFromName(f.path, pattern)
	named, differ := 0, 0
	for i := range f.entries {
		e := &f.entries[i]
		if e.Product != ensemble.MemberField || ok && e.Member == member {
			continue
		}
		switch {
		case e.Member == ensemble.NoMember && ok:
			e.Member = member
			named++
		case e.Member == ensemble.NoMember && pattern != nil:
			f.faults = append(f.faults, &exit.Error{Code: exit.BadData, What: "no member number in the file name or in the fields", At: f.path,
				Why: fmt.Sprintf("pattern %s does not match", pattern), Fix: "correct members.filename_pattern, or exclude the file"})
			return
		case pattern != nil && ok:
			e.Member = member
			differ++
		}
	}
	in.memberCounts.mu.Lock()
	defer in.memberCounts.mu.Unlock()
	in.memberCounts.fromName, in.memberCounts.overridden = in.memberCounts.fromName+named, in.memberCounts.overridden+differ
	if named > 0 {
		in.memberCounts.files++
	}
}

// selectCentres removes the members of other centres, and renumbers those of several
// centres. Centre n of the list has the members n·CentreStride and up. Fields without a
// member or centre stay, because they belong to no ensemble.
func (in *Input) selectCentres(f *file) {
	wanted := in.opt.Members.Centres
	if len(wanted) == 0 {
		return
	}
	kept := f.entries[:0]
	seen := map[string]bool{}
	for _, e := range f.entries {
		if e.Member == ensemble.NoMember || e.Centre == "" {
			kept = append(kept, e)
			continue
		}
		seen[e.Centre] = true
		n := slices.Index(wanted, e.Centre)
		switch {
		case n < 0:
			f.unused = append(f.unused, ensemble.Unused{File: f.path, Message: e.Message, Name: e.Variable, Reason: "its centre " + e.Centre + " is not in members.centres"})
			continue
		case len(wanted) > 1 && e.Member >= CentreStride:
			f.faults = append(f.faults, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("member number %s is too large", e.Member), At: fmt.Sprintf("%s, message %d", f.path, e.Message),
				Why: fmt.Sprintf("with several centres, numbers must be below %d", CentreStride), Fix: "select one centre, or assign other numbers with members.filename_pattern"})
		}
		e.Member += ensemble.Member(n * CentreStride)
		kept = append(kept, e)
	}
	f.entries = kept
	in.memberCounts.mu.Lock()
	defer in.memberCounts.mu.Unlock()
	if in.memberCounts.centres == nil {
		in.memberCounts.centres = map[string]bool{}
	}
	for c := range seen {
		in.memberCounts.centres[c] = true
	}
}

// quantilesToMembers converts the quantiles of a file to members. Sorted quantiles at
// equidistant probabilities are a sample of the distribution, so scores and statistics
// of members apply. Fields are grouped by everything but the probability; members count
// from 1 in ascending order.
//
// Source: IMPROVER, RebadgePercentilesAsRealizations.
func (in *Input) quantilesToMembers(f *file) {
	of := map[ensemble.Identity][]int{}
	var order []ensemble.Identity
	for i, e := range f.entries {
		if e.Product != ensemble.Quantile {
			continue
		}
		id := e.Identity()
		id.QuantileProbability = 0
		if of[id] == nil {
			order = append(order, id)
		}
		of[id] = append(of[id], i)
	}
	for _, id := range order {
		at := of[id]
		slices.SortFunc(at, func(a, b int) int {
			return cmp.Compare(f.entries[a].QuantileProbability, f.entries[b].QuantileProbability)
		})
		below := make([]float64, len(at))
		for n, i := range at {
			below[n] = f.entries[i].QuantileProbability
		}
		if why := unequalSteps(below); why != "" {
			f.faults = append(f.faults, &exit.Error{Code: exit.BadData, What: "percentiles cannot be used as members", At: f.path + ", " + f.entries[at[0]].Key.String(), Why: why,
				Fix: "give equidistant percentiles around 50, such as 10, 20 … 90, or the members themselves"})
			return
		}
		for n, i := range at {
			e := &f.entries[i]
			e.Product, e.Member, e.QuantileProbability = ensemble.MemberField, ensemble.Member(n+1), 0
			e.Kind = in.kinds.withMembers(e.Kind, len(at))
		}
	}
}

// unequalSteps returns the reason why ascending probabilities are not plotting
// positions (i−a)/(n+1−2a) of a sample of size n, with a in [0, 1/2]; "" if they
// are. These divide [0, 1] into equal steps, with half a step to one step at both
// ends.
//
// IMPROVER's RebadgeRealizationsAsPercentiles writes both extremes, i/(n+1) and
// (i−1/2)/n. Its RebadgePercentilesAsRealizations accepts the first only. Accepting
// all a in between is our choice.
func unequalSteps(below []float64) string {
	if len(below) < 2 {
		return "there is only one percentile"
	}
	const close = 1e-3 // in steps: IMPROVER writes per cent as float32
	first, last := below[0], below[len(below)-1]
	step := (last - first) / float64(len(below)-1)
	for i, p := range below {
		if math.Abs(p-first-float64(i)*step) > close*step {
			return fmt.Sprintf("their steps are not equal: %s", formatPercentiles(below))
		}
	}
	switch {
	case step <= 0:
		return fmt.Sprintf("some are duplicates: %s", formatPercentiles(below))
	case math.Abs(first+last-1) > close*step:
		return fmt.Sprintf("they are not centred on 50: %s", formatPercentiles(below))
	case first < (0.5-close)*step || first > (1+close)*step:
		return fmt.Sprintf("the first is not between half a step and one step: %s", formatPercentiles(below))
	}
	return ""
}

// formatPercentiles formats probabilities as percentiles.
func formatPercentiles(below []float64) string {
	var text []string
	for _, p := range below {
		text = append(text, strconv.FormatFloat(math.Round(1e5*p)/1e3, 'g', -1, 64))
	}
	return strings.Join(text, ", ")
}

// withMembers returns the kind with another ensemble size. The old kind stays, because
// other entries may share it.
func (k *kindTable) withMembers(p *ensemble.Kind, members int) *ensemble.Kind {
	k.mu.Lock()
	conv := k.conversions[p]
	k.mu.Unlock()
	of := *p
	of.Members = members
	return k.intern(of, conv)
}

// report returns warnings about assigned members. They count fields and do not name each, because an
// archive has millions.
//
// Errors: exit 66 if no file has members of a selected centre.
func (a *memberCounts) report(l MemberOptions) (warnings []string, err error) {
	if a.fromName > 0 {
		warnings = append(warnings, fmt.Sprintf("%d fields of %d files have no member number: it is taken from the file names", a.fromName, a.files))
	}
	if a.overridden > 0 {
		warnings = append(warnings, fmt.Sprintf("%d fields have another member number than their file names, which take precedence", a.overridden))
	}
	for _, c := range l.Centres {
		if !a.centres[c] {
			have := make([]string, 0, len(a.centres))
			for name := range a.centres {
				have = append(have, name)
			}
			slices.Sort(have)
			return nil, &exit.Error{Code: exit.NotYet, What: "no members of centre " + c, At: "members.centres", Why: "centres of the files are " + cmp.Or(strings.Join(have, ", "), "none"),
				Fix: "add its files, or correct members.centres"}
		}
	}
	return warnings, nil
}
