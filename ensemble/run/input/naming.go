package input

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/nearest"
	fio "github.com/ensemble-weather/ensemble/io"
)

// CheckNaming checks that each name for which variable or unit are stated is one of a variable of the inputs, which are
// all that the statements concern, and that a file needs each lead that is stated. under is the section of the keys with its dot, "--" for flags.
//
// Errors: exit 64 for the first name of no variable, with the nearest one, and the others in More.
func CheckNaming(n ensemble.Naming, under string, inputs ...*fio.Input) error {
	if n.IsZero() {
		return nil
	}
	used, seen := map[string]bool{}, map[string]bool{}
	for _, in := range inputs {
		keys, names := in.NamingUse()
		for _, k := range keys {
			used[k] = true
		}
		for _, v := range names {
			seen[v] = true
		}
	}
	names := slices.Sorted(maps.Keys(seen))
	var faults []*exit.Error
	check := func(key string, stated []string) {
		for _, name := range stated {
			if used[name] {
				continue
			}
			scope, own, scoped := strings.Cut(name, ":")
			if !scoped {
				scope, own = "", name
			}
			fix := "`ensemble inspect FILE` lists the content of a file; remove the name"
			if near := nearest.Find(own, names); near != "" {
				right := strings.TrimPrefix(scope+":"+near, ":")
				if fix = "did you mean `" + right + "`?"; under == "data." {
					fix += " under `data:` write `" + key + ": " + renamed(n, key, name, right) + "`"
				}
			}
			faults = append(faults, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s%s states %s, which is not a variable of the files", under, key, name), At: under + key + ", " + name,
				Why: "the variables are " + humanise.List(names), Fix: fix})
		}
	}
	check("names", slices.Sorted(maps.Keys(n.Names)))
	check("units", slices.Sorted(maps.Keys(n.Units)))
	for _, pattern := range slices.Sorted(maps.Keys(n.Leads)) {
		if !slices.ContainsFunc(inputs, func(in *fio.Input) bool { return in.UsesLead(pattern) }) {
			faults = append(faults, unusedLead(n, under, pattern))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	first := *faults[0]
	first.More = faults[1:]
	return &first
}

// unusedLead is the fault of a lead that no file needs.
func unusedLead(n ensemble.Naming, under, pattern string) *exit.Error {
	key, what := "file_leads", "a file of that name"
	if under == "--" {
		key = "file-leads"
	}
	if pattern == "*" {
		what = "a file"
	}
	fix := "remove it: the leads of the files are read"
	rest := n.Over(ensemble.Naming{})
	if delete(rest.Leads, pattern); len(rest.Leads) > 0 && under != "--" {
		fix = "write `file_leads: " + config.FileLeads{Of: rest.Leads}.String() + "`, or correct the pattern"
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s%s states the lead %s for %s, which no file needs", under, key, n.Leads[pattern], config.Quote(pattern)), At: under + key,
		Why: what + " without leads and with initialisations, or with members and valid times, was not found", Fix: fix}
}

// renamed formats the statements of a key with another name in place of one.
func renamed(n ensemble.Naming, key, old, by string) string {
	n = n.Over(ensemble.Naming{}) // a copy
	if key == "units" {
		n.Units[by] = n.Units[old]
		delete(n.Units, old)
		return config.FileUnits{Of: n.Units}.String()
	}
	n.Names[by] = n.Names[old]
	delete(n.Names, old)
	return config.FileNames{Of: n.Names}.String()
}

// CheckNamingOf is [CheckNaming] for the keys of a training, which concern its auxiliary files too.
//
// Errors: those of CheckNaming, and of fio.Open for the auxiliary files.
func CheckNamingOf(ctx context.Context, c *config.TrainConfig, open Opener, inputs ...*fio.Input) error {
	err := CheckNaming(c.Data.Stated(), "data.", inputs...)
	if err == nil || len(c.Data.Auxiliary.Files) == 0 {
		return err
	}
	files, err := ConfigFiles("data.auxiliary.files", c.Data.Auxiliary.Files)
	if err != nil {
		return err
	}
	o := ReaderOptions(c, false)
	o.Static = true
	in, err := open(ctx, files, o)
	if err != nil {
		return err
	}
	defer in.Close()
	return CheckNaming(c.Data.Stated(), "data.", append(inputs, in)...)
}

// UnitWarnings lists the variables whose unit is missing or not understood, each with the lines that state it, for commands
// that read no values.
func UnitWarnings(entries []ensemble.Entry) (out []string) {
	for _, f := range UnitFaults(entries) {
		if f.Kind == FaultUnit && f.Code != exit.OK && !strings.HasSuffix(f.What, directionReason) {
			out = append(out, f.What+": "+f.Why+"; "+f.Fix)
		}
	}
	return out
}

// NamingFix returns the lines that state the unit (key "units") or variable (key "names") of the variable of a field,
// in a configuration and on the command line. In a configuration they concern forecasts or analyses only, because the
// other files may state another unit.
func NamingFix(key string, e ensemble.Entry, value string) string {
	name := e.Variable
	if e.Kind != nil {
		name = cmp.Or(e.Name, name)
	}
	scope := ensemble.AnalysisFiles
	if e.Member != ensemble.NoMember {
		scope = ensemble.ForecastFiles
	}
	flag := name + "=" + value
	if strings.ContainsAny(flag, " ()*'") {
		flag = "\"" + flag + "\""
	}
	return fmt.Sprintf("under `data:` of train.yaml add `%s: {%s: %s}`; on the command line `--%s %s`", key, config.Quote(scope+":"+name), config.Quote(value), key, flag)
}
