package input

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// LaggedEnsemble combines the members of an initialisation (the newest unless only is set) and of earlier ones up to
// maxAge into one lagged ensemble. Fields of equal valid times get its init and lead. Members keep their
// numbers if these are distinct. Otherwise members of older initialisations get the next free numbers, by age
// and number.
//
// Errors: exit 66 if the initialisation is missing.
func LaggedEnsemble(c *ensemble.Catalogue, maxAge time.Duration, only time.Time) (*ensemble.Catalogue, map[ensemble.Member]time.Duration, time.Time, error) {
	members := ensemble.Catalogue{Entries: c.Select(func(e ensemble.Entry) bool { return e.Product == ensemble.MemberField && e.Member != ensemble.NoMember })}
	inits := members.Inits()
	if only.IsZero() && len(inits) > 0 {
		only = inits[len(inits)-1].Time
	}
	newest := ensemble.InitAt(only)
	if !slices.Contains(inits, newest) {
		return nil, nil, only, MissingInitError(newest, inits)
	}
	type source struct {
		age    time.Duration
		member ensemble.Member
	}
	age := func(e ensemble.Entry) time.Duration { return newest.Sub(e.Init.Time) }
	number := map[source]ensemble.Member{}
	var sources []source
	taken := map[ensemble.Member]time.Duration{}
	clash, last := false, ensemble.Member(0)
	for _, e := range members.Entries {
		s := source{age(e), e.Member}
		if _, known := number[s]; known || s.age < 0 || s.age > maxAge {
			continue
		}
		number[s] = e.Member
		sources = append(sources, s)
		_, twice := taken[e.Member]
		taken[e.Member], clash = s.age, clash || twice
		if s.age == 0 {
			last = max(last, e.Member)
		}
	}
	if clash {
		slices.SortFunc(sources, func(a, b source) int { return cmp.Or(cmp.Compare(a.age, b.age), cmp.Compare(a.member, b.member)) })
		for _, s := range sources {
			if s.age > 0 {
				last++
				number[s] = last
			}
		}
	}
	ages := map[ensemble.Member]time.Duration{}
	out := &ensemble.Catalogue{Unused: c.Unused, Messages: c.Messages, Warnings: c.Warnings}
	for _, e := range members.Entries {
		s := source{age(e), e.Member}
		n, ok := number[s]
		if !ok || e.Lead < ensemble.Lead(s.age) {
			continue
		}
		e.Init, e.Lead, e.Member = newest, e.Lead-ensemble.Lead(s.age), n
		ages[n] = s.age
		out.Entries = append(out.Entries, e)
	}
	if len(out.Entries) == 0 {
		return nil, nil, only, &exit.Error{Code: exit.NotYet, What: "no field of the lagged ensemble is in the input", At: fmt.Sprintf("%s and %s before it", newest, maxAge),
			Fix: "add the files of the newest initialisation"}
	}
	slices.SortFunc(out.Entries, ensemble.Entry.Compare)
	return out, ages, only, nil
}
