package input

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Real lagged ensembles have different initialisations and common valid times. Combined, every member has
// every lead, and its age.
func TestLaggedEnsembles(t *testing.T) {
	testdecoder.Path(t)
	members, err := filepath.Glob(filepath.Join(testdata.Dir(t, "glosea4"), "*.nc"))
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * time.Hour
	for _, c := range []struct {
		name           string
		files          []string
		age            time.Duration
		members, leads int
		newest         string
		oldest         ensemble.Member
		ageOfOldest    time.Duration
	}{
		{"glosea4", members, 6 * day, 13, 6, "2011-07-24T00:00Z", 0, 6 * day},
		{"glosea4 of three days", members, 2 * day, 6, 6, "2011-07-24T00:00Z", 8, 2 * day},
		{"ukmo", []string{filepath.Join(testdata.Dir(t, "formats"), "grib1", "lagged_ensemble_monthly_ukmo.grib1")}, 24 * day, 28, 3, "2016-02-01T00:00Z", 21, 23 * day},
	} {
		in, err := fio.Open(context.Background(), c.files, fio.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		cat, ages, only, err := LaggedEnsemble(in.Catalogue(), c.age, time.Time{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if i := cat.Inits(); len(i) != 1 || i[0].String() != c.newest || !i[0].Equal(only) {
			t.Errorf("%s: initialisations %v, of %v", c.name, i, only)
		}
		if len(cat.Members()) != c.members || len(cat.Leads()) != c.leads || len(cat.Entries) != c.members*c.leads || len(ages) != c.members {
			t.Errorf("%s: members %v, leads %v, %d fields, ages %v", c.name, cat.Members(), cat.Leads(), len(cat.Entries), ages)
		}
		for m, age := range ages {
			if age > c.age || m == c.oldest && age != c.ageOfOldest {
				t.Errorf("%s: member %s is %s old", c.name, m, age)
			}
		}
	}
}

// Members with clashing numbers get new ones, and those of the newest initialisation keep theirs; fields of
// other valid times are dropped.
func TestLagNumbers(t *testing.T) {
	start := ensemble.InitAt(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	c := &ensemble.Catalogue{}
	for age := range 3 {
		for _, m := range []ensemble.Member{0, 1, 5} {
			for _, lead := range []int{0, 24, 48} {
				init := ensemble.InitAt(start.Add(-time.Duration(age) * 24 * time.Hour))
				c.Entries = append(c.Entries, ensemble.Entry{Key: ensemble.Key{Variable: "t", Member: m, Init: init, Lead: ensemble.Lead(time.Duration(lead) * time.Hour)}, File: fmt.Sprint(age), Message: lead + int(m)})
			}
		}
	}
	cat, ages, _, err := LaggedEnsemble(c, 24*time.Hour, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if m := cat.Members(); !slices.Equal(m, []ensemble.Member{0, 1, 5, 6, 7, 8}) || ages[5] != 0 || ages[6] != 24*time.Hour {
		t.Errorf("members %v, ages %v", m, ages)
	}
	for _, e := range cat.Entries {
		if e.Init != start || (e.Member > 5) != (e.File == "1") || e.Member > 5 && e.Lead > ensemble.Lead(24*time.Hour) {
			t.Errorf("%+v", e)
		}
	}
	if len(cat.Entries) != 9+6 {
		t.Errorf("%d fields, want 15", len(cat.Entries))
	}
	if _, _, _, err := LaggedEnsemble(c, 24*time.Hour, start.Add(time.Hour)); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("a missing initialisation: %v", err)
	}
	if cat, _, _, err := LaggedEnsemble(c, 24*time.Hour, start.Add(-24*time.Hour)); err != nil || len(cat.Entries) != 15 || cat.Inits()[0].Equal(start.Time) {
		t.Errorf("an earlier start: %v", err)
	}
}
