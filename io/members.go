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
)

// MemberOptions says what the files of an ensemble do not say themselves, and whose members are
// taken. The zero value takes what the fields say, and members' numbers from names of files
// that follow a known convention if the fields have none.
type MemberOptions struct {
	// FromName finds the number of a member in the name of its file, or else in its path:
	// its first group. The number comes before that of the fields.
	FromName *regexp.Regexp
	// Centres are those whose members are taken ("ecmf"); nil takes all. Members of the
	// first keep their numbers, those of the next ones count on from 1000, 2000 ….
	Centres []string
	// Percentiles takes quantiles of equal steps for members, numbered from 1.
	Percentiles bool
}

// CentreStride is between the numbers of the members of two centres.
const CentreStride = 1000

// memberFilePatterns are names of files that tell members apart where fields may not.
//
// Source: NOAA, products of GEFS (gec00.t00z.pgrb2a.0p50.f000) and its reforecasts of
// version 12 (tmp_pres_2000010100_p01.grib2).
var memberFilePatterns = []*regexp.Regexp{
	regexp.MustCompile(`^ge[cp]([0-9]{2})(?:[^0-9]|$)`),
	regexp.MustCompile(`_[cp]([0-9]{2})\.[^.]+$`),
}

// memberCounts is what the layout has come to, over all files.
type memberCounts struct {
	mu         sync.Mutex
	fromName   int // fields whose member stands in the name of their file only
	files      int // that have them
	overridden int // fields that say another member than the name of their file
	centres    map[string]bool
}

// assignMembers applies the layout to the fields of a file.
func (in *Input) assignMembers(f *file) {
	in.membersFromNames(f)
	in.selectCentres(f)
	if in.opt.Members.Percentiles {
		in.quantilesToMembers(f)
	}
}

// numberFrom is the first group of a pattern as a number.
func numberFrom(pattern *regexp.Regexp, name string) (ensemble.Member, bool) {
	m := pattern.FindStringSubmatch(name)
	if len(m) < 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(m[1], 10, 31)
	return ensemble.Member(n), err == nil
}

// MemberFromName is the member that the name of a file says, by a pattern or, if it is nil, by a
// known convention.
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

// membersFromNames takes the member of a file's fields from its name.
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
			f.faults = append(f.faults, &exit.Error{Code: exit.BadData, What: "no member in the name of the file, nor in its fields", At: f.path,
				Why: fmt.Sprintf("%s finds no number in it", pattern), Fix: "correct members.from_name, or leave the file out"})
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

// selectCentres leaves out the members of centres that are not asked for, and numbers those
// of several.
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
			f.unused = append(f.unused, ensemble.Unused{File: f.path, Message: e.Message, Name: e.Variable, Reason: "its centre is " + e.Centre + ", which members.centres does not name"})
			continue
		case len(wanted) > 1 && e.Member >= CentreStride:
			f.faults = append(f.faults, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("member %s has too large a number", e.Member), At: fmt.Sprintf("%s, message %d", f.path, e.Message),
				Why: fmt.Sprintf("members of several centres count from multiples of %d", CentreStride), Fix: "choose one centre, or other numbers by members.from_name"})
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

// quantilesToMembers makes members of the quantiles of a file.
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
			f.faults = append(f.faults, &exit.Error{Code: exit.BadData, What: "percentiles cannot be members", At: f.path + ", " + f.entries[at[0]].Key.String(), Why: why,
				Fix: "give percentiles of equal steps around 50, such as 10, 20 … 90, or the members themselves"})
			return
		}
		for n, i := range at {
			e := &f.entries[i]
			e.Product, e.Member, e.QuantileProbability = ensemble.MemberField, ensemble.Member(n+1), 0
			e.Kind = in.kinds.withMembers(e.Kind, len(at))
		}
	}
}

// unequalSteps says why ascending probabilities do not part the range of 0 to 1 into equal steps,
// with at least half a step and at most one before the first and behind the last; "" if they
// do. These are the plotting positions (i-a)/(n+1-2a) of a sample, a from 0 to 1/2, of which
// IMPROVER's RebadgeRealizationsAsPercentiles writes both ends, i/(n+1) and (i-1/2)/n. Its
// RebadgePercentilesAsRealizations takes the first back only; to take all is our choice.
func unequalSteps(below []float64) string {
	if len(below) < 2 {
		return "there is only one"
	}
	const close = 1e-3 // of a step: IMPROVER writes per cent as float32
	first, last := below[0], below[len(below)-1]
	step := (last - first) / float64(len(below)-1)
	for i, p := range below {
		if math.Abs(p-first-float64(i)*step) > close*step {
			return fmt.Sprintf("their steps differ: %s", formatPercentiles(below))
		}
	}
	switch {
	case step <= 0:
		return fmt.Sprintf("some are there twice: %s", formatPercentiles(below))
	case math.Abs(first+last-1) > close*step:
		return fmt.Sprintf("they are not centred on 50: %s", formatPercentiles(below))
	case first < (0.5-close)*step || first > (1+close)*step:
		return fmt.Sprintf("the first is not half a step to one step from 0: %s", formatPercentiles(below))
	}
	return ""
}

func formatPercentiles(below []float64) string {
	var text []string
	for _, p := range below {
		text = append(text, strconv.FormatFloat(math.Round(1e5*p)/1e3, 'g', -1, 64))
	}
	return strings.Join(text, ", ")
}

// withMembers is a kind of an ensemble of another size.
func (k *kindTable) withMembers(p *ensemble.Kind, members int) *ensemble.Kind {
	k.mu.Lock()
	conv := k.conversions[p]
	k.mu.Unlock()
	of := *p
	of.Members = members
	return k.intern(of, conv)
}

// report says what the layout has come to.
//
// Errors: exit 66 if a centre that is asked for is in no file.
func (a *memberCounts) report(l MemberOptions) (warnings []string, err error) {
	if a.fromName > 0 {
		warnings = append(warnings, fmt.Sprintf("%d fields of %d files say no member: it is taken from the names of the files", a.fromName, a.files))
	}
	if a.overridden > 0 {
		warnings = append(warnings, fmt.Sprintf("%d fields say another member than the names of their files, which are believed", a.overridden))
	}
	for _, c := range l.Centres {
		if !a.centres[c] {
			have := make([]string, 0, len(a.centres))
			for name := range a.centres {
				have = append(have, name)
			}
			slices.Sort(have)
			return nil, &exit.Error{Code: exit.NotYet, What: "there are no members of centre " + c, At: "members.centres", Why: "centres of the files are " + cmp.Or(strings.Join(have, ", "), "none"),
				Fix: "add its files, or correct members.centres"}
		}
	}
	return warnings, nil
}
