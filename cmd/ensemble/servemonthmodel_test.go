package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/internal/backoff"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// modelInit is an initialisation in the documented behaviour of the service.
type modelInit struct {
	init         time.Time
	products     string // "": none
	delivered    []string
	delivery     modelDelivery
	changed      bool // its input, after the issue, without a decision
	changedAt    time.Time
	input        string // of the last attempt
	failed       bool
	fault        string    // of the last failure: of the disk or the decoding program, or "refused"
	attempts     int       // failed ones of this input
	next         time.Time // of the next attempt after a failure; zero: none until the input changes
	since        time.Time // of its failed or degraded state
	acknowledged bool
}

// modelDelivery is the delivery of the newest products of an initialisation.
type modelDelivery struct {
	status       string // of the products; "": delivered, or none
	attempts     int
	begun, next  time.Time
	givenUp      time.Time // zero: not
	acknowledged bool
}

func (d modelDelivery) isPending() bool { return d.status != "" && d.givenUp.IsZero() }
func (d modelDelivery) isGivenUp() bool { return !d.givenUp.IsZero() && !d.acknowledged }

func (i *modelInit) String() string {
	if i == nil {
		return "none"
	}
	return name(i.init) + " " + i.products
}

// isOpen reports whether it is failed or degraded, and listed, without an acknowledgement.
func (i *modelInit) isOpen(now time.Time) bool {
	return (i.failed || i.products == manifest.Degraded) && !i.acknowledged && now.Sub(i.init) <= monthMaxAge
}

// monthModel follows a plan by the rules of docs/operations.md, from the intended state of the files alone.
type monthModel struct {
	plan       *monthPlan
	inits      []*modelInit
	conditions map[string][]bool // of each alert that may be due, by step
}

func newMonthModel(p *monthPlan) *monthModel {
	m := &monthModel{plan: p, conditions: map[string][]bool{}}
	for _, init := range p.inits {
		m.inits = append(m.inits, &modelInit{init: init})
	}
	return m
}

// newest returns the newest initialisation with products; nil: none.
func (m *monthModel) newest() (newest *modelInit) {
	for _, i := range m.inits {
		if i.products != "" {
			newest = i
		}
	}
	return newest
}

// readableAt is the time of the scan at which a file is complete: the second one after its arrival, without an outage of what
// reads it.
func (m *monthModel) readableAt(s sending) time.Time {
	t := s.at.Add(monthStep)
	for _, o := range m.plan.outages {
		if (o.what == "decoder" || o.what == "broken") && !t.Before(o.begin) && s.at.Before(o.end) {
			t = o.end.Add(monthStep)
		}
	}
	return t
}

// inputOf returns the faults of the files of an initialisation that are readable, by member. One that replaces or joins others without a
// decoding program is "unread".
func (m *monthModel) inputOf(i *modelInit, now time.Time) map[int]string {
	in := map[int]string{}
	for _, s := range m.plan.sendings {
		if s.init.Equal(i.init) && !now.Before(m.readableAt(s)) {
			in[s.member] = s.fault
		}
	}
	if o := m.plan.outageAt(now); o != nil && o.what == "decoder" && len(in) > 0 {
		for _, s := range m.plan.sendings {
			if s.init.Equal(i.init) && !s.at.Before(o.begin) && !now.Before(s.at) {
				in[s.member] = "unread"
			}
		}
		if !slices.ContainsFunc(slices.Collect(maps.Values(in)), func(fault string) bool { return fault != "unread" }) {
			return nil // the initialisation of files that were never read is unknown
		}
	}
	return in
}

// isIntact reports whether a file with a fault can be used.
func isIntact(fault string) bool { return fault == "" || fault == "changed" }

// statusOf returns the status of the products of the readable files, by member; "" if they are refused: those without a control, of
// fewer than two members, or on another grid.
func statusOf(in map[int]string) string {
	complete := 0
	for _, fault := range in {
		if isIntact(fault) {
			complete++
		}
	}
	control, arrived := in[0]
	switch {
	case !arrived || !isIntact(control) || complete < 2:
		return ""
	case complete < monthMembers:
		return manifest.Degraded
	}
	return manifest.OK
}

// step advances the model.
func (m *monthModel) step(now time.Time) {
	failed, degraded, changed, pending, givenUp, late := 0, 0, 0, 0, 0, false
	for _, i := range m.inits {
		if now.Sub(i.init) > monthMaxAge || now.Before(i.init) {
			continue
		}
		m.attempt(i, now)
		switch {
		case i.failed && !i.acknowledged:
			failed++
		case i.failed:
		case i.products == "":
			late = late || now.After(i.init.Add(monthExpected))
		case i.isOpen(now):
			degraded++
		}
	}
	for _, i := range m.inits {
		m.deliver(i, now)
		for n, is := range map[*int]bool{&changed: i.changed, &pending: i.delivery.isPending(), &givenUp: i.delivery.isGivenUp()} {
			if is {
				*n++
			}
		}
	}
	if t := now.Sub(m.plan.wrongAt); t >= monthStep && t < misdatedFor {
		failed++
	}
	newest := m.newest()
	for name, is := range map[string]bool{
		"EnsembleFailed": failed > 0, "EnsembleDegraded": degraded > 0, "EnsembleLate": late,
		"EnsembleInputChanged": changed > 0, "EnsembleUndelivered": pending > 0, "EnsembleDeliveryGivenUp": givenUp > 0,
		"EnsembleNoNewProducts": newest == nil || now.Sub(newest.init) > 20*time.Hour,
	} {
		m.conditions[name] = append(m.conditions[name], is)
	}
}

// attempt issues an initialisation if that is due. Without a folder of input nothing is attempted.
func (m *monthModel) attempt(i *modelInit, now time.Time) {
	o := m.plan.outageAt(now)
	if o != nil && o.what == "broken" {
		return
	}
	in := m.inputOf(i, now)
	if len(in) == 0 {
		i.failed, i.fault, i.input = false, "", ""
		return
	}
	status := statusOf(in)
	if status != manifest.OK && now.Before(i.init.Add(monthDeadline)) {
		return
	}
	before := i.input + i.fault
	if input := fmt.Sprint(in); input != i.input {
		i.input, i.attempts = input, 0
	} else if !i.failed || i.next.IsZero() || now.Before(i.next) {
		return
	}
	i.next = time.Time{}
	if i.products == manifest.OK && slices.Contains(slices.Collect(maps.Values(in)), "changed") { // the products stay
		i.changed, i.changedAt = true, now
		return
	}
	switch {
	case o != nil && o.what != "killed":
		i.attempts++
		i.failed, i.fault, i.next = true, o.what, now.Add(backoff.Delay(time.Minute, time.Hour, i.attempts))
	case status == "":
		i.failed, i.fault = true, "refused"
	default:
		i.failed, i.fault, i.products = false, "", status
		i.delivery = modelDelivery{status: status, begun: now, next: now} // of replaced products no delivery is made
	}
	if !i.failed || i.input+i.fault != before { // another failure is not acknowledged
		i.since, i.acknowledged = now, false
	}
}

// deliver attempts a delivery that is due. Products on a broken disk are not read, which is no attempt; a restart attempts again what was
// given up.
func (m *monthModel) deliver(i *modelInit, now time.Time) {
	d := &i.delivery
	if since := now.Sub(m.plan.restart); !d.givenUp.IsZero() && since >= 0 && since < monthStep {
		d.givenUp, d.acknowledged, d.next = time.Time{}, false, now
	}
	if !d.isPending() || now.Before(d.next) {
		return
	}
	switch o := m.plan.outageAt(now); {
	case o != nil && o.what == "broken":
		d.next = now.Add(time.Minute)
	case m.plan.isDeaf(now):
		d.attempts++
		if d.next = now.Add(backoff.Delay(time.Minute, time.Hour, d.attempts)); d.next.Sub(d.begun) > monthRetryFor {
			d.givenUp = now
		}
	default:
		i.delivered, *d = append(i.delivered, d.status), modelDelivery{}
	}
}
