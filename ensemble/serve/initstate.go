package serve

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
)

// InitStatus is the status of an initialisation that is in the input or in the schedule.
type InitStatus struct {
	Name        string     `json:"name"`
	State       string     `json:"state"`                  // one of the states below
	Since       *time.Time `json:"since,omitempty"`        // arrival of its first file; nil: none
	ExpectedBy  *time.Time `json:"expected_by,omitempty"`  // by the schedule; nil: not in it
	Deadline    *time.Time `json:"deadline,omitempty"`     // end of waiting for its input
	Why         string     `json:"why,omitempty"`          // reason for waiting, lateness, degradation or failure; not in the schedule
	Attempts    int        `json:"attempts,omitempty"`     // failed ones
	NextAttempt *time.Time `json:"next_attempt,omitempty"` // time of the next attempt after a failure
}

// States of an initialisation.
const (
	expected = "expected" // in the schedule, without files, not late
	waiting  = "waiting"  // some files have arrived; not late
	late     = "late"     // without products after the time at which the schedule expects them
	degraded = "degraded" // issued from less than the expected input, or by the fallback
	issued   = "issued"
	failed   = "failed"
	kept     = "kept" // products of another model or version exist and stay
)

// initStates lists all states.
var initStates = []string{expected, waiting, late, degraded, issued, failed, kept}

// statusHistory is the age up to which missing initialisations of the schedule are listed, without serve.max_age.
const statusHistory = 48 * time.Hour

// statusOf returns the status of an initialisation in the input, from its last attempt (nil: none).
func (u *issuer) statusOf(c predict.Candidate) InitStatus {
	since := c.Since.UTC()
	s := InitStatus{Name: product.InitName(c.Init), State: waiting, Since: &since, Why: c.Missing, Deadline: inUTC(c.Deadline)}
	t := u.attempts[c.Init]
	switch {
	case t == nil || t.inputState != c.State:
		if c.Due {
			s.Why = "its turn is next"
		}
	case t.err != nil:
		s.State, s.Why, s.Attempts, s.NextAttempt = failed, exit.OneLine(t.err), t.count, inUTC(t.next)
	case t.kept:
		s.State, s.Why = kept, "products of another model or version exist and stay"
	case t.done:
		s.State, s.Why = u.productState(s.Name)
	}
	return s
}

// productState returns the state of an initialisation whose products were issued, and why it is degraded.
func (s *state) productState(name string) (state, why string) {
	c, err := s.tree.find(name)
	if err != nil || c.manifest.Status != manifest.Degraded {
		return issued, ""
	}
	return degraded, strings.Join(c.manifest.Warnings, "; ")
}

// inUTC returns a time in UTC; nil for the zero time.
func inUTC(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// statuses returns the status of all initialisations of the input and of the schedule, the newest first. Whether one is
// late follows from the clock, not from the last scan.
func (s *state) statuses() []InitStatus {
	s.mu.Lock()
	list, schedule, age, begin := slices.Clone(s.inits), s.options.Service.Schedule, cmp.Or(s.options.Service.MaxAge, statusHistory), s.begun
	s.mu.Unlock()
	now := s.now()
	known := map[string]bool{}
	for _, i := range list {
		known[i.Name] = true
		begin = earlier(begin, initOf(i.Name))
	}
	if names, err := s.tree.names(); err == nil && len(names) > 0 {
		begin = earlier(begin, initOf(names[len(names)-1]))
	}
	if oldest := now.Add(-age); begin.Before(oldest) {
		begin = oldest
	}
	for _, t := range schedule.Inits(begin, now) {
		if name := product.InitName(ensemble.InitAt(t)); !known[name] {
			list = append(list, s.statusWithoutInput(name))
		}
	}
	for i := range list {
		x := &list[i]
		by, ok := schedule.ExpectedBy(initOf(x.Name))
		if !ok {
			x.Why = joinReasons(x.Why, schedule.Contradicts(initOf(x.Name)))
			continue
		}
		x.ExpectedBy = &by
		if overdue := now.Sub(by); overdue > 0 && (x.State == expected || x.State == waiting) {
			x.State, x.Why = late, humanise.Duration(overdue)+" late: "+cmp.Or(x.Why, "its input is not complete")
		}
	}
	slices.SortStableFunc(list, func(a, b InitStatus) int { return strings.Compare(nameToMinute(b.Name), nameToMinute(a.Name)) })
	return list
}

// joinReasons joins two reasons; each may be empty.
func joinReasons(a, b string) string {
	return strings.Join(slices.DeleteFunc([]string{a, b}, func(s string) bool { return s == "" }), "; ")
}

// statusWithoutInput returns the status of a scheduled initialisation that is not in the input: its products exist, or it
// is expected.
func (s *state) statusWithoutInput(name string) InitStatus {
	if _, err := s.tree.find(name); err != nil {
		return InitStatus{Name: name, State: expected, Why: "no file of it has arrived"}
	}
	state, why := s.productState(name)
	return InitStatus{Name: name, State: state, Why: why}
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// lateness is the longest time since the products of a late initialisation were expected; 0 without any.
func lateness(list []InitStatus, now time.Time) (most time.Duration) {
	for _, i := range list {
		if i.State == late {
			most = max(most, now.Sub(*i.ExpectedBy))
		}
	}
	return most
}
