package ensemble

import (
	"cmp"
	"fmt"
	"slices"
)

// Entry is one field of an input: what it is and where it lies. An archive has millions of
// them, so that what many have in common is kept once.
type Entry struct {
	Key
	*Kind // shared, never changed

	File           string
	Message, Sub   int   // 1-based; Sub counts fields within a message
	Offset, Length int64 // bytes of a GRIB message; 0 in NetCDF
}

// Kind is what all members, starts and leads of a quantity mostly have in common.
type Kind struct {
	Unit       string // SI, of the values as they are read
	NativeUnit string // as the file has them
	LongName   string
	Grid       *Grid

	// LevelType is the input's own word for the level ("isobaricInhPa"), which
	// tells levels of kind OtherLevel apart. Statistic over Interval before the
	// valid time ("mean", "sum", "maximum"); both zero at an instant.
	LevelType string
	Statistic string
	Interval  Lead
	Members   int    // size of the ensemble as the input says, 0 if it does not
	Centre    string // that a GRIB message says it comes from ("ecmf"), empty elsewhere
	Process   string // the centre's number of the forecast model that made it ("153"), empty if it is not said
	Packing   string // how the values are stored, "grid_ccsds", "int16"
}

// Identity is what must differ between two fields of one input: the key, and
// what else tells quantities apart.
type Identity struct {
	Key
	LevelType, Statistic string
	Interval             Lead
	Centre               string
}

// Identity of the entry. LevelType counts only where the level itself does not
// say what it is, Centre only of members: each centre counts its own.
func (e Entry) Identity() Identity {
	id := Identity{Key: e.Key, Statistic: e.Statistic, Interval: e.Interval}
	if e.Level.Kind == OtherLevel {
		id.LevelType = e.LevelType
	}
	if e.Member != NoMember {
		id.Centre = e.Centre
	}
	return id
}

// Compare orders entries by key, then by place; the order does not depend on the
// order in which files were given.
func (e Entry) Compare(o Entry) int {
	if c := e.Key.Compare(o.Key); c != 0 {
		return c
	}
	if e.Kind != o.Kind {
		if c := cmp.Or(cmp.Compare(e.LevelType, o.LevelType), cmp.Compare(e.Interval, o.Interval), cmp.Compare(e.Statistic, o.Statistic), cmp.Compare(e.Centre, o.Centre)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(e.File, o.File), cmp.Compare(e.Message, o.Message), cmp.Compare(e.Sub, o.Sub))
}

// Unused is something in an input that no field was made of.
type Unused struct {
	File    string
	Message int    // 1-based; 0 for the file as a whole
	Name    string // of the variable, if there is one
	Reason  string
}

// Catalogue is what an input holds. Every message of every file is in Entries or
// in Unused.
type Catalogue struct {
	Entries  []Entry  // in the order of Entry.Compare
	Unused   []Unused // by file and message
	Messages int      // GRIB messages, and fields of NetCDF files
	Warnings []string
}

// MissingField is a field that the rest of the input leads one to expect.
type MissingField struct {
	Variable string
	Level    Level
	Product  Product
	Init     Init
	Lead     Lead
	Members  []Member // those that are absent here
}

// Group is the entries of one variable and product that make a block of members ×
// leads × levels × starts.
type Group struct {
	Variable string
	Product  Product
	Unit     string
	Levels   []Level
	Members  []Member
	Leads    []Lead
	Inits    []Init
	Grids    []*Grid
	Packings []string
	Centres  []string // that messages say; none of NetCDF
	Count    int
	Missing  []MissingField
}

// unique gives the sorted distinct values of a property.
func unique[T any](entries []Entry, get func(Entry) T, compare func(a, b T) int) []T {
	all := make([]T, len(entries))
	for i, e := range entries {
		all[i] = get(e)
	}
	slices.SortFunc(all, compare)
	return slices.CompactFunc(all, func(a, b T) bool { return compare(a, b) == 0 })
}

func compareLevels(a, b Level) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Value, a.Value))
}

// Inits lists the distinct starts, ascending; likewise the others.
func (c *Catalogue) Inits() []Init {
	return unique(c.Entries, func(e Entry) Init { return e.Init }, func(a, b Init) int { return a.Compare(b.Time) })
}

// Leads lists the distinct forecast periods, ascending.
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

// Levels lists the distinct levels, pressure falling.
func (c *Catalogue) Levels() []Level {
	return unique(c.Entries, func(e Entry) Level { return e.Level }, compareLevels)
}

// Select gives the entries that a filter keeps, in order.
func (c *Catalogue) Select(keep func(Entry) bool) []Entry {
	var out []Entry
	for _, e := range c.Entries {
		if keep(e) {
			out = append(out, e)
		}
	}
	return out
}

// Groups collects the entries by variable and product, and finds the holes of
// each block: combinations of a start, lead, level and member that all occur, but
// not together.
func (c *Catalogue) Groups() []Group {
	type name struct {
		variable string
		product  Product
	}
	by := map[name][]Entry{}
	var names []name
	for _, e := range c.Entries {
		n := name{e.Variable, e.Product}
		if by[n] == nil {
			names = append(names, n)
		}
		by[n] = append(by[n], e)
	}
	slices.SortFunc(names, func(a, b name) int {
		return cmp.Or(cmp.Compare(a.variable, b.variable), cmp.Compare(a.product, b.product))
	})
	var out []Group
	for _, n := range names {
		part := Catalogue{Entries: by[n]}
		g := Group{Variable: n.variable, Product: n.product, Unit: by[n][0].Unit, Count: len(by[n]),
			Levels: part.Levels(), Members: part.Members(), Leads: part.Leads(), Inits: part.Inits(),
			Packings: unique(by[n], func(e Entry) string { return e.Packing }, cmp.Compare[string]),
			Centres:  slices.DeleteFunc(unique(by[n], func(e Entry) string { return e.Centre }, cmp.Compare[string]), func(c string) bool { return c == "" })}
		for _, e := range by[n] {
			if !slices.Contains(g.Grids, e.Grid) {
				g.Grids = append(g.Grids, e.Grid)
			}
		}
		g.Missing = findMissing(by[n], g)
		out = append(out, g)
	}
	return out
}

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

// Duplicates gives the groups of entries that claim to be the same field.
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

// String says a hole in a few words.
func (h MissingField) String() string {
	s := fmt.Sprintf("%s %s %s start %s lead %s", h.Variable, h.Level, h.Product, h.Init, h.Lead)
	if len(h.Members) == 1 && h.Members[0] == NoMember {
		return s
	}
	return s + ": member " + MemberRanges(h.Members)
}

// MemberRanges writes sorted members as "0-9, 12".
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
