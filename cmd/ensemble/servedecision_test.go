package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/serve"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// warmer returns the messages of a forecast whose temperatures are higher.
func warmer(init time.Time, by float32) []testgrib.Message {
	c := cycle(init)
	for _, m := range c {
		if m.Variable == testgrib.Temperature {
			for i := range m.Values {
				m.Values[i] += by
			}
		}
	}
	return c
}

// awaitInit waits until an initialisation has a state for a reason, and returns its status.
func (s *resident) awaitInit(init time.Time, state, why string) (found serve.InitStatus) {
	s.Helper()
	eventually(s.T, name(init)+" is "+state+": "+why, func() bool {
		_, body := s.get("/status")
		var status serve.Status
		if json.Unmarshal(body, &status) != nil {
			return false
		}
		for _, i := range status.Inits {
			if found = i; i.Name == name(init) {
				return i.State == state && strings.Contains(i.Why, why)
			}
		}
		return false
	})
	return found
}

// awaitSaved waits until the list of initialisations, which decisions read, is that of /status, which is shown earlier.
func awaitSaved(t *testing.T, out string, status func() []byte) {
	t.Helper()
	eventually(t, "the list of initialisations", func() bool {
		text, _ := os.ReadFile(filepath.Join(out, ".serve", "inits.json"))
		var saved, shown serve.Status // both have inits
		if json.Unmarshal(text, &saved) != nil || json.Unmarshal(status(), &shown) != nil {
			return false
		}
		return slices.EqualFunc(saved.Inits, shown.Inits, func(a, b serve.InitStatus) bool {
			return a.Name == b.Name && a.State == b.State && a.Revision == b.Revision && a.Undelivered == b.Undelivered
		})
	})
}

// awaitMetric waits until the metrics have a line.
func (s *resident) awaitMetric(line string) {
	s.Helper()
	eventually(s.T, line, func() bool {
		_, body := s.get("/metrics")
		return strings.Contains(string(body), line+"\n")
	})
}

// TestServeInputChanged: products stay when their input changes. An operator dismisses the new input, or accepts it, and
// the products are recomputed. Both last over restarts, and hold for no other input.
func TestServeInputChanged(t *testing.T) {
	f := faulty(t)
	in, out := filepath.Join(f.dir, "in"), filepath.Join(f.dir, "out")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	day := name(lastDay)
	var s *resident
	products := func(code exit.Code, words, action, init string) {
		t.Helper()
		if s != nil {
			awaitSaved(t, out, func() []byte { _, body := s.get("/status"); return body })
		}
		f.expect(code, []string{words}, "products", action, init, "--out", out)
	}
	products(exit.NotYet, "no service has run", "accept", day)
	start := func() *resident {
		return f.serve("--run-dir", f.run, "--out", out, "--input", in, "--set", "members.poll=0.03s")
	}
	f.put("in/a.grib2", join(cycle(lastDay)...))
	s = start()
	s.awaitInit(lastDay, "issued", "")
	first := tree(t, out)
	products(exit.No, "no other input has come since it was issued", "accept", day)
	products(exit.No, "it is issued, not failed", "retry", day)
	products(exit.NotYet, "the service knows "+day, "dismiss", "2031010100")
	products(exit.Usage, "invalid initialisation", "dismiss", "yesterday")

	const changed = "kept, input changed: a.grib2 changed"
	f.put("in/a.grib2", join(warmer(lastDay, 0.5)...))
	status := s.awaitInit(lastDay, "kept", changed)
	if !status.InputChanged || !status.CanAccept {
		t.Errorf("%+v", status)
	}
	s.awaitMetric("ensemble_changed_inits 1")
	s.awaitLog("`ensemble products accept "+day+" --out "+out, 1)
	eventually(t, "the page names it", func() bool { _, page := s.get("/"); return strings.Contains(string(page), changed) })
	if !maps.Equal(tree(t, out), first) {
		t.Error("the products were changed")
	}
	s.stop(syscall.SIGTERM)
	s = start()
	s.awaitInit(lastDay, "kept", changed)

	products(exit.OK, "dismiss "+day, "dismiss", day)
	s.awaitInit(lastDay, "issued", "dismissed")
	s.awaitMetric("ensemble_changed_inits 0")
	s.stop(syscall.SIGTERM)
	s = start()
	s.awaitInit(lastDay, "issued", "dismissed")
	if !maps.Equal(tree(t, out), first) {
		t.Error("dismissed, and the products were changed")
	}

	products(exit.OK, `this replaces "dismiss"`, "accept", day)
	eventually(t, "the products are recomputed", func() bool {
		text, err := os.ReadFile(filepath.Join(out, day, "manifest.json"))
		return err == nil && strings.Contains(string(text), sumOfFile(t, filepath.Join(in, "a.grib2")))
	})
	if status := s.awaitInit(lastDay, "issued", ""); status.InputChanged || strings.Contains(status.Why, "dismissed") {
		t.Errorf("accepted: %+v", status)
	}
	second := tree(t, out)
	if nc := "/" + day + "/" + day + "_048h.nc"; second[nc] == "" || second[nc] == first[nc] {
		t.Errorf("accepted, and %s has the same bytes", nc)
	}

	// The decisions were about other input.
	f.put("in/a.grib2", join(warmer(lastDay, 1)...))
	s.awaitInit(lastDay, "kept", changed)
	s.awaitMetric("ensemble_changed_inits 1")
	if !maps.Equal(tree(t, out), second) {
		t.Error("the products were changed without a decision")
	}
	// The same file as the products have: nothing to decide.
	f.put("in/a.grib2", join(warmer(lastDay, 0.5)...))
	s.awaitInit(lastDay, "issued", "")
	s.awaitMetric("ensemble_changed_inits 0")
	s.stop(syscall.SIGTERM)
}

// sumOfFile returns the SHA-256 of a file, in hexadecimal digits.
func sumOfFile(t *testing.T, path string) string {
	t.Helper()
	return tree(t, filepath.Dir(path))["/"+filepath.Base(path)]
}

// decide runs a decision about an initialisation.
func (s *scheduled) decide(code exit.Code, words, action string, init time.Time) {
	s.Helper()
	awaitSaved(s.T, filepath.Join(s.dir, "out"), func() []byte { return []byte(s.get("/status")) })
	s.expect(code, []string{words}, "products", action, name(init), "--out", filepath.Join(s.dir, "out"))
}

// awaitMetrics waits until the metrics have all lines.
func (s *scheduled) awaitMetrics(lines ...string) {
	s.Helper()
	for _, line := range lines {
		eventually(s.T, line, func() bool { return strings.Contains(s.get("/metrics"), line+"\n") })
	}
}

// TestServeAcknowledge: failed, degraded and late initialisations are acknowledged, which ends their alerts until they
// fail in another way; a failed one is attempted at once.
func TestServeAcknowledge(t *testing.T) {
	s := startScheduled(t, lastDay.Add(time.Hour), "serve.schedule.cycles=[00]", "serve.schedule.expected=init+6h40m", "members.deadline=init+6h30m", "members.on_missing=degrade", "serve.retry_delay=3h")
	arrive := func(file string, init time.Time, keep func(m int) bool) {
		s.put("in/"+file, join(without(cycle(init), func(m testgrib.Message) bool { return !keep(m.Member) })...))
	}
	// Failed: too few members at the deadline.
	arrive("0.grib2", lastDay, func(m int) bool { return m == 0 })
	s.at(0, 8*time.Hour)
	s.await(lastDay, "failed", "1 members are complete")
	s.awaitMetrics(`ensemble_unacknowledged_inits{state="failed"} 1`)
	s.decide(exit.No, "it is failed, not kept", "dismiss", lastDay)
	s.decide(exit.OK, "acknowledge "+name(lastDay), "acknowledge", lastDay)
	s.awaitMetrics(`ensemble_unacknowledged_inits{state="failed"} 0`, `ensemble_init_states{state="failed"} 1`)
	eventually(t, "the page warns no longer", func() bool {
		page := s.get("/")
		return strings.Contains(page, "acknowledged 2") && !strings.Contains(page, ": failed: ")
	})
	arrive("1.grib2", lastDay, func(m int) bool { return m == 3 }) // of other input
	s.await(lastDay, "degraded", "2 of 3 members")
	s.awaitMetrics(`ensemble_unacknowledged_inits{state="degraded"} 1`)
	s.decide(exit.OK, "", "acknowledge", lastDay)
	s.awaitMetrics(`ensemble_unacknowledged_inits{state="degraded"} 0`, `ensemble_init_states{state="degraded"} 1`)

	// Late.
	day := s.at(1, 7*time.Hour)
	s.await(day, "late", "20m late")
	s.awaitMetrics("ensemble_lateness_seconds 1200")
	s.decide(exit.OK, "", "acknowledge", day)
	s.awaitMetrics("ensemble_lateness_seconds 0", `ensemble_init_states{state="late"} 1`, `ensemble_unacknowledged_inits{state="late"} 0`)

	// A failure that an operator has mended is not attempted for hours.
	day = s.at(2, time.Hour)
	obstacle := s.put("out/"+name(day), []byte("in the way"))
	arrive("2.grib2", day, func(int) bool { return true })
	s.await(day, "failed", "not a directory")
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	s.decide(exit.OK, "retry "+name(day), "retry", day)
	s.await(day, "issued", "")
}

// TestServeAcknowledgeDelivery: a delivery that was given up is acknowledged, also beside a dismissal, which stays. A restart
// attempts it again; other products are another delivery.
func TestServeAcknowledgeDelivery(t *testing.T) {
	s := startScheduled(t, lastDay.Add(time.Hour), "serve.on_issue.command=[/bin/false]", "serve.on_issue.retry_for=1s", "serve.retry_delay=0.5s")
	given := func(n int) {
		t.Helper()
		s.awaitMetrics(fmt.Sprintf(`ensemble_hook_undelivered{state="abandoned"} %d`, n), `ensemble_hook_undelivered{state="pending"} 0`)
	}
	s.put("in/0.grib2", join(cycle(lastDay)...))
	s.await(lastDay, "issued", "")
	given(1)
	s.put("in/0.grib2", join(warmer(lastDay, 0.5)...))
	s.await(lastDay, "kept", "")
	s.decide(exit.OK, "", "dismiss", lastDay)
	s.await(lastDay, "issued", "dismissed")
	s.decide(exit.No, "not late or degraded or failed; end the alerts on its delivery with acknowledge-delivery", "acknowledge", lastDay)
	s.decide(exit.OK, "acknowledge-delivery "+name(lastDay), "acknowledge-delivery", lastDay)
	given(0)
	s.await(lastDay, "issued", "dismissed")
	s.decide(exit.No, "or it was acknowledged", "acknowledge-delivery", lastDay)
	if page := s.get("/"); !strings.Contains(page, "given up, acknowledged") || strings.Contains(page, "The hook was given up") {
		t.Errorf("the page: %s", page)
	}
	day := s.at(1, time.Hour)
	s.put("in/1.grib2", join(cycle(day)...))
	s.await(day, "issued", "")
	given(1)
}

// TestServeUnusableInput: products stay and count as issued while their input is sent again, and if it cannot be used at
// the deadline; then the new input can be dismissed, not accepted.
func TestServeUnusableInput(t *testing.T) {
	s := startScheduled(t, lastDay.Add(time.Hour), "serve.schedule.cycles=[00]", "serve.schedule.expected=init+6h40m", "members.deadline=init+8h")
	whole := join(cycle(lastDay)...)
	s.put("in/a.grib2", whole)
	s.await(lastDay, "issued", "")
	s.put("in/a.grib2", whole[:len(whole)/2])
	s.at(0, 7*time.Hour) // after serve.schedule.expected: not late
	s.await(lastDay, "issued", "more input has come: ")
	s.awaitMetrics("ensemble_lateness_seconds 0", "ensemble_changed_inits 0")
	s.at(0, 9*time.Hour)
	s.await(lastDay, "kept", "kept, input changed: it cannot be used: ")
	s.awaitMetrics("ensemble_changed_inits 1", `ensemble_init_states{state="failed"} 0`)
	s.decide(exit.No, "its new input cannot be used", "accept", lastDay)
	s.decide(exit.OK, "", "dismiss", lastDay)
	s.await(lastDay, "issued", "dismissed")
	s.put("in/a.grib2", whole)
	s.await(lastDay, "issued", "")
	s.awaitMetrics("ensemble_changed_inits 0")
}

// TestServeMaxAge: an initialisation that serve.max_age skips is named in the status, the metrics and the log.
func TestServeMaxAge(t *testing.T) {
	s := startScheduled(t, lastDay.Add(30*time.Hour), "serve.max_age=24h")
	s.put("in/0.grib2", join(cycle(lastDay)...))
	next := lastDay.AddDate(0, 0, 1)
	s.put("in/1.grib2", join(cycle(next)...))
	s.await(next, "issued", "")
	s.await(lastDay, "skipped", "older than serve.max_age, 24h")
	s.awaitMetrics(`ensemble_init_states{state="skipped"} 1`)
	s.at(2, 30*time.Hour) // issued ones are not skipped
	s.await(next, "", "")
	s.await(lastDay, "skipped", "")
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := strings.Count(s.log.String(), `"msg":"an initialisation is skipped","init":"`+name(lastDay)); n != 1 {
		t.Errorf("%d messages:\n%s", n, s.log.String())
	}
}

// TestServeFullLogDisk: a service whose log cannot be written reports so once on standard error. Metrics and status
// still raise the alarm on a failed initialisation, and others are issued.
func TestServeFullLogDisk(t *testing.T) {
	f := faulty(t)
	in, out, logs := filepath.Join(f.dir, "in"), filepath.Join(f.dir, "out"), filepath.Join(f.dir, "logs")
	for _, dir := range []string{in, out, logs} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.put("out/"+name(lastDay), []byte("in the way"))
	s := f.serveBy(ownDisk(t, logs, "size=64k"), "--run-dir", f.run, "--out", out, "--input", in, "--set", "members.poll=0.03s", "--log-file", filepath.Join(logs, "log"))
	s.awaitLog(`"msg":"the model is ready"`, 1)
	s.fill(logs)
	f.put("in/0.grib2", join(cycle(lastDay)...))
	f.put("in/1.grib2", join(cycle(lastDay.AddDate(0, 0, 1))...))
	s.awaitInit(lastDay, "failed", "not a directory")
	s.awaitInit(lastDay.AddDate(0, 0, 1), "issued", "")
	s.awaitMetric(`ensemble_unacknowledged_inits{state="failed"} 1`)
	s.awaitLog("cannot write to the log file", 1)
	if code := s.stop(syscall.SIGTERM); code != exit.SaveAndStop || strings.Count(s.text(), "cannot write to the log file") != 1 {
		t.Errorf("ended with %d:\n%s", code, s.text())
	}
}
