package input

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	fio "github.com/ensemble-weather/ensemble/io"
)

// GridTolerance is how far two grids' points may lie apart in degrees (metres of
// projected axes) and still be one grid: below the thousandths that GRIB stores.
const GridTolerance = 2e-3

// Selection is the forecasts of an input that are asked for, by its catalogue.
type Selection struct {
	Axes       ensemble.Axes
	Members    []ensemble.Member
	Reader     *GridReader
	Grid       *ensemble.Grid  // of what is read
	Window     ensemble.Window // of the grid of from that it is
	Inits      []ensemble.Init // ascending
	Entries    []ensemble.Entry
	Duplicates [][2]ensemble.Entry // fields that are in the input twice
	Warnings   []string
	Available  map[ensemble.Init]Availability // the members of each start, where they differ; else nil
}

// AddConflict notes that two fields of a start differ that have one name.
func (s *Selection) AddConflict(init ensemble.Init, warning string) {
	r := s.Available[init]
	r.conflicts, r.Warnings = r.conflicts+1, append(r.Warnings, warning)
	s.Available[init] = r
}

// ConflictCount counts them over some starts.
func (s *Selection) ConflictCount(inits []ensemble.Init) (n int) {
	for _, i := range inits {
		n += s.Available[i].conflicts
	}
	return n
}

// SelectForecasts finds all starts with all their leads, variables and levels of the
// axes for all the members asked for, to be read on one grid. No values are read.
//
// Errors: exit 65 if a variable, level or lead is in no file, if grids differ and no
// interpolation is asked for, or cannot be done, if cycles are mixed or a unit is not
// understood; exit 66 if a start lacks some of its fields.
func SelectForecasts(in *fio.Input, axes ensemble.Axes, members []ensemble.Member, to Destination) (*Selection, error) {
	s := &Selection{Axes: axes, Members: members}
	of := RequiredFields{axes, members}
	s.Entries, s.Duplicates = SelectUnique(in.Catalogue().Entries, of.Contains, false)
	var err error
	if s.Warnings, err = SplitFaults(CheckInventory(in.Catalogue(), FileList(in.Files()), s.Entries, []RequiredFields{of}, to)); err != nil {
		return nil, err
	}
	s.Warnings = slices.Concat(in.Catalogue().Warnings, s.Warnings, DuplicateWarning(len(s.Duplicates)))
	grid, err := to.Resolve(s.Entries)
	if err != nil {
		return nil, err
	}
	s.SetGrid(in, grid, to.How)
	if err := s.Reader.Prepare(s.Entries); err != nil {
		return nil, err
	}
	s.Inits = (&ensemble.Catalogue{Entries: s.Entries}).Inits()
	return s, nil
}

// SetGrid has the entries read on a grid.
func (s *Selection) SetGrid(in *fio.Input, grid *ensemble.Grid, how task.Interpolation) {
	s.Reader, s.Grid = NewGridReader(in, grid, how), grid
}

// CropTo narrows the selection to a grid, which is the input's or a part of it.
func (s *Selection) CropTo(g *ensemble.Grid) bool {
	if s.Grid.SameAs(g, GridTolerance) {
		return true
	}
	w, ok := g.Within(s.Grid, GridTolerance)
	if ok {
		s.Grid, s.Window = g, w
	}
	return ok
}

// InputWindow gives a window of the selection's grid as one of the input's.
func (s *Selection) InputWindow(w ensemble.Window) ensemble.Window {
	if s.Window == (ensemble.Window{}) || w == (ensemble.Window{}) {
		return cmp.Or(w, s.Window)
	}
	for i := range 2 {
		w.Rows[i] += s.Window.Rows[0]
		w.Cols[i] += s.Window.Cols[0]
	}
	return w
}

// CheckDuplicates compares the fields of some starts that are in the input twice.
//
// Errors: exit 65 for two fields of one name that differ.
func (s *Selection) CheckDuplicates(ctx context.Context, inits []ensemble.Init) error {
	return CompareDuplicates(ctx, s.Reader.in, slices.DeleteFunc(slices.Clone(s.Duplicates), func(r [2]ensemble.Entry) bool { return !slices.Contains(inits, r[0].Init) }))
}

// Read reads a slab of the forecasts of some starts, in their order, with warnings
// about their values. All ranks of a team call it, at the same place.
//
// Errors: exit 65 for values that nothing can be computed with.
func (s *Selection) Read(ctx context.Context, inits []ensemble.Init, ranks *team.Team) ([]*ensemble.Forecast, []string, error) {
	own := ranks.Shard()
	axes, grid := own.LocalAxes(s.Axes), own.LocalGrid(s.Grid)
	byInit := map[ensemble.Init]*ensemble.Forecast{}
	out := make([]*ensemble.Forecast, len(inits))
	places := 0
	for i, init := range inits {
		members := s.Members
		if s.Available != nil {
			members = s.Available[init].Members
		}
		places += axes.Fields() * len(members)
		out[i] = &ensemble.Forecast{Init: init, Axes: axes, Members: members, Grid: grid}
		byInit[init] = out[i]
	}
	wanted := slices.DeleteFunc(slices.Clone(s.Entries), func(e ensemble.Entry) bool { return byInit[e.Init] == nil })
	keys := map[ensemble.Key]bool{}
	for _, e := range wanted {
		keys[e.Key] = true
	}
	for _, fc := range out {
		if own != nil || len(keys) < places {
			*fc = *ensemble.NewForecast(fc.Init, axes, fc.Members, grid)
		} else { // every place gets its field
			fc.Values = bigmem.Make[float32](axes.Fields() * len(fc.Members) * grid.Size())
		}
	}
	warnings, err := slab{s.Reader, axes.Levels, s.InputWindow(own.Window()), ranks}.read(ctx, wanted, func(k ensemble.Key) ([]float32, error) { return byInit[k.Init].FieldAt(k) })
	return out, warnings, err
}

// slab is what a rank reads of fields: a window of those at its levels.
type slab struct {
	from   *GridReader
	levels []ensemble.Level
	window ensemble.Window
	ranks  *team.Team
}

// read reads a slab of fields to the places that they have, and looks for faults of the
// values of all, which it gives as warnings or as the error.
func (s slab) read(ctx context.Context, entries []ensemble.Entry, placeOf func(ensemble.Key) ([]float32, error)) ([]string, error) {
	c := NewValueStats(FileOrder(entries))
	var own []ensemble.Entry
	var at []int
	var into [][]float32
	for i, e := range c.Entries {
		if ensemble.FindLevel(s.levels, e.Variable, e.Level) >= 0 {
			to, err := placeOf(e.Key)
			if err != nil {
				return nil, err
			}
			own, at, into = append(own, e), append(at, i), append(into, to)
		}
	}
	err := s.from.Fill(ctx, own, s.window, func(i int) ([]float32, error) { return into[i], nil }, func(i int) error {
		c.Add(at[i], into[i])
		return nil
	})
	if s.ranks.Shard() == nil {
		if err != nil {
			return nil, err
		}
		return SplitFaults(c.Faults())
	}
	if err := s.ranks.AgreeOnError(err); err != nil { // the faults are those of whole fields
		return nil, err
	}
	if err := c.Join(s.ranks); err != nil {
		return nil, err
	}
	return SplitFaults(c.Faults())
}

// AnalysisSelection are the analyses of an input that are asked for, by its catalogue.
type AnalysisSelection struct {
	variables  []string
	levels     []ensemble.Level
	Reader     *GridReader
	Entries    []ensemble.Entry
	Duplicates [][2]ensemble.Entry
	Warnings   []string
}

// SelectAnalyses finds the analyses of the valid times asked for. Fields at lead 0
// that belong to no member are analyses; where there are none, those of the control
// are. They are to be read on the grid of the forecasts. No values are read.
//
// Errors: exit 65 for another grid, if no interpolation is asked for; exit 66 names a
// valid time without analysis.
func SelectAnalyses(in *fio.Input, variables []string, levels []ensemble.Level, to Destination, valids []ensemble.Valid) (*AnalysisSelection, error) {
	s := &AnalysisSelection{variables: variables, levels: levels}
	wanted := map[ensemble.Valid]bool{}
	for _, v := range valids {
		wanted[v] = true
	}
	member := ensemble.NoMember
	if !slices.ContainsFunc(in.Catalogue().Entries, func(e ensemble.Entry) bool { return e.Member == member && e.Product == ensemble.MemberField }) {
		member = 0
	}
	s.Entries, s.Duplicates = SelectUnique(in.Catalogue().Entries, func(e ensemble.Entry) bool {
		return wanted[e.Valid()] && e.Lead == 0 && e.Product == ensemble.MemberField && e.Member == member &&
			e.Statistic == "" && slices.Contains(variables, e.Variable) && ensemble.FindLevel(levels, e.Variable, e.Level) >= 0
	}, false)
	var err error
	if s.Warnings, err = SplitFaults(UnitFaults(s.Entries)); err != nil {
		return nil, err
	}
	s.Warnings = append(s.Warnings, DuplicateWarning(len(s.Duplicates))...)
	have := map[ensemble.Key]bool{}
	for _, e := range s.Entries {
		if !to.How.IsEnabled() && !e.Grid.SameAs(to.Grid, GridTolerance) {
			return nil, GridMismatchFault("the analyses", e.Grid, "the forecasts", to.Grid, to.Fix).AtEntry(e).AsError()
		}
		have[ensemble.Key{Variable: e.Variable, Level: e.Level, Init: ensemble.Init(e.Valid())}] = true
	}
	var absent []ensemble.Valid
	what := ""
	for _, v := range valids {
		missing := ""
		for _, name := range variables {
			for _, l := range levels {
				if at := l.ForVariable(name); missing == "" && !have[ensemble.Key{Variable: name, Level: at, Init: ensemble.Init(v)}] {
					missing = fmt.Sprintf("no analysis of %s at %s for %s", name, at, v)
				}
			}
		}
		if missing != "" && !slices.Contains(absent, v) {
			absent, what = append(absent, v), cmp.Or(what, missing)
		}
	}
	if absent != nil {
		return nil, &exit.Error{Code: exit.NotYet, What: what, At: FileList(in.Files()),
			Why: fmt.Sprintf("every forecast is judged by the analysis of its valid time; %s: %s", humanise.Count(len(absent), "valid time")+" without", humanise.List(humanise.Strings(absent))),
			Fix: "add the files with these times, or leave the starts out whose analyses are not there"}
	}
	s.Reader = NewGridReader(in, to.Grid, to.How)
	return s, s.Reader.Prepare(s.Entries)
}

// Read reads a slab of the analyses of some valid times, in their order, with warnings
// about their values. All ranks of a team call it, at the same place.
//
// Errors: exit 65 if two fields with one name differ, and for values that nothing can be
// computed with.
func (s *AnalysisSelection) Read(ctx context.Context, valids []ensemble.Valid, ranks *team.Team) ([]*ensemble.Analysis, []string, error) {
	own := ranks.Shard()
	levels, grid := own.LocalAxes(ensemble.Axes{Levels: s.levels}).Levels, own.LocalGrid(s.Reader.to)
	byValid := map[ensemble.Valid]*ensemble.Analysis{}
	out := make([]*ensemble.Analysis, len(valids))
	for i, v := range valids {
		if byValid[v] == nil {
			byValid[v] = ensemble.NewAnalysis(v, s.variables, levels, grid)
		}
		out[i] = byValid[v]
	}
	if err := CompareDuplicates(ctx, s.Reader.in, slices.DeleteFunc(slices.Clone(s.Duplicates), func(r [2]ensemble.Entry) bool { return byValid[r[0].Valid()] == nil })); err != nil {
		return nil, nil, err
	}
	wanted := slices.DeleteFunc(slices.Clone(s.Entries), func(e ensemble.Entry) bool { return byValid[e.Valid()] == nil })
	warnings, err := slab{s.Reader, levels, own.Window(), ranks}.read(ctx, wanted, func(k ensemble.Key) ([]float32, error) {
		return byValid[k.Valid()].Field(slices.Index(s.variables, k.Variable), ensemble.FindLevel(levels, k.Variable, k.Level)), nil
	})
	return out, warnings, err
}

// SelectUnique selects of all entries each name once, the first or the last of it, and pairs those
// that come again with the first.
func SelectUnique(all []ensemble.Entry, wanted func(ensemble.Entry) bool, last bool) (entries []ensemble.Entry, repeats [][2]ensemble.Entry) {
	first := map[ensemble.Identity]ensemble.Entry{}
	at := map[ensemble.Identity]int{}
	for _, e := range all {
		if !wanted(e) {
			continue
		}
		id := e.Identity()
		if other, twice := first[id]; twice {
			repeats = append(repeats, [2]ensemble.Entry{other, e})
			if last {
				entries[at[id]] = e
			}
			continue
		}
		first[id], at[id] = e, len(entries)
		entries = append(entries, e)
	}
	return entries, repeats
}

// DuplicateWarning is the warning about fields that come again, if there are any.
func DuplicateWarning(n int) []string {
	if n == 0 {
		return nil
	}
	return []string{humanise.Count(n, "field") + " in the input twice with equal values; one of each is used"}
}

// CompareDuplicates reads fields that have one name.
//
// Errors: exit 65 for two that differ.
func CompareDuplicates(ctx context.Context, in *fio.Input, pairs [][2]ensemble.Entry) error {
	for _, p := range pairs {
		a, err := in.ReadOne(ctx, p[0])
		if err != nil {
			return err
		}
		b, err := in.ReadOne(ctx, p[1])
		if err != nil {
			return err
		}
		if !equalValues(a.Values, b.Values) || !p[1].Grid.SameAs(p[0].Grid, GridTolerance) {
			return ConflictFault(p[0], p[1]).AsError()
		}
	}
	return nil
}

func equalValues(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return x == y || x != x && y != y })
}

// FileOrder orders entries as they lie in the files, so that files are read forward.
func FileOrder(entries []ensemble.Entry) []ensemble.Entry {
	out := slices.Clone(entries)
	slices.SortStableFunc(out, func(a, b ensemble.Entry) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Message - b.Message
	})
	return out
}

// FileList names files in an error: one or two of them, or the ends of a long list.
func FileList(files []string) string {
	if n := len(files); n > 2 {
		return fmt.Sprintf("%s … %s (%d files)", files[0], files[n-1], n)
	}
	return strings.Join(files, ", ")
}

// CommonGrid gives the grid of all entries; fix is what helps if they have several.
func CommonGrid(entries []ensemble.Entry, fix string) (*ensemble.Grid, error) {
	if len(entries) == 0 {
		return nil, &exit.Error{Code: exit.BadData, What: "the forecast files hold no field that is asked for", At: "the forecast input",
			Fix: "`ensemble inspect FILE` lists what a file holds"}
	}
	if _, err := SplitFaults(GridFaults(entries, fix)); err != nil {
		return nil, err
	}
	return entries[0].Grid, nil
}

// ChooseMembers resolves a member policy on what the input holds: the full ensemble, and
// the members that are input, both ascending.
//
// Errors: exit 66 if there are fewer members than asked for; exit 64 if a listed
// member is not of the full ensemble.
func ChooseMembers(have []ensemble.Member, list []int, count, full int, control string) (used, all []ensemble.Member, err error) {
	all = PerturbedAndControl(have, control)
	if len(all) < full {
		return nil, nil, &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("%d members are in the input, %d make the full ensemble", len(all), full),
			At: "the forecast input", Why: "members " + strings.Join(humanise.Strings(all), ", "), Fix: "add the files of the others, or lower data.members.full"}
	}
	all = all[:full]
	if list == nil {
		return all[:count], all, nil
	}
	for _, m := range list {
		if !slices.Contains(all, ensemble.Member(m)) {
			return nil, nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("member %d of data.members.use is not in the full ensemble", m),
				At: "members " + strings.Join(humanise.Strings(all), ", "), Fix: "list members that the input holds"}
		}
		used = append(used, ensemble.Member(m))
	}
	return used, all, nil
}
