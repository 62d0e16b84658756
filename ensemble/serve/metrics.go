package serve

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/hook"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
)

// metrics holds all metrics of /metrics, in the Prometheus text format 0.0.4.
type metrics struct {
	families []family

	inits, failures, reloads          *counter
	unread                            *gauge
	model                             modelGauges
	states                            stateGauges
	products                          productGauges
	output                            outputGauges
	hook                              hookMetrics
	issueTime, requestTime            *histogram
	requests, responseBytes, rejected *counter
}

// modelGauges describe the loaded model.
type modelGauges struct{ ready, finished, info, alarms *gauge }

// loaded records the loaded model.
func (g *modelGauges) loaded(m predict.ModelDescription) {
	g.ready.set(1)
	g.finished.set(unixSeconds(m.Finished))
	g.info.clear()
	g.info.set(1, m.Checksum, m.Version)
}

// stateGauges count initialisations by their states.
type stateGauges struct{ inits, unacknowledged, changed, lateness *gauge }

// update counts the initialisations of a list.
func (g *stateGauges) update(list []InitStatus, now time.Time) {
	count, open, changed := map[string]int{}, map[string]int{}, 0
	for _, i := range list {
		count[i.State]++
		if i.Acknowledged == nil {
			open[i.State]++
		}
		if i.InputChanged {
			changed++
		}
	}
	for _, name := range initStates {
		g.inits.set(float64(count[name]), name)
	}
	for _, name := range acknowledgeable {
		g.unacknowledged.set(float64(open[name]), name)
	}
	g.changed.set(float64(changed))
	g.lateness.set(lateness(list, now).Seconds())
}

// productGauges follow the products on disk.
type productGauges struct {
	ready, future, lastInit, lastIssued           *gauge
	membersUsed, membersComplete, membersExpected *gauge
	drift, driftBeyond, fallback                  *gauge
}

// update describes the newest products; those without a name are none.
func (g *productGauges) update(c *initProducts) {
	m, init := c.manifest, 0.0
	if c.name != "" {
		init = unixSeconds(initOf(c.name))
	}
	g.lastInit.set(init)
	g.membersUsed.set(float64(len(m.MembersUsed)))
	g.membersComplete.set(float64(m.MembersComplete))
	g.membersExpected.set(float64(m.MembersExpected))
	drift := product.InputDrift{}
	if m.Drift != nil {
		drift = *m.Drift
	}
	g.drift.set(drift.Distance)
	g.driftBeyond.set(float64(drift.BeyondLimit))
	fallback := 0.0
	if m.Fallback != "" {
		fallback = 1
	}
	g.fallback.set(fallback)
}

// outputGauges describe the file system of the products.
type outputGauges struct{ free, size *gauge }

// update reads the space of the file system of a directory. If that fails, no space is free.
func (g *outputGauges) update(dir string) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		g.free.set(0)
		return
	}
	g.free.set(float64(s.Bavail) * float64(s.Bsize))
	g.size.set(float64(s.Blocks) * float64(s.Bsize))
}

// hookMetrics describe the calls of the hook.
type hookMetrics struct {
	failures    *counter
	undelivered *gauge
}

// update counts the open deliveries; nil: there is no hook.
func (m *hookMetrics) update(s *hook.Status) {
	if s == nil {
		s = &hook.Status{}
	}
	m.undelivered.set(float64(s.Pending), "pending")
	m.undelivered.set(float64(s.Abandoned), "abandoned")
}

// family is one metric with all label values.
type family interface{ write(b *bytes.Buffer) }

func newMetrics(version string) *metrics {
	m := &metrics{}
	add := func(f family) { m.families = append(m.families, f) }
	count := func(name, help string, labels ...string) *counter {
		c := &counter{series: newSeries(name, help, "counter", labels)}
		add(c)
		return c
	}
	level := func(name, help string, labels ...string) *gauge {
		g := &gauge{newSeries(name, help, "gauge", labels)}
		add(g)
		return g
	}
	level("ensemble_build_info", "Version of the program.", "version").set(1, version)
	m.model.ready = level("ensemble_model_ready", "1 if the model is loaded.")
	m.products.ready = level("ensemble_ready", "1 if /readyz reports ready.")
	m.model.finished = level("ensemble_model_finished_timestamp_seconds", "Unix time at which training of the model ended.")
	m.model.info = level("ensemble_model_info", "Checksum of the loaded model and version of the program that trained it.", "checksum", "version")
	m.model.alarms = level("ensemble_rolling_alarms", "Alarms of the rolling verification on the loaded model.")
	m.inits = count("ensemble_inits_total", "Initialisations with products: issued, degraded or already existing.", "result")
	m.failures = count("ensemble_init_failures_total", "Failed attempts by exit code.", "code")
	m.states.inits = level("ensemble_init_states", "Initialisations of the input and of the schedule by state.", "state")
	m.states.unacknowledged = level("ensemble_unacknowledged_inits", "Late, degraded and failed initialisations that no operator has acknowledged.", "state")
	m.states.changed = level("ensemble_changed_inits", "Initialisations with products whose input changed and about which no operator has decided.")
	m.states.lateness = level("ensemble_lateness_seconds", "Longest time since the products of a late initialisation were expected that no operator has acknowledged; 0: none.")
	m.unread = level("ensemble_input_files_unreadable", "Input files of unknown initialisation.")
	m.products.membersUsed = level("ensemble_members_used", "Members that the newest products use.")
	m.products.membersComplete = level("ensemble_members_complete", "Complete members in the input of the newest products.")
	m.products.membersExpected = level("ensemble_members_expected", "Members of a complete input of the newest products.")
	m.products.drift = level("ensemble_input_drift_score", "Largest drift score of the input of the newest products, in standard deviations of the training; 0: unknown.")
	m.products.driftBeyond = level("ensemble_input_drift_fields", "Fields of the input of the newest products with a drift score beyond drift.limit.")
	m.products.fallback = level("ensemble_fallback_in_use", "1 if the newest products are those of the fallback.")
	m.output.free = level("ensemble_output_free_bytes", "Free space of the file system of the products.")
	m.output.size = level("ensemble_output_size_bytes", "Size of the file system of the products.")
	m.hook.failures = count("ensemble_hook_failures_total", "Failed attempts to call the hook of serve.on_issue.")
	m.hook.undelivered = level("ensemble_hook_undelivered", "Initialisations with products for which the hook was not called with success: attempted again (pending), or given up and not acknowledged (abandoned).", "state")
	m.products.lastIssued = level("ensemble_last_success_timestamp_seconds", "Unix time of the last publication; 0: none.")
	m.products.lastInit = level("ensemble_last_init_timestamp_seconds", "Unix time of the newest initialisation with products, not in the future; 0: none.")
	m.products.future = level("ensemble_future_inits", "Initialisations with products that are further in the future than serve.max_future.")
	m.reloads = count("ensemble_config_reloads_total", "Reloads of the configuration: applied or rejected.", "result")
	m.issueTime = &histogram{name: "ensemble_issue_duration_seconds", help: "Time from due to published.", bounds: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}}
	m.requestTime = &histogram{name: "ensemble_http_request_duration_seconds", help: "Duration of HTTP requests, to the last byte.", bounds: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60}}
	add(m.issueTime)
	add(m.requestTime)
	m.requests = count("ensemble_http_requests_total", "HTTP requests by status code.", "code")
	m.responseBytes = count("ensemble_http_response_bytes_total", "Bytes of HTTP response bodies.")
	m.rejected = count("ensemble_http_rejected_total", "Rejected connections (limit of an address, closed while idle) and requests (wrong host).", "reason")
	m.setZero()
	return m
}

// setZero creates all series whose labels are known beforehand, so that rules and rates see them before the first event.
func (m *metrics) setZero() {
	for _, why := range []string{rejectedAddress, rejectedIdle, rejectedHost} {
		m.rejected.add(0, why)
	}
	for _, r := range []string{"issued", "degraded", "existing"} {
		m.inits.add(0, r)
	}
	for _, r := range []string{"applied", "rejected"} {
		m.reloads.add(0, r)
	}
	for _, c := range exit.All {
		if c.Code != exit.OK && c.Code != exit.No && c.Code != exit.SaveAndStop {
			m.failures.add(0, fmt.Sprint(int(c.Code)))
		}
	}
	for _, code := range []int{http.StatusOK, http.StatusPartialContent, http.StatusNotModified, http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		m.requests.add(0, fmt.Sprint(code))
	}
	m.responseBytes.add(0)
	m.hook.failures.add(0)
	m.hook.update(nil)
	m.states.update(nil, time.Time{})
	m.products.update(&initProducts{manifest: &product.Manifest{}})
	for _, g := range []*gauge{m.model.ready, m.model.finished, m.model.alarms, m.products.ready, m.products.future, m.output.free, m.output.size, m.unread, m.products.lastIssued} {
		g.set(0)
	}
}

// issued records the products of one initialisation, whose work began at begun and ended now.
func (m *metrics) issued(c *initProducts, res *predict.Result, begun, now time.Time) {
	switch {
	case res.Existing > 0:
		m.inits.add(1, "existing")
	case c.manifest.Status == manifest.Degraded:
		m.inits.add(1, "degraded")
	default:
		m.inits.add(1, "issued")
	}
	if res.Existing == 0 {
		m.products.lastIssued.set(unixSeconds(now))
		m.issueTime.observe(time.Since(begun).Seconds())
	}
}

// unixSeconds is the Unix time in seconds, to the millisecond.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// text formats all metrics.
func (m *metrics) text(connections int) []byte {
	var b bytes.Buffer
	for _, f := range m.families {
		f.write(&b)
	}
	one := func(name, help, kind string, v float64) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s %s\n", name, help, name, kind, name, number(v))
	}
	one("ensemble_http_connections", "Open connections.", "gauge", float64(connections))
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	one("go_goroutines", "Number of goroutines.", "gauge", float64(runtime.NumGoroutine()))
	one("go_memstats_heap_inuse_bytes", "Bytes in use by the Go heap.", "gauge", float64(mem.HeapInuse))
	for _, p := range process() {
		one(p.name, p.help, p.kind, p.value)
	}
	return b.Bytes()
}

// process returns metrics of this process from /proc, with the names of the Prometheus client
// libraries.
func process() []struct {
	name, help, kind string
	value            float64
} {
	type number = struct {
		name, help, kind string
		value            float64
	}
	var out []number
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(text)); len(f) > 1 {
			page := float64(os.Getpagesize())
			size, _ := strconv.ParseFloat(f[0], 64)
			resident, _ := strconv.ParseFloat(f[1], 64)
			out = append(out, number{"process_virtual_memory_bytes", "Virtual memory size in bytes.", "gauge", size * page}, number{"process_resident_memory_bytes", "Resident memory size in bytes.", "gauge", resident * page})
		}
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		out = append(out, number{"process_open_fds", "Number of open file descriptors.", "gauge", float64(len(fds) - 1)})
	}
	return append(out, number{"process_start_time_seconds", "Start time of the process since the Unix epoch in seconds.", "gauge", unixSeconds(processStart)})
}

var processStart = time.Now()

// series holds the values of one metric for all label values.
type series struct {
	name, help, kind string
	labels           []string

	mu     sync.Mutex
	values map[string]float64 // by formatted labels
}

func newSeries(name, help, kind string, labels []string) series {
	return series{name: name, help: help, kind: kind, labels: labels, values: map[string]float64{}}
}

// key formats label values as {name="value",…}. It panics for a wrong number of values.
func (s *series) key(values []string) string {
	if len(values) != len(s.labels) {
		panic(fmt.Sprintf("%s has the labels %q, not as many as %q", s.name, s.labels, values))
	}
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = fmt.Sprintf(`%s="%s"`, s.labels[i], labelEscape.Replace(v))
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

var labelEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (s *series) write(b *bytes.Buffer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", s.name, s.help, s.name, s.kind)
	keys := make([]string, 0, len(s.values))
	for k := range s.values {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(b, "%s%s %s\n", s.name, k, number(s.values[k]))
	}
}

// counter is a metric that only increases.
type counter struct{ series }

func (c *counter) add(n float64, labels ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values[c.key(labels)] += n
}

// gauge is a metric that may decrease.
type gauge struct{ series }

func (g *gauge) set(v float64, labels ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.values[g.key(labels)] = v
}

// clear removes the values of all labels.
func (g *gauge) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.values)
}

func (g *gauge) value(labels ...string) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.values[g.key(labels)]
}

// histogram counts values in buckets with upper bounds.
type histogram struct {
	name, help string
	bounds     []float64

	mu     sync.Mutex
	counts []uint64 // by bucket; the last has no bound
	sum    float64
}

func (h *histogram) observe(v float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts == nil {
		h.counts = make([]uint64, len(h.bounds)+1)
	}
	at, _ := slices.BinarySearch(h.bounds, v)
	h.counts[at]++
	h.sum += v
}

func (h *histogram) write(b *bytes.Buffer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s histogram\n", h.name, h.help, h.name)
	var n uint64
	for i := range len(h.bounds) + 1 {
		bound := math.Inf(1)
		if i < len(h.bounds) {
			bound = h.bounds[i]
		}
		if h.counts != nil {
			n += h.counts[i]
		}
		fmt.Fprintf(b, "%s_bucket{le=\"%s\"} %d\n", h.name, number(bound), n)
	}
	fmt.Fprintf(b, "%s_sum %s\n%s_count %d\n", h.name, number(h.sum), h.name, n)
}

// number formats a value for the text format.
func number(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
