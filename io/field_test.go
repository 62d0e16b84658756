package fio

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// fieldCase is expected.json of a folder of testdata/field: what is expected of the
// files in it, of all together.
type fieldCase struct {
	Situation string
	// Sparse and Static are those of Options.
	Sparse, Static bool
	// Variables holds what is expected of each variable, by short name. All must be
	// listed.
	Variables map[string]fieldExpectation
	// Warnings and Unused hold words of each warning and of each reason, in any
	// order.
	Warnings, Unused []string
	// Refusal is set if no field can be used.
	Refusal *struct {
		Code  int
		Words []string
	}
}

// fieldExpectation is what is expected of a variable. Absent members are not
// compared.
type fieldExpectation struct {
	Unit, Statistic, Interval, Grid string
	Levels, Leads, Inits            []string
	Members                         []int
	Fields                          int
	Missing                         *int
	Min, Max                        *float64
}

// TestField reads the files of each folder of testdata/field. A new case is a new
// folder: files, make.py that writes them, and expected.json.
func TestField(t *testing.T) {
	folders, err := filepath.Glob("testdata/field/*/expected.json")
	if err != nil || len(folders) == 0 {
		t.Fatal("no cases", err)
	}
	for _, path := range folders {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var want fieldCase
			d := json.NewDecoder(strings.NewReader(string(text)))
			d.DisallowUnknownFields()
			if err := d.Decode(&want); err != nil {
				t.Fatal(err)
			}
			checkFieldCase(t, dir, want)
		})
	}
}

// checkFieldCase reads the files of a folder and compares them with what is expected.
func checkFieldCase(t *testing.T, dir string, want fieldCase) {
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, n := range names {
		if n.Name() != "expected.json" && n.Name() != "make.py" {
			files = append(files, filepath.Join(dir, n.Name()))
		}
	}
	in, err := Open(context.Background(), files, Options{Pool: children(t), Sparse: want.Sparse, Static: want.Static})
	cat := new(ensemble.Catalogue)
	if err == nil {
		t.Cleanup(in.Close)
		cat = in.Catalogue()
	}
	got := map[string]*fieldActual{}
	if err == nil {
		err = in.Read(context.Background(), cat.Entries, func(i int, f *ensemble.Field) error {
			name := cat.Entries[i].Variable
			if got[name] == nil {
				got[name] = &fieldActual{low: math.Inf(1), high: math.Inf(-1)}
			}
			got[name].add(cat.Entries[i], f.Values)
			return nil
		})
	}
	if err == nil && len(cat.Entries) == 0 && len(cat.Unused) > 0 {
		err = &exit.Error{Code: exit.BadData, What: cat.Unused[0].Reason}
	}
	if want.Refusal != nil {
		if int(exit.CodeOf(err)) != want.Refusal.Code {
			t.Errorf("code %d, want %d: %v", exit.CodeOf(err), want.Refusal.Code, err)
		}
		for _, w := range want.Refusal.Words {
			if !strings.Contains(explain(err), w) {
				t.Errorf("%q is not in: %s", w, explain(err))
			}
		}
		return
	}
	if err != nil {
		t.Fatal(explain(err))
	}
	var unused []string
	for _, u := range cat.Unused {
		unused = append(unused, u.Reason)
	}
	checkWords(t, "warning", cat.Warnings, want.Warnings)
	checkWords(t, "unused", unused, want.Unused)
	for name, g := range got {
		if _, ok := want.Variables[name]; !ok {
			t.Errorf("%s is not expected: %s", name, g)
		}
	}
	for name, w := range want.Variables {
		if got[name] == nil {
			t.Errorf("%s is missing; there are %v", name, cat.Variables())
			continue
		}
		got[name].compare(t, name, w)
	}
}

// explain returns all parts of an error.
func explain(err error) string {
	var e *exit.Error
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	return strings.Join([]string{e.What, e.At, e.Why, e.Fix}, "\n")
}

// checkWords compares texts with words: each text contains one of the words, and each
// of the words is in a text.
func checkWords(t *testing.T, what string, got, words []string) {
	t.Helper()
	for _, g := range got {
		if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(g, w) }) {
			t.Errorf("%s that is not expected: %s", what, g)
		}
	}
	for _, w := range words {
		if !slices.ContainsFunc(got, func(g string) bool { return strings.Contains(g, w) }) {
			t.Errorf("no %s contains %q: %q", what, w, got)
		}
	}
}

// fieldActual is the content of a variable.
type fieldActual struct {
	entries   []ensemble.Entry
	missing   int
	low, high float64
}

// add adds a field.
func (a *fieldActual) add(e ensemble.Entry, values []float32) {
	a.entries = append(a.entries, e)
	for _, v := range values {
		if v != v {
			a.missing++
			continue
		}
		a.low, a.high = min(a.low, float64(v)), max(a.high, float64(v))
	}
}

// String describes the content.
func (a *fieldActual) String() string {
	return fmt.Sprintf("%d fields, first %s, %d values missing, %g to %g", len(a.entries), a.entries[0].Key, a.missing, a.low, a.high)
}

// distinct returns the distinct values of a property, ascending.
func distinct[T cmp.Ordered](entries []ensemble.Entry, of func(e ensemble.Entry) T) []T {
	var out []T
	for _, e := range entries {
		out = append(out, of(e))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// compare compares the content with what is expected.
func (a *fieldActual) compare(t *testing.T, name string, w fieldExpectation) {
	t.Helper()
	same := func(what string, got, want []string) {
		t.Helper()
		slices.Sort(want)
		if want != nil && !slices.Equal(got, want) {
			t.Errorf("%s: %s %q, want %q", name, what, got, want)
		}
	}
	same("levels", distinct(a.entries, func(e ensemble.Entry) string { return e.Level.String() }), w.Levels)
	same("leads", distinct(a.entries, func(e ensemble.Entry) string { return e.Lead.String() }), w.Leads)
	same("inits", distinct(a.entries, func(e ensemble.Entry) string { return e.Init.String() }), w.Inits)
	first := a.entries[0]
	for what, pair := range map[string][2]string{"unit": {first.Unit, w.Unit}, "statistic": {first.Statistic, w.Statistic}, "interval": {first.Interval.String(), cmp.Or(w.Interval, "0h")}} {
		if pair[0] != pair[1] && !(what == "unit" && w.Unit == "") {
			t.Errorf("%s: %s %q, want %q", name, what, pair[0], pair[1])
		}
	}
	if w.Grid != "" && first.Grid.String() != w.Grid {
		t.Errorf("%s: grid %s, want %s", name, first.Grid, w.Grid)
	}
	members := distinct(a.entries, func(e ensemble.Entry) int { return int(e.Member) })
	if w.Members == nil {
		w.Members = []int{int(ensemble.NoMember)}
	}
	if !slices.Equal(members, w.Members) {
		t.Errorf("%s: members %v, want %v", name, members, w.Members)
	}
	if w.Fields > 0 && len(a.entries) != w.Fields {
		t.Errorf("%s: %d fields, want %d", name, len(a.entries), w.Fields)
	}
	if w.Missing != nil && a.missing != *w.Missing {
		t.Errorf("%s: %d values missing, want %d", name, a.missing, *w.Missing)
	}
	for what, pair := range map[string][2]*float64{"min": {&a.low, w.Min}, "max": {&a.high, w.Max}} {
		if pair[1] != nil && !(math.Abs(*pair[0]-*pair[1]) <= 1e-6*math.Abs(*pair[1])) {
			t.Errorf("%s: %s %g, want %g", name, what, *pair[0], *pair[1])
		}
	}
}
