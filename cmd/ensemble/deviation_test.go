package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// changed returns a cycle of lastDay in which some messages of one member differ.
func changed(member int, change func(m *testgrib.Message)) []byte {
	c := cycle(lastDay)
	for i := range c {
		if c[i].Member == member {
			change(&c[i])
		}
	}
	return join(c...)
}

// TestDeviatingMember: a member on another grid or of another version of the forecast model makes the ensemble
// incomplete by name, whether the network uses it (2) or not (3).
func TestDeviatingMember(t *testing.T) {
	f := faulty(t)
	kinds := []struct {
		name, words string
		change      func(m *testgrib.Message)
	}{
		{"grid", "its grid is", func(m *testgrib.Message) { m.Shift = 1 }},
		{"version", "it is of process 99", func(m *testgrib.Message) { m.Process = 99 }},
	}
	for _, k := range kinds {
		used, unused := f.put(k.name+"2.grib2", changed(2, k.change)), f.put(k.name+"3.grib2", changed(3, k.change))
		expect := []string{"--set", "members.expected=4"}
		f.predict(exit.BadData, []string{used, "member 2"}, used)
		f.predict(exit.BadData, []string{unused, "member 3"}, append(slices.Clone(expect), unused)...)
		f.made(f.predict(exit.OK, []string{"3 of 4 members are complete; missing: 2", "member 3 replaces 2", k.words}, slices.Concat(degrade, expect, []string{used})...), "degraded", "0 1 3", "member 2: "+k.words)
		f.made(f.predict(exit.OK, []string{"3 of 4 members are complete; missing: 3", k.words}, slices.Concat(degrade, expect, []string{unused})...), "degraded", "0 1 2", "member 3: "+k.words)
		f.made(f.predict(exit.OK, []string{"member 3 is left out: " + k.words}, unused), "ok", "0 1 2", "")
	}
	// Absent members are named too.
	few := f.put("few.grib2", join(without(cycle(lastDay), func(m testgrib.Message) bool { return m.Member == 3 })...))
	f.made(f.predict(exit.OK, []string{"3 of 4 members are complete; missing: 3"}, slices.Concat(degrade, []string{"--set", "members.expected=4", few})...), "degraded", "0 1 2", "member 3: all of its fields are missing")
}

// TestExistingWarnsOnce: a warning about the whole input is printed once, also for degraded products that exist.
func TestExistingWarnsOnce(t *testing.T) {
	f := faulty(t)
	c := without(cycle(lastDay), func(m testgrib.Message) bool { return m.Member == 3 })
	for i := range c {
		c[i].Process = 99
	}
	line := slices.Concat([]string{"predict", "--run-dir", f.run, "--out", filepath.Join(f.dir, "out"), "--threads", "1", "--progress", "none", "--set", "members.expected=4"}, degrade, []string{"--input", f.put("fc.grib2", join(c...))})
	for range 2 {
		_, stdout, stderr := call(t, line...)
		if n := strings.Count(stdout+stderr, "comes from another forecast model"); n != 1 {
			t.Errorf("%d warnings, want 1:\n%s%s", n, stdout, stderr)
		}
	}
}

// TestOtherInits: files of other initialisations, damaged or incomplete, have no influence on that of --init.
func TestOtherInits(t *testing.T) {
	f := faulty(t)
	good := f.put("fc_a.grib2", join(cycle(lastDay)...))
	before := cycle(lastDay.AddDate(0, 0, -1))
	damaged := join(before...)
	damaged[len(damaged)/2] ^= 0xff
	copy(damaged[len(before[0].Bytes())*5+16:], "damaged sections")
	bad := f.put("fc_b.grib2", damaged)
	lone := f.put("fc_c.grib2", join(cycle(lastDay.AddDate(0, 0, 1))[:5]...))
	f.predict(exit.BadData, []string{bad}, good, bad)
	for _, policy := range [][]string{{"--set", "bad_messages=refuse"}, {"--set", "bad_messages=skip", "--set", "members.on_missing=degrade"}} {
		f.made(f.predict(exit.OK, []string{"1 initialisation"}, slices.Concat(policy, []string{"--init", name(lastDay), good, bad, lone})...), "ok", "0 1 2", "")
	}
	f.predict(exit.BadData, []string{bad}, "--init", name(lastDay.AddDate(0, 0, -1)), good, bad)
}

// TestServeNamesMissing: a service names the missing members in its messages, in the lists of products and on its page.
func TestServeNamesMissing(t *testing.T) {
	f := faulty(t)
	in := filepath.Join(f.dir, "in")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	f.put("in/fc.grib2", changed(3, func(m *testgrib.Message) { m.Shift = 1 }))
	s := f.serve("--run-dir", f.run, "--out", filepath.Join(f.dir, "out"), "--input", in, "--set", "members.poll=0.03s", "--set", "members.expected=4", "--set", "members.on_missing=degrade", "--set", "members.deadline=init+6h40m")
	s.awaitLog(`"complete":3,"expected":4,"missing":"3"`, 1)
	for path, want := range map[string]string{"/status": `"members_complete": 3`, "/products/": `"members_missing": [`, "/products/" + name(lastDay) + "/?format=html": "3 of 4 members; missing: 3", "/": "3 of 4 members are complete; missing: 3"} {
		if _, body := s.get(path); !strings.Contains(string(body), want) {
			t.Errorf("%s has no %q: %s", path, want, body)
		}
	}
	s.stop(syscall.SIGTERM)
}
