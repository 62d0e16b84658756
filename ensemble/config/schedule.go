package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schedule is the section serve.schedule: the initialisations that are due every day, and when their products are
// expected.
type Schedule struct {
	Cycles   []CycleHour `key:"cycles"`   // hours of initialisation in UTC; nil: no schedule
	Expected Deadline    `key:"expected"` // counts from the initialisation
}

// CycleHour is an hour of initialisation in UTC, 0 to 23.
type CycleHour int

var cycleHour = regexp.MustCompile(`^([01]?[0-9]|2[0-3])$`)

// parseCycleHour parses an hour such as 00, 6 or 18.
func parseCycleHour(text string) (CycleHour, error) {
	if !cycleHour.MatchString(text) {
		return 0, fmt.Errorf("not an hour of the day, 00 to 23")
	}
	n, err := strconv.Atoi(text)
	return CycleHour(n), err
}

// ExpectedBy returns the time at which the products of an initialisation are expected; ok is false for one that is not
// in the schedule.
func (s Schedule) ExpectedBy(init time.Time) (at time.Time, ok bool) {
	init = init.UTC()
	if !slices.Contains(s.Cycles, CycleHour(init.Hour())) || !init.Equal(init.Truncate(time.Hour)) {
		return at, false
	}
	at, err := s.Expected.Time(init, init)
	return at, err == nil
}

// Contradicts states why an initialisation is none of the schedule; "" if it is one, or without a schedule.
func (s Schedule) Contradicts(init time.Time) string {
	if _, ok := s.ExpectedBy(init); ok || s.Cycles == nil {
		return ""
	}
	hours := make([]string, len(s.Cycles))
	for i, h := range s.Cycles {
		hours[i] = fmt.Sprintf("%02d", int(h))
	}
	return fmt.Sprintf("%s UTC is not in serve.schedule.cycles [%s]", init.UTC().Format("15:04"), strings.Join(hours, ", "))
}

// Inits lists the initialisations of the schedule from begin to end, both included, the newest first.
func (s Schedule) Inits(begin, end time.Time) (out []time.Time) {
	if s.Cycles == nil {
		return nil
	}
	for t := end.UTC().Truncate(time.Hour); !t.Before(begin); t = t.Add(-time.Hour) {
		if slices.Contains(s.Cycles, CycleHour(t.Hour())) {
			out = append(out, t)
		}
	}
	return out
}

// checkSchedule checks the section serve.schedule.
//
// Errors: exit 64.
func (c *PredictConfig) checkSchedule() error {
	switch s := c.Serve.Schedule; {
	case (s.Cycles == nil) != (s.Expected == ""):
		return c.Fault("serve.schedule", "serve.schedule has only one of cycles and expected", "both make a schedule", "add the other: schedule: {cycles: [00, 12], expected: init+6h40m}")
	case s.Cycles != nil && !s.Expected.NeedsInit():
		return c.Fault("serve.schedule.expected", fmt.Sprintf("serve.schedule.expected is %s", s.Expected), "it must count from the initialisation", "write it as init+6h40m or 06:40Z")
	}
	return nil
}
