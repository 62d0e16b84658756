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
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// GridTolerance is the largest distance of corresponding points, in degrees (metres on projected axes), at
// which two grids are the same. It exceeds the resolution of 1e-3 degrees with which GRIB stores coordinates.
const GridTolerance = 2e-3

// Selection is the part of an input's forecasts that a job reads.
type Selection struct {
	Axes       ensemble.Axes
	Members    []ensemble.Member
	Reader     *GridReader         // reads fields on Grid
	Grid       *ensemble.Grid      // grid of the fields that are read
	Window     ensemble.Window     // part of the reader's grid
	Inits      []ensemble.Init     // ascending
	Entries    []ensemble.Entry    // fields of all initialisations and members
	Duplicates [][2]ensemble.Entry // fields that occur twice
	Warnings   []string
	// StatisticWarnings are the warnings about statistics over time; Warnings contains them.
	StatisticWarnings []string
	Available         map[ensemble.Init]Availability // members of each initialisation if they differ; else nil
	FileReads         FileReads                      // reads of this rank so far
}

// AddConflict records that two fields of an initialisation have the same key and different values.
func (s *Selection) AddConflict(init ensemble.Init, warning string) {
	r := s.Available[init]
	r.conflicts, r.Warnings = r.conflicts+1, append(r.Warnings, warning)
	s.Available[init] = r
}

// ConflictCount counts these conflicts over some initialisations.
func (s *Selection) ConflictCount(inits []ensemble.Init) (n int) {
	for _, i := range inits {
		n += s.Available[i].conflicts
	}
	return n
}

// SelectForecasts selects all initialisations with all leads, variables, levels and members of the required
// fields, to be read on one grid. Where fields are statistics over time, the selection's axes have those that the
// request selects. No values are read.
//
// Errors: those of ChooseStatistics; exit 65 if a variable, level or lead is in no file, if grids differ without interpolation or cannot
// be interpolated, if initialisations are mixed, or if a unit is unknown; exit 66 if an initialisation lacks
// fields.
func SelectForecasts(in *fio.Input, required RequiredFields, to Destination, of StatisticRequest) (*Selection, error) {
	s := &Selection{Members: required.Members}
	var used *ensemble.Catalogue
	var found []Fault
	s.Axes, used, found = ChooseStatistics(in.Catalogue(), required.Axes, of)
	chosen, err := SplitFaults(found)
	if err != nil {
		return nil, err
	}
	s.StatisticWarnings = chosen
	s.Entries, s.Duplicates = SelectUnique(used.Entries, required.Contains, false)
	if s.Warnings, err = SplitFaults(CheckInventory(used, FileList(in.Files()), s.Entries, []RequiredFields{required}, to)); err != nil {
		return nil, err
	}
	s.Warnings = slices.Concat(in.Catalogue().Warnings, chosen, s.Warnings, DuplicateWarning(len(s.Duplicates)))
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

// SetGrid sets the grid on which the entries are read.
func (s *Selection) SetGrid(in *fio.Input, grid *ensemble.Grid, how task.Interpolation) {
	s.Reader, s.Grid = NewGridReader(in, grid, how), grid
}

// CropTo crops the selection to a grid. It reports whether that is the selection's grid or a part of it.
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

// InputWindow converts a window of the selection's grid to one of the reader's grid.
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

// CheckDuplicates compares the fields of some initialisations that occur twice.
//
// Errors: exit 65 for two fields with the same key that differ.
func (s *Selection) CheckDuplicates(ctx context.Context, inits []ensemble.Init, ranks *team.Team) error {
	return compareDuplicates(ctx, ranks, s.Reader.in, slices.DeleteFunc(slices.Clone(s.Duplicates), func(r [2]ensemble.Entry) bool { return !slices.Contains(inits, r[0].Init) }))
}

// Read reads a slab of the forecasts of some initialisations, in their order, with warnings about their
// values. All ranks of a team call it at the same point.
//
// Shape: [lead][member][variable][level][point] of the slab.
// Errors: exit 65 for values that cannot be used, such as NaN or implausible ones; exit 66 for files that
// disappeared.
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
	selected := slices.DeleteFunc(slices.Clone(s.Entries), func(e ensemble.Entry) bool { return byInit[e.Init] == nil })
	keys := map[ensemble.Key]bool{}
	for _, e := range selected {
		keys[e.Key] = true
	}
	for _, fc := range out {
		switch {
		case !holdsMemory(ranks): // shareMemory sets the values
		case own != nil || len(keys) < places:
			*fc = *ensemble.NewForecast(fc.Init, axes, fc.Members, grid)
		default: // fills each slot with its field
			fc.Values = bigmem.Make[float32](axes.Fields() * len(fc.Members) * grid.Size())
		}
	}
	from := slab{from: s.Reader, levels: axes.Levels, window: s.InputWindow(own.Window()), ranks: ranks,
		windowOf: func(rank int) ensemble.Window { return s.InputWindow(own.WindowOf(rank)) }, levelsOf: rankLevels(s.Axes.Levels, ranks)}
	warnings, err := from.read(ctx, selected, func(k ensemble.Key) ([]float32, error) { return byInit[k.Init].FieldAt(k) }, &s.FileReads)
	if err != nil {
		return nil, warnings, err
	}
	var values []*[]float32
	for _, fc := range out {
		values = append(values, &fc.Values)
	}
	return out, warnings, shareMemory(ranks, values)
}

// holdsMemory reports whether this rank has memory of its own for fields, rather than that of another rank of its process.
func holdsMemory(ranks *team.Team) bool {
	return ranks.Shard() == nil || ranks.Holder(ranks.Comm.Rank()) == ranks.Comm.Rank()
}

// shareMemory replaces values by those of the rank that holds the memory of this rank. Nobody writes to them any more.
func shareMemory(ranks *team.Team, values []*[]float32) error {
	if ranks.Shard() == nil {
		return nil
	}
	own := make([][]float32, len(values))
	for i, x := range values {
		own[i] = *x
	}
	shared, err := comm.ShareInProcess(ranks.Comm, ranks.Holder(ranks.Comm.Rank()), own)
	for i, x := range values {
		*x = shared[i]
	}
	return err
}

// slab is what a rank reads of fields: a window of those at its levels.
type slab struct {
	from   *GridReader
	levels []ensemble.Level
	window ensemble.Window
	ranks  *team.Team
	empty  *[]ensemble.Entry // collects references without any value; nil: they are faults
	// windowOf and levelsOf are the window and levels of a rank.
	windowOf func(rank int) ensemble.Window
	levelsOf func(rank int) []ensemble.Level
}

// read reads a slab of fields to the memory that placeOf returns, and checks the values of complete fields.
// Several ranks read together (readTogether). reads counts what this rank read.
func (s slab) read(ctx context.Context, entries []ensemble.Entry, placeOf func(ensemble.Key) ([]float32, error), reads *FileReads) ([]string, error) {
	c := NewValueStats(FileOrder(entries))
	c.References, c.IgnoreEmpty = s.empty != nil, s.empty != nil
	defer func() {
		if s.empty != nil {
			*s.empty = append(*s.empty, c.Empty()...)
		}
	}()
	if s.ranks.Shard() == nil {
		if err := s.readAlone(ctx, c, placeOf, reads); err != nil {
			return nil, err
		}
		return SplitFaults(c.Faults())
	}
	own, err := s.readTogether(ctx, c, placeOf)
	if err != nil {
		return nil, err
	}
	reads.Inits, reads.Bytes = reads.Inits+own.Inits, reads.Bytes+own.Bytes
	if err := c.Join(s.ranks); err != nil { // faults are found on complete fields
		return nil, err
	}
	return SplitFaults(c.Faults())
}

// readAlone reads the fields of c at the levels of the slab.
func (s slab) readAlone(ctx context.Context, c *ValueStats, placeOf func(ensemble.Key) ([]float32, error), reads *FileReads) error {
	var own []ensemble.Entry
	var at []int
	var into [][]float32
	inits := map[ensemble.Init]bool{}
	for i, e := range c.Entries {
		if ensemble.FindLevel(s.levels, e.Variable, e.Level) >= 0 {
			to, err := placeOf(e.Key)
			if err != nil {
				return err
			}
			own, at, into = append(own, e), append(at, i), append(into, to)
			inits[e.Init] = true
			reads.Bytes += int64(4 * len(to))
		}
	}
	reads.Inits += int64(len(inits))
	return s.from.Fill(ctx, own, s.window, func(i int) ([]float32, error) { return into[i], nil }, func(i int) error {
		c.Add(at[i], into[i])
		return nil
	})
}

// AnalysisSelection is the part of an input's analyses that a job reads.
type AnalysisSelection struct {
	variables  []string
	levels     []ensemble.Level
	Reader     *GridReader
	Entries    []ensemble.Entry
	Duplicates [][2]ensemble.Entry
	Warnings   []string
	// StatisticWarnings are the warnings about statistics over time; Warnings contains them.
	StatisticWarnings []string
	Statistics        map[string]ensemble.TimeStatistic // by variable, completed by those of the analyses; nil: all are instantaneous
	Empty             []ensemble.Entry                  // fields without any value among those that were read
	FileReads         FileReads                         // reads of this rank so far
}

// EmptyFaults describes the fields without any value among those that were read: as warnings, or as
// faults if all fields of a variable and level are such.
func (s *AnalysisSelection) EmptyFaults() (faults []Fault) {
	var groups []FieldGroup
	empty, all, first := map[FieldGroup]int{}, map[FieldGroup]int{}, map[FieldGroup]ensemble.Entry{}
	for _, e := range s.Entries {
		all[FieldGroup{e.Variable, e.Level, e.Product}]++
	}
	for _, e := range s.Empty {
		k := FieldGroup{e.Variable, e.Level, e.Product}
		if empty[k]++; empty[k] == 1 {
			groups, first[k] = append(groups, k), e
		}
	}
	for _, k := range groups {
		faults = append(faults, EmptyFault(k, empty[k], all[k]).AtEntry(first[k]))
	}
	return faults
}

// SelectAnalyses selects the analyses of the valid times. Fields at lead 0 without a member are analyses; if
// there are none, those of the control are used. Statistics over time may have a lead: the shortest one is
// used. They are read on the grid of the forecasts. No values are read.
//
// Errors: exit 65 for another grid without interpolation, and for statistics over other intervals than those of the
// forecasts; exit 66 for a valid time without analysis.
func SelectAnalyses(in *fio.Input, r AnalysisRequest, to Destination) (*AnalysisSelection, error) {
	variables, levels, valids := r.Variables, r.Levels, r.Valids
	s := &AnalysisSelection{variables: variables, levels: levels}
	requested := map[ensemble.Valid]bool{}
	for _, v := range valids {
		requested[v] = true
	}
	var used *ensemble.Catalogue
	var found []Fault
	s.Statistics, used, found = ChooseAnalyses(in.Catalogue(), r)
	chosen, err := SplitFaults(found)
	if err != nil {
		return nil, err
	}
	s.StatisticWarnings = chosen
	ofTarget := r.filter(used)
	s.Entries, s.Duplicates = SelectUnique(used.Entries, func(e ensemble.Entry) bool { return requested[e.Valid()] && e.Lead == 0 && ofTarget(e) }, false)
	if s.Warnings, err = SplitFaults(UnitFaults(s.Entries)); err != nil {
		return nil, err
	}
	s.Warnings = slices.Concat(chosen, s.Warnings, DuplicateWarning(len(s.Duplicates)))
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
		fix, there := "add files with these times, or exclude the initialisations whose analyses are missing", in.Catalogue().Variables()
		if i := slices.IndexFunc(variables, func(v string) bool { return !slices.Contains(there, v) }); i >= 0 {
			fix = orOwnName(in.Catalogue().Entries, variables[i], levels, fix)
		}
		return nil, &exit.Error{Code: exit.NotYet, What: what, At: FileList(in.Files()),
			Why: fmt.Sprintf("each forecast needs the analysis of its valid time; %s: %s", humanise.Count(len(absent), "valid time")+" without", humanise.List(humanise.Strings(absent))),
			Fix: fix}
	}
	s.Reader = NewGridReader(in, to.Grid, to.How)
	return s, s.Reader.Prepare(s.Entries)
}

// Read reads a slab of the analyses of some valid times, in their order, with warnings about their values.
// All ranks of a team call it at the same point.
//
// Shape: [variable][level][point] of the slab.
// Missing: fields without any value are read, and collected in Empty.
// Errors: exit 65 if two fields with the same key differ, and for values that cannot be used.
func (s *AnalysisSelection) Read(ctx context.Context, valids []ensemble.Valid, ranks *team.Team) ([]*ensemble.Analysis, []string, error) {
	own := ranks.Shard()
	levels, grid := own.LocalAxes(ensemble.Axes{Levels: s.levels}).Levels, own.LocalGrid(s.Reader.to)
	byValid := map[ensemble.Valid]*ensemble.Analysis{}
	out := make([]*ensemble.Analysis, len(valids))
	for i, v := range valids {
		if byValid[v] == nil && holdsMemory(ranks) {
			byValid[v] = ensemble.NewAnalysis(v, s.variables, levels, grid)
		} else if byValid[v] == nil {
			byValid[v] = &ensemble.Analysis{Valid: v, Variables: s.variables, Levels: levels, Grid: grid}
		}
		out[i] = byValid[v]
	}
	if err := compareDuplicates(ctx, ranks, s.Reader.in, slices.DeleteFunc(slices.Clone(s.Duplicates), func(r [2]ensemble.Entry) bool { return byValid[r[0].Valid()] == nil })); err != nil {
		return nil, nil, err
	}
	selected := slices.DeleteFunc(slices.Clone(s.Entries), func(e ensemble.Entry) bool { return byValid[e.Valid()] == nil })
	from := slab{from: s.Reader, levels: levels, window: own.Window(), ranks: ranks, empty: &s.Empty,
		windowOf: func(rank int) ensemble.Window { return own.WindowOf(rank) }, levelsOf: rankLevels(s.levels, ranks)}
	warnings, err := from.read(ctx, selected, func(k ensemble.Key) ([]float32, error) {
		return byValid[k.Valid()].Field(slices.Index(s.variables, k.Variable), ensemble.FindLevel(levels, k.Variable, k.Level)), nil
	}, &s.FileReads)
	if err != nil {
		return nil, warnings, err
	}
	var values []*[]float32
	for _, a := range out {
		values = append(values, &a.Values)
	}
	return out, warnings, shareMemory(ranks, values)
}

// SelectUnique selects each key once, its first or last entry, and pairs repeated entries with the first.
func SelectUnique(all []ensemble.Entry, accept func(ensemble.Entry) bool, last bool) (entries []ensemble.Entry, repeats [][2]ensemble.Entry) {
	first := map[ensemble.Identity]ensemble.Entry{}
	at := map[ensemble.Identity]int{}
	for _, e := range all {
		if !accept(e) {
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

// DuplicateWarning returns the warning about repeated fields; nil if n is 0.
func DuplicateWarning(n int) []string {
	if n == 0 {
		return nil
	}
	return []string{humanise.Count(n, "field") + " in the input twice with equal values; one of each is used"}
}

// compareDuplicates is CompareDuplicates by rank 0; all ranks return its error. A rank that fails elsewhere is found here.
func compareDuplicates(ctx context.Context, ranks *team.Team, in *fio.Input, pairs [][2]ensemble.Entry) error {
	if len(pairs) == 0 {
		return nil
	}
	var err error
	if ranks.IsRoot() {
		err = CompareDuplicates(ctx, in, pairs)
	}
	return ranks.AgreeOnError(err)
}

// CompareDuplicates compares the values of fields with the same key.
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

// equalValues reports whether all values are equal or both missing.
func equalValues(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return x == y || x != x && y != y })
}

// FileOrder sorts entries by their position in the files, so that files are read sequentially.
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

// FileList names files in an error: one or two of them, or the first and last of a long list.
func FileList(files []string) string {
	if n := len(files); n > 2 {
		return fmt.Sprintf("%s … %s (%d files)", files[0], files[n-1], n)
	}
	return strings.Join(files, ", ")
}

// UnusableError returns the error for files without a usable field, with the first reason.
func UnusableError(files []string, cat *ensemble.Catalogue, fix string) error {
	e := &exit.Error{Code: exit.BadData, What: "no field of the input is usable", At: FileList(files), Fix: fix}
	e.Why = "it contains no data"
	if len(cat.Unused) > 0 {
		e.At, e.Why = cat.Unused[0].File, cat.Unused[0].Reason
		if cat.Unused[0].Name != "" {
			e.At += ", variable " + cat.Unused[0].Name
		}
	}
	return e
}

// CheckUsable refuses files of which no field can be used, with the first reason. Without it, commands would look for
// members and variables in nothing.
//
// Errors: exit 65.
func CheckUsable(in *fio.Input, files []string) error {
	cat := in.Catalogue()
	if n := len(cat.Unused); n == 0 || n < cat.Messages || len(cat.Entries) > 0 {
		return nil
	}
	return UnusableError(files, cat, "`ensemble inspect FILE` lists the content of a file")
}

// CommonGrid returns the grid of all entries. fix is the remedy if they have several.
//
// Errors: exit 65.
func CommonGrid(entries []ensemble.Entry, fix string) (*ensemble.Grid, error) {
	if len(entries) == 0 {
		return nil, &exit.Error{Code: exit.BadData, What: "the forecast files contain no requested field", At: "the forecast input",
			Fix: "`ensemble inspect FILE` lists the content of a file"}
	}
	if _, err := SplitFaults(GridFaults(entries, fix)); err != nil {
		return nil, err
	}
	return entries[0].Grid, nil
}

// ChooseMembers applies a member policy to the members of the input. It returns the input members of the network and
// the full ensemble, both ascending. A full ensemble of 0 members is all of the input.
//
// Errors: exit 66 if there are fewer members than requested, and for fewer than two; exit 64 if a listed member is not in the full
// ensemble.
func ChooseMembers(have []ensemble.Member, list []int, count, full int, control string) (used, all []ensemble.Member, err error) {
	all = PerturbedAndControl(have, control)
	few := func(want int, what, key string) error {
		return &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("the input has %s, %s %d", humanise.Count(len(all), "member"), what, want),
			At: "the forecast input", Why: "members " + strings.Join(humanise.Strings(all), ", "), Fix: fmt.Sprintf("add the files of the others; or under `data:` and `members:` write `%s: %d`", strings.TrimPrefix(key, "data.members."), len(all))}
	}
	switch {
	case len(all) < full:
		return nil, nil, few(full, "the full ensemble has", "data.members.full")
	case full == 0 && len(all) < max(2, count):
		return nil, nil, few(max(2, count), "the network reads", "data.members.use")
	case full == 0:
		full = len(all)
	}
	all = all[:full]
	if list == nil {
		return all[:count], all, nil
	}
	for _, m := range list {
		if !slices.Contains(all, ensemble.Member(m)) {
			return nil, nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("member %d of data.members.use is not in the full ensemble", m),
				At: "members " + strings.Join(humanise.Strings(all), ", "), Fix: "list members of the input"}
		}
		used = append(used, ensemble.Member(m))
	}
	return used, all, nil
}
