package desk

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// at is a time of the first days of 2026.
func at(day, hour int) time.Time { return time.Date(2026, 1, day, hour, 0, 0, 0, time.UTC) }

// TestJudge: the most urgent state is the headline, with what to do; those that an operator has acknowledged do not count.
func TestJudge(t *testing.T) {
	newest := &Newest{Name: "2026010112", Time: at(1, 12)}
	initOf := func(hour int, state string) Init {
		return Init{Name: at(1, hour).Format("2006010215"), Time: at(1, hour), State: state, Why: "reason " + state, ExpectedBy: at(1, hour+7)}
	}
	with := func(s Situation, change func(*Situation)) Situation {
		s.Inits = slices.Clone(s.Inits)
		change(&s)
		return s
	}
	fresh := Situation{Now: at(1, 20), Newest: newest, Inits: []Init{initOf(18, "expected"), initOf(12, "issued")}}
	acknowledged := func(state string) Situation {
		return with(fresh, func(s *Situation) {
			i := initOf(6, state)
			i.Acknowledged = true
			s.Inits = append(s.Inits, i)
		})
	}
	changed := initOf(12, "kept")
	changed.Changed = true
	for name, c := range map[string]struct {
		situation Situation
		state     State
		words     []string // of the headline
		notices   string   // their states
	}{
		"fresh":          {fresh, Fresh, []string{"8h old", "Nothing to do", "2026-01-01 18:00Z are expected by 2026-01-02 01:00Z"}, ""},
		"none":           {Situation{Now: at(1, 20), Missing: "fc is empty"}, None, []string{"Nothing has been issued", "fc is empty"}, ""},
		"stale":          {with(fresh, func(s *Situation) { s.Now = at(2, 13) }), Stale, []string{"25h old", "limit is 24h"}, ""},
		"stale by a key": {with(fresh, func(s *Situation) { s.MaxAge = 7 * time.Hour }), Stale, []string{"limit is 7h"}, ""},
		"failed":         {with(fresh, func(s *Situation) { s.Inits = append(s.Inits, initOf(6, "late"), initOf(0, "failed")) }), Failed, []string{"1 initialisation: 2026-01-01 00:00Z", "Remove the cause"}, "failed late"},
		"failed, none":   {Situation{Now: at(1, 20), Inits: []Init{initOf(0, "failed")}}, Failed, []string{"There are no products"}, "failed"},
		"late":           {with(fresh, func(s *Situation) { s.Inits = append(s.Inits, initOf(6, "late")) }), Late, []string{"2026-01-01 06:00Z", "Ask for the files"}, "late"},
		"changed":        {with(fresh, func(s *Situation) { s.Inits = []Init{changed} }), Changed, []string{"Accept"}, "changed"},
		"degraded":       {with(fresh, func(s *Situation) { s.Newest = &Newest{newest.Name, newest.Time, true}; s.Inits[1].State = "degraded" }), Degraded, []string{"less than the expected input"}, "degraded"},
		"stalled":        {with(fresh, func(s *Situation) { s.Stalled = true }), Failed, []string{"restart"}, ""},
		"known failure":  {acknowledged("failed"), Fresh, nil, ""},
		"known lateness": {acknowledged("late"), Fresh, nil, ""},
		"known, degraded": {with(fresh, func(s *Situation) {
			s.Newest = &Newest{newest.Name, newest.Time, true}
			i := initOf(12, "degraded")
			i.Acknowledged = true
			s.Inits = []Init{i}
		}), Fresh, nil, ""},
	} {
		h, notices := Judge(c.situation)
		var states []string
		for _, n := range notices {
			states = append(states, string(n.State))
			if n.Why == "" || n.Do == "" || len(n.Commands) == 0 {
				t.Errorf("%s: a notice without reason, action or command: %+v", name, n)
			}
		}
		if h.State != c.state || h.Word != words[c.state] || h.Do == "" || strings.Join(states, " ") != c.notices {
			t.Errorf("%s: %+v, notices %q", name, h, states)
		}
		for _, w := range c.words {
			if !strings.Contains(h.Text+" "+h.Do, w) {
				t.Errorf("%s: no %q in %q %q", name, w, h.Text, h.Do)
			}
		}
	}
}

// TestSignsDiffer: each state has a word and a shape of its own, so that it can be read without colour.
func TestSignsDiffer(t *testing.T) {
	seen := map[string]State{}
	for state, word := range words {
		shape := string(signs[state])
		if shape == "" || word == "" {
			t.Errorf("%s has no shape or word", state)
		}
		if other, ok := seen[shape]; ok {
			t.Errorf("%s and %s have the same shape", state, other)
		}
		seen[shape] = state
	}
}
