package draft

import (
	"cmp"
	"context"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	fio "github.com/ensemble-weather/ensemble/io"
)

// quantity is what a field is of: one column of the table of fields.
type quantity struct {
	variable string
	level    ensemble.Level
	ensemble.TimeStatistic
}

// of returns the quantity of a field.
func of(e ensemble.Entry) quantity { return quantity{e.Variable, e.Level, e.Kind.TimeStatistic()} }

// known is the variable of the vocabulary; the zero value for others.
func (q quantity) known() ensemble.Variable {
	v, _ := ensemble.VariableNamed(q.variable)
	return v
}

// isSingle reports whether the variable has only one level, as 2t and msl.
func (q quantity) isSingle() bool {
	v := q.known()
	return v.Name != "" && !v.OnManyLevels()
}

// signed lists variables whose values may be below 0 in SI units.
var signed = []string{"u", "v", "w", "d", "vo", "10u", "10v", "z", "gh"}

// isSigned reports whether values may be below 0; those of own variables may.
func (q quantity) isSigned() bool { return q.known().Name == "" || slices.Contains(signed, q.variable) }

// at is the quantity as --target and data.names state it.
func (q quantity) at() ensemble.VariableAt {
	return ensemble.VariableAt{Variable: q.variable, Level: q.level, HasLevel: !q.isSingle()}
}

// matches reports whether an analysis can verify the quantity.
func (q quantity) matches(analysis quantity) bool {
	return q.variable == analysis.variable && q.level == analysis.level && q.Matches(analysis.TimeStatistic, q.known().Period)
}

// place is a lead of an initialisation.
type place struct {
	init ensemble.Init
	lead ensemble.Lead
}

// archive is the content of the files by quantity.
type archive struct {
	forecasts, analyses []string // arguments with fields of each kind
	members             map[quantity]map[place]int
	verified            map[quantity]map[ensemble.Valid]bool
	grid                map[bool]*ensemble.Grid // of most forecasts (true), of most analyses (false)
	directions          map[string]bool         // variables that are directions
	fileNames           map[quantity]string     // a name of each analysis in the files
	guessed             ensemble.Naming         // quantities that only names of variables state, in a form of no convention
	unused              []ensemble.Unused
	warnings            []string
}

// isAnalysis reports whether a field without a member is an analysis: at lead 0, or of a statistic over time, which
// analyses have as short forecasts.
func isAnalysis(e ensemble.Entry) bool {
	return e.Product == ensemble.MemberField && e.Member == ensemble.NoMember && (e.Lead == 0 || e.Statistic != "")
}

// readArchive opens the files and indexes their fields; no values are read.
//
// Errors: as fio.Open and input.ArgumentFiles.
func readArchive(ctx context.Context, o Options) (*archive, error) {
	a := &archive{members: map[quantity]map[place]int{}, verified: map[quantity]map[ensemble.Valid]bool{}, grid: map[bool]*ensemble.Grid{}, directions: map[string]bool{},
		fileNames: map[quantity]string{}, guessed: ensemble.Naming{Names: map[string]ensemble.VariableAt{}}}
	argument := map[string]string{} // of each file
	var all []string
	for _, name := range o.Files {
		files, _, err := input.ArgumentFiles([]string{name})
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if argument[f] == "" {
				argument[f], all = name, append(all, f)
			}
		}
	}
	o.Input.SkipBad, o.Input.Static = true, true
	in, err := fio.Open(ctx, all, o.Input)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := input.CheckNaming(o.Input.Naming, "--", in); err != nil {
		return nil, err
	}
	cat := in.Catalogue()
	a.unused = cat.Unused
	a.warnings = slices.Concat(cat.Warnings, input.UnitWarnings(cat.Entries))
	kinds := map[bool][]ensemble.Entry{}
	for _, e := range cat.Entries {
		if e.Init.IsZero() || e.Product != ensemble.MemberField {
			continue
		}
		forecast := e.Member != ensemble.NoMember
		if !forecast && !isAnalysis(e) {
			continue
		}
		kinds[forecast] = append(kinds[forecast], e)
		a.directions[e.Variable] = a.directions[e.Variable] || e.IsDirection()
		a.add(e, forecast)
		if e.Guessed {
			q := of(e)
			a.guessed.Names[e.Name] = q.at()
		}
		to := &a.analyses
		if forecast {
			to = &a.forecasts
		}
		if name := argument[e.File]; !slices.Contains(*to, name) {
			*to = append(*to, name)
		}
	}
	for forecast, entries := range kinds {
		a.grid[forecast] = input.MostCommonGrid(entries)
	}
	position := func(x, y string) int { return cmp.Compare(slices.Index(o.Files, x), slices.Index(o.Files, y)) }
	slices.SortFunc(a.forecasts, position)
	slices.SortFunc(a.analyses, position)
	return a, nil
}

// add indexes a field.
func (a *archive) add(e ensemble.Entry, forecast bool) {
	q := of(e)
	if !forecast {
		if a.verified[q] == nil {
			a.fileNames[q] = e.Name
			a.verified[q] = map[ensemble.Valid]bool{}
		}
		a.verified[q][e.Valid()] = true
		return
	}
	if a.members[q] == nil {
		a.members[q] = map[place]int{}
	}
	a.members[q][place{e.Init, e.Lead}]++
}

// isVerified reports whether an analysis of the quantity exists at a valid time.
func (a *archive) isVerified(q quantity, at ensemble.Valid) bool {
	for other, valid := range a.verified {
		if q.matches(other) && valid[at] {
			return true
		}
	}
	return false
}

// hasAnalyses reports whether any analysis of the quantity exists.
func (a *archive) hasAnalyses(q quantity) bool {
	for other := range a.verified {
		if q.matches(other) {
			return true
		}
	}
	return false
}

// leads lists the leads of a quantity, ascending.
func (a *archive) leads(q quantity) (out []ensemble.Lead) {
	for p := range a.members[q] {
		if !slices.Contains(out, p.lead) {
			out = append(out, p.lead)
		}
	}
	slices.Sort(out)
	return out
}

// quantities lists the quantities of the forecasts, in the order of the vocabulary's preference and then by name.
func (a *archive) quantities() (out []quantity) {
	for q := range a.members {
		if !a.directions[q.variable] {
			out = append(out, q)
		}
	}
	rank := func(q quantity) int {
		if i := slices.Index(preferred, q.variable); i >= 0 {
			return i
		}
		return len(preferred)
	}
	slices.SortFunc(out, func(x, y quantity) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.variable, y.variable), -cmp.Compare(x.level.Value, y.level.Value),
			cmp.Compare(x.Statistic, y.Statistic), cmp.Compare(x.Interval, y.Interval))
	})
	return out
}

// preferred lists the targets that offices ask for first.
var preferred = []string{"2t", "tp", "10fg", "10si", "msl", "t", "gh"}
