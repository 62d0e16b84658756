package config

import (
	"errors"
	"strings"
	"time"
)

// Deadline is the end of waiting for the input of an initialisation, as unparsed text.
type Deadline string

var errDeadline = errors.New("a time such as init+6h40m, 06:40Z, 2026-01-01T06:40Z or +40m")

// ErrNeedsInit is returned for a deadline that is relative to an initialisation if none is given.
var ErrNeedsInit = errors.New("the deadline counts from an initialisation")

// timeOfDay is the layout of a deadline that is a time of day.
const timeOfDay = "15:04Z"

// Time returns the point in time: init+6h40m after the initialisation; 06:40Z, the first such time after it;
// +40m after begin; or a date with a time, as of ParseDate.
//
// Errors: ErrNeedsInit if init is zero and needed; a date without a time of day; those of ParseDate and
// ParseDuration.
func (d Deadline) Time(init, begin time.Time) (time.Time, error) {
	if !d.NeedsInit() {
		if after, ok := strings.CutPrefix(string(d), "+"); ok {
			t, err := ParseDuration(after)
			return begin.Add(t), err
		}
		t, err := ParseDate(string(d))
		if err != nil || t.WholeDay {
			err = errDeadline
		}
		return t.Time, err
	}
	if init.IsZero() {
		return time.Time{}, ErrNeedsInit
	}
	if after, ok := strings.CutPrefix(string(d), "init+"); ok {
		t, err := ParseDuration(after)
		return init.Add(t), err
	}
	clock, err := time.Parse(timeOfDay, string(d))
	at := init.UTC().Truncate(24 * time.Hour).Add(clock.Sub(clock.Truncate(24 * time.Hour)))
	if !at.After(init) {
		at = at.Add(24 * time.Hour)
	}
	return at, err
}

// NeedsInit reports whether the deadline counts from an initialisation.
func (d Deadline) NeedsInit() bool {
	_, err := time.Parse(timeOfDay, string(d))
	return err == nil || strings.HasPrefix(string(d), "init+")
}
