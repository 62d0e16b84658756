package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// perMemberFiles writes a cycle in the layout of GEFS: one file per member, whose fields do not contain the member
// number.
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

// TestLayoutOfGEFS: member numbers may come from file names instead of fields. The error for a missing member
// names its file.
func TestLayoutOfGEFS(t *testing.T) {
	f := faulty(t)
	usual := f.values(filepath.Join(f.predict(exit.OK, nil, f.put("fc.grib2", join(cycle(lastDay)...))), "2*", "*.nc"))
	files := f.perMemberFiles(-1)
	warning := []string{"48 fields of 4 files have no member number: it is taken from the file names"}
	f.check(exit.OK, warning, append(slices.Clone(files), "--expect", "members=3+control")...)
	if got := f.values(filepath.Join(f.predict(exit.OK, warning, files...), "2*", "*.nc")); got != usual {
		t.Errorf("a product of other values:\n%s\nwant\n%s", got, usual)
	}
	incomplete := faulty(t)
	rest := incomplete.perMemberFiles(2)
	incomplete.predict(exit.NotYet, []string{"member 2 is in none", "it would be in " + filepath.Join(incomplete.dir, "gep02.t00z.grib2")}, rest...)
	// A pattern without a match is a fault, an invalid pattern a usage error.
	incomplete.check(exit.No, []string{"no member number in the file name"}, append(slices.Clone(rest), "--filename-pattern", `mem(\d+)`)...)
	incomplete.expect(exit.Usage, []string{"invalid pattern"}, "inspect", rest[0], "--filename-pattern", "gep")
}

// TestLayoutOfTIGGE: members of two centres are rejected until one or both are selected.
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

// A stored index gives the same product.
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
		t.Errorf("stored indexes: %q", kept)
	}
}
