package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/retention"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestProductsPrune: old products are listed, then removed. A service does not make them again, also after a reload and a
// restart, and says so; `predict --init` does. What an operator has to decide about stays.
func TestProductsPrune(t *testing.T) {
	f := faulty(t)
	in, out := filepath.Join(f.dir, "in"), filepath.Join(f.dir, "out")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	start := func() *resident {
		return f.serve("--run-dir", f.run, "--out", out, "--input", in, "--set", "members.poll=0.03s")
	}
	s := start()
	for i := range 3 {
		day := lastDay.AddDate(0, 0, i)
		f.put(fmt.Sprintf("in/%d.grib2", i), join(cycle(day)...))
		s.awaitInit(day, "issued", "")
	}
	second := lastDay.AddDate(0, 0, 1)
	f.put("in/1.grib2", join(warmer(second, 0.5)...))
	s.awaitInit(second, "kept", "")
	awaitSaved(t, out, func() []byte { _, body := s.get("/status"); return body })

	before := tree(t, out)
	prune := func(code exit.Code, words []string, args ...string) string {
		t.Helper()
		return f.expect(code, words, append([]string{"products", "prune"}, args...)...)
	}
	prune(exit.Usage, []string{"--keep 30d"}, "--out", out)
	prune(exit.Usage, []string{"invalid age"}, "--out", out, "--keep", "30")
	prune(exit.Usage, []string{"1 or more"}, "--out", out, "--keep-last", "0")
	prune(exit.NotYet, []string{"no product directory"}, "--out", filepath.Join(f.dir, "none"), "--keep", "30d")
	prune(exit.OK, []string{"1 initialisation would be removed", name(lastDay), "2 stay", "its input changed", "--yes"}, "--out", out, "--keep", "30d")
	if !maps.Equal(tree(t, out), before) {
		t.Fatal("the report removed something")
	}
	text := prune(exit.OK, nil, "--out", out, "--keep-last", "1", "--yes", "--json")
	var report struct {
		Removed bool
		Pruned  []struct {
			Name  string
			Bytes int64
		}
		Held []struct{ Name, Why string }
		Kept int
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil || !report.Removed || len(report.Pruned) != 1 || report.Pruned[0].Name != name(lastDay) || report.Pruned[0].Bytes == 0 ||
		len(report.Held) != 1 || report.Held[0].Name != name(second) || report.Kept != 2 {
		t.Errorf("%v\n%s", err, text)
	}
	gone := func() {
		t.Helper()
		s.awaitInit(lastDay, "skipped", "pruned 20")
		found, _ := filepath.Glob(filepath.Join(out, "2*"))
		if slices.Contains(found, filepath.Join(out, name(lastDay))) || len(found) != 2 {
			t.Errorf("products of %q", found)
		}
	}
	gone()
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.awaitLog("the configuration was reloaded", 1)
	gone()
	s.stop(syscall.SIGTERM)
	s = start()
	s.awaitInit(second, "kept", "")
	gone()
	f.expect(exit.OK, nil, "predict", "--run-dir", f.run, "--input", in, "--init", name(lastDay), "--out", out, "--threads", "1", "--progress", "none")
	s.awaitInit(lastDay, "issued", "")
	s.stop(syscall.SIGTERM)
}

// TestServeForgetsPruned: a service removes an initialisation that was pruned a month ago from the list.
func TestServeForgetsPruned(t *testing.T) {
	now := lastDay.Add(20 * time.Hour)
	m := startMonth(t, &monthPlan{begin: now, inits: []time.Time{lastDay}})
	arrive := func(init time.Time) {
		t.Helper()
		m.put("in/"+name(init)+".grib2", join(cycle(init)...))
		for range 2 {
			now = now.Add(monthStep)
			m.tick(now)
		}
		m.await(init, "issued", "")
	}
	arrive(lastDay)
	arrive(lastDay.Add(12 * time.Hour))
	out := filepath.Join(m.dir, "out")
	if _, err := retention.Prune(retention.Options{Out: out, KeepLast: 1, Remove: true, Now: now}); err != nil {
		t.Fatal(err)
	}
	m.tick(now.Add(monthStep))
	m.await(lastDay, "skipped", "pruned")
	for _, c := range []struct{ days, left int }{{29, 1}, {31, 0}} {
		now = lastDay.Add(20*time.Hour).AddDate(0, 0, c.days)
		arrive(lastDay.Add(12*time.Hour).AddDate(0, 0, c.days))
		if left, err := retention.ReadPruned(out); err != nil || len(left) != c.left {
			t.Errorf("after %d days: %v, %v, want %d", c.days, left, err, c.left)
		}
	}
}
