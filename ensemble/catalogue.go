package ensemble

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Entry is one field of an input: its key and its location. An archive has millions of
// entries, so properties that many of them share are in Kind.
type Entry struct {
	Key
	*Kind // shared by many entries, read-only

	File           string
	Message, Sub   int   // 1-based; Sub counts fields within a message
	Offset, Length int64 // bytes of a GRIB message; 0 in NetCDF

	// Derivation computes a field that no file has; nil for the fields of files. File and position are those of
	// its last term.
	Derivation *Derivation
}

// Kind holds the properties that members, inits and leads of a quantity usually share.
type Kind struct {
	Unit       string // SI, of the values as they are read
	NativeUnit string // unit in the file
	LongName   string
	Name       string // of the variable in the file; for GRIB the short name of ecCodes
	// Guessed: the quantity or its level is read from Name alone, in a form that no convention defines.
	Guessed bool
	Grid    *Grid

	// LevelType is the type of level in the input ("isobaricInhPa"). It distinguishes levels
	// of kind OtherLevel. Statistic ("mean", "sum", "maximum") is computed over Interval
	// before the valid time; both are zero for instantaneous fields.
	LevelType string
	Statistic string
	Interval  Lead
	Members   int    // size of the ensemble according to the input; 0: unknown
	Centre    string // originating centre of a GRIB message ("ecmf"); "": unknown
	Process   string // generating process identifier of the centre ("153"); "": unknown
	Packing   string // encoding of the values: "grid_ccsds", "int16"
	// MemberType is how GRIB describes the member, such as "negative perturbation"; "" if it does not. Template is
	// the product definition template of edition 2; 0 is also that of NetCDF and edition 1.
	MemberType string
	Template   int
	// Basis is what a mean or spread over members is of: RawMembers or FullEnsemble, "" where the input states neither.
	Basis string
}

// The values of Kind.Basis.
const (
	RawMembers   = "raw members"   // the members of the input
	FullEnsemble = "full ensemble" // estimated from fewer members
)

// Identity contains the properties by which two fields of one input differ: the key, and others that distinguish quantities.
type Identity struct {
	Key
	LevelType, Statistic string
	Interval             Lead
	Centre, Basis        string
}

// Identity returns the identity of the entry. LevelType is included for OtherLevel only, Centre
// for members only, since each centre numbers its own members.
func (e Entry) Identity() Identity {
	id := Identity{Key: e.Key, Statistic: e.Statistic, Interval: e.Interval, Basis: e.Basis}
	if e.Level.Kind == OtherLevel {
		id.LevelType = e.LevelType
	}
	if e.Member != NoMember {
		id.Centre = e.Centre
	}
	return id
}

// LevelText describes the level; one of kind OtherLevel by its type, such as "hybrid:137" or "entireAtmosphere".
func (e Entry) LevelText() string {
	text := e.Level.String()
	if e.Level.Kind != OtherLevel || e.Kind == nil || e.LevelType == "" {
		return text
	}
	if e.Level == (Level{Kind: OtherLevel}) {
		return e.LevelType
	}
	return e.LevelType + ":" + strings.TrimPrefix(text, "level")
}

// StatisticText describes the statistic over time with its interval, relative to the initialisation: "sum 0h-6h"; ""
// for an instantaneous field.
func (e Entry) StatisticText() string {
	if e.Interval == 0 {
		return e.Statistic
	}
	return strings.TrimLeft(fmt.Sprintf("%s %s-%s", e.Statistic, e.Lead-e.Interval, e.Lead), " ")
}

// String describes the field in one line, with everything by which fields of one input differ.
func (e Entry) String() string {
	text := e.describe(e.LevelText())
	if e.Kind != nil {
		if s := e.StatisticText(); s != "" {
			text += ", " + s
		}
		if e.Basis != "" {
			text += ", of the " + e.Basis
		}
	}
	return text
}

// Compare orders entries by key, then by location. The order does not depend on that of the files.
func (e Entry) Compare(o Entry) int {
	if c := e.Key.Compare(o.Key); c != 0 {
		return c
	}
	if e.Kind != o.Kind {
		if c := cmp.Or(cmp.Compare(e.LevelType, o.LevelType), cmp.Compare(e.Interval, o.Interval), cmp.Compare(e.Statistic, o.Statistic), cmp.Compare(e.Centre, o.Centre), cmp.Compare(e.Basis, o.Basis)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(e.File, o.File), cmp.Compare(e.Message, o.Message), cmp.Compare(e.Sub, o.Sub))
}

// Unused is a part of an input that yields no field.
type Unused struct {
	File    string
	Message int    // 1-based; 0 for the file as a whole
	Name    string // name of the variable; may be ""
	Reason  string
}

// Catalogue is the content of an input. Every message of every file is in Entries or in Unused.
type Catalogue struct {
	Entries  []Entry  // in the order of Entry.Compare
	Unused   []Unused // by file and message
	Messages int      // number of GRIB messages and of NetCDF fields
	Warnings []string
}

// MissingField is a combination of init, lead and level for which some members of a Group are missing.
type MissingField struct {
	Variable string
	Level    Level
	Product  Product
	Init     Init
	Lead     Lead
	Members  []Member // the missing members
}

// Group is the entries of one variable, product and basis: a block of members × leads × levels × inits.
type Group struct {
	Variable string
	Product  Product
	Basis    string // as in Kind
	Unit     string
	Levels   []Level
	Members  []Member
	Leads    []Lead
	// LevelTexts are the levels by Entry.LevelText; Statistics are the statistics over time: "instant", "sum 6h",
	// "sum since init".
	LevelTexts, Statistics []string
	Inits                  []Init
	Grids                  []*Grid
	Packings               []string
	Centres                []string // originating centres; none for NetCDF
	Count                  int      // number of entries
	Missing                []MissingField
}

// unique returns the distinct values of a property, ascending.
func unique[T any](entries []Entry, get func(Entry) T, compare func(a, b T) int) []T {
	all := make([]T, len(entries))
	for i, e := range entries {
		all[i] = get(e)
	}
	slices.SortFunc(all, compare)
	return slices.CompactFunc(all, func(a, b T) bool { return compare(a, b) == 0 })
}

// compareLevels orders levels by kind, then by falling value.
func compareLevels(a, b Level) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Value, a.Value), cmp.Compare(b.End, a.End))
}

// Inits lists the distinct inits, ascending.
func (c *Catalogue) Inits() []Init {
	return unique(c.Entries, func(e Entry) Init { return e.Init }, func(a, b Init) int { return a.Compare(b.Time) })
}

// Leads lists the distinct leads, ascending.
func (c *Catalogue) Leads() []Lead {
	return unique(c.Entries, func(e Entry) Lead { return e.Lead }, cmp.Compare[Lead])
}

// Members lists the distinct members, ascending, NoMember first.
func (c *Catalogue) Members() []Member {
	return unique(c.Entries, func(e Entry) Member { return e.Member }, cmp.Compare[Member])
}

// Variables lists the distinct short names, ascending.
func (c *Catalogue) Variables() []string {
	return unique(c.Entries, func(e Entry) string { return e.Variable }, cmp.Compare[string])
}

// Levels lists the distinct levels, by falling pressure.
func (c *Catalogue) Levels() []Level {
	return unique(c.Entries, func(e Entry) Level { return e.Level }, compareLevels)
}

// Select returns the entries for which keep is true, in order.
func (c *Catalogue) Select(keep func(Entry) bool) []Entry {
	var out []Entry
	for _, e := range c.Entries {
		if keep(e) {
			out = append(out, e)
		}
	}
	return out
}

// Groups collects the entries by variable, product and basis, and finds the missing members of each
// block: combinations of init, lead, level and member that occur separately, but not
// together.
func (c *Catalogue) Groups() []Group {
	type name struct {
		variable string
		product  Product
		basis    string
	}
	by := map[name][]Entry{}
	var names []name
	for _, e := range c.Entries {
		n := name{e.Variable, e.Product, e.Basis}
		if by[n] == nil {
			names = append(names, n)
		}
		by[n] = append(by[n], e)
	}
	slices.SortFunc(names, func(a, b name) int {
		return cmp.Or(cmp.Compare(a.variable, b.variable), cmp.Compare(a.product, b.product), cmp.Compare(a.basis, b.basis))
	})
	var out []Group
	for _, n := range names {
		part := Catalogue{Entries: by[n]}
		g := Group{Variable: n.variable, Product: n.product, Basis: n.basis, Unit: by[n][0].Unit, Count: len(by[n]),
			Levels: part.Levels(), Members: part.Members(), Leads: part.Leads(), Inits: part.Inits(),
			Packings: unique(by[n], func(e Entry) string { return e.Packing }, cmp.Compare[string]),
			Centres:  slices.DeleteFunc(unique(by[n], func(e Entry) string { return e.Centre }, cmp.Compare[string]), func(c string) bool { return c == "" })}
		for _, e := range by[n] {
			if !slices.Contains(g.Grids, e.Grid) {
				g.Grids = append(g.Grids, e.Grid)
			}
		}
		g.LevelTexts, g.Statistics = LevelTexts(by[n]), statisticsOf(by[n])
		g.Missing = findMissing(by[n], g)
		out = append(out, g)
	}
	return out
}

// LevelTexts lists the distinct levels as texts, in the order of compareLevels.
func LevelTexts(entries []Entry) (out []string) {
	type level struct {
		Level
		kind string
	}
	for _, l := range unique(entries, func(e Entry) level {
		if e.Level.Kind == OtherLevel {
			return level{e.Level, e.LevelType}
		}
		return level{Level: e.Level}
	}, func(a, b level) int { return cmp.Or(compareLevels(a.Level, b.Level), cmp.Compare(a.kind, b.kind)) }) {
		e := Entry{Kind: &Kind{LevelType: l.kind}}
		e.Level = l.Level
		out = append(out, e.LevelText())
	}
	return out
}

// statisticsOf lists the distinct statistics over time with the lengths of their intervals: "instant", "sum 6h". Several
// intervals that all begin at the initialisation are "sum since init".
func statisticsOf(entries []Entry) (out []string) {
	lengths, sinceInit := map[string][]Lead{}, map[string]bool{}
	for _, e := range entries {
		l, seen := lengths[e.Statistic]
		sinceInit[e.Statistic] = (sinceInit[e.Statistic] || !seen) && e.Interval == e.Lead
		if !slices.Contains(l, e.Interval) {
			lengths[e.Statistic] = append(l, e.Interval)
		}
	}
	for _, method := range slices.Sorted(maps.Keys(lengths)) {
		slices.Sort(lengths[method])
		if method != "" && sinceInit[method] && len(lengths[method]) > 1 {
			out = append(out, method+" since init")
			continue
		}
		for _, l := range lengths[method] {
			switch {
			case l != 0:
				out = append(out, strings.TrimLeft(method+" "+l.String(), " "))
			default:
				out = append(out, cmp.Or(method, "instant"))
			}
		}
	}
	return out
}

// findMissing lists the missing members of a group.
func findMissing(entries []Entry, g Group) []MissingField {
	type place struct {
		init   Init
		lead   Lead
		level  Level
		member Member
	}
	have := map[place]bool{}
	for _, e := range entries {
		have[place{e.Init, e.Lead, e.Level, e.Member}] = true
	}
	var out []MissingField
	for _, init := range g.Inits {
		for _, lead := range g.Leads {
			for _, level := range g.Levels {
				var absent []Member
				for _, m := range g.Members {
					if !have[place{init, lead, level, m}] {
						absent = append(absent, m)
					}
				}
				if absent != nil {
					out = append(out, MissingField{g.Variable, level, g.Product, init, lead, absent})
				}
			}
		}
	}
	return out
}

// Duplicates returns the groups of entries with the same identity, in the order of their first
// entries.
func (c *Catalogue) Duplicates() [][]Entry {
	by := map[Identity][]Entry{}
	for _, e := range c.Entries {
		by[e.Identity()] = append(by[e.Identity()], e)
	}
	var out [][]Entry
	for _, e := range c.Entries {
		if same := by[e.Identity()]; len(same) > 1 && same[0] == e {
			out = append(out, same)
		}
	}
	return out
}

// String describes the missing members.
func (h MissingField) String() string {
	s := fmt.Sprintf("%s %s %s init %s lead %s", h.Variable, h.Level, h.Product, h.Init, h.Lead)
	if len(h.Members) == 1 && h.Members[0] == NoMember {
		return s
	}
	return s + ": member " + MemberRanges(h.Members)
}

// MemberRanges formats ascending members as ranges: "0-9, 12".
func MemberRanges(m []Member) string {
	s := ""
	for i := 0; i < len(m); {
		j := i
		for j+1 < len(m) && m[j+1] == m[j]+1 {
			j++
		}
		if s != "" {
			s += ", "
		}
		if s += m[i].String(); j > i {
			s += "-" + m[j].String()
		}
		i = j + 1
	}
	return s
}

// OwnUnits returns the units of variables outside the vocabulary, "1" where the input states none; nil without such
// variables.
func OwnUnits(entries []Entry) map[string]string {
	var out map[string]string
	for _, e := range entries {
		if _, known := VariableNamed(e.Variable); known || out[e.Variable] != "" {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		if out[e.Variable] = e.Unit; e.Unit == "" {
			out[e.Variable] = "1"
		}
	}
	return out
}
