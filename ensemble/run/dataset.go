package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/phrase"
	fio "github.com/ensemble-weather/ensemble/io"
)

// gridTolerance is how far two grids' points may lie apart in degrees (metres of
// projected axes) and still be one grid: below the thousandths that GRIB stores.
const gridTolerance = 2e-3

// selection is the forecasts of an input that are asked for, by its catalogue.
type selection struct {
	axes     ensemble.Axes
	members  []ensemble.Member
	from     *onGrid
	grid     *ensemble.Grid  // of what is read
	window   ensemble.Window // of the grid of from that it is
	inits    []ensemble.Init // ascending
	entries  []ensemble.Entry
	repeats  [][2]ensemble.Entry // fields that are in the input twice
	warnings []string
	rations  map[ensemble.Init]ration // the members of each start, where they differ; else nil
}

// contradicted notes that two fields of a start differ that have one name.
func (s *selection) contradicted(init ensemble.Init, warning string) {
	r := s.rations[init]
	r.differ, r.warnings = r.differ+1, append(r.warnings, warning)
	s.rations[init] = r
}

// contradictions counts them over some starts.
func (s *selection) contradictions(inits []ensemble.Init) (n int) {
	for _, i := range inits {
		n += s.rations[i].differ
	}
	return n
}

// selectForecasts finds all starts with all their leads, variables and levels of the
// axes for all the members asked for, to be read on one grid. No values are read.
//
// Errors: exit 65 if a variable, level or lead is in no file, if grids differ and no
// interpolation is asked for, or cannot be done, if cycles are mixed or a unit is not
// understood; exit 66 if a start lacks some of its fields.
func selectForecasts(in *fio.Input, axes ensemble.Axes, members []ensemble.Member, to destination) (*selection, error) {
	s := &selection{axes: axes, members: members}
	of := block{axes, members}
	s.entries, s.repeats = pick(in.Catalogue().Entries, of.holds, false)
	var err error
	if s.warnings, err = refusal(inventory(in.Catalogue(), place(in.Files()), s.entries, []block{of}, to)); err != nil {
		return nil, err
	}
	s.warnings = slices.Concat(in.Catalogue().Warnings, s.warnings, repeated(len(s.repeats)))
	grid, err := to.settle(s.entries)
	if err != nil {
		return nil, err
	}
	s.bring(in, grid, to.how)
	if err := s.from.prepare(s.entries); err != nil {
		return nil, err
	}
	s.inits = (&ensemble.Catalogue{Entries: s.entries}).Inits()
	return s, nil
}

// bring has the entries read on a grid.
func (s *selection) bring(in *fio.Input, grid *ensemble.Grid, how model.Interpolation) {
	s.from, s.grid = bring(in, grid, how), grid
}

// on narrows the selection to a grid, which is the input's or a part of it.
func (s *selection) on(g *ensemble.Grid) bool {
	if s.grid.SameAs(g, gridTolerance) {
		return true
	}
	w, ok := g.Within(s.grid, gridTolerance)
	if ok {
		s.grid, s.window = g, w
	}
	return ok
}

// within gives a window of the selection's grid as one of the input's.
func (s *selection) within(w ensemble.Window) ensemble.Window {
	if s.window == (ensemble.Window{}) || w == (ensemble.Window{}) {
		return cmp.Or(w, s.window)
	}
	for i := range 2 {
		w.Rows[i] += s.window.Rows[0]
		w.Cols[i] += s.window.Cols[0]
	}
	return w
}

// check compares the fields of some starts that are in the input twice.
//
// Errors: exit 65 for two fields of one name that differ.
func (s *selection) check(ctx context.Context, inits []ensemble.Init) error {
	return compare(ctx, s.from.in, slices.DeleteFunc(slices.Clone(s.repeats), func(r [2]ensemble.Entry) bool { return !slices.Contains(inits, r[0].Init) }))
}

// read reads a slab of the forecasts of some starts, in their order, with warnings
// about their values. All ranks of a team call it, at the same place.
//
// Errors: exit 65 for values that nothing can be computed with.
func (s *selection) read(ctx context.Context, inits []ensemble.Init, ranks *team.Team) ([]*ensemble.Forecast, []string, error) {
	own := ranks.Own()
	axes, grid := own.Axes(s.axes), own.Part(s.grid)
	byInit := map[ensemble.Init]*ensemble.Forecast{}
	out := make([]*ensemble.Forecast, len(inits))
	places := 0
	for i, init := range inits {
		members := s.members
		if s.rations != nil {
			members = s.rations[init].members
		}
		places += axes.Fields() * len(members)
		out[i] = &ensemble.Forecast{Init: init, Axes: axes, Members: members, Grid: grid}
		byInit[init] = out[i]
	}
	wanted := slices.DeleteFunc(slices.Clone(s.entries), func(e ensemble.Entry) bool { return byInit[e.Init] == nil })
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
	warnings, err := readCounted(ctx, s.from, wanted, axes.Levels, s.within(own.Window()), ranks, func(k ensemble.Key) ([]float32, error) { return byInit[k.Init].Place(k) })
	return out, warnings, err
}

// readCounted reads a rank's slab of fields, a window of those at its levels, to the places
// that they have, and looks for faults of the values of all, which it gives as warnings or
// as the error.
func readCounted(ctx context.Context, in *onGrid, entries []ensemble.Entry, levels []ensemble.Level, w ensemble.Window, ranks *team.Team, placeOf func(ensemble.Key) ([]float32, error)) ([]string, error) {
	c := newCensus(byPlace(entries))
	var own []ensemble.Entry
	var at []int
	var into [][]float32
	for i, e := range c.entries {
		if ensemble.FindLevel(levels, e.Variable, e.Level) >= 0 {
			to, err := placeOf(e.Key)
			if err != nil {
				return nil, err
			}
			own, at, into = append(own, e), append(at, i), append(into, to)
		}
	}
	err := in.Fill(ctx, own, w, func(i int) ([]float32, error) { return into[i], nil }, func(i int) error {
		c.add(at[i], into[i])
		return nil
	})
	if ranks.Own() == nil {
		if err != nil {
			return nil, err
		}
		return refusal(c.faults())
	}
	if err := ranks.Together(err); err != nil { // the faults are those of whole fields
		return nil, err
	}
	if err := c.join(ranks); err != nil {
		return nil, err
	}
	return refusal(c.faults())
}

// references are the analyses of an input that are asked for, by its catalogue.
type references struct {
	variables []string
	levels    []ensemble.Level
	from      *onGrid
	entries   []ensemble.Entry
	repeats   [][2]ensemble.Entry
	warnings  []string
}

// selectAnalyses finds the analyses of the valid times asked for. Fields at lead 0
// that belong to no member are analyses; where there are none, those of the control
// are. They are to be read on the grid of the forecasts. No values are read.
//
// Errors: exit 65 for another grid, if no interpolation is asked for; exit 66 names a
// valid time without analysis.
func selectAnalyses(in *fio.Input, variables []string, levels []ensemble.Level, to destination, valids []ensemble.Valid) (*references, error) {
	s := &references{variables: variables, levels: levels}
	wanted := map[ensemble.Valid]bool{}
	for _, v := range valids {
		wanted[v] = true
	}
	member := ensemble.NoMember
	if !slices.ContainsFunc(in.Catalogue().Entries, func(e ensemble.Entry) bool { return e.Member == member && e.Product == ensemble.MemberField }) {
		member = 0
	}
	s.entries, s.repeats = pick(in.Catalogue().Entries, func(e ensemble.Entry) bool {
		return wanted[e.Valid()] && e.Lead == 0 && e.Product == ensemble.MemberField && e.Member == member &&
			e.Statistic == "" && slices.Contains(variables, e.Variable) && ensemble.FindLevel(levels, e.Variable, e.Level) >= 0
	}, false)
	var err error
	if s.warnings, err = refusal(unitFaults(s.entries)); err != nil {
		return nil, err
	}
	s.warnings = append(s.warnings, repeated(len(s.repeats))...)
	have := map[ensemble.Key]bool{}
	for _, e := range s.entries {
		if !to.how.Asked() && !e.Grid.SameAs(to.grid, gridTolerance) {
			return nil, gridsDiffer("the analyses", e.Grid, "the forecasts", to.grid, to.fix).on(e).err()
		}
		have[ensemble.Key{Variable: e.Variable, Level: e.Level, Init: ensemble.Init(e.Valid())}] = true
	}
	var absent []ensemble.Valid
	what := ""
	for _, v := range valids {
		missing := ""
		for _, name := range variables {
			for _, l := range levels {
				if at := l.Of(name); missing == "" && !have[ensemble.Key{Variable: name, Level: at, Init: ensemble.Init(v)}] {
					missing = fmt.Sprintf("no analysis of %s at %s for %s", name, at, v)
				}
			}
		}
		if missing != "" && !slices.Contains(absent, v) {
			absent, what = append(absent, v), cmp.Or(what, missing)
		}
	}
	if absent != nil {
		return nil, &exit.Error{Code: exit.NotYet, What: what, At: place(in.Files()),
			Why: fmt.Sprintf("every forecast is judged by the analysis of its valid time; %s: %s", phrase.Count(len(absent), "valid time")+" without", phrase.List(phrase.Words(absent))),
			Fix: "add the files with these times, or leave the starts out whose analyses are not there"}
	}
	s.from = bring(in, to.grid, to.how)
	return s, s.from.prepare(s.entries)
}

// read reads a slab of the analyses of some valid times, in their order, with warnings
// about their values. All ranks of a team call it, at the same place.
//
// Errors: exit 65 if two fields with one name differ, and for values that nothing can be
// computed with.
func (s *references) read(ctx context.Context, valids []ensemble.Valid, ranks *team.Team) ([]*ensemble.Analysis, []string, error) {
	own := ranks.Own()
	levels, grid := own.Axes(ensemble.Axes{Levels: s.levels}).Levels, own.Part(s.from.to)
	byValid := map[ensemble.Valid]*ensemble.Analysis{}
	out := make([]*ensemble.Analysis, len(valids))
	for i, v := range valids {
		if byValid[v] == nil {
			byValid[v] = ensemble.NewAnalysis(v, s.variables, levels, grid)
		}
		out[i] = byValid[v]
	}
	if err := compare(ctx, s.from.in, slices.DeleteFunc(slices.Clone(s.repeats), func(r [2]ensemble.Entry) bool { return byValid[r[0].Valid()] == nil })); err != nil {
		return nil, nil, err
	}
	wanted := slices.DeleteFunc(slices.Clone(s.entries), func(e ensemble.Entry) bool { return byValid[e.Valid()] == nil })
	warnings, err := readCounted(ctx, s.from, wanted, levels, own.Window(), ranks, func(k ensemble.Key) ([]float32, error) {
		return byValid[k.Valid()].Field(slices.Index(s.variables, k.Variable), ensemble.FindLevel(levels, k.Variable, k.Level)), nil
	})
	return out, warnings, err
}

// pick selects of all entries each name once, the first or the last of it, and pairs those
// that come again with the first.
func pick(all []ensemble.Entry, wanted func(ensemble.Entry) bool, last bool) (entries []ensemble.Entry, repeats [][2]ensemble.Entry) {
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

// repeated is the warning about fields that come again, if there are any.
func repeated(n int) []string {
	if n == 0 {
		return nil
	}
	return []string{phrase.Count(n, "field") + " in the input twice with equal values; one of each is used"}
}

// compare reads fields that have one name.
//
// Errors: exit 65 for two that differ.
func compare(ctx context.Context, in *fio.Input, pairs [][2]ensemble.Entry) error {
	for _, p := range pairs {
		a, err := in.ReadOne(ctx, p[0])
		if err != nil {
			return err
		}
		b, err := in.ReadOne(ctx, p[1])
		if err != nil {
			return err
		}
		if !sameValues(a.Values, b.Values) || !p[1].Grid.SameAs(p[0].Grid, gridTolerance) {
			return contradiction(p[0], p[1]).err()
		}
	}
	return nil
}

func sameValues(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return x == y || x != x && y != y })
}

// byPlace orders entries as they lie in the files, so that files are read forward.
func byPlace(entries []ensemble.Entry) []ensemble.Entry {
	out := slices.Clone(entries)
	slices.SortStableFunc(out, func(a, b ensemble.Entry) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Message - b.Message
	})
	return out
}

// place names files in an error: one or two of them, or the ends of a long list.
func place(files []string) string {
	if n := len(files); n > 2 {
		return fmt.Sprintf("%s … %s (%d files)", files[0], files[n-1], n)
	}
	return strings.Join(files, ", ")
}

// oneGrid gives the grid of all entries; fix is what helps if they have several.
func oneGrid(entries []ensemble.Entry, fix string) (*ensemble.Grid, error) {
	if len(entries) == 0 {
		return nil, &exit.Error{Code: exit.BadData, What: "the forecast files hold no field that is asked for", At: "the forecast input",
			Fix: "`ensemble inspect FILE` lists what a file holds"}
	}
	if _, err := refusal(gridFaults(entries, fix)); err != nil {
		return nil, err
	}
	return entries[0].Grid, nil
}

// choose resolves a member policy on what the input holds: the full ensemble, and
// the members that are input, both ascending.
//
// Errors: exit 66 if there are fewer members than asked for; exit 64 if a listed
// member is not of the full ensemble.
func choose(have []ensemble.Member, list []int, count, full int, control string) (used, all []ensemble.Member, err error) {
	all = perturbedAndControl(have, control)
	if len(all) < full {
		return nil, nil, &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("%d members are in the input, %d make the full ensemble", len(all), full),
			At: "the forecast input", Why: "members " + strings.Join(phrase.Words(all), ", "), Fix: "add the files of the others, or lower data.members.full"}
	}
	all = all[:full]
	if list == nil {
		return all[:count], all, nil
	}
	for _, m := range list {
		if !slices.Contains(all, ensemble.Member(m)) {
			return nil, nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("member %d of data.members.use is not in the full ensemble", m),
				At: "members " + strings.Join(phrase.Words(all), ", "), Fix: "list members that the input holds"}
		}
		used = append(used, ensemble.Member(m))
	}
	return used, all, nil
}
