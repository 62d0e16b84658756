package config

import (
	"errors"
	"testing"
	"time"
)

// A deadline is the first after the initialisation, whatever the time at which the program starts.
func TestDeadlines(t *testing.T) {
	at := func(text string) time.Time {
		d, err := time.Parse("2006-01-02T15:04Z", text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	begin := at("2026-03-05T19:30Z")
	for _, c := range []struct{ text, init, want string }{
		{"init+6h40m", "2026-03-05T00:00Z", "2026-03-05T06:40Z"},
		{"init+30h", "2026-03-05T12:00Z", "2026-03-06T18:00Z"},
		{"06:40Z", "2026-03-05T00:00Z", "2026-03-05T06:40Z"},
		{"06:40Z", "2026-03-05T06:00Z", "2026-03-05T06:40Z"},
		{"06:40Z", "2026-03-05T06:40Z", "2026-03-06T06:40Z"},
		{"06:40Z", "2026-03-05T12:00Z", "2026-03-06T06:40Z"},
		{"01:10Z", "2026-12-31T18:00Z", "2027-01-01T01:10Z"},
		{"+40m", "2026-03-05T00:00Z", "2026-03-05T20:10Z"},
		{"2026-03-05T07:00Z", "2026-03-05T00:00Z", "2026-03-05T07:00Z"},
	} {
		d := Deadline(c.text)
		if got, err := d.Time(at(c.init), begin); err != nil || !got.Equal(at(c.want)) {
			t.Errorf("%s of %s is %s (%v), want %s", c.text, c.init, got, err, c.want)
		}
		if _, err := d.Time(time.Time{}, begin); errors.Is(err, ErrNeedsInit) != d.NeedsInit() {
			t.Errorf("%s without an initialisation: %v", c.text, err)
		}
	}
	for _, text := range []string{"soon", "init", "init+", "init-1h", "+", "25:00Z", "2026-03-05", "06:40"} {
		if got, err := Deadline(text).Time(begin, begin); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}
