package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// perMemberFiles writes a cycle as GEFS has it: one file per member, whose fields do not say
// which.
func (t *trial) perMemberFiles(but int) (files []string) {
	t.Helper()
	for m := range 4 {
		part := without(cycle(lastDay), func(x testgrib.Message) bool { return x.Member != m })
		for i := range part {
			part[i].Single = true
		}
		name := fmt.Sprintf("gep%02d.t00z.grib2", m)
		if m == 0 {
			name = "gec00.t00z.grib2"
		}
		if m != but {
			files = append(files, t.put(name, join(part...)))
		}
	}
	return files
}

// Members in names of files are those that fields say elsewhere; an absent one's file is
// named.
func TestLayoutOfGEFS(t *testing.T) {
	f := faulty(t)
	usual := f.values(filepath.Join(f.predict(exit.OK, nil, f.put("fc.grib2", join(cycle(lastDay)...))), "2*", "*.nc"))
	files := f.perMemberFiles(-1)
	says := []string{"48 fields of 4 files have no member number: it is taken from the file names"}
	f.check(exit.OK, says, append(slices.Clone(files), "--expect", "members=3+control")...)
	if got := f.values(filepath.Join(f.predict(exit.OK, says, files...), "2*", "*.nc")); got != usual {
		t.Errorf("a product of other values:\n%s\nwant\n%s", got, usual)
	}
	lone := faulty(t)
	rest := lone.perMemberFiles(2)
	lone.predict(exit.NotYet, []string{"member 2 is in none", "it would be in " + filepath.Join(lone.dir, "gep02.t00z.grib2")}, rest...)
	// A pattern that gives other numbers is believed, one that finds none is a fault.
	lone.check(exit.No, []string{"no member number in the file name"}, append(slices.Clone(rest), "--filename-pattern", `mem(\d+)`)...)
	lone.expect(exit.Usage, []string{"invalid pattern"}, "inspect", rest[0], "--filename-pattern", "gep")
}

// Members of two centres are refused until one is chosen, or both.
func TestLayoutOfTIGGE(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	usual := f.values(filepath.Join(f.predict(exit.OK, nil, f.put("fc.grib2", join(c...))), "2*", "*.nc"))
	both := slices.Clone(c)
	for _, x := range c {
		x.Centre, x.Values = 7, slices.Clone(x.Values)
		for i := range x.Values {
			x.Values[i] += 3
		}
		both = append(both, x)
	}
	path := f.put("tigge.grib2", join(both...))
	f.both(exit.BadData, []string{"members of several centres have the same numbers", "ecmf has members 0-", "kwbc has members 0-", "members.centres"}, path)
	chosen := func(centres string) string {
		return f.values(filepath.Join(f.predict(exit.OK, nil, "--set", "members.centres="+centres, path), "2*", "*.nc"))
	}
	if got := chosen("[ecmf]"); got != usual {
		t.Errorf("of ecmf:\n%s\nwant\n%s", got, usual)
	}
	if got := chosen("[kwbc, ecmf]"); got == usual || got != chosen("[kwbc]") {
		t.Errorf("the members of kwbc come first:\n%s", got)
	}
	f.predict(exit.NotYet, []string{"no members of centre egrr", "ecmf, kwbc"}, "--set", "members.centres=[egrr]", path)
	f.check(exit.OK, []string{"no fault found"}, path, "--centres", "ecmf,kwbc")
	f.expect(exit.OK, []string{"ecmf,kwbc"}, "inspect", path)
}

// A kept index makes the same product.
func TestLayoutIndexCache(t *testing.T) {
	f := faulty(t)
	path := f.put("fc.grib2", join(cycle(lastDay)...))
	cache := filepath.Join(f.dir, "cache")
	usual := f.values(filepath.Join(f.predict(exit.OK, nil, path), "2*", "*.nc"))
	for range 2 {
		if got := f.values(filepath.Join(f.predict(exit.OK, nil, "--set", "index_cache="+cache, path), "2*", "*.nc")); got != usual {
			t.Errorf("a product of other values:\n%s\nwant\n%s", got, usual)
		}
	}
	if kept, _ := filepath.Glob(filepath.Join(cache, "*.gribindex")); len(kept) != 1 {
		t.Errorf("kept are %q", kept)
	}
}
