package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/ensemble/hook"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/serve"
	"github.com/ensemble-weather/ensemble/internal/backoff"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
	"github.com/ensemble-weather/ensemble/internal/testseed"
	"github.com/ensemble-weather/ensemble/io/product"
)

// A service under a virtual clock runs through days with two initialisations each, with faults that a seed draws. A model of
// the documented behaviour (monthmodel_test.go) steps along with it.

// Times of the simulated service after an initialisation, and the step of the virtual clock.
const (
	monthStep     = 5 * time.Minute
	monthPoll     = monthStep - time.Second // due at each step; no pause of a delivery is as long
	monthDeadline = 6*time.Hour + 30*time.Minute
	monthExpected = 6*time.Hour + 40*time.Minute
	monthMaxAge   = 48 * time.Hour
	monthMembers  = 4
	misdatedFor   = 2 * time.Hour // until files with a date in the future are removed
	monthRetryFor = 4 * time.Hour // of deliveries
)

// stepClock is the virtual clock of all pauses of a service. It stands still until a test advances it.
type stepClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []stepTimer
	polled chan struct{} // receives when the service waits for its next scan
}

type stepTimer struct {
	at time.Time
	c  chan time.Time
}

func (c *stepClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// after is the Timer of the clock.
func (c *stepClock) after(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := stepTimer{c.now.Add(d), make(chan time.Time, 1)}
	c.timers = append(c.timers, t)
	if d == monthPoll {
		c.polled <- struct{}{}
	}
	return t.c
}

// advance sets the time and ends the pauses that are over.
func (c *stepClock) advance(to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = to
	c.timers = slices.DeleteFunc(c.timers, func(t stepTimer) bool {
		if t.at.After(to) {
			return false
		}
		t.c <- to
		return true
	})
}

// sending is a file that arrives in the input.
type sending struct {
	at         time.Time
	init       time.Time
	member     int
	fault      string // "": intact; cut, damaged, grid, version; changed: intact, with other values
	newVersion bool   // of the forecast model
}

// text returns the bytes of the file.
func (s sending) text() []byte {
	c := without(cycle(s.init), func(m testgrib.Message) bool { return m.Member != s.member })
	for i := range c {
		if s.newVersion {
			c[i].Process = 99
		}
		if s.fault == "version" {
			c[i].Process = 98
		}
		if s.fault == "grid" {
			c[i].Shift = 1
		}
		for k := range c[i].Values {
			if s.fault == "changed" {
				c[i].Values[k] += 0.5
			}
		}
	}
	text := join(c...)
	switch s.fault {
	case "cut":
		text = text[:len(text)*2/3]
	case "damaged":
		copy(text[len(c[0].Bytes())*5+16:], "damaged sections")
	}
	return text
}

// outage is a time in which the disk, the decoding program or the receiver of products is missing.
type outage struct {
	begin, end time.Time
	what       string // decoder, killed (the decoding processes, once), receiver, or the disk: full, read-only, broken
}

// meets reports whether a part of an outage is in a range of times.
func (o outage) meets(from, to time.Time) bool { return o.begin.Before(to) && from.Before(o.end) }

// monthPlan is what happens in the simulated days.
type monthPlan struct {
	begin    time.Time
	inits    []time.Time
	sendings []sending // in the order of their times
	outages  []outage
	deaf     []outage  // of the receiver
	misdated time.Time // initialisation in the future, whose files arrive at misdatedAt and are removed two hours later
	wrongAt  time.Time
	restart  time.Time
	faults   map[string]int // numbers of initialisations or members, by kind
}

// share is the number of a share of n, at least one.
func share(percent, n int) int { return max(1, (percent*n+50)/100) }

// drawMonth draws the faults of a number of days.
func drawMonth(seed uint64, begin time.Time, days int) *monthPlan {
	r := rand.New(rand.NewPCG(seed, 39))
	p := &monthPlan{begin: begin, faults: map[string]int{}}
	for d := range days {
		p.inits = append(p.inits, begin.AddDate(0, 0, d), begin.AddDate(0, 0, d).Add(12*time.Hour))
	}
	n := len(p.inits)
	order := r.Perm(n)
	late := order[:share(5, n)]
	grid := order[len(late)]
	members := r.Perm(n * monthMembers)
	missing := members[:share(3, len(members))]
	damaged := members[len(missing):][:share(1, len(members))]
	changeAt := n / 2
	some := func(from, to time.Duration) time.Duration {
		return (from + time.Duration(r.Int64N(int64(to-from)))).Truncate(monthStep)
	}
	for i, init := range p.inits {
		base := some(4*time.Hour, 6*time.Hour)
		if slices.Contains(late, i) {
			base = monthExpected + some(30*time.Minute, 4*time.Hour)
			p.faults["late"]++
		}
		again := some(time.Hour, 4*time.Hour)
		for m := range monthMembers {
			s := sending{at: init.Add(base), init: init, member: m, newVersion: i >= changeAt}
			switch at := i*monthMembers + m; {
			case i == grid:
				s.fault = "grid"
			case i == changeAt && m == monthMembers-1:
				s.fault = "version"
			case slices.Contains(missing, at):
				p.faults["missing"]++
				if s.at = init.Add(monthDeadline + some(time.Hour, 6*time.Hour)); p.faults["missing"]%2 == 1 {
					continue // never
				}
			case slices.Contains(damaged, at):
				s.fault = []string{"cut", "damaged"}[p.faults["damaged"]%2]
				p.faults["damaged"]++
			}
			p.sendings = append(p.sendings, s)
			if s.fault != "" { // sent again
				s.fault, s.at = "", init.Add(max(base, monthDeadline)+again)
				p.sendings = append(p.sendings, s)
			}
		}
	}
	p.faults["other grid"], p.faults["other version"], p.faults["in the future"] = 1, 1, 1
	span := n * 12
	disk, decoder := 3, 2
	for k := range disk + decoder { // each in its own part of the time, so that they do not overlap
		o := outage{what: []string{"full", "decoder", "broken", "killed", "read-only"}[k]}
		part := n / (disk + decoder)
		o.begin = p.inits[k*part+r.IntN(part)].Add(some(4*time.Hour, 7*time.Hour)) // when files arrive and products are made
		o.end = o.begin.Add(some(time.Hour, 4*time.Hour))
		p.outages = append(p.outages, o)
		p.faults["outage: "+o.what]++
	}
	p.misdated = begin.AddDate(0, 0, days+3)
	p.wrongAt = begin.Add(some(5*time.Hour, time.Duration(span-12)*time.Hour))
	p.restart = begin.Add(some(5*time.Hour, time.Duration(span-12)*time.Hour))
	p.drawReceiver(r)
	p.drawChange(r)
	slices.SortStableFunc(p.sendings, func(a, b sending) int { return a.at.Compare(b.at) })
	return p
}

// drawReceiver draws two outages of the receiver of products, from before the products of an initialisation are made. Deliveries
// are given up in the second one. None is near the restart, which attempts deliveries at once.
func (p *monthPlan) drawReceiver(r *rand.Rand) {
	left := r.Perm(len(p.inits))
	for _, hours := range []time.Duration{3, 9} {
		for k, i := range left {
			o := outage{what: "receiver", begin: p.inits[i].Add(3 * time.Hour)}
			o.end = o.begin.Add(hours * time.Hour)
			if o.meets(p.restart.Add(-12*time.Hour), p.restart.Add(12*time.Hour)) {
				continue
			}
			p.deaf, left = append(p.deaf, o), slices.Delete(left, k, k+1)
			p.faults["outage: receiver"]++
			break
		}
	}
}

// drawChange draws a file that is sent again with other values after the issue. Its initialisation is whole, and no outage is near.
func (p *monthPlan) drawChange(r *rand.Rand) {
	for _, i := range r.Perm(len(p.inits)) {
		init := p.inits[i]
		sent := 0
		for _, s := range p.sendings {
			if s.init.Equal(init) && s.fault == "" && s.at.Before(init.Add(monthDeadline)) {
				sent++
			}
		}
		near := func(o outage) bool { return o.meets(init.Add(3*time.Hour), init.Add(14*time.Hour)) }
		if sent == monthMembers && !slices.ContainsFunc(p.outages, near) {
			last := p.sendings[slices.IndexFunc(p.sendings, func(s sending) bool { return s.init.Equal(init) && s.member == 1 })]
			last.at, last.fault = init.Add(8*time.Hour), "changed"
			p.sendings = append(p.sendings, last)
			p.faults["changed"]++
			return
		}
	}
}

// isDeaf reports whether the receiver of products is missing.
func (p *monthPlan) isDeaf(t time.Time) bool {
	return slices.ContainsFunc(p.deaf, func(o outage) bool { return !t.Before(o.begin) && t.Before(o.end) })
}

// outageAt returns the outage at a time; nil: none.
func (p *monthPlan) outageAt(t time.Time) *outage {
	for i, o := range p.outages {
		if !t.Before(o.begin) && t.Before(o.end) {
			return &p.outages[i]
		}
	}
	return nil
}

// month is a running simulation.
type month struct {
	*scheduled
	plan    *monthPlan
	clock   *stepClock
	model   *monthModel
	samples alertSamples
	real    string // path of the decoding program
	decoder string // link to it, which the service starts
	calls   string // file with a line for each call of the hook
	current *outage
	restore func() // ends an outage of the disk
	stop    func()
	strayed int // steps in succession at which the newest products were not those of the model
}

// startMonth starts the service at the beginning of a plan.
func startMonth(t *testing.T, p *monthPlan) *month {
	t.Helper()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	before := time.Local
	time.Local = berlin
	t.Cleanup(func() { time.Local = before })
	t.Setenv("TZ", "Europe/Berlin")
	f := faulty(t)
	m := &month{scheduled: &scheduled{trial: f}, plan: p, model: newMonthModel(p), real: testdecoder.Path(t), decoder: filepath.Join(f.dir, "decoder"), calls: filepath.Join(f.dir, "calls"),
		clock: &stepClock{now: p.begin, polled: make(chan struct{}, 100)}}
	t.Setenv("ENSEMBLE_DECODE", m.decoder)
	m.install()
	m.start()
	return m
}

// install makes the decoding program available.
func (m *month) install() {
	m.Helper()
	if err := os.Symlink(m.real, m.decoder); err != nil {
		m.Fatal(err)
	}
}

// start starts the service, and waits for its first scan.
func (m *month) start() {
	m.Helper()
	m.scheduled.clock.Store(m.clock.Now().Unix())
	o := predict.Options{Device: "cpu"}
	o.Clock.Pauses = backoff.Clock{Time: m.clock.Now, Timer: m.clock.after}
	m.stop = m.serveWith(o, "members.poll="+monthPoll.String(), "members.expected=4", "members.on_missing=degrade", "bad_messages=skip", "members.deadline=init+"+monthDeadline.String(),
		"serve.schedule.cycles=[00, 12]", "serve.schedule.expected=init+"+monthExpected.String(), "serve.max_age="+monthMaxAge.String(),
		"serve.on_issue.retry_for="+monthRetryFor.String(),
		fmt.Sprintf(`serve.on_issue.command=[/bin/sh, -c, "cat > /dev/null; [ ! -e %[1]s.deaf ] || exit 1; echo $HOOK_INIT $HOOK_STATUS >> %[1]s"]`, m.calls))
	m.awaitScan()
}

// awaitScan waits until the service waits for its next scan, and no delivery is due.
func (m *month) awaitScan() {
	m.Helper()
	select {
	case <-m.clock.polled:
	case <-time.After(patience):
		m.Fatalf("no scan at %s:\n%s", m.clock.Now(), m.log.String())
	}
	if now := m.clock.Now(); !strings.Contains(m.get("/metrics"), "ensemble_hook_undelivered{state=\"pending\"} 0\n") {
		m.awaitDeliveries(now)
	}
}

// awaitDeliveries waits until no delivery is due.
func (m *month) awaitDeliveries(now time.Time) {
	m.Helper()
	eventually(m.T, "the deliveries are made", func() bool {
		var status serve.Status
		if json.Unmarshal([]byte(m.get("/status")), &status) != nil || status.Hook == nil {
			return false
		}
		return !slices.ContainsFunc(status.Hook.Open, func(d hook.Delivery) bool {
			return d.State == hook.Pending && (d.NextAttempt == nil || !d.NextAttempt.After(now))
		})
	})
}

// path returns the path of the file of a member in the input.
func (m *month) path(init time.Time, member int) string {
	return filepath.Join(m.dir, "in", fmt.Sprintf("%s_%d.grib2", name(init), member))
}

// change makes what the plan has between the last step and now: files arrive, outages begin and end, the operating site removes old files.
func (m *month) change(now time.Time) {
	m.Helper()
	due := func(t time.Time) bool { return t.After(now.Add(-monthStep)) && !t.After(now) }
	for _, s := range m.plan.sendings {
		if due(s.at) {
			m.put("in/"+filepath.Base(m.path(s.init, s.member)), s.text())
		}
	}
	for member := range monthMembers {
		if due(m.plan.wrongAt) {
			m.put("in/"+filepath.Base(m.path(m.plan.misdated, member)), sending{init: m.plan.misdated, member: member}.text())
		}
		if due(m.plan.wrongAt.Add(misdatedFor)) {
			m.remove(m.path(m.plan.misdated, member))
		}
		for _, init := range m.plan.inits {
			if due(init.Add(2 * monthMaxAge)) {
				m.remove(m.path(init, member))
			}
		}
	}
	if o := m.plan.outageAt(now); o != m.current {
		m.endOutage()
		m.beginOutage(o)
	}
	for _, o := range m.plan.deaf {
		if due(o.begin) {
			m.put("calls.deaf", nil)
		}
		if due(o.end) {
			m.remove(m.calls + ".deaf")
		}
	}
	if due(m.plan.restart) {
		m.stop()
		m.start()
	}
}

// remove removes a file of the input, which need not exist.
func (m *month) remove(path string) {
	m.Helper()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		m.Fatal(err)
	}
}

// beginOutage begins an outage; nil: none.
func (m *month) beginOutage(o *outage) {
	m.Helper()
	if m.current = o; o == nil {
		return
	}
	below := func(dirs ...string) func(faultfs.Operation) bool {
		return func(op faultfs.Operation) bool {
			return slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(op.Path, filepath.Join(m.dir, d)) })
		}
	}
	fault := faultfs.Fault{N: 1, Times: -1, Of: faultfs.Changing, At: below("out")}
	switch o.what {
	case "decoder":
		m.remove(m.decoder)
		killDecoders(m.T)
		return
	case "killed":
		killDecoders(m.T)
		return
	case "full":
		fault.Err = unix.ENOSPC
	case "read-only":
		fault.Err = unix.EROFS
	case "broken":
		fault.Err, fault.Of, fault.At = unix.EIO, nil, below("in", "out")
	}
	_, m.restore = faultfs.Use(fault)
}

// endOutage ends the present outage, if there is one.
func (m *month) endOutage() {
	m.Helper()
	switch {
	case m.current == nil:
	case m.current.what == "decoder":
		m.install()
	case m.restore != nil:
		m.restore()
	}
	m.current, m.restore = nil, nil
}

// killDecoders kills the decoding children of this process, which have the name of the link.
func killDecoders(t *testing.T) {
	t.Helper()
	for _, pid := range childrenOf(t, os.Getpid()) {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if strings.TrimSpace(string(comm)) == "decoder" {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// operate acknowledges what has been degraded or failed for two hours, and deliveries that were given up, and dismisses changed input,
// as an operator does.
func (m *month) operate(now time.Time) {
	m.Helper()
	decide := func(i *modelInit, action serve.Action, since time.Time) bool {
		if now.Sub(since) < 2*time.Hour {
			return false
		}
		_, _, err := serve.Decide(filepath.Join(m.dir, "out"), i.init, action)
		if err != nil && m.current == nil && now.Sub(since) > 3*time.Hour {
			m.Errorf("%s: no %s of %s: %v", now, action, name(i.init), err)
		}
		return err == nil
	}
	for _, i := range m.model.inits {
		if i.isOpen(now) && decide(i, serve.Acknowledge, i.since) {
			i.acknowledged = true
		}
		if i.changed && decide(i, serve.Dismiss, i.changedAt) {
			i.changed = false
		}
		if i.delivery.isGivenUp() && decide(i, serve.AcknowledgeDelivery, i.delivery.givenUp) {
			i.delivery.acknowledged = true
		}
	}
}

// checkLatest compares the newest products with those of the model. After an outage the service may be up to 15 minutes behind it
// or before it.
func (m *month) checkLatest(now time.Time) {
	m.Helper()
	got, want := serve.InitContents{}, m.model.newest()
	text := m.get("/products/latest/?format=json")
	_ = json.Unmarshal([]byte(text), &got) // an error message is no JSON
	if want == nil && got.Name == "" || want != nil && got.Name == name(want.init) && got.Status == want.products {
		m.strayed = 0
		return
	}
	if m.strayed++; m.strayed > 3 {
		m.Errorf("%s: the newest products are %s %s, want %s", now, got.Name, got.Status, want)
	}
}

// tick advances the clock by a step, which makes the service scan once.
func (m *month) tick(now time.Time) {
	m.Helper()
	m.scheduled.clock.Store(now.Unix())
	m.clock.advance(now)
	m.awaitScan()
}

// isQuiet reports whether a step may be left out, as five of six are where nothing of the plan is near and nothing is late, failed or
// to be acknowledged.
func (m *month) isQuiet(now time.Time) bool {
	const near = 30 * time.Minute
	isNear := func(t time.Time) bool { return now.Sub(t).Abs() <= near }
	if now.Sub(m.plan.begin)%(6*monthStep) == 0 || m.plan.outageAt(now) != nil || isNear(m.plan.wrongAt) || isNear(m.plan.wrongAt.Add(misdatedFor)) || isNear(m.plan.restart) {
		return false
	}
	for _, o := range m.plan.deaf {
		if isNear(o.begin) || isNear(o.end) {
			return false
		}
	}
	for _, o := range m.plan.outages {
		if isNear(o.begin) || now.Sub(o.end).Abs() <= 90*time.Minute { // the pause after a failure is up to an hour
			return false
		}
	}
	for _, i := range m.model.inits {
		if i.changed || i.delivery.isPending() || i.delivery.isGivenUp() {
			return false
		}
		age := now.Sub(i.init)
		if age < 0 || age > 2*monthMaxAge+near {
			continue
		}
		if i.isOpen(now) || i.products == "" && age > 4*time.Hour && age <= monthMaxAge || isNear(i.init.Add(monthMaxAge)) || isNear(i.init.Add(2*monthMaxAge)) {
			return false
		}
	}
	return !slices.ContainsFunc(m.plan.sendings, func(s sending) bool { return isNear(s.at) })
}

// run steps through the plan, until the next initialisation would be due.
func (m *month) run() {
	m.Helper()
	end := m.plan.inits[len(m.plan.inits)-1].Add(18 * time.Hour)
	metrics := ""
	for now := m.plan.begin; !now.After(end); now = now.Add(monthStep) {
		if metrics != "" && m.isQuiet(now) { // nothing changes until the next step
			m.model.step(now)
			m.samples.add(metrics, m.plan.begin)
			continue
		}
		m.change(now)
		if now.After(m.plan.begin) {
			m.tick(now)
		}
		m.model.step(now)
		m.operate(now)
		metrics = m.get("/metrics")
		m.samples.add(metrics, m.plan.begin)
		m.checkLatest(now)
	}
	m.endOutage()
	m.stop()
}

// TestServeMonth: three of the days of TestLongServeMonth, with the change of the clocks.
func TestServeMonth(t *testing.T) {
	simulate(t, drawMonth(testseed.Of(t), time.Date(2001, 10, 26, 0, 0, 0, 0, time.UTC), 3))
}

// simulate runs a plan, and compares states, products, deliveries and alerts with those of the model. It logs a table.
func simulate(t *testing.T, p *monthPlan) {
	m := startMonth(t, p)
	m.run()
	for _, kind := range slices.Sorted(maps.Keys(p.faults)) {
		t.Logf("%3d %s", p.faults[kind], kind)
	}
	for _, o := range append(slices.Clone(p.outages), p.deaf...) {
		t.Logf("outage from %s to %s: %s", o.begin.Format(time.RFC3339), o.end.Format(time.RFC3339), o.what)
	}
	m.checkEnd()
	firing := m.samples.firing(t)
	for _, rule := range slices.Sorted(maps.Keys(alertFor)) {
		c, wrong := compareAlerts(m.model.conditions[rule], firing[rule], alertFor[rule])
		t.Logf("%-24s due %2d, raised %2d, missing %d, false %d", rule, c.due, c.raised, c.missing, c.false)
		for _, s := range wrong {
			t.Errorf("%s is missing or false from %s to %s", rule, m.timeOf(s.begin), m.timeOf(s.end))
		}
	}
	for rule := range firing {
		if _, known := alertFor[rule]; !known {
			t.Errorf("%s was raised, which no test expects", rule)
		}
	}
}

// at formats the time of a step.
func (m *month) timeOf(step int) string {
	return m.plan.begin.Add(time.Duration(step) * monthStep).Format("2006-01-02T15:04")
}

// checkEnd compares the products at the end with the members that arrived intact, and the deliveries with the issues of the model.
func (m *month) checkEnd() {
	m.Helper()
	states := map[string]int{}
	delivered := map[string][]string{}
	text, err := os.ReadFile(m.calls)
	if err != nil {
		m.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		init, status, _ := strings.Cut(line, " ")
		delivered[init] = append(delivered[init], status)
	}
	for _, i := range m.model.inits {
		want := statusOf(m.model.inputOf(i, m.clock.Now()))
		got := ""
		if made, err := product.ReadManifest(filepath.Join(m.dir, "out", name(i.init))); err == nil {
			got = made.Status
		}
		states[got]++
		if got != want || i.products != want {
			m.Errorf("%s ends %q, by the model %q, want %q", name(i.init), got, i.products, want)
		}
		if sent := delivered[name(i.init)]; !slices.Equal(sent, i.delivered) {
			m.Errorf("%s was delivered as %q, want %q", name(i.init), sent, i.delivered)
		}
	}
	m.Logf("%d initialisations: %v", len(m.model.inits), states)
	if strings.Contains(m.log.String(), "late: its turn is next") {
		m.Error("the log has initialisations as late that were issued a moment later")
	}
	if left, _ := filepath.Glob(filepath.Join(m.dir, "out", ".*partial*")); left != nil {
		m.Errorf("left: %q", left)
	}
}

// TestServeUnreadableInput: while the folder of the input cannot be read, initialisations keep their states and decisions, late ones
// name the disk, and nothing is attempted. What is due is issued at the first scan after it.
func TestServeUnreadableInput(t *testing.T) {
	next := lastDay.Add(12 * time.Hour)
	now := next
	m := startMonth(t, &monthPlan{begin: now, inits: []time.Time{lastDay}})
	tick := func(d time.Duration) {
		now = now.Add(d)
		m.tick(now)
	}
	m.put("in/fc.grib2", join(without(cycle(lastDay), func(x testgrib.Message) bool { return x.Member > 0 })...))
	tick(monthStep)
	tick(monthStep)
	m.await(lastDay, "failed", "1 members are complete")
	m.decide(exit.OK, "acknowledge "+name(lastDay), "acknowledge", lastDay)
	tick(monthStep)
	acknowledged := []string{`ensemble_unacknowledged_inits{state="failed"} 0`, `ensemble_unacknowledged_inits{state="late"} 0`}
	m.awaitMetrics(acknowledged...)
	now = next.Add(4 * time.Hour)
	m.put("in/next.grib2", join(without(cycle(next), func(x testgrib.Message) bool { return x.Member > 2 })...))
	m.tick(now)
	tick(monthStep)
	m.await(next, "waiting", "3 members are complete")
	failures := regexp.MustCompile(`ensemble_init_failures_total\{code="66"\} \d+`).FindString(m.get("/metrics"))

	_, restore := faultfs.Use(faultfs.Fault{N: 1, Times: -1, Err: unix.EIO, At: func(op faultfs.Operation) bool { return strings.HasPrefix(op.Path, filepath.Join(m.dir, "in")) }})
	defer restore()
	tick(monthStep)
	m.await(next, "waiting", "input/output error")
	m.await(lastDay, "failed", "1 members are complete")
	m.awaitMetrics(acknowledged...)
	now = next.Add(monthExpected)
	tick(monthStep)
	m.await(next, "late", "input/output error")
	m.decide(exit.OK, "acknowledge "+name(next), "acknowledge", next)
	tick(monthStep)
	m.awaitMetrics(append(acknowledged, failures)...)
	if n := strings.Count(m.log.String(), "cannot scan the input"); n != 1 {
		t.Errorf("%d messages on the input, want 1", n)
	}
	restore()
	tick(monthStep)
	m.await(next, "degraded", "3 of 4 members are complete")
	m.await(lastDay, "failed", "1 members are complete")
	m.awaitMetrics(acknowledged...)
}

// TestServeArriving: a file that is still being written after the deadline makes its initialisation late, not failed.
func TestServeArriving(t *testing.T) {
	now := lastDay.Add(8 * time.Hour)
	m := startMonth(t, &monthPlan{begin: now, inits: []time.Time{lastDay}})
	text := join(cycle(lastDay)...)
	for quarter := range 4 {
		m.put("in/fc.grib2", text[:len(text)*(quarter+1)/4])
		now = now.Add(monthStep)
		m.tick(now)
		m.await(lastDay, "late", "fc.grib2: it is still being written")
	}
	m.tick(now.Add(monthStep))
	m.await(lastDay, "issued", "")
	if metrics := m.get("/metrics"); !strings.Contains(metrics, `ensemble_init_failures_total{code="66"} 0`) {
		t.Errorf("it counts as failed: %s", metrics)
	}
}
