package input

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/protocolfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Availability lists the members of one initialisation that a policy accepts.
type Availability struct {
	Members   []ensemble.Member       // used members, ascending
	Missing   []product.MissingMember // members that should be used, with reasons
	Complete  int                     // members with all fields, used or not
	Short     bool                    // fewer members than expected are complete
	TooFew    bool                    // fewer members than the network reads: the fallback forecasts
	conflicts int                     // repeated fields that differ
	Warnings  []string
}

// Degraded reports whether an initialisation has less input than expected.
func (r Availability) Degraded() bool { return r.Short || r.conflicts > 0 || len(r.Missing) > 0 }

// table returns a table of an initialisation's fields by member and lead, with equal members in one row;
// "" if it is too large.
func (s *initFields) table() string {
	const mostLeads, mostRows = 12, 12
	count := map[ensemble.Member]map[ensemble.Lead]int{}
	leads := map[ensemble.Lead]bool{}
	add := func(k ensemble.Key, n int) {
		if count[k.Member] == nil {
			count[k.Member] = map[ensemble.Lead]int{}
		}
		count[k.Member][k.Lead] += n
		leads[k.Lead] = true
	}
	for k := range s.have {
		add(k, 1)
	}
	for _, k := range s.missing {
		add(k, 0)
	}
	columns := make([]ensemble.Lead, 0, len(leads))
	for t := range leads {
		columns = append(columns, t)
	}
	slices.Sort(columns)
	alike := map[string][]ensemble.Member{}
	for m, of := range count {
		var cells strings.Builder
		for _, t := range columns {
			fmt.Fprintf(&cells, " %6d", of[t])
		}
		alike[cells.String()] = append(alike[cells.String()], m)
	}
	if len(columns) > mostLeads || len(alike) > mostRows || len(count) < 2 {
		return ""
	}
	type row struct{ members, cells string }
	var rows []row
	first := map[string]ensemble.Member{}
	for cells, m := range alike {
		slices.Sort(m)
		name := strings.ReplaceAll(ensemble.MemberRanges(m), ", ", ",")
		rows, first[name] = append(rows, row{name, cells}), m[0]
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(first[a.members], first[b.members]) })
	var b strings.Builder
	fmt.Fprintf(&b, "\n    %-12s", "members")
	for _, t := range columns {
		fmt.Fprintf(&b, " %6s", t)
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "\n    %-12s%s", r.members, r.cells)
	}
	return b.String()
}

// MissingInitError returns the error for a requested initialisation that the input lacks.
//
// Errors: exit 66.
func MissingInitError(init ensemble.Init, has []ensemble.Init) error {
	why := "the input has no initialisation"
	if len(has) > 0 {
		why = "the input has " + humanise.List(humanise.Strings(has))
	}
	return &exit.Error{Code: exit.NotYet, What: "the initialisation is not in the input", At: init.String(), Why: why, Fix: "add its files, wait for them with --deadline, or leave --init out"}
}

// CheckProtocolInits compares the initialisations of an input with those of a protocol, in the periods of a split.
// Additional initialisations give a warning.
//
// Errors: exit 66 for initialisations that are missing.
func CheckProtocolInits(p *protocolfile.Config, s config.Split, have []ensemble.Init, at string) (warnings []string, err error) {
	all := p.Hindcasts.Inits()
	wanted := all
	if s.IsByDate() {
		wanted = slices.DeleteFunc(slices.Clone(all), func(i ensemble.Init) bool {
			return !slices.ContainsFunc([]config.Period{s.Train, s.Validation, s.Test}, func(p config.Period) bool { return p.Period().Contains(i.Time) })
		})
	}
	lacks := func(of, in []ensemble.Init) (out []ensemble.Init) {
		known := map[ensemble.Init]bool{}
		for _, i := range in {
			known[i] = true
		}
		for _, i := range of {
			if !known[i] {
				out = append(out, i)
			}
		}
		return out
	}
	if absent := lacks(wanted, have); absent != nil {
		days := map[string]int{}
		for _, i := range absent {
			days[i.Format("0102")]++
		}
		var files []string
		for _, d := range p.Hindcasts.Dates {
			if n := days[d]; n > 0 {
				files = append(files, fmt.Sprintf("%s (%s)", p.Hindcasts.Files[0].Path(p.Hindcasts.ReferenceYear, d), humanise.Count(n, "year")))
			}
		}
		return nil, &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("%d of %d initialisations of %s are not in the input", len(absent), len(wanted), p.Title), At: at,
			Why: humanise.List(humanise.Strings(absent)) + "; they belong in " + humanise.List(files), Fix: "download these files, or remove --protocol to continue without these initialisations"}
	}
	if additional := lacks(have, all); additional != nil {
		warnings = append(warnings, fmt.Sprintf("%s of the input do not belong to %s: %s", humanise.Count(len(additional), "initialisation"), p.Title, humanise.List(humanise.Strings(additional))))
	}
	return warnings, nil
}
