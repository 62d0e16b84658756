package input

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// Fault is something wrong with an input. The same code finds it for `check`, which
// lists all, and for the commands that compute, which refuse the input or go on with
// a warning.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Code is what train and predict end with; 0 for a warning, with which they go on.
	Code    exit.Code `json:"exit_code"`
	What    string    `json:"what"`
	File    string    `json:"file,omitempty"`    // of the first field concerned
	Message int       `json:"message,omitempty"` // 1-based
	Byte    *int64    `json:"byte,omitempty"`    // of a GRIB message
	At      string    `json:"at"`                // the place in words
	Why     string    `json:"why,omitempty"`
	Fix     string    `json:"fix,omitempty"`
	Fields  int       `json:"fields,omitempty"` // concerned
}

// FaultKind groups faults.
type FaultKind string

// The kinds of faults, in the order in which they are listed.
const (
	FaultDamage      FaultKind = "damage"      // a file or a message that cannot be read
	FaultCycles      FaultKind = "cycles"      // fields of one start are those of another
	FaultMissing     FaultKind = "missing"     // fields, members or leads that are not there
	FaultDuplicate   FaultKind = "duplicate"   // two fields of one name
	FaultGrid        FaultKind = "grid"        // points that differ
	FaultUnit        FaultKind = "unit"        // units that are not known, or differ
	FaultNotFinite   FaultKind = "not finite"  // NaN and infinite values
	FaultImplausible FaultKind = "implausible" // values that the quantity cannot have
	FaultCopy        FaultKind = "copy"        // values of another member, start or lead
	FaultConstant    FaultKind = "constant"    // one value everywhere
	FaultUnused      FaultKind = "unused"      // what no field was made of
)

// FaultKinds is the order of the kinds.
var FaultKinds = []FaultKind{FaultDamage, FaultCycles, FaultMissing, FaultDuplicate, FaultGrid, FaultUnit, FaultNotFinite, FaultImplausible, FaultCopy,
	FaultConstant, FaultUnused}

// AsError is the fault as an error.
func (f Fault) AsError() *exit.Error {
	return &exit.Error{Code: f.Code, What: f.What, At: f.At, Why: f.Why, Fix: f.Fix}
}

// AtEntry names the first field concerned.
func (f Fault) AtEntry(e ensemble.Entry) Fault {
	f.File, f.Message = e.File, e.Message
	if e.Length > 0 {
		f.Byte = &e.Offset
	}
	if at := Location(e); f.At == "" {
		f.At = at
	} else {
		f.At += "; " + at
	}
	return f
}

// Location is where a field lies, in words.
func Location(e ensemble.Entry) string {
	at := fmt.Sprintf("%s, field %d", e.File, e.Message)
	if e.Length > 0 {
		at = fmt.Sprintf("%s, message %d, byte %d", e.File, e.Message, e.Offset)
	}
	return at + " (" + e.Key.String() + ")"
}

// SplitFaults makes an error of the faults that no work goes on with, nil if there are
// none, and texts of the others. What is bad comes before what is absent: waiting does
// not help.
func SplitFaults(faults []Fault) (warnings []string, err error) {
	var bad []*exit.Error
	for _, f := range faults {
		if f.Code == exit.OK {
			warnings = append(warnings, f.Warning())
			continue
		}
		bad = append(bad, f.AsError())
	}
	if bad == nil {
		return warnings, nil
	}
	slices.SortStableFunc(bad, func(a, b *exit.Error) int { return cmp.Compare(a.Code, b.Code) })
	first := *bad[0]
	first.More = bad[1:min(len(bad), humanise.MaxListed)]
	return warnings, &first
}

// Warning is the fault on one line.
func (f Fault) Warning() string {
	s := f.What
	if f.At != "" {
		s += ": " + f.At
	}
	if f.Why != "" {
		s += ": " + f.Why
	}
	return s
}

// RequiredFields is what a start must hold: all of the axes for all of the members.
type RequiredFields struct {
	Axes    ensemble.Axes
	Members []ensemble.Member
}

// Keys visits the fields of one start that a block asks for, by lead and member.
func (b RequiredFields) Keys(init ensemble.Init, visit func(ensemble.Key)) {
	for _, t := range b.Axes.Leads {
		for _, m := range b.Members {
			for _, v := range b.Axes.Variables {
				for _, l := range b.Axes.Levels {
					visit(ensemble.Key{Variable: v, Level: l.ForVariable(v), Member: m, Init: init, Lead: t})
				}
			}
		}
	}
}

// Contains tells whether a field is one that the block asks for.
func (b RequiredFields) Contains(e ensemble.Entry) bool {
	_, _, _, ok := b.Axes.Find(e.Key)
	return ok && e.Product == ensemble.MemberField && e.Statistic == "" && slices.Contains(b.Members, e.Member)
}

// CheckInventory finds what is wrong with the fields that blocks ask for, without their
// values: entries are those that are there. Their grids may differ where fields are
// interpolated.
func CheckInventory(c *ensemble.Catalogue, at string, entries []ensemble.Entry, blocks []RequiredFields, to Destination) (faults []Fault) {
	for _, b := range blocks {
		faults = append(faults, CheckOffered(c, at, b)...)
	}
	if faults != nil {
		return faults // what is nowhere need not be listed for every start
	}
	return slices.Concat(CentreFaults(entries), to.Faults(entries), UnitFaults(entries), CheckMissing(c, entries, blocks, EveryInit))
}

// CheckOffered finds the variables, levels, leads and members asked for that are nowhere in
// the input, so that a wrong name is told from an incomplete file.
func CheckOffered(c *ensemble.Catalogue, at string, b RequiredFields) (faults []Fault) {
	seen := map[string]bool{}
	perturbed, numbered := false, false
	for _, e := range c.Entries {
		if e.Product == ensemble.MemberField {
			seen["variable "+e.Variable] = true
			seen["level "+e.Level.String()] = true
			seen["lead "+e.Lead.String()] = true
			seen["member "+e.Member.String()] = true
			perturbed = perturbed || e.Member > 0
			numbered = numbered || e.Member != ensemble.NoMember
		}
	}
	missing := func(kind, name, have string) {
		if seen[kind+" "+name] {
			return
		}
		f := Fault{Kind: FaultMissing, Code: exit.BadData, What: fmt.Sprintf("%s %s is in none of the forecast files", kind, name), At: at,
			Why: "they hold " + have, Fix: "give the files that hold it, or correct the name; `ensemble inspect FILE` lists what a file holds"}
		switch {
		case kind == "member" && name == "0" && perturbed:
			f = MissingControlFault(at, have)
		case kind == "member":
			f.Code, f.Fix = exit.NotYet, "wait for the files of this member, or go on with the members that are there"
			f.Why += missingFileHint(c.Entries, name)
		}
		faults = append(faults, f)
	}
	for _, v := range b.Axes.Variables {
		missing("variable", v, "variables "+strings.Join(c.Variables(), ", "))
	}
	for _, l := range b.Axes.Levels {
		if l == ensemble.SingleLevel { // what the variables demand
			continue
		}
		missing("level", l.String(), "levels "+strings.Join(humanise.Strings(c.Levels()), ", "))
	}
	for _, t := range b.Axes.Leads {
		missing("lead", t.String(), "leads "+strings.Join(humanise.Strings(c.Leads()), ", "))
	}
	ofMembers := len(b.Members) > 0 && !slices.Equal(b.Members, []ensemble.Member{ensemble.NoMember})
	if ofMembers && hasOnlyPercentiles(c) {
		return append(faults, Fault{Kind: FaultMissing, Code: exit.BadData, What: "the forecast files hold percentiles, no members", At: at,
			Why: "percentiles are no members: nothing says which belong together in space and time", Fix: "give the files of the members, or take percentiles for them with members.percentiles: members (in train.yaml data.members.percentiles)"})
	}
	if ofMembers && !numbered {
		return append(faults, Fault{Kind: FaultMissing, Code: exit.NotYet, What: "the forecast files hold no members", At: at,
			Why: "their fields have no member number, as those of an analysis or of a single forecast", Fix: "give the files of the ensemble, or wait for them"})
	}
	for _, m := range b.Members {
		missing("member", m.String(), "members "+ensemble.MemberRanges(c.Members()))
	}
	return faults
}

func MissingControlFault(at, have string) Fault {
	return Fault{Kind: FaultMissing, Code: exit.BadData, What: "control member absent", At: at,
		Why: "there are " + have + "; since IFS cycle 50r1 the control is in the `oper` `fc` file", Fix: "add the file of the control, or leave the control out of the members"}
}

// initFields is what there is of one start, and what of the blocks is not.
type initFields struct {
	init    ensemble.Init
	have    map[ensemble.Key]ensemble.Entry // without init
	missing []ensemble.Key                  // without init
}

// EveryInit wants all of them.
func EveryInit(ensemble.Init) bool { return true }

// CheckMissing finds the fields that the starts wanted lack, of entries of a catalogue. A start
// that holds what another one lacks is that one's, of a wrong cycle.
func CheckMissing(c *ensemble.Catalogue, entries []ensemble.Entry, blocks []RequiredFields, wanted func(ensemble.Init) bool) (faults []Fault) {
	by := map[ensemble.Init]*initFields{}
	var starts []*initFields
	for _, e := range entries {
		s := by[e.Init]
		if s == nil {
			s = &initFields{init: e.Init, have: map[ensemble.Key]ensemble.Entry{}}
			by[e.Init] = s
			starts = append(starts, s)
		}
		k := e.Key
		k.Init = ensemble.Init{}
		if _, twice := s.have[k]; !twice {
			s.have[k] = e
		}
	}
	slices.SortFunc(starts, func(a, b *initFields) int { return a.init.Compare(b.init.Time) })
	var short []*initFields
	for _, s := range starts {
		for _, b := range blocks {
			b.Keys(ensemble.Init{}, func(k ensemble.Key) {
				if _, ok := s.have[k]; !ok {
					s.missing = append(s.missing, k)
				}
			})
		}
		if s.missing != nil {
			short = append(short, s)
		}
	}
	if f, ok := laggedFault(starts, len(short)); ok {
		return []Fault{f}
	}
	// Those with the least first: they are the ones that stray into others.
	byCount := slices.Clone(short)
	slices.SortStableFunc(byCount, func(a, b *initFields) int { return cmp.Compare(len(a.have), len(b.have)) })
	strays := map[*initFields]bool{}
	strayed := map[*initFields]bool{}
	for i, s := range byCount {
		for _, whole := range byCount[i+1:] {
			if !strays[whole] && s.completes(whole) {
				strays[s], strayed[whole] = true, true
				if wanted(whole.init) {
					faults = append(faults, mixedCyclesFault(whole, s))
				}
				break
			}
		}
	}
	var around *fileContext
	for _, s := range short {
		if wanted(s.init) && !strays[s] && !strayed[s] {
			if around == nil {
				around = newFileContext(c)
			}
			faults = append(faults, s.fault(around))
		}
	}
	return faults
}

// laggedFault tells whether several starts, all short, have different members each: those of
// one ensemble by its parts, which cannot be used together.
func laggedFault(starts []*initFields, short int) (Fault, bool) {
	if len(starts) < 3 || short < len(starts) {
		return Fault{}, false
	}
	seen := map[ensemble.Member]bool{}
	var parts []string
	for _, s := range starts {
		m := s.members()
		for _, x := range m {
			if seen[x] {
				return Fault{}, false
			}
			seen[x] = true
		}
		parts = append(parts, fmt.Sprintf("%s has member %s", s.init, ensemble.MemberRanges(m)))
	}
	if n := len(parts); n > humanise.MaxListed {
		parts = append(parts[:humanise.MaxListed], fmt.Sprintf("and %d more", n-humanise.MaxListed))
	}
	return Fault{Kind: FaultCycles, Code: exit.BadData, What: "cycles are mixed: every start has other members", Why: strings.Join(parts, "; "),
		Fix: "give files of one cycle; `predict` makes one ensemble of several starts with members.lagged.max_age", Fields: len(starts)}.AtEntry(starts[0].first()), true
}

// completes tells whether all that there is of a start is missing in another.
func (s *initFields) completes(whole *initFields) bool {
	if len(s.have) == 0 || len(s.have) > len(whole.missing) || len(s.have) == len(whole.have) {
		return false
	}
	for k := range s.have {
		if _, both := whole.have[k]; both {
			return false
		}
	}
	return true
}

func (s *initFields) first() ensemble.Entry {
	var out ensemble.Entry
	for _, e := range s.have {
		if out.File == "" || e.Compare(out) < 0 {
			out = e
		}
	}
	return out
}

func (s *initFields) members() []ensemble.Member {
	var out []ensemble.Member
	for k := range s.have {
		out = append(out, k.Member)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// mixedCyclesFault is the fault of a start some of whose fields are of another cycle.
func mixedCyclesFault(whole, stray *initFields) Fault {
	a, b := whole.first(), stray.first()
	f := Fault{Kind: FaultCycles, Code: exit.BadData, What: "cycles are mixed", At: fmt.Sprintf("%s %s, %s %s", a.File, whole.init, b.File, stray.init),
		Why:    fmt.Sprintf("member %s has fields of %s that are missing at %s", ensemble.MemberRanges(stray.members()), stray.init, whole.init),
		Fix:    "give files of one cycle, or of every cycle all",
		Fields: len(stray.have)}
	if slices.Equal(stray.members(), []ensemble.Member{0}) {
		f.What, f.Fix = "control is of another cycle", "give the control of "+whole.init.String()
	}
	return f.AtEntry(b)
}

// fault says what a start lacks.
func (s *initFields) fault(around *fileContext) Fault {
	first := s.missing[0]
	f := Fault{Kind: FaultMissing, Code: exit.NotYet, What: fmt.Sprintf("member %s is missing at lead %s", first.Member, first.Lead),
		At:     fmt.Sprintf("start %s, %s at %s", s.init, first.Variable, first.Level),
		Why:    fmt.Sprintf("%d fields are there, %d are not: %s", len(s.have), len(s.missing), MemberLeads(s.missing)),
		Fix:    "wait for the file, fetch it again, or leave the start or the member out",
		Fields: len(s.missing)}
	if first.Member == ensemble.NoMember {
		f.What = fmt.Sprintf("%s at %s is missing at lead %s", first.Variable, first.Level, first.Lead)
	}
	have := s.members()
	absent := func(m ensemble.Member) bool { return !slices.Contains(have, m) }
	switch {
	case absent(first.Member) && first.Member == 0 && slices.ContainsFunc(have, func(m ensemble.Member) bool { return m > 0 }):
		c := MissingControlFault("start "+s.init.String(), "members "+ensemble.MemberRanges(have))
		c.Fields = f.Fields
		f = c
	case absent(first.Member) && first.Member != ensemble.NoMember:
		f.What = fmt.Sprintf("member %s is missing at lead %s and all others", first.Member, first.Lead)
		f.Why += missingFileHint(slices.Collect(maps.Values(s.have)), first.Member.String())
	}
	f.Why += s.table()
	file := s.first().File
	f.File, f.At = file, f.At+"; fields of this start are in "+file
	if last, ok := s.truncation(around); ok {
		f.File, f.At, f.Code, f.Fix = "", "", exit.BadData, "fetch the file again"
		f.Why = "the file ends between two messages, where by the order of the others these would follow; " + f.Why
		f = f.AtEntry(last)
	}
	return f
}

// MemberLeads lists missing fields as members and leads: "member 3 at 24h, 48h; members 5-7
// at 48h".
func MemberLeads(missing []ensemble.Key) string {
	leads := map[ensemble.Member][]ensemble.Lead{}
	for _, k := range missing {
		leads[k.Member] = append(leads[k.Member], k.Lead)
	}
	alike := map[string][]ensemble.Member{}
	for m, t := range leads {
		slices.Sort(t)
		at := strings.Join(humanise.Strings(slices.Compact(t)), ", ")
		alike[at] = append(alike[at], m)
	}
	var rows []string
	var order [][]ensemble.Member
	text := map[ensemble.Member]string{}
	for at, m := range alike {
		slices.Sort(m)
		order = append(order, m)
		text[m[0]] = at
	}
	slices.SortFunc(order, func(a, b []ensemble.Member) int { return cmp.Compare(a[0], b[0]) })
	for _, m := range order {
		who := "member "
		switch {
		case m[0] == ensemble.NoMember:
			who = "fields of no member"
		case len(m) > 1:
			who = "members " + ensemble.MemberRanges(m)
		default:
			who += m[0].String()
		}
		rows = append(rows, who+" at "+text[m[0]])
	}
	if len(rows) > humanise.MaxListed {
		rows = append(rows[:humanise.MaxListed], fmt.Sprintf("and %d more members", len(order)-humanise.MaxListed))
	}
	return strings.Join(rows, "; ")
}

// GridFaults finds the grids that differ from the one that most entries have, and those
// of the same points that are stored in another way; fix is what helps against the first.
func GridFaults(entries []ensemble.Entry, fix string) (faults []Fault) {
	type group struct {
		first ensemble.Entry
		count int
	}
	var groups []*group
	by := map[*ensemble.Grid]*group{}
	for _, e := range entries {
		g := by[e.Grid]
		if g == nil {
			if at := slices.IndexFunc(groups, func(o *group) bool { return o.first.Grid.SameAs(e.Grid, GridTolerance) }); at >= 0 {
				g = groups[at]
				if turned := storageDifference(g.first.Grid, e.Grid); turned != "" {
					faults = append(faults, Fault{Kind: FaultGrid, What: "one grid is stored in several ways; all are read in one order", Why: turned}.AtEntry(e))
				}
			} else {
				g = &group{first: e}
				groups = append(groups, g)
			}
			by[e.Grid] = g
		}
		g.count++
	}
	if len(groups) < 2 {
		return faults
	}
	most := groups[0]
	for _, g := range groups {
		if g.count > most.count {
			most = g
		}
	}
	for _, g := range groups {
		if g != most {
			f := GridMismatchFault(most.first.File, most.first.Grid, g.first.File, g.first.Grid, fix)
			f.Fields = g.count
			faults = append(faults, f.AtEntry(g.first))
		}
	}
	return faults
}

// storageDifference says how the storage of one grid differs from that of another.
func storageDifference(a, b *ensemble.Grid) string {
	s, t := FormatSourceOrder(a), FormatSourceOrder(b)
	if s == t {
		return ""
	}
	return fmt.Sprintf("some%s, others%s", cmp.Or(s, " in our order"), cmp.Or(t, " in our order"))
}

func GridMismatchFault(a string, ga *ensemble.Grid, b string, gb *ensemble.Grid, fix string) Fault {
	return Fault{Kind: FaultGrid, Code: exit.BadData, What: "grids differ", Why: fmt.Sprintf("%s: %s; %s: %s", a, ga, b, gb), Fix: fix}
}

// UnitFaults finds variables of the vocabulary whose unit is not understood, and those
// that come in several units.
func UnitFaults(entries []ensemble.Entry) (faults []Fault) {
	type name struct{ variable, native string }
	seen := map[name]bool{}
	first := map[string]ensemble.Entry{}
	for _, e := range entries {
		n := name{e.Variable, e.NativeUnit}
		if seen[n] || !e.Product.HasVariableUnit() {
			continue
		}
		seen[n] = true
		known, ok := ensemble.VariableNamed(e.Variable)
		if ok && e.Unit != known.Unit {
			faults = append(faults, Fault{Kind: FaultUnit, Code: exit.BadData, What: fmt.Sprintf("unit %q of %s is not understood", e.NativeUnit, e.Variable),
				Why: "values in " + known.Unit + " are needed", Fix: "write the right unit into the file"}.AtEntry(e))
			continue
		}
		o, other := first[e.Variable]
		switch {
		case !other:
			first[e.Variable] = e
		case o.Unit != e.Unit:
			faults = append(faults, Fault{Kind: FaultUnit, Code: exit.BadData, What: fmt.Sprintf("units of %s differ", e.Variable),
				Why: fmt.Sprintf("%q in %s, %q in %s", o.NativeUnit, o.File, e.NativeUnit, e.File), Fix: "bring the files to one unit"}.AtEntry(e))
		default:
			faults = append(faults, Fault{Kind: FaultUnit, What: fmt.Sprintf("units of %s differ; all are read as %s", e.Variable, e.Unit),
				Why: fmt.Sprintf("%q in %s, %q in %s", o.NativeUnit, o.File, e.NativeUnit, e.File)}.AtEntry(e))
		}
	}
	return faults
}

// ConflictFault is the fault of two fields that have one name and differ.
func ConflictFault(a, b ensemble.Entry) Fault {
	return Fault{Kind: FaultDuplicate, Code: exit.BadData, What: "two messages describe the same field and differ",
		At:  fmt.Sprintf("%s message %d and %s message %d", a.File, a.Message, b.File, b.Message),
		Why: "which of the two is right cannot be known", Fix: "remove one of them from the input", Fields: 2}.AtEntry(b)
}
