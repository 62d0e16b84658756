//go:build long

package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/hook"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// An hour of a service and a Prometheus server by the real clock, with the shipped rules.
const (
	minute       = time.Minute
	hourLength   = 60 * minute
	hourScrape   = 15 * time.Second
	hourDisk     = 64 << 20 // size of the disk of the products in bytes
	hourSlack    = minute   // of the times of an alert: two polls, the pause of a delivery, a scrape, an evaluation
	hourExpected = 5 * minute
)

// prometheusHour is a service on a small disk of its own that Prometheus scrapes for an hour.
type prometheusHour struct {
	*trial
	s        *resident
	p        *prometheus
	begin    time.Time
	address  string
	disk     []string // command line that runs a program in the mount namespace of the disk
	out      string   // the disk, by a path that this process reads
	receiver *httptest.Server
	answer   atomic.Int32 // status code of the receiver of the hook
	held     map[string][]episode
}

// episode is a time in which the condition of an alert held.
type episode struct{ begin, end time.Time }

// hourStep is what happens at a time of the hour. When do returns, the service shows the effect, and the conditions
// of the named alerts begin and end.
type hourStep struct {
	minute       float64
	do           func()
	begins, ends string
}

// ago returns the initialisation of the full hour so many hours before the beginning.
func (h *prometheusHour) ago(hours int) time.Time {
	return h.begin.UTC().Truncate(time.Hour).Add(-time.Duration(hours) * time.Hour)
}

// timeline returns the steps of the hour. Each rule is due in it, and conditions that end before the time of their rule
// are not: two of EnsembleFailed, and one of EnsembleDegraded and EnsembleSpaceLow.
func (h *prometheusHour) timeline() []hourStep {
	degraded, damaged, few, late, drifting, last := h.ago(25), h.ago(24), h.ago(23), h.ago(6), h.ago(5), h.ago(4)
	filler := filepath.Join(h.out, "filler")
	return []hourStep{
		{0, h.start, "EnsembleNoNewProducts EnsembleNotReady", ""},
		{0.5, h.arrive(degraded, "degraded", cycle, 0, 1, 2), "EnsembleDegraded EnsembleUndelivered", ""},
		{1, h.arriveDamaged(damaged), "EnsembleFailed", ""},
		{1.5, func() { h.fill(filler, hourDisk*95/100) }, "EnsembleSpaceLow", ""},
		{2, h.raiseRolling, "EnsembleRollingAlarm", ""},
		{3, h.rejectReload, "EnsembleReloadRejected", ""},
		{4, h.predictFuture, "EnsembleFutureInit", ""},
		{hourExpected.Minutes(), func() { h.s.awaitInit(late, "late", "no file of it has arrived") }, "EnsembleLate", ""},
		{11, func() { h.remove(filepath.Join(h.dir, "alarms.json")); h.s.awaitMetric("ensemble_rolling_alarms 0") }, "", "EnsembleRollingAlarm"},
		{12, h.removeFuture, "", "EnsembleFutureInit"},
		{14, h.arrive(late, "issued", cycle, 0, 1, 2, 3), "", "EnsembleLate EnsembleNoNewProducts EnsembleNotReady"},
		{15, h.arrive(late, "kept", halfWarmer, 2), "EnsembleInputChanged", ""},
		{18, func() { h.chmodInput(0); h.s.awaitLog("cannot scan the input", 1) }, "", ""},
		{19, func() { h.send(degraded, cycle, 3) }, "", ""},
		{20, func() { h.remove(filler) }, "", "EnsembleSpaceLow"},
		{21, func() { h.chmodInput(0o755); h.s.awaitInit(degraded, "issued", "") }, "", "EnsembleDegraded"},
		{23, h.arrive(damaged, "issued", cycle, 0), "", "EnsembleFailed"},
		{24, h.mendReceiver, "", "EnsembleUndelivered"},
		{26, h.decide("dismiss", late), "", "EnsembleInputChanged"},
		{29, h.stop, "EnsembleDown", ""},
		{35.5, h.start, "", "EnsembleDown"},
		{38, func() {
			h.answer.Store(http.StatusGone)
			h.arrive(drifting, "degraded", hot, 0, 1, 2, 3)()
		}, "EnsembleInputDrift EnsembleFallback EnsembleDegraded EnsembleDeliveryGivenUp", ""},
		{39, h.arrive(few, "failed", cycle, 0), "EnsembleFailed", ""},
		{44, h.decide("acknowledge", few), "", "EnsembleFailed"},
		{45, h.decide("acknowledge", drifting), "", "EnsembleDegraded"},
		{46, h.decide("acknowledge-delivery", drifting), "", "EnsembleDeliveryGivenUp"},
		{47, func() { h.answer.Store(http.StatusOK); h.fill(filler, hourDisk) }, "EnsembleSpaceEnds EnsembleSpaceLow", ""},
		{47.5, h.arrive(last, "failed", cycle, 0, 1, 2, 3), "EnsembleFailed", ""},
		{54, func() { h.remove(filler) }, "", "EnsembleSpaceEnds EnsembleSpaceLow"},
		{54.5, func() { h.s.awaitInit(last, "issued", "") }, "", "EnsembleFailed EnsembleInputDrift EnsembleFallback"},
	}
}

// halfWarmer and hot are forecasts whose temperatures are 0.5 K and 20 K higher.
func halfWarmer(init time.Time) []testgrib.Message { return warmer(init, 0.5) }
func hot(init time.Time) []testgrib.Message        { return warmer(init, 20) }

// input returns the path of the file of a member.
func (h *prometheusHour) input(init time.Time, member int) string {
	return fmt.Sprintf("in/%s_%d.grib2", name(init), member)
}

// send writes a file for each member into the input.
func (h *prometheusHour) send(init time.Time, forecast func(time.Time) []testgrib.Message, members ...int) {
	h.Helper()
	for _, m := range members {
		h.put(h.input(init, m), join(without(forecast(init), func(x testgrib.Message) bool { return x.Member != m })...))
	}
}

// arrive returns a step in which members arrive, until their initialisation has a state.
func (h *prometheusHour) arrive(init time.Time, state string, forecast func(time.Time) []testgrib.Message, members ...int) func() {
	return func() {
		h.Helper()
		h.send(init, forecast, members...)
		h.s.awaitInit(init, state, "")
	}
}

// arriveDamaged returns a step in which an initialisation with a damaged control arrives, which is refused.
func (h *prometheusHour) arriveDamaged(init time.Time) func() {
	return func() {
		h.Helper()
		h.put(h.input(init, 0), sending{init: init, fault: "damaged"}.text())
		h.arrive(init, "failed", cycle, 1, 2, 3)()
	}
}

// start starts the service on the disk, with the configuration of the hour, and waits until it is scraped.
func (h *prometheusHour) start() {
	h.Helper()
	s := h.serveBy(h.disk, "-c", h.configure(""), "--listen", h.address)
	h.Cleanup(func() {
		if h.Failed() {
			h.Logf("log of the service:\n%s", s.text())
		}
	})
	h.s = s
	h.p.await("up", "1")
}

// configure writes the configuration, with further lines, and returns its path.
func (h *prometheusHour) configure(more string) string {
	h.Helper()
	late := h.begin.Add(hourExpected).Sub(h.ago(6)) // after its initialisation
	return h.put("serve.yaml", fmt.Appendf(nil, `version: 1
run_dir: %s
input: [%s/in]
out: %[2]s/out
members: {expected: 4, on_missing: degrade, deadline: init+%[3]s}
bad_messages: skip
drift: {on_drift: fallback}
alarms: {file: %[2]s/alarms.json}
serve:
  schedule: {cycles: [%[4]s, %[5]s, %[6]s], expected: init+%[3]s}
  ready_max_age: 20h
  on_issue: {url: %[7]q, secret_file: %[2]s/hook.secret}
%[8]s`, h.run, h.dir, late, h.ago(6).Format("15"), h.ago(5).Format("15"), h.ago(4).Format("15"), h.receiver.URL, more))
}

// reload makes the service read its configuration, until the log has the answer as often as stated.
func (h *prometheusHour) reload(answer string, times int) {
	h.Helper()
	if err := h.s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		h.Fatal(err)
	}
	h.s.awaitLog(answer, times)
}

// rejectReload makes the service refuse a configuration, and then accept one.
func (h *prometheusHour) rejectReload() {
	h.Helper()
	h.configure("inptu: [x]\n")
	h.reload("the configuration was rejected", 1)
	h.configure("")
	h.reload("the configuration was reloaded", 1)
}

// mendReceiver ends the outage of the receiver. A reload attempts the open deliveries at once.
func (h *prometheusHour) mendReceiver() {
	h.Helper()
	if s := h.s.hookStatus(); s.Pending != 3 || s.Open[0].State != hook.Pending {
		h.Errorf("deliveries of a receiver that is down: %+v", s)
	}
	h.answer.Store(http.StatusOK)
	h.reload("the configuration was reloaded", 2)
	h.s.awaitMetric(`ensemble_hook_undelivered{state="pending"} 0`)
}

// decide returns a step in which an operator decides, until the service follows.
func (h *prometheusHour) decide(action string, init time.Time) func() {
	return func() {
		h.Helper()
		status := func() []byte { _, body := h.s.get("/status"); return body }
		awaitSaved(h.T, h.out, status)
		before := string(status())
		h.expect(exit.OK, nil, "products", action, name(init), "--out", h.out)
		eventually(h.T, action, func() bool { return string(status()) != before })
	}
}

// raiseRolling writes an alarm on the loaded model, as a rolling verification does.
func (h *prometheusHour) raiseRolling() {
	h.Helper()
	_, metrics := h.s.get("/metrics")
	model := regexp.MustCompile(`checksum="([^"]+)"`).FindSubmatch(metrics)
	if model == nil {
		h.Fatal("no checksum of the model in the metrics")
	}
	h.put("alarms.json", fmt.Appendf(nil, `{"schema": "ensemble.alarms/1", "model_checksum": %q, "alarms": [{"kind": "bias", "text": "bias of t at 850hPa, 48h"}]}`, model[1]))
	h.s.awaitMetric("ensemble_rolling_alarms 1")
}

// predictFuture makes products of an initialisation in ten days beside the service.
func (h *prometheusHour) predictFuture() {
	h.Helper()
	file := h.put("future.grib2", join(cycle(h.ago(-240))...))
	line := append(slices.Clone(h.disk), os.Args[0], "predict", "--run-dir", h.run, "--out", filepath.Join(h.dir, "out"), "--threads", "1", "--progress", "none", "--input", file)
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		h.Fatalf("%v: %s", err, out)
	}
	h.s.awaitMetric("ensemble_future_inits 1")
}

// removeFuture removes these products.
func (h *prometheusHour) removeFuture() {
	h.Helper()
	if err := os.RemoveAll(filepath.Join(h.out, name(h.ago(-240)))); err != nil {
		h.Fatal(err)
	}
	h.s.awaitMetric("ensemble_future_inits 0")
}

// fill writes a file of a size onto the disk of the products, or one that takes what is left.
func (h *prometheusHour) fill(path string, size int) {
	h.Helper()
	if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil && !errors.Is(err, syscall.ENOSPC) {
		h.Fatal(err)
	}
}

// remove removes a file.
func (h *prometheusHour) remove(path string) {
	h.Helper()
	if err := os.Remove(path); err != nil {
		h.Fatal(err)
	}
}

// chmodInput sets the mode of the folder of the input, which the service reads without the capabilities of root.
func (h *prometheusHour) chmodInput(mode os.FileMode) {
	h.Helper()
	if err := os.Chmod(filepath.Join(h.dir, "in"), mode); err != nil {
		h.Fatal(err)
	}
}

// stop ends the service.
func (h *prometheusHour) stop() {
	h.Helper()
	if code := h.s.stop(syscall.SIGTERM); code != exit.SaveAndStop {
		h.Errorf("ended with %d, want 75:\n%s", code, h.s.text())
	}
}

// newPrometheusHour prepares the disk, the receiver of the hook and Prometheus.
func newPrometheusHour(t *testing.T) *prometheusHour {
	t.Helper()
	for _, program := range []string{"prometheus", "nsenter", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("skipped: no " + program + " (scripts/setup.sh test installs it)")
		}
	}
	h := &prometheusHour{trial: faulty(t), address: freeAddress(t), held: map[string][]episode{}}
	for _, dir := range []string{"in", "out"} {
		if err := os.Mkdir(filepath.Join(h.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.put("hook.secret", []byte("whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n"))
	mount := ownDisk(t, filepath.Join(h.dir, "out"), fmt.Sprint("size=", hourDisk))
	holder := exec.Command(mount[0], append(mount[1:], "sleep", "infinity")...) // keeps the disk while the service is stopped
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	pid := fmt.Sprint(holder.Process.Pid)
	h.out = filepath.Join("/proc", pid, "root", h.dir, "out")
	eventually(t, "the disk is mounted", func() bool {
		var s syscall.Statfs_t
		return syscall.Statfs(h.out, &s) == nil && s.Blocks*uint64(s.Bsize) == hourDisk
	})
	h.disk = []string{"nsenter", "-t", pid, "-U", "-m", "--preserve-credentials", "setpriv", "--bounding-set", "-dac_override,-dac_read_search"}
	h.receiver = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(int(h.answer.Load())) }))
	t.Cleanup(h.receiver.Close)
	h.answer.Store(http.StatusBadGateway)
	h.p = startPrometheus(t, h.address, hourScrape.String())
	eventually(t, "Prometheus answers", func() bool { return h.p.get("status/buildinfo", nil) })
	return h
}

// follow makes what the timeline has.
func (h *prometheusHour) follow() {
	h.Helper()
	h.begin = time.Now().Truncate(time.Second)
	for _, step := range h.timeline() {
		time.Sleep(time.Until(h.begin.Add(time.Duration(step.minute * float64(minute)))))
		step.do()
		now := time.Now()
		h.Logf("%s done: begins %s, ends %s", h.minutes(now), step.begins, step.ends)
		for _, rule := range strings.Fields(step.begins) {
			h.held[rule] = append(h.held[rule], episode{begin: now, end: h.begin.Add(hourLength)})
		}
		for _, rule := range strings.Fields(step.ends) {
			h.held[rule][len(h.held[rule])-1].end = now
		}
	}
	time.Sleep(time.Until(h.begin.Add(hourLength)))
}

// minutes formats a time of the hour.
func (h *prometheusHour) minutes(t time.Time) string {
	return fmt.Sprintf("%.1f", t.Sub(h.begin).Minutes())
}

// number returns the only value of an instant query at the end of the hour.
func (h *prometheusHour) number(expr string, args ...any) float64 {
	h.Helper()
	expr = fmt.Sprintf(expr, args...)
	r := h.p.query(expr)
	if len(r) != 1 {
		h.Fatalf("%s has %d values, want one", expr, len(r))
	}
	v, err := strconv.ParseFloat(fmt.Sprint(r[0].Value[1]), 64)
	if err != nil {
		h.Fatal(err)
	}
	return v
}

// firing returns the times in which each alert fired.
func (h *prometheusHour) firing() map[string][]episode {
	h.Helper()
	var data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	query := url.Values{"query": {`max by (alertname) (ALERTS{alertstate="firing"})`}, "step": {fmt.Sprint(hourScrape.Seconds())},
		"start": {fmt.Sprint(h.begin.Unix())}, "end": {fmt.Sprint(h.begin.Add(hourLength).Unix())}}
	if !h.p.get("query_range?"+query.Encode(), &data) {
		h.Fatal("Prometheus does not answer")
	}
	out := map[string][]episode{}
	for _, r := range data.Result {
		var spans []episode
		for _, v := range r.Values {
			t := time.Unix(int64(v[0].(float64)), 0)
			if n := len(spans); n > 0 && t.Sub(spans[n-1].end) <= hourScrape {
				spans[n-1].end = t
			} else {
				spans = append(spans, episode{t, t})
			}
		}
		out[r.Metric["alertname"]] = spans
	}
	return out
}

// checkAlerts compares the times in which alerts fired with those in which they were due, and logs a table.
func (h *prometheusHour) checkAlerts() {
	h.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Name     string
				Duration float64 // s
			}
		}
	}
	if !h.p.get("rules", &rules) || len(rules.Groups) != 1 {
		h.Fatalf("rules: %+v", rules)
	}
	fired := h.firing()
	for _, r := range rules.Groups[0].Rules {
		hold := time.Duration(r.Duration * float64(time.Second))
		due, short := []episode{}, 0
		for _, e := range h.held[r.Name] {
			if e.end.Sub(e.begin) > hold {
				due = append(due, episode{e.begin.Add(hold), e.end})
			} else {
				short++
			}
		}
		h.Logf("| `%s` | %s | %d | %d | %s |", r.Name, h.list(due), short, len(fired[r.Name]), h.list(fired[r.Name]))
		isNear := func(a, b time.Time) bool { return a.Sub(b).Abs() <= hourSlack }
		if !slices.EqualFunc(due, fired[r.Name], func(d, f episode) bool { return isNear(d.begin, f.begin) && isNear(d.end, f.end) }) {
			h.Errorf("%s: due in the minutes %s, fired in %s", r.Name, h.list(due), h.list(fired[r.Name]))
		}
		if len(due) == 0 {
			h.Errorf("%s was never due", r.Name)
		}
		delete(h.held, r.Name)
	}
	if len(h.held) > 0 {
		h.Errorf("no rules for %v", slices.Collect(maps.Keys(h.held)))
	}
}

// list formats times in minutes.
func (h *prometheusHour) list(of []episode) string {
	var words []string
	for _, e := range of {
		words = append(words, h.minutes(e.begin)+" to "+h.minutes(e.end))
	}
	return strings.Join(words, ", ")
}

// checkScrapes checks what Prometheus has of the service itself: it was up but for the time of the restart, has the same
// series at the end, and counters that go back at the restart only.
func (h *prometheusHour) checkScrapes() {
	h.Helper()
	down, end := h.held["EnsembleDown"][0], h.begin.Add(hourLength)
	over := func(what, series string) float64 { return h.number("%s(%s[1h] @ %d)", what, series, end.Unix()) }
	scrapes, up := over("count_over_time", "up"), over("sum_over_time", "up")
	missed := down.end.Sub(down.begin).Seconds() / hourScrape.Seconds()
	h.Logf("scrapes %g, answered %g; stopped for %.0f of them; p99 of their duration %.4g s", scrapes, up, missed, over("quantile_over_time", "0.99, scrape_duration_seconds"))
	if want := hourLength.Seconds() / hourScrape.Seconds(); math.Abs(scrapes-want) > 1 || math.Abs(up-scrapes+missed) > 2 {
		h.Errorf("%g scrapes, want %g, %g answered, want %.0f", scrapes, want, up, scrapes-missed)
	}
	low, high := h.number("min_over_time((scrape_samples_scraped > 0)[1h:15s] @ %d)", end.Unix()), over("max_over_time", "scrape_samples_scraped")
	h.Logf("series %g to %g", low, high)
	if low != high || low < 50 {
		h.Errorf("a scrape has %g to %g series, want the same number always", low, high)
	}
	const counters = `resets(label_replace({job="ensemble", __name__=~".+_(total|count|sum|bucket)"}, "name", "$1", "__name__", "(.+)")[%ds:15s] @ %d) > 0`
	for what, within := range map[string]episode{"before": {h.begin, down.begin}, "after": {down.end, end}} {
		for _, s := range h.p.query(fmt.Sprintf(counters, int(within.end.Sub(within.begin).Seconds()), within.end.Unix())) {
			h.Errorf("%v went back %s the restart", s.Metric, what)
		}
	}
	if n := h.number("count("+counters+")", int(hourLength.Seconds()), end.Unix()); n < 10 {
		h.Errorf("%g counters began again at the restart, want most", n)
	}
}

// TestLongPrometheusHour: for an hour Prometheus scrapes a service, by the real clock and with the shipped rules. Files
// arrive late, damaged and incomplete, disks and the receiver of the hook fail, an operator decides, and the service is
// stopped once. Every alert fires when it is due, and at no other time.
func TestLongPrometheusHour(t *testing.T) {
	h := newPrometheusHour(t)
	h.follow()
	h.checkScrapes()
	h.checkAlerts()
	for init, state := range map[time.Time]string{h.ago(25): "issued", h.ago(24): "issued", h.ago(23): "failed", h.ago(6): "issued", h.ago(5): "degraded", h.ago(4): "issued"} {
		h.s.awaitInit(init, state, "")
	}
	h.stop()
}
