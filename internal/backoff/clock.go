package backoff

import "time"

// Clock measures pauses. The zero value is the clock of the machine with its monotonic reading: pauses do not follow changes
// of the machine's time.
type Clock struct {
	Time  func() time.Time                     // nil: time.Now
	Timer func(time.Duration) <-chan time.Time // nil: time.After
}

// Now returns the current time.
func (c Clock) Now() time.Time {
	if c.Time != nil {
		return c.Time()
	}
	return time.Now()
}

// After returns a channel that receives the time after a pause.
func (c Clock) After(d time.Duration) <-chan time.Time {
	if c.Timer != nil {
		return c.Timer(d)
	}
	return time.After(d)
}
