package cf

import (
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	for _, c := range []struct {
		unit, calendar string
		v              float64
		want           string // RFC 3339, "" is an error
	}{
		{"seconds since 1970-01-01 00:00:00", "gregorian", 1496502000, "2017-06-03T15:00:00Z"},
		{"hours since 1900-01-01 00:00:00.0", "gregorian", 1062108, "2021-03-01T12:00:00Z"},
		{"days since 2010-01-01 12:00:00", "standard", 44.5, "2010-02-15T00:00:00Z"},
		{"days since 1-1-1 00:00:00", "standard", 733407, "2008-12-30T00:00:00Z"},
		{"days since 1500-02-28", "standard", 180000, "1993-01-03T00:00:00Z"},
		{"days since 1-1-1 00:00:00", "proleptic_gregorian", 733407, "2009-01-01T00:00:00Z"},
		{"minutes since 2000-01-01T00:00Z", "", 1, "2000-01-01T00:01:00Z"},
		{"hours since 2000-01-01 00:00:00 +01:00", "", 0, "1999-12-31T23:00:00Z"},
		{"hours since 2000-01-01 06:00:00 -6", "", 0, "2000-01-01T12:00:00Z"},
		{"days since 2000-01-01", "", 1.0 / 86400, "2000-01-01T00:00:01Z"},
		{"days since 2000-01-01", "360_day", 1, ""},
		{"days since 2000-01-01", "noleap", 1, ""},
		{"days since 2000-00-01", "standard", 1, ""},
		{"months since 2000-01-01", "standard", 1, ""},
		{"furlongs since 2000-01-01", "standard", 1, ""},
		{"days since yesterday", "standard", 1, ""},
	} {
		a, err := parseTimeUnit(c.unit, c.calendar)
		if err != nil {
			if c.want != "" {
				t.Errorf("%s %s: %v", c.unit, c.calendar, err)
			}
			continue
		}
		got, err := a.at(c.v)
		if err != nil || got.Format(time.RFC3339) != c.want {
			t.Errorf("%v %s %s: got %v %v, want %q", c.v, c.unit, c.calendar, got.Format(time.RFC3339Nano), err, c.want)
		}
	}
	if d, err := spanAt(708, time.Hour, false); err != nil || d != 708*time.Hour {
		t.Errorf("708 hours: %v %v", d, err)
	}
}

func FuzzParseTimeUnit(f *testing.F) {
	f.Add("hours since 1900-01-01 00:00:00.0", "gregorian", 3.5)
	f.Fuzz(func(t *testing.T, unit, calendar string, v float64) {
		if a, err := parseTimeUnit(unit, calendar); err == nil {
			_, _ = a.at(v)
		}
	})
}
