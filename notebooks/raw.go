package notebooks

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Member returns the field of one ensemble member as the files contain it, in SI units: the variable "t2m", "t850" or
// "t@850hPa", at a lead time such as "48h".
//
// Errors, stored in the field: those of the Init; 64 for a name, a lead time or a member that the files do not have,
// with the nearest that they have; 65 for a damaged file; 66 if only this field is missing.
func (c Init) Member(number int, name, lead string) *Field {
	if c.err == nil && !slices.Contains(c.dataset.summary.Members, ensemble.Member(number)) {
		members := c.dataset.summary.Members
		c.err = &exit.Error{Code: exit.Usage, What: fmt.Sprintf("no member %d in the files", number), At: "Member", Why: "the files have members " + ensemble.MemberRanges(members),
			Fix: fmt.Sprintf("the nearest is %d", closest(ensemble.Member(number), members))}
	}
	all, err := c.members(name, lead, func(m ensemble.Member) bool { return m == ensemble.Member(number) })
	if err != nil {
		return &Field{err: err}
	}
	return &Field{Field: all[0], What: fmt.Sprintf("member %d", number)}
}

// Members returns the fields of all ensemble members, in the order of their numbers.
//
// Errors: as Member.
func (c Init) Members(name, lead string) ([]*Field, error) {
	all, err := c.members(name, lead, func(ensemble.Member) bool { return true })
	var out []*Field
	for _, f := range all {
		out = append(out, &Field{Field: f, What: "member " + f.Key.Member.String()})
	}
	return out, err
}

// MustMembers calls Members and ends the cell on an error.
func (c Init) MustMembers(name, lead string) []*Field {
	all, err := c.Members(name, lead)
	exitOnError(err)
	return all
}

// Mean returns the mean over all ensemble members.
//
//	x̄ = (1/M) Σᵢ xᵢ
//
// Missing: NaN where a member is missing. Errors, stored in the field: as Member.
func (c Init) Mean(name, lead string) *Field {
	mean, _ := c.moments(name, lead)
	return mean
}

// Spread returns the standard deviation over all ensemble members.
//
//	s = √(Σᵢ (xᵢ−x̄)² / (M−1))
//
// Missing: NaN where a member is missing, and of a single member. Errors, stored in the field: as Member.
func (c Init) Spread(name, lead string) *Field {
	_, spread := c.moments(name, lead)
	return spread
}

func (c Init) moments(name, lead string) (mean, spread *Field) {
	all, err := c.members(name, lead, func(ensemble.Member) bool { return true })
	if err != nil {
		return &Field{err: err}, &Field{err: err}
	}
	a, b := *all[0], *all[0]
	a.Key.Product, b.Key.Product = ensemble.EnsembleMean, ensemble.Spread
	a.Key.Member, b.Key.Member = ensemble.NoMember, ensemble.NoMember
	a.Values, b.Values = make([]float32, len(a.Values)), make([]float32, len(a.Values))
	m := float64(len(all))
	for k := range a.Values {
		var sum, squares float64
		for _, f := range all {
			sum += float64(f.Values[k])
		}
		for _, f := range all {
			d := float64(f.Values[k]) - sum/m
			squares += d * d
		}
		a.Values[k], b.Values[k] = float32(sum/m), float32(math.Sqrt(squares/(m-1)))
	}
	what := fmt.Sprintf("of %d members", len(all))
	return &Field{Field: &a, What: "mean " + what}, &Field{Field: &b, What: "spread " + what}
}

// Analysis returns the verifying analysis of a lead time: the analysis of the valid time.
//
// Errors, stored in the field: as Member; 66 for a dataset without analyses, and without an analysis of this time.
func (c Init) Analysis(name, lead string) *Field {
	at, l, err := c.find(name, lead)
	if err != nil {
		return &Field{err: err}
	}
	d := c.dataset
	if d.analyses == nil {
		return &Field{err: &exit.Error{Code: exit.NotYet, What: "the dataset has no analyses", Fix: `open it with ens.Analyses("an/*.nc")`}}
	}
	valid := c.Init.Valid(l)
	var times []ensemble.Valid
	found, err := d.read(d.analyses, func(e ensemble.Entry) bool {
		if e.Product != ensemble.MemberField || e.Variable != at.variable || e.Level != *at.level {
			return false
		}
		times = append(times, e.Valid())
		return e.Valid().Equal(valid.Time)
	})
	if err != nil {
		return &Field{err: err}
	}
	if len(found) == 0 {
		e := &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("no analysis of %s at %s", at, valid), At: d.analyses[0], Why: "the files have no analysis of this variable and level",
			Fix: "open more files with ens.Analyses"}
		if len(times) > 0 {
			slices.SortFunc(times, func(a, b ensemble.Valid) int { return a.Compare(b.Time) })
			e.Why = fmt.Sprintf("the files have %d times from %s to %s", len(times), times[0], times[len(times)-1])
			e.Fix = fmt.Sprintf("the nearest is %s", closestTime(valid.Time, times, func(v ensemble.Valid) time.Time { return v.Time }))
		}
		return &Field{err: e}
	}
	f := found[0]
	f.Key.Init, f.Key.Lead = c.Init, l // for the title of a map, and to compare it with the forecast
	return &Field{Field: f, What: "analysis"}
}

// find returns the variable at one level and the lead time, which the files have.
//
// Errors: exit 64 with the nearest name or lead time of the files.
func (c Init) find(name, lead string) (at variableLevel, l ensemble.Lead, err error) {
	if c.err != nil {
		return at, 0, c.err
	}
	d := c.dataset
	if at, err = d.findVariable(name); err != nil {
		return at, 0, err
	}
	v, err := config.ParseDuration(lead)
	l = ensemble.Lead(v)
	switch {
	case err != nil || v < 0:
		return at, 0, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid lead time %q", lead), Why: "the files have " + joinValues(d.summary.Leads), Fix: `write it as "48h"`}
	case !slices.Contains(d.summary.Leads, l):
		return at, 0, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("lead time %s is not in the files", l), Why: "the files have " + joinValues(d.summary.Leads),
			Fix: fmt.Sprintf("the nearest is %q", closest(l, d.summary.Leads))}
	}
	return at, l, nil
}

// findVariable returns a variable of the files at one level. Without a level it is the only level of the files.
//
// Errors: exit 64 with the nearest name of the files.
func (d *Dataset) findVariable(name string) (at variableLevel, err error) {
	var names []string
	for _, v := range d.summary.Variables {
		known, _ := ensemble.VariableNamed(v.Name)
		if !known.OnManyLevels() {
			names = append(names, v.Name)
			continue
		}
		for _, l := range v.Levels {
			names = append(names, shortLevelName(v.Name, l))
		}
	}
	unknown := func(why string) (variableLevel, error) {
		e := &exit.Error{Code: exit.Usage, What: fmt.Sprintf("no variable %q in the files", name), Why: why, Fix: "choose one of " + strings.Join(names, ", ")}
		if near := nearest.Find(name, names); near != "" {
			e.Fix = fmt.Sprintf("the nearest is %q; %s", near, e.Fix)
		}
		return at, e
	}
	if at, err = parseVariable(name); err != nil {
		return unknown(exitWhy(err))
	}
	i := slices.IndexFunc(d.summary.Variables, func(v variableSummary) bool { return v.Name == at.variable })
	if i < 0 {
		return unknown("the files have " + d.describeVariables())
	}
	levels := d.summary.Variables[i].Levels
	if at.level == nil && len(levels) == 1 {
		at.level = &levels[0]
	}
	switch {
	case at.level == nil:
		return unknown(fmt.Sprintf("%s is at several levels: %s", name, joinValues(levels)))
	case !slices.Contains(levels, *at.level):
		e := &exit.Error{Code: exit.Usage, What: fmt.Sprintf("no variable %q in the files", name), Why: "the files have " + d.describeVariables(), Fix: "choose one of " + strings.Join(names, ", ")}
		if at.level.Kind == ensemble.Pressure {
			near := slices.MinFunc(levels, func(a, b ensemble.Level) int {
				return cmp.Compare(math.Abs(a.Value-at.level.Value), math.Abs(b.Value-at.level.Value))
			})
			e.Fix = fmt.Sprintf("the nearest is %q; %s", shortLevelName(at.variable, near), e.Fix)
		}
		return at, e
	}
	return at, nil
}

// exitWhy returns the cause of an error.
func exitWhy(err error) string {
	if e, ok := err.(*exit.Error); ok {
		return e.Why
	}
	return err.Error()
}

// shortLevelName is the name of a variable at a level: "t850" at a pressure level in whole hPa, else "t@LEVEL".
func shortLevelName(variable string, l ensemble.Level) string {
	text := l.String()
	if digits := strings.TrimSuffix(text, "hPa"); digits != text && strings.Trim(digits, "0123456789") == "" {
		return variable + digits
	}
	return variable + "@" + text
}

// members reads the fields of the members that keep accepts, in the order of their numbers.
func (c Init) members(name, lead string, keep func(ensemble.Member) bool) ([]*ensemble.Field, error) {
	at, l, err := c.find(name, lead)
	if err != nil {
		return nil, err
	}
	found, err := c.dataset.read(c.Files, func(e ensemble.Entry) bool {
		return e.Product == ensemble.MemberField && e.Variable == at.variable && e.Level == *at.level && e.Init == c.Init && e.Lead == l && keep(e.Member)
	})
	if err == nil && len(found) == 0 {
		err = &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("no field of %s at lead time %s", at, l), At: c.Init.String(), Why: "the files of other initialisation times have it",
			Fix: "choose another initialisation time; `ensemble check` lists missing fields"}
	}
	slices.SortFunc(found, func(a, b *ensemble.Field) int { return cmp.Compare(a.Key.Member, b.Key.Member) })
	return found, err
}

// read reads the fields of files that keep accepts.
func (d *Dataset) read(files []string, keep func(ensemble.Entry) bool) ([]*ensemble.Field, error) {
	o := fio.Options{}
	if d.cached {
		o.Cache = d.indexDir()
	}
	return runJob(func(ctx context.Context, _ job) ([]*ensemble.Field, error) { return readFields(ctx, files, o, keep) })
}

// readFields reads the fields of files that keep accepts.
func readFields(ctx context.Context, files []string, o fio.Options, keep func(ensemble.Entry) bool) ([]*ensemble.Field, error) {
	in, err := fio.Open(ctx, files, o)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var out []*ensemble.Field
	err = in.Read(ctx, in.Catalogue().Select(keep), func(_ int, f *ensemble.Field) error {
		out = append(out, f)
		return nil
	})
	return out, err
}

// closest returns the element of all with the smallest distance to x; of equal ones the first.
func closest[T ~int | ~int64](x T, all []T) T {
	return slices.MinFunc(all, func(a, b T) int { return cmp.Compare(max(a-x, x-a), max(b-x, x-b)) })
}

// closestTime returns the element of all whose time has the smallest distance to t; of equal ones the first.
func closestTime[T any](t time.Time, all []T, of func(T) time.Time) T {
	return slices.MinFunc(all, func(a, b T) int { return cmp.Compare(of(a).Sub(t).Abs(), of(b).Sub(t).Abs()) })
}
