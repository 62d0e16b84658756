package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// fastPolling returns flags with a short deadline and frequent polling.
func fastPolling(deadline string, more ...string) []string {
	return append([]string{"--deadline", deadline, "--set", "members.poll=0.03s"}, more...)
}

// slowPolling polls so rarely that a growing file changes between two polls on a busy machine too.
func slowPolling(deadline string, more ...string) []string {
	return append([]string{"--deadline", deadline, "--set", "members.poll=0.25s"}, more...)
}

// logged waits until a log contains words. It takes no testing.T, so that other goroutines can call it.
func logged(file, words string) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), words) {
			return
		}
	}
}

// keepTouching updates the modification time of a file until stop is called.
func keepTouching(t *testing.T, path string) (stop func()) {
	quit, done := make(chan bool), make(chan error, 1)
	go func() {
		for {
			select {
			case <-quit:
				done <- nil
				return
			case <-time.After(5 * time.Millisecond):
				now := time.Now()
				if err := os.Chtimes(path, now, now); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	return func() {
		t.Helper()
		close(quit)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// TestWaitForInput: files arrive while the program waits. It continues when all are complete, and not before.
func TestWaitForInput(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	part := func(lead int) []byte { return join(c[lead*perLead : (lead+1)*perLead]...) }
	path := func(name string) string { return filepath.Join(f.dir, name) }
	const pause = 150 * time.Millisecond
	log := path("log")
	arriving := make(chan error, 1)
	begin := time.Now()
	go func() {
		arriving <- func() error {
			logged(log, "waiting until") // the first poll finds no file
			for _, step := range []struct {
				name string
				text []byte
			}{{"fc_0.grib2", part(0)}, {"fc_1.grib2", part(1)[:1000]}, {"fc_1.grib2", part(1)}, {"fc_2.grib2", part(2)[:8*len(c[0].Bytes())]}, {"fc_2.grib2", part(2)}} {
				time.Sleep(pause)
				if err := os.WriteFile(path(step.name), step.text, 0o644); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	out := f.predict(exit.OK, []string{"waiting until", "1 initialisation"}, fastPolling("+10m", "--log-file", log, path("fc_*.grib2"))...)
	if err := <-arriving; err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d < 5*pause || d > 5*time.Minute {
		t.Errorf("waited %s", d)
	}
	f.made(out, "ok", "0 1 2", "")
	whole := f.put("whole.grib2", join(c...))
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(whole, past, past); err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	f.predict(exit.OK, nil, "--deadline", "+1h", "--set", "members.poll=10m", whole)
	if d := time.Since(begin); d > 5*time.Minute { // the second poll comes after ten
		t.Errorf("waited %s for an existing file", d)
	}
}

// TestDeadline: at the deadline incomplete fields are not used, and the policy decides.
func TestDeadline(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	of := func(m int) []byte {
		return join(without(c, func(x testgrib.Message) bool { return x.Member != m })...)
	}
	var files []string
	for m := range 3 {
		files = append(files, f.put(string(rune('a'+m))+".grib2", of(m)))
	}
	cut := f.put("c.grib2", of(2)[:1000])
	f.predict(exit.NotYet, []string{"no such file", "nothing_*.grib2"}, fastPolling("+0.1s", filepath.Join(f.dir, "nothing_*.grib2"))...)
	f.predict(exit.BadData, []string{"declares", cut}, fastPolling("+0.3s", files...)...) // no longer growing: damaged
	f.made(f.predict(exit.OK, []string{"left out, not complete at the deadline: " + cut + ": cut off (no 7777 at the end)"}, fastPolling("+0.3s", append(slices.Clone(degrade), files...)...)...), "degraded", "0 1", "member 2: all of its fields are missing")
	f.predict(exit.NotYet, []string{"member 2 is in none"}, fastPolling("+0.3s", files[:2]...)...)
	f.predict(exit.NotYet, []string{"lead 48h is in none"}, fastPolling("+0.2s", f.put("early.grib2", join(c[:2*perLead]...)))...) // without a deadline 65
	// A growing file counts as incomplete, whatever it contains.
	growing := f.put("c.grib2", of(2))
	stopTouching := keepTouching(t, growing)
	f.predict(exit.NotYet, []string{"not complete at the deadline", growing, "still being written"}, slowPolling("+0.5s", files...)...)
	f.made(f.predict(exit.OK, []string{"still being written"}, slowPolling("+0.5s", append(slices.Clone(degrade), files...)...)...), "degraded", "0 1", "member 2: all of its fields are missing")
	stopTouching()
	f.predict(exit.NotYet, []string{"missing a.grib2.done beside it"}, fastPolling("+0.2s", append([]string{"--set", "members.done_suffix=.done"}, files...)...)...)
}

// TestDegradedIsCompleted: a rerun recognises existing products. Degraded products are replaced by those of more
// members only.
func TestDegradedIsCompleted(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	of := func(name string, drop func(m testgrib.Message) bool) string {
		return f.put(name, join(without(c, drop)...))
	}
	few := of("few.grib2", func(m testgrib.Message) bool { return m.Member > 1 })
	three := of("three.grib2", func(m testgrib.Message) bool { return m.Member == 2 })
	all := of("all.grib2", func(testgrib.Message) bool { return false })
	out := t.TempDir()
	run := func(code exit.Code, word string, args ...string) {
		t.Helper()
		f.expect(code, []string{word}, append([]string{"predict", "--run-dir", f.run, "--out", out, "--threads", "1", "--progress", "none", "--set", "members.on_missing=degrade",
			"--set", "drift.limit=1e9"}, args...)...) // the spread of the waves depends on the members
	}
	run(exit.OK, "1 degraded", "--input", few)
	run(exit.OK, "1 of them already complete, 1 degraded", "--input", few)
	run(exit.OK, `"status":"degraded","exit_code":0`, "--json", "--input", few)
	run(exit.OK, `"warnings":["2 of 3 members are complete; missing: 2"]`, "--json", "--input", few)
	run(exit.CannotWrite, "already exist", "--overwrite", "never", "--input", three)
	run(exit.OK, "0 of them already complete, 1 degraded", "--input", three)
	f.made(out, "degraded", "0 1 3", "member 2")
	run(exit.CannotWrite, "already exist", "--input", few)
	run(exit.OK, "0 of them already complete\n", "--input", all)
	f.made(out, "ok", "0 1 2", "")
	run(exit.OK, "1 of them already complete\n", "--input", all)
	run(exit.CannotWrite, "already exist", "--input", three)
}

// TestExpectedAndLagged: more members are expected than the model uses, and an ensemble of several inits.
func TestExpectedAndLagged(t *testing.T) {
	f := faulty(t)
	path := f.put("fc.grib2", join(cycle(lastDay)...))
	f.predict(exit.NotYet, []string{"4 members are complete, 5 are expected"}, "--set", "members.expected=5", path)
	f.predict(exit.OK, []string{"4 of 5 members are complete", "1 degraded"}, append(slices.Clone(degrade), "--set", "members.expected=5", path)...)
	f.predict(exit.NotYet, []string{"member 7 is in none"}, "--set", "members.expected=[0, 7]", path)
	f.predict(exit.Usage, []string{"members.minimum is 9, want at most members.expected, 5"}, "--set", "members.expected=5", "--set", "members.minimum=9", path)
	f.predict(exit.Usage, []string{"invalid deadline"}, "--deadline", "soon", path)
	// Two members of today's init, two of yesterday's.
	today := f.put("today.grib2", join(without(cycle(lastDay), func(m testgrib.Message) bool { return m.Member > 1 })...))
	old := cycle(lastDay.AddDate(0, 0, -1))
	for _, m := range cycle(lastDay.AddDate(0, 0, -1)) {
		if m.Step == 48 {
			m.Step = 72
			m.Values = weather(m)
			old = append(old, m)
		}
	}
	yesterday := f.put("yesterday.grib2", join(without(old, func(m testgrib.Message) bool { return m.Member < 2 })...))
	f.predict(exit.BadData, nil, today, yesterday)
	f.predict(exit.NotYet, nil, "--set", "members.lagged.max_age=12h", today, yesterday)
	out := f.predict(exit.OK, []string{"1 initialisation"}, "--set", "members.lagged.max_age=24h", today, yesterday)
	f.made(out, "ok", "0 1 2", "")
	files, _ := filepath.Glob(filepath.Join(out, "20011008*", "*.nc"))
	if len(files) != 1 {
		t.Fatalf("files %q", files)
	}
	if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), "0h 0h 24h") {
		t.Errorf("%s states no ages: %v", files[0], err)
	}
}
