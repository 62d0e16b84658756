package input

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/nearest"
	"github.com/ensemble-weather/ensemble/io/unit"
)

// Fault is a fault of an input. `ensemble check` lists all faults; commands that compute refuse the input
// because of the same faults, or continue with a warning.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Code is the exit code of train and predict; 0: they continue with a warning.
	Code    exit.Code `json:"exit_code"`
	What    string    `json:"what"`
	File    string    `json:"file,omitempty"`    // file of the first field concerned
	Message int       `json:"message,omitempty"` // 1-based
	Byte    *int64    `json:"byte,omitempty"`    // offset of a GRIB message
	At      string    `json:"at"`                // location as text
	Why     string    `json:"why,omitempty"`     // cause, with values found
	Fix     string    `json:"fix,omitempty"`     // remedy
	Fields  int       `json:"fields,omitempty"`  // number of fields concerned
}

// FaultKind groups faults.
type FaultKind string

// Kinds of faults, in the order in which they are listed.
const (
	FaultDamage      FaultKind = "damage"      // a file or message that cannot be read
	FaultCycles      FaultKind = "cycles"      // fields of another initialisation
	FaultMissing     FaultKind = "missing"     // missing fields, members or leads
	FaultDuplicate   FaultKind = "duplicate"   // two fields with the same key
	FaultGrid        FaultKind = "grid"        // grids that differ
	FaultUnit        FaultKind = "unit"        // unknown units, or several
	FaultNotFinite   FaultKind = "not finite"  // NaN and infinite values
	FaultImplausible FaultKind = "implausible" // values outside the range of the quantity
	FaultCopy        FaultKind = "copy"        // values of another member, initialisation or lead
	FaultConstant    FaultKind = "constant"    // the same value at all points
	FaultInterval    FaultKind = "interval"    // statistics over time that differ, or are not unique
	FaultMixed       FaultKind = "mixed"       // fields of another version of the forecast model, or members of several types
	FaultUnused      FaultKind = "unused"      // messages of which no field was made
)

// FaultKinds lists the kinds in their order.
var FaultKinds = []FaultKind{FaultDamage, FaultCycles, FaultMissing, FaultDuplicate, FaultGrid, FaultUnit, FaultInterval, FaultNotFinite, FaultImplausible, FaultCopy,
	FaultConstant, FaultMixed, FaultUnused}

// AsError returns the fault as an error.
func (f Fault) AsError() *exit.Error {
	return &exit.Error{Code: f.Code, What: f.What, At: f.At, Why: f.Why, Fix: f.Fix}
}

// AtEntry returns the fault with the location of a field.
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

// Location describes the location of a field: file, message, byte.
func Location(e ensemble.Entry) string {
	at := fmt.Sprintf("%s, field %d", e.File, e.Message)
	if e.Length > 0 {
		at = fmt.Sprintf("%s, message %d, byte %d", e.File, e.Message, e.Offset)
	}
	return at + " (" + e.String() + ")"
}

// SplitFaults combines the faults that prevent computation into an error (nil if none) and returns the others as
// warnings. Damaged input comes before missing input, as waiting does not repair it.
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

// Warning returns the fault as one line.
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

// RequiredFields is what every initialisation must contain: all combinations of the axes for all members.
type RequiredFields struct {
	Axes       ensemble.Axes
	Members    []ensemble.Member
	OfTraining bool // the requirements are those of a train.yaml, whose keys the fixes of faults name
	// Exchangeable members have no control: number 0 is required as any other number.
	Exchangeable bool
}

// RequirementsOf returns what a training with these axes and members requires.
func RequirementsOf(c *config.TrainConfig, axes ensemble.Axes, members []ensemble.Member) RequiredFields {
	return RequiredFields{Axes: axes, Members: members, OfTraining: true, Exchangeable: c.Data.Members.Control == ensemble.NoControl}
}

// Keys calls visit for each field of one initialisation, by lead and member.
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

// Contains reports whether a field belongs to the block.
func (b RequiredFields) Contains(e ensemble.Entry) bool {
	_, _, _, ok := b.Axes.Find(e.Key)
	return ok && e.Product == ensemble.MemberField && slices.Contains(b.Members, e.Member)
}

// CheckInventory checks the fields that blocks require, without their values. entries are the existing fields;
// their grids may differ if fields are interpolated.
func CheckInventory(c *ensemble.Catalogue, at string, entries []ensemble.Entry, blocks []RequiredFields, to Destination) (faults []Fault) {
	for _, b := range blocks {
		faults = append(faults, CheckOffered(c, at, b)...)
	}
	if faults != nil {
		return faults // fields that no initialisation has are not listed for each
	}
	blocks = slices.Clone(blocks)
	for i, b := range blocks {
		if !b.Exchangeable || !b.OfTraining {
			continue
		}
		faults = append(faults, typesOfMemberFaults(entries)...)
		if f, mixed := someWithoutZeroFault(entries); mixed {
			faults = append(faults, f)
			blocks[i].Members = slices.DeleteFunc(slices.Clone(b.Members), func(m ensemble.Member) bool { return m == ensemble.Control })
		}
	}
	return slices.Concat(faults, CentreFaults(entries), to.Faults(entries), UnitFaults(entries), CheckMissing(c, entries, blocks, EveryInit))
}

// CheckOffered finds required variables, levels, leads and members that are nowhere in the input. This
// distinguishes a wrong name from an incomplete file.
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
			Why: "they contain " + have, Fix: "give files that contain it, or correct the name; `ensemble inspect FILE` lists the content of a file"}
		if lines := b.possible(c); kind != "member" && lines != "" {
			f.Fix = "under `data:` write " + lines + "; or give files that contain it (`ensemble inspect FILE` lists the content of a file)"
		}
		if kind == "variable" {
			f.Fix = orOwnName(c.Entries, name, b.Axes.Levels, f.Fix)
		}
		switch {
		case kind == "member" && name == "0" && perturbed && !b.Exchangeable:
			f = MissingControlFault(at, have)
		case kind == "member":
			f.Code, f.Fix = exit.NotYet, "wait for the files of this member, or continue with the present members"
			f.Why += missingFileHint(c.Entries, name)
			if name == "0" && perturbed && !b.OfTraining {
				f.Fix += "; if members are numbered from 1, set members.control: exclude"
			}
		}
		faults = append(faults, f)
	}
	for _, v := range b.Axes.Variables {
		missing("variable", v, "variables "+strings.Join(c.Variables(), ", "))
	}
	for _, l := range b.Axes.Levels {
		if l == ensemble.SingleLevel { // levels of the requested variables
			continue
		}
		missing("level", l.String(), "levels "+strings.Join(humanise.Strings(c.Levels()), ", "))
	}
	for _, t := range b.Axes.Leads {
		missing("lead", t.String(), "leads "+strings.Join(humanise.Strings(c.Leads()), ", "))
	}
	ofMembers := len(b.Members) > 0 && !slices.Equal(b.Members, []ensemble.Member{ensemble.NoMember})
	if ofMembers && hasOnlyPercentiles(c) {
		return append(faults, Fault{Kind: FaultMissing, Code: exit.BadData, What: "the forecast files contain percentiles instead of members", At: at,
			Why: "percentiles are not members: they do not form trajectories in space and time", Fix: "give the files of the members, or use percentiles as members with members.percentiles: members (in train.yaml data.members.percentiles)"})
	}
	if ofMembers && !numbered {
		return append(faults, Fault{Kind: FaultMissing, Code: exit.NotYet, What: "the forecast files contain no members", At: at,
			Why: "their fields have no member number, as those of an analysis or of a single forecast", Fix: "give the files of the ensemble, or wait for them"})
	}
	for _, m := range b.Members {
		missing("member", m.String(), "members "+ensemble.MemberRanges(c.Members()))
	}
	return faults
}

// orOwnName puts before a fix that names the variables of the files can be stated, if a variable of the vocabulary is
// missing and they have own ones.
func orOwnName(entries []ensemble.Entry, missing string, levels []ensemble.Level, fix string) string {
	known, ok := ensemble.VariableNamed(missing)
	if !ok {
		return fix
	}
	at := slices.IndexFunc(entries, func(e ensemble.Entry) bool {
		_, vocabulary := ensemble.VariableNamed(e.Variable)
		return !vocabulary && e.Product == ensemble.MemberField && !e.Init.IsZero()
	})
	if at < 0 {
		return fix
	}
	is := ensemble.VariableAt{Variable: missing, HasLevel: known.OnManyLevels() && len(levels) == 1 && entries[at].Level == ensemble.Level{}}
	if is.HasLevel {
		is.Level = levels[0]
	}
	name := entries[at].Variable
	if entries[at].Kind != nil {
		name = cmp.Or(entries[at].Name, name)
	}
	return fmt.Sprintf("if %s is %s, under `data:` of train.yaml add `names: {%s: %s}`, on the command line `--names %s=%s`; else %s", name, missing, config.Quote(name), is, name, is, fix)
}

// possible returns the lines of a configuration with the variables, levels and leads that are required and in the files; of
// what is in no file, those that the files have. Each line is quoted by backticks; "" if the files have none, and for
// requirements of no configuration.
func (b RequiredFields) possible(c *ensemble.Catalogue) string {
	if !b.OfTraining {
		return ""
	}
	members := &ensemble.Catalogue{Entries: c.Select(func(e ensemble.Entry) bool {
		return e.Product == ensemble.MemberField && e.Member != ensemble.NoMember && !e.Init.IsZero()
	})}
	var lines []string
	add := func(key string, wanted, have []string, most int) (changed bool) {
		var kept []string
		if len(wanted) == 0 {
			return false
		}
		for _, w := range wanted {
			if near := nearest.Find(w, have); slices.Contains(have, w) {
				kept = append(kept, w)
			} else if near != "" && key == "variables" && !slices.Contains(wanted, near) {
				kept = append(kept, near)
			}
		}
		if len(kept) == 0 {
			kept = have[:min(most, len(have))]
		}
		if slices.Equal(kept, wanted) || len(kept) == 0 {
			return false
		}
		quoted := make([]string, len(kept))
		for i, k := range kept {
			quoted[i] = config.Quote(k)
		}
		lines = append(lines, "`"+key+": ["+strings.Join(quoted, ", ")+"]`")
		return true
	}
	add("variables", b.Axes.Variables, members.Variables(), 1)
	if !slices.Contains(b.Axes.Levels, ensemble.SingleLevel) {
		have := humanise.Strings(members.Levels())
		if add("levels", humanise.Strings(b.Axes.Levels), have, 1) && !slices.ContainsFunc(b.Axes.Levels, func(l ensemble.Level) bool { return slices.Contains(have, l.String()) }) {
			lines = append(lines, fmt.Sprintf("`targets: [{variable: %s, levels: [%s]}]`", config.Quote(b.Axes.Variables[0]), config.Quote(have[0])))
		}
	}
	leads := members.Leads()
	if n := len(b.Axes.Leads); add("leads", humanise.Strings(b.Axes.Leads), humanise.Strings(leads), len(leads)) && !slices.Contains(leads, b.Axes.Leads[n-1]) {
		lines = append(lines, "`target_lead: "+leads[len(leads)-1].String()+"`")
	}
	return strings.Join(lines, ", ")
}

// MissingControlFault returns the fault of a missing control.
func MissingControlFault(at, have string) Fault {
	return Fault{Kind: FaultMissing, Code: exit.BadData, What: "control member absent", At: at,
		Why: "the input has " + have + "; since IFS cycle 50r1 the control is in the `oper` `fc` file, without a member number",
		Fix: "add that file and set members.unnumbered: control (in train.yaml data.members.unnumbered); or exclude the control from the members"}
}

// initFields lists the present fields of one initialisation, and the required ones that are missing.
type initFields struct {
	init    ensemble.Init
	have    map[ensemble.Key]ensemble.Entry // keys without init
	missing []ensemble.Key                  // keys without init
	// exchangeable members have no control, as in RequiredFields.
	exchangeable bool
}

// EveryInit selects all initialisations.
func EveryInit(ensemble.Init) bool { return true }

// CheckMissing finds the required fields that initialisations lack; wanted selects the initialisations. Fields
// that another initialisation lacks at the same valid time are reported as mixed initialisations.
func CheckMissing(c *ensemble.Catalogue, entries []ensemble.Entry, blocks []RequiredFields, accept func(ensemble.Init) bool) (faults []Fault) {
	by := map[ensemble.Init]*initFields{}
	var inits []*initFields
	for _, e := range entries {
		s := by[e.Init]
		if s == nil {
			s = &initFields{init: e.Init, have: map[ensemble.Key]ensemble.Entry{}}
			by[e.Init] = s
			inits = append(inits, s)
		}
		k := e.Key
		k.Init = ensemble.Init{}
		if _, twice := s.have[k]; !twice {
			s.have[k] = e
		}
	}
	slices.SortFunc(inits, func(a, b *initFields) int { return a.init.Compare(b.init.Time) })
	var short []*initFields
	for _, s := range inits {
		for _, b := range blocks {
			s.exchangeable = s.exchangeable || b.Exchangeable
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
	if f, ok := laggedFault(inits, len(short)); ok {
		return []Fault{f}
	}
	// Smallest first: these are the stray fields.
	byCount := slices.Clone(short)
	slices.SortStableFunc(byCount, func(a, b *initFields) int { return cmp.Compare(len(a.have), len(b.have)) })
	strays := map[*initFields]bool{}
	strayed := map[*initFields]bool{}
	for i, s := range byCount {
		for _, whole := range byCount[i+1:] {
			if !strays[whole] && s.completes(whole) {
				strays[s], strayed[whole] = true, true
				if accept(whole.init) {
					faults = append(faults, mixedCyclesFault(whole, s))
				}
				break
			}
		}
	}
	var around *fileContext
	for _, s := range short {
		if accept(s.init) && !strays[s] && !strayed[s] {
			if around == nil {
				around = newFileContext(c)
			}
			faults = append(faults, s.fault(around))
		}
	}
	return faults
}

// laggedFault reports whether several incomplete initialisations have different members each: parts of a lagged
// ensemble, which cannot be used as one without members.lagged.
func laggedFault(inits []*initFields, short int) (Fault, bool) {
	if len(inits) < 3 || short < len(inits) {
		return Fault{}, false
	}
	seen := map[ensemble.Member]bool{}
	var parts []string
	for _, s := range inits {
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
	return Fault{Kind: FaultCycles, Code: exit.BadData, What: "initialisations are mixed: each has different members", Why: strings.Join(parts, "; "),
		Fix: "give files of one initialisation; `predict` combines several into a lagged ensemble with members.lagged.max_age", Fields: len(inits)}.AtEntry(inits[0].first()), true
}

// completes reports whether all fields of this initialisation are missing in another one.
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

// first returns the first entry.
func (s *initFields) first() ensemble.Entry {
	var out ensemble.Entry
	for _, e := range s.have {
		if out.File == "" || e.Compare(out) < 0 {
			out = e
		}
	}
	return out
}

// members lists the members.
func (s *initFields) members() []ensemble.Member {
	var out []ensemble.Member
	for k := range s.have {
		out = append(out, k.Member)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// mixedCyclesFault returns the fault of an initialisation with fields of another one.
func mixedCyclesFault(whole, stray *initFields) Fault {
	a, b := whole.first(), stray.first()
	f := Fault{Kind: FaultCycles, Code: exit.BadData, What: "initialisations are mixed", At: fmt.Sprintf("%s %s, %s %s", a.File, whole.init, b.File, stray.init),
		Why:    fmt.Sprintf("member %s has fields of %s that are missing at %s", ensemble.MemberRanges(stray.members()), stray.init, whole.init),
		Fix:    "give files of one initialisation, or all files of each",
		Fields: len(stray.have)}
	if slices.Equal(stray.members(), []ensemble.Member{0}) {
		f.What, f.Fix = "the control is of another initialisation", "give the control of "+whole.init.String()
	}
	return f.AtEntry(b)
}

// fault returns the fault of an incomplete initialisation.
func (s *initFields) fault(around *fileContext) Fault {
	first := s.missing[0]
	f := Fault{Kind: FaultMissing, Code: exit.NotYet, What: fmt.Sprintf("member %s is missing at lead %s", first.Member, first.Lead),
		At:     fmt.Sprintf("initialisation %s, %s at %s", s.init, first.Variable, first.Level),
		Why:    fmt.Sprintf("%d fields are present, %d are missing: %s", len(s.have), len(s.missing), MemberLeads(s.missing)),
		Fix:    "wait for the file, fetch it again, or exclude the initialisation or the member",
		Fields: len(s.missing)}
	if first.Member == ensemble.NoMember {
		f.What = fmt.Sprintf("%s at %s is missing at lead %s", first.Variable, first.Level, first.Lead)
	}
	have := s.members()
	absent := func(m ensemble.Member) bool { return !slices.Contains(have, m) }
	switch {
	case absent(first.Member) && first.Member == 0 && !s.exchangeable && slices.ContainsFunc(have, func(m ensemble.Member) bool { return m > 0 }):
		c := MissingControlFault("initialisation "+s.init.String(), "members "+ensemble.MemberRanges(have))
		c.Fields = f.Fields
		f = c
	case absent(first.Member) && first.Member != ensemble.NoMember:
		f.What = fmt.Sprintf("member %s is missing at lead %s and all others", first.Member, first.Lead)
		f.Why += missingFileHint(slices.Collect(maps.Values(s.have)), first.Member.String())
	}
	f.Why += s.table()
	file := s.first().File
	f.File, f.At = file, f.At+"; fields of this initialisation are in "+file
	if last, ok := s.truncation(around); ok {
		f.File, f.At, f.Code, f.Fix = "", "", exit.BadData, "transfer the file again"
		f.Why = "the file ends between two messages, before these in the order of the other files; " + f.Why
		f = f.AtEntry(last)
	}
	return f
}

// MemberLeads lists missing fields as members and leads: "member 3 at 24h, 48h; members 5-7 at 48h".
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

// GridFaults finds grids that differ from the most common one, and grids of the same points with another scan
// order. fix is the remedy for the former.
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
					faults = append(faults, Fault{Kind: FaultGrid, What: "fields of one grid differ in scan order; all are read in one order", Why: turned}.AtEntry(e))
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

// storageDifference describes how the scan order of one grid differs from that of another.
func storageDifference(a, b *ensemble.Grid) string {
	s, t := FormatSourceOrder(a), FormatSourceOrder(b)
	if s == t {
		return ""
	}
	return fmt.Sprintf("some have%s, others%s", cmp.Or(s, " in our order"), cmp.Or(t, " in our order"))
}

// GridMismatchFault returns the fault of two grids that differ.
func GridMismatchFault(a string, ga *ensemble.Grid, b string, gb *ensemble.Grid, fix string) Fault {
	return Fault{Kind: FaultGrid, Code: exit.BadData, What: "grids differ", Why: fmt.Sprintf("%s: %s; %s: %s", a, ga, b, gb), Fix: fix}
}

// directionReason is the end of the faults of DirectionFaults.
const directionReason = " is a direction, which cannot be averaged, interpolated or scored"

// DirectionFaults finds directions, which have no mean, spread, interpolation or score on a line. Each variable is
// reported once.
func DirectionFaults(entries []ensemble.Entry) (faults []Fault) {
	seen := map[string]bool{}
	type quantity struct{ variable, native, long string }
	tested := map[quantity]bool{} // files have many fields of few quantities
	for _, e := range entries {
		q := quantity{e.Variable, e.NativeUnit, e.LongName}
		if tested[q] || seen[e.Variable] {
			continue
		}
		tested[q] = true
		if e.IsDirection() {
			seen[e.Variable] = true
			faults = append(faults, Fault{Kind: FaultUnit, Code: exit.BadData, What: e.Variable + directionReason,
				Why: fmt.Sprintf("unit %q: 350 and 10 degrees are 20 degrees apart, and their mean is 0, not 180", e.NativeUnit),
				Fix: "use the components, such as u and v or 10u and 10v, or leave " + e.Variable + " out"}.AtEntry(e))
		}
	}
	return faults
}

// UnitFaults finds known variables with unknown units, variables with several units, and directions.
func UnitFaults(entries []ensemble.Entry) (faults []Fault) {
	faults = DirectionFaults(entries)
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
			why, instead, fix := unit.Why(e.NativeUnit, known.Unit)
			if instead != "" {
				fix = strings.TrimRight("if the values are in "+instead+", "+NamingFix("units", e, instead)+"; "+fix, "; ")
			}
			faults = append(faults, Fault{Kind: FaultUnit, Code: exit.BadData, What: fmt.Sprintf("unit %q of %s cannot be converted to %s", e.NativeUnit, e.Variable, known.Unit),
				Why: why, Fix: fix}.AtEntry(e))
			continue
		}
		o, other := first[e.Variable]
		switch {
		case !other:
			first[e.Variable] = e
		case o.Unit != e.Unit:
			faults = append(faults, Fault{Kind: FaultUnit, Code: exit.BadData, What: fmt.Sprintf("units of %s differ", e.Variable),
				Why: fmt.Sprintf("%q in %s, %q in %s", o.NativeUnit, o.File, e.NativeUnit, e.File), Fix: "convert the files to one unit; or, if they are in one unit and state it differently, " + NamingFix("units", e, cmp.Or(o.NativeUnit, e.NativeUnit))}.AtEntry(e))
		default:
			faults = append(faults, Fault{Kind: FaultUnit, What: fmt.Sprintf("units of %s differ; all are read as %s", e.Variable, e.Unit),
				Why: fmt.Sprintf("%q in %s, %q in %s", o.NativeUnit, o.File, e.NativeUnit, e.File)}.AtEntry(e))
		}
	}
	return faults
}

// ConflictFault returns the fault of two fields with the same key and different values. It names what they differ in.
func ConflictFault(a, b ensemble.Entry) Fault {
	f := Fault{Kind: FaultDuplicate, Code: exit.BadData, What: "two messages describe the same field and differ",
		At:  fmt.Sprintf("%s message %d and %s message %d", a.File, a.Message, b.File, b.Message),
		Why: "it is unknown which of the two is correct", Fix: "remove one of them from the input", Fields: 2}
	differ := func(what, x, y string) {
		if x != y {
			f.Why += fmt.Sprintf("; %s %s and %s", what, cmp.Or(x, "none"), cmp.Or(y, "none"))
		}
	}
	differ("their types of member are", a.MemberType, b.MemberType)
	differ("their generating processes are", a.Process, b.Process)
	differ("their templates are", fmt.Sprint(a.Template), fmt.Sprint(b.Template))
	differ("their units are", a.NativeUnit, b.NativeUnit)
	differ("their types of level are", a.LevelType, b.LevelType)
	const negative, positive = "negative perturbation", "positive perturbation"
	switch {
	case a.MemberType == negative && b.MemberType == positive || a.MemberType == positive && b.MemberType == negative:
		f.What = fmt.Sprintf("a positive and a negative perturbation have one member number, %s", a.Member)
		f.Why = "they are two members, whose producer numbers pairs of perturbations"
		f.Fix = "number them 2n-1 and 2n with members.pairs: members (in train.yaml data.members.pairs), or --pairs"
	case a.MemberType != b.MemberType:
		f.Fix = "remove the files of one of the two, or assign member numbers with members.filename_pattern (in train.yaml data.members.filename_pattern), or --filename-pattern"
	case a.File != b.File && a.Product == ensemble.MemberField:
		f.Why += fmt.Sprintf("; two files have %s of one field", map[bool]string{true: "no member number", false: "member " + a.Member.String()}[a.Member == ensemble.NoMember])
		f.Fix = "if each file is a member, take its number from its name with members.filename_pattern (in train.yaml data.members.filename_pattern), or --filename-pattern; otherwise remove one of them from the input"
	}
	return f.AtEntry(b)
}
