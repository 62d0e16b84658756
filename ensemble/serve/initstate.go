package serve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/hook"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
)

// InitStatus is the status of an initialisation that is in the input or in the schedule.
type InitStatus struct {
	Name         string     `json:"name"`
	State        string     `json:"state"`                   // one of the states below
	Since        *time.Time `json:"since,omitempty"`         // arrival of its first file; nil: none
	ExpectedBy   *time.Time `json:"expected_by,omitempty"`   // by the schedule; nil: not in it
	Deadline     *time.Time `json:"deadline,omitempty"`      // end of waiting for its input
	Why          string     `json:"why,omitempty"`           // reason for waiting, lateness, degradation, failure or keeping; not in the schedule
	Attempts     int        `json:"attempts,omitempty"`      // failed ones
	NextAttempt  *time.Time `json:"next_attempt,omitempty"`  // time of the next attempt after a failure
	InputChanged bool       `json:"input_changed,omitempty"` // kept: its input changed after it was issued, and no operator decided
	CanAccept    bool       `json:"can_accept,omitempty"`    // products of its new input or model can replace those that exist
	Acknowledged *time.Time `json:"acknowledged,omitempty"`  // when an operator acknowledged this state
	Undelivered  string     `json:"undelivered,omitempty"`   // identifier of products whose delivery was given up, which no operator acknowledged
	Revision     string     `json:"revision,omitempty"`      // of what operators decide about: another input, model or failure is another revision
}

// States of an initialisation.
const (
	expected = "expected" // in the schedule, without files, not late
	waiting  = "waiting"  // some files have arrived; not late
	late     = "late"     // without products after the time at which the schedule expects them
	degraded = "degraded" // issued from less than the expected input, or by the fallback
	issued   = "issued"
	failed   = "failed"
	kept     = "kept"    // products of other input, another model or version exist and stay
	skipped  = "skipped" // older than serve.max_age, or pruned; without products
)

// initStates lists all states.
var initStates = []string{expected, waiting, late, degraded, issued, failed, kept, skipped}

// acknowledgeable lists the states that operators acknowledge.
var acknowledgeable = []string{late, degraded, failed}

// statusHistory is the age up to which missing initialisations of the schedule are listed, without serve.max_age.
const statusHistory = 48 * time.Hour

// statusOf returns the status of an initialisation in the input, from its last attempt (nil: none).
func (u *issuer) statusOf(c predict.Candidate) InitStatus {
	since := c.Since.UTC()
	s := InitStatus{Name: product.InitName(c.Init), State: waiting, Since: &since, Why: c.Missing, Deadline: inUTC(c.Deadline)}
	t := u.attempts[c.Init]
	switch {
	case u.isPruned(s.Name):
		return u.prunedStatus(s)
	case t == nil || t.inputState != c.State:
		u.notAttempted(c, &s)
	case t.other != nil:
		u.keptStatus(t, &s)
	case t.err != nil && isInputFault(t.err) && u.isPublished(s.Name):
		u.keptStatus(t, &s)
	case t.err != nil:
		s.State, s.Why, s.Attempts, s.NextAttempt, s.Revision = failed, exit.OneLine(t.err), t.count, inUTC(t.next), t.revision()
	case t.done:
		s.State, s.Why, s.Revision = u.productState(s.Name)
	}
	return s
}

// notAttempted sets the status of an initialisation whose present input was not attempted yet. Products of earlier input
// remain.
func (u *issuer) notAttempted(c predict.Candidate, s *InitStatus) {
	switch {
	case u.isPublished(s.Name):
		why := ""
		if s.State, why, s.Revision = u.productState(s.Name); s.Why != "" {
			s.Why = "more input has come: " + s.Why
		}
		s.Why = joinReasons(s.Why, why)
	case c.Due:
		s.Why = "its turn is next"
	}
}

// inputChanged begins the reason for which products are kept whose input changed.
const inputChanged = "kept, input changed: "

// keptStatus sets the status of an initialisation whose products are of other sources than its present input and model,
// and stay. Dismissed input leaves the state of the products.
func (s *state) keptStatus(t *attempt, i *InitStatus) {
	i.State, i.Revision = kept, t.revision()
	switch o := t.other; {
	case o == nil:
		i.Why, i.InputChanged = inputChanged+"it cannot be used: "+exit.OneLine(t.err), true
	case o.Model:
		i.Why, i.CanAccept = "products of another model or version exist and stay", true
		if o.Inputs != "" {
			i.Why, i.InputChanged = i.Why+"; "+inputChanged+o.Inputs, true
		}
	default:
		i.Why, i.CanAccept, i.InputChanged = inputChanged+cmp.Or(o.Inputs, strings.Join(o.Differences, ", ")), true, true
	}
	if d := s.decision(i.Name, i.Revision); d.Action == Dismiss {
		var why string
		i.State, why, _ = s.productState(i.Name)
		i.Why, i.InputChanged = joinReasons(fmt.Sprintf("dismissed %s: %s", formatMinute(d.Time), i.Why), why), false
	}
}

// isPublished reports whether an initialisation has products.
func (s *state) isPublished(name string) bool {
	_, err := s.tree.find(name)
	return err == nil
}

// productState returns the state of an initialisation whose products were issued, why it is degraded, and the revision of
// a degraded one.
func (s *state) productState(name string) (state, why, revision string) {
	c, err := s.tree.find(name)
	if err != nil || c.manifest.Status != manifest.Degraded {
		return issued, "", ""
	}
	return degraded, strings.Join(c.manifest.Warnings, "; "), c.manifest.SourceID()
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
	list, schedule, age, begin := slices.Clone(s.found.inits), s.options.Service.Schedule, cmp.Or(s.options.Service.MaxAge, statusHistory), s.begun
	unscanned := s.unscannedReason()
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
	if h := s.hook.Status(); h != nil {
		list = s.withUndelivered(list, h.Open)
	}
	for i := range list {
		x := &list[i]
		if unscanned != "" && (x.State == expected || x.State == waiting) {
			x.Why = unscanned
		}
		if by, ok := schedule.ExpectedBy(initOf(x.Name)); ok {
			x.ExpectedBy = &by
			if overdue := now.Sub(by); overdue > 0 && (x.State == expected || x.State == waiting) {
				x.State, x.Why, x.Revision = late, humanise.Duration(overdue)+" late: "+cmp.Or(x.Why, "its input is not complete"), late
			}
		} else {
			x.Why = joinReasons(x.Why, schedule.Contradicts(initOf(x.Name)))
		}
		d := s.decision(x.Name, x.Revision)
		if d.Action == Acknowledge && slices.Contains(acknowledgeable, x.State) || d.Action == Dismiss && x.State == degraded {
			x.Acknowledged = &d.Time
		}
	}
	slices.SortStableFunc(list, func(a, b InitStatus) int { return strings.Compare(nameToMinute(b.Name), nameToMinute(a.Name)) })
	return list
}

// unscannedReason states why the last scan could read nothing of the input; "" if it could. The caller holds the lock.
func (s *state) unscannedReason() string {
	if !s.found.unscanned {
		return ""
	}
	return s.found.missingInput
}

// withUndelivered marks the initialisations whose delivery was given up, and adds those that are not in the list.
func (s *state) withUndelivered(list []InitStatus, open []hook.Delivery) []InitStatus {
	for _, d := range open {
		if d.State != hook.Abandoned {
			continue
		}
		at := slices.IndexFunc(list, func(i InitStatus) bool { return i.Name == d.Name })
		if at < 0 {
			at = len(list)
			list = append(list, s.statusWithoutInput(d.Name))
		}
		list[at].Undelivered = d.ID
	}
	return list
}

// joinReasons joins two reasons; each may be empty.
func joinReasons(a, b string) string {
	return strings.Join(slices.DeleteFunc([]string{a, b}, func(s string) bool { return s == "" }), "; ")
}

// statusWithoutInput returns the status of a scheduled initialisation that is not in the input: its products exist, or it
// is expected.
func (s *state) statusWithoutInput(name string) InitStatus {
	switch {
	case s.isPruned(name):
		return s.prunedStatus(InitStatus{Name: name})
	case !s.isPublished(name):
		return InitStatus{Name: name, State: expected, Why: "no file of it has arrived"}
	}
	i := InitStatus{Name: name}
	i.State, i.Why, i.Revision = s.productState(name)
	return i
}

// maxSkipped is the largest number of skipped initialisations that are listed.
const maxSkipped = 100

// skippedStatuses lists the newest initialisations of the input that serve.max_age skips and that have no products, and
// logs each once.
func (u *issuer) skippedStatuses() (list []InitStatus) {
	for _, init := range u.resident.Skipped() {
		name := product.InitName(init)
		if u.isPublished(name) {
			continue
		}
		why := "older than serve.max_age, " + humanise.Duration(u.o.Service.MaxAge)
		if list = append(list, InitStatus{Name: name, State: skipped, Why: why}); !u.reported.skipped[name] {
			u.reported.skipped[name] = true
			u.log.Warn("an initialisation is skipped", "init", name, "why", why, "fix", "raise serve.max_age to issue it")
		}
		if len(list) == maxSkipped {
			break
		}
	}
	return list
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// lateness is the longest time since the products of a late initialisation were expected that no operator has
// acknowledged; 0 without any.
func lateness(list []InitStatus, now time.Time) (most time.Duration) {
	for _, i := range list {
		if i.State == late && i.Acknowledged == nil {
			most = max(most, now.Sub(*i.ExpectedBy))
		}
	}
	return most
}
