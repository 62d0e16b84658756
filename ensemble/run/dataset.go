package run

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
)

// gridTolerance is how far two grids' points may lie apart in degrees (metres of
// projected axes) and still be one grid: below the thousandths that GRIB stores.
const gridTolerance = 2e-3

// selection is the forecasts of an input that are asked for, by its catalogue.
type selection struct {
	axes     ensemble.Axes
	members  []ensemble.Member
	grid     *ensemble.Grid
	inits    []ensemble.Init // ascending
	entries  []ensemble.Entry
	repeats  [][2]ensemble.Entry // fields that are in the input twice
	warnings []string
}

// selectForecasts finds all starts with all their leads, variables and levels of the
// axes for all the members asked for. No values are read.
//
// Errors: exit 65 if a variable, level or lead is in no file, or if grids differ; exit
// 66 if a start lacks some of its fields.
func selectForecasts(in *fio.Input, axes ensemble.Axes, members []ensemble.Member) (*selection, error) {
	s := &selection{axes: axes, members: members}
	s.entries, s.repeats = pick(in, func(e ensemble.Entry) bool {
		_, _, _, ok := axes.Find(e.Key)
		return ok && e.Product == ensemble.MemberField && e.Statistic == "" && slices.Contains(members, e.Member)
	})
	s.warnings = repeated(s.repeats)
	if err := offers(in.Catalogue(), place(in.Files()), axes, members); err != nil {
		return nil, err
	}
	var err error
	if s.grid, err = oneGrid(s.entries); err != nil {
		return nil, err
	}
	count := map[ensemble.Init]int{}
	for _, e := range s.entries {
		count[e.Init]++
	}
	if err := complete(s.entries, count, axes, members); err != nil {
		return nil, err
	}
	for init := range count {
		s.inits = append(s.inits, init)
	}
	slices.SortFunc(s.inits, func(a, b ensemble.Init) int { return a.Compare(b.Time) })
	return s, nil
}

// check compares the fields of some starts that are in the input twice.
//
// Errors: exit 65 for two fields of one name that differ.
func (s *selection) check(ctx context.Context, in *fio.Input, inits []ensemble.Init) error {
	return compare(ctx, in, slices.DeleteFunc(slices.Clone(s.repeats), func(r [2]ensemble.Entry) bool { return !slices.Contains(inits, r[0].Init) }))
}

// read reads a slab of the forecasts of some starts, in their order.
func (s *selection) read(ctx context.Context, in *fio.Input, inits []ensemble.Init, own *slab) ([]*ensemble.Forecast, error) {
	axes, grid := own.axes(s.axes), own.part(s.grid)
	byInit := map[ensemble.Init]*ensemble.Forecast{}
	out := make([]*ensemble.Forecast, len(inits))
	for i, init := range inits {
		out[i] = ensemble.NewForecast(init, axes, s.members, grid)
		byInit[init] = out[i]
	}
	wanted := slices.DeleteFunc(slices.Clone(s.entries), func(e ensemble.Entry) bool { return byInit[e.Init] == nil || !slices.Contains(axes.Levels, e.Level) })
	return out, in.ReadPart(ctx, byPlace(wanted), own.window(), func(_ int, f *ensemble.Field) error {
		defer in.Recycle(f.Values) // Put copies them
		return byInit[f.Key.Init].Put(f)
	})
}

// references are the analyses of an input that are asked for, by its catalogue.
type references struct {
	variables []string
	levels    []ensemble.Level
	grid      *ensemble.Grid
	entries   []ensemble.Entry
	repeats   [][2]ensemble.Entry
	warnings  []string
}

// selectAnalyses finds the analyses of the valid times asked for. Fields at lead 0
// that belong to no member are analyses; where there are none, those of the control
// are. No values are read.
//
// Errors: exit 65 for another grid; exit 66 names a valid time without analysis.
func selectAnalyses(in *fio.Input, variables []string, levels []ensemble.Level, grid *ensemble.Grid, valids []ensemble.Valid) (*references, error) {
	s := &references{variables: variables, levels: levels, grid: grid}
	wanted := map[ensemble.Valid]bool{}
	for _, v := range valids {
		wanted[v] = true
	}
	member := ensemble.NoMember
	if !slices.ContainsFunc(in.Catalogue().Entries, func(e ensemble.Entry) bool { return e.Member == member && e.Product == ensemble.MemberField }) {
		member = 0
	}
	s.entries, s.repeats = pick(in, func(e ensemble.Entry) bool {
		return wanted[e.Valid()] && e.Lead == 0 && e.Product == ensemble.MemberField && e.Member == member &&
			e.Statistic == "" && slices.Contains(variables, e.Variable) && slices.Contains(levels, e.Level)
	})
	s.warnings = repeated(s.repeats)
	have := map[ensemble.Key]bool{}
	for _, e := range s.entries {
		if !e.Grid.SameAs(grid, gridTolerance) {
			return nil, gridsDiffer("the analyses", e.Grid, "the forecasts", grid, e.File)
		}
		have[ensemble.Key{Variable: e.Variable, Level: e.Level, Init: ensemble.Init(e.Valid())}] = true
	}
	for _, v := range valids {
		for _, name := range variables {
			for _, l := range levels {
				if !have[ensemble.Key{Variable: name, Level: l, Init: ensemble.Init(v)}] {
					return nil, &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("no analysis of %s at %s for %s", name, l, v),
						At: place(in.Files()), Why: "every forecast is judged by the analysis of its valid time",
						Fix: "add the file with that time, or leave the starts out whose analyses are not there"}
				}
			}
		}
	}
	return s, nil
}

// read reads a slab of the analyses of some valid times, in their order.
//
// Errors: exit 65 if two fields with one name differ.
func (s *references) read(ctx context.Context, in *fio.Input, valids []ensemble.Valid, own *slab) ([]*ensemble.Analysis, error) {
	levels, grid := own.axes(ensemble.Axes{Levels: s.levels}).Levels, own.part(s.grid)
	byValid := map[ensemble.Valid]*ensemble.Analysis{}
	out := make([]*ensemble.Analysis, len(valids))
	for i, v := range valids {
		if byValid[v] == nil {
			byValid[v] = ensemble.NewAnalysis(v, s.variables, levels, grid)
		}
		out[i] = byValid[v]
	}
	if err := compare(ctx, in, slices.DeleteFunc(slices.Clone(s.repeats), func(r [2]ensemble.Entry) bool { return byValid[r[0].Valid()] == nil })); err != nil {
		return nil, err
	}
	wanted := slices.DeleteFunc(slices.Clone(s.entries), func(e ensemble.Entry) bool { return byValid[e.Valid()] == nil || !slices.Contains(levels, e.Level) })
	return out, in.ReadPart(ctx, byPlace(wanted), own.window(), func(_ int, f *ensemble.Field) error {
		a := byValid[f.Key.Valid()]
		copy(a.Field(slices.Index(s.variables, f.Key.Variable), slices.Index(levels, f.Key.Level)), f.Values)
		in.Recycle(f.Values)
		return nil
	})
}

// pick selects entries, each name once, and pairs those that come again with the first.
func pick(in *fio.Input, wanted func(ensemble.Entry) bool) (entries []ensemble.Entry, repeats [][2]ensemble.Entry) {
	first := map[ensemble.Identity]ensemble.Entry{}
	for _, e := range in.Catalogue().Entries {
		if !wanted(e) {
			continue
		}
		id := e.Identity()
		if other, twice := first[id]; twice {
			repeats = append(repeats, [2]ensemble.Entry{other, e})
			continue
		}
		first[id] = e
		entries = append(entries, e)
	}
	return entries, repeats
}

// repeated is the warning about fields that come again, if there are any.
func repeated(repeats [][2]ensemble.Entry) []string {
	if len(repeats) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d fields are in the input twice with equal values; one of each is used", len(repeats))}
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
			return &exit.Error{Code: exit.BadData, What: "two messages describe the same field and differ",
				At:  fmt.Sprintf("%s message %d and %s message %d (%s)", p[0].File, p[0].Message, p[1].File, p[1].Message, p[1].Key),
				Why: "which of the two is right cannot be known", Fix: "remove one of them from the input"}
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

// offers verifies that every variable, level, lead and member asked for is
// somewhere in the input, so that a wrong name is told from an incomplete file.
func offers(c *ensemble.Catalogue, at string, axes ensemble.Axes, members []ensemble.Member) error {
	seen := map[string]bool{}
	for _, e := range c.Entries {
		if e.Product == ensemble.MemberField {
			seen["variable "+e.Variable] = true
			seen["level "+e.Level.String()] = true
			seen["lead "+e.Lead.String()] = true
			seen["member "+e.Member.String()] = true
		}
	}
	missing := func(kind, name, have string) error {
		if seen[kind+" "+name] {
			return nil
		}
		e := &exit.Error{Code: exit.BadData, What: fmt.Sprintf("%s %s is in none of the forecast files", kind, name), At: at,
			Why: "they hold " + have, Fix: "give the files that hold it, or correct the name; `ensemble inspect FILE` lists what a file holds"}
		if kind == "member" {
			e.Code, e.Fix = exit.NotYet, "wait for the files of this member, or train for the members that are there"
		}
		return e
	}
	for _, v := range axes.Variables {
		if err := missing("variable", v, "variables "+strings.Join(c.Variables(), ", ")); err != nil {
			return err
		}
	}
	for _, l := range axes.Levels {
		if err := missing("level", l.String(), "levels "+strings.Join(words(c.Levels()), ", ")); err != nil {
			return err
		}
	}
	for _, l := range axes.Leads {
		if err := missing("lead", l.String(), "leads "+strings.Join(words(c.Leads()), ", ")); err != nil {
			return err
		}
	}
	for _, m := range members {
		if err := missing("member", m.String(), "members "+strings.Join(words(c.Members()), ", ")); err != nil {
			return err
		}
	}
	return nil
}

// place names files in an error: one or two of them, or the ends of a long list.
func place(files []string) string {
	if n := len(files); n > 2 {
		return fmt.Sprintf("%s … %s (%d files)", files[0], files[n-1], n)
	}
	return strings.Join(files, ", ")
}

// complete verifies that every start has all its fields.
func complete(entries []ensemble.Entry, count map[ensemble.Init]int, axes ensemble.Axes, members []ensemble.Member) error {
	want := axes.Fields() * len(members)
	var faults []*exit.Error
	for init, n := range count {
		if n == want {
			continue
		}
		have := map[ensemble.Key]bool{}
		for _, e := range entries {
			if e.Init == init {
				have[e.Key] = true
			}
		}
		var first *ensemble.Key
		for _, l := range axes.Leads {
			for _, m := range members {
				for _, v := range axes.Variables {
					for _, lev := range axes.Levels {
						k := ensemble.Key{Variable: v, Level: lev, Member: m, Init: init, Lead: l}
						if !have[k] && first == nil {
							first = &k
						}
					}
				}
			}
		}
		faults = append(faults, &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("member %s is missing at lead %s", first.Member, first.Lead),
			At:  fmt.Sprintf("start %s, %s at %s; %d of %d fields are there", init, first.Variable, first.Level, n, want),
			Fix: "wait for the file, fetch it again, or leave the start or the member out"})
	}
	if len(faults) == 0 {
		return nil
	}
	slices.SortFunc(faults, func(a, b *exit.Error) int { return strings.Compare(a.At, b.At) })
	e := *faults[0]
	e.More = faults[1:min(len(faults), 10)]
	return &e
}

// oneGrid gives the grid of all entries.
func oneGrid(entries []ensemble.Entry) (*ensemble.Grid, error) {
	if len(entries) == 0 {
		return nil, &exit.Error{Code: exit.BadData, What: "the forecast files hold no field that is asked for", At: "the forecast input",
			Fix: "`ensemble inspect FILE` lists what a file holds"}
	}
	grid := entries[0].Grid
	for _, e := range entries[1:] {
		if !e.Grid.SameAs(grid, gridTolerance) {
			return nil, gridsDiffer(entries[0].File, grid, e.File, e.Grid, fmt.Sprintf("%s message %d", e.File, e.Message))
		}
	}
	return grid, nil
}

func gridsDiffer(a string, ga *ensemble.Grid, b string, gb *ensemble.Grid, at string) error {
	return &exit.Error{Code: exit.BadData, What: "grids differ", At: at,
		Why: fmt.Sprintf("%s: %s; %s: %s", a, ga, b, gb), Fix: "bring all files to one grid before, for example with `cdo remapbil`"}
}

// choose resolves a member policy on what the input holds: the full ensemble, and
// the members that are input, both ascending.
//
// Errors: exit 66 if there are fewer members than asked for; exit 64 if a listed
// member is not of the full ensemble.
func choose(have []ensemble.Member, list []int, count, full int, control string) (used, all []ensemble.Member, err error) {
	for _, m := range have {
		if m == ensemble.NoMember || control == "exclude" && m == 0 {
			continue
		}
		all = append(all, m)
	}
	if len(all) < full {
		return nil, nil, &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("%d members are in the input, %d make the full ensemble", len(all), full),
			At: "the forecast input", Why: "members " + strings.Join(words(all), ", "), Fix: "add the files of the others, or lower data.members.full"}
	}
	all = all[:full]
	if list == nil {
		return all[:count], all, nil
	}
	for _, m := range list {
		if !slices.Contains(all, ensemble.Member(m)) {
			return nil, nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("member %d of data.members.use is not in the full ensemble", m),
				At: "members " + strings.Join(words(all), ", "), Fix: "list members that the input holds"}
		}
		used = append(used, ensemble.Member(m))
	}
	return used, all, nil
}
