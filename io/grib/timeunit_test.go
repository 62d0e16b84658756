package grib

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"
)

// wantUnits is what the WMO manual states of each unit of time, as text: a duration,
// or "N months". Codes that are absent are reserved or local.
var wantUnits = map[int]map[int]string{
	1: {0: "1m", 1: "1h", 2: "24h", 3: "1 months", 4: "12 months", 5: "120 months", 6: "360 months", 7: "1200 months",
		10: "3h", 11: "6h", 12: "12h", 13: "15m", 14: "30m", 254: "1s"},
	2: {0: "1m", 1: "1h", 2: "24h", 3: "1 months", 4: "12 months", 5: "120 months", 6: "360 months", 7: "1200 months",
		10: "3h", 11: "6h", 12: "12h", 13: "1s"},
}

// after returns n units after a time, by wantUnits.
func after(t *testing.T, from time.Time, n, edition, code int) (time.Time, bool) {
	text, ok := wantUnits[edition][code]
	if !ok {
		return from, n == 0
	}
	if m, found := strings.CutSuffix(text, " months"); found {
		var months int
		if _, err := fmt.Sscan(m, &months); err != nil {
			t.Fatal(err)
		}
		return from.AddDate(0, months*n, 0), true
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return from.Add(time.Duration(n) * d), true
}

// section1 returns section 1 of edition 1 with a time.
func section1(init time.Time, unit, p1, p2, indicator byte) Octets {
	o := make(Octets, 28)
	o[12], o[13], o[14], o[15], o[16] = byte(init.Year()%100), byte(init.Month()), byte(init.Day()), byte(init.Hour()), byte(init.Minute())
	o[17], o[18], o[19], o[20], o[24] = unit, p1, p2, indicator, byte(init.Year()/100+1)
	return o
}

// section4 returns section 4 of edition 2 with template 4.8: a start and a length,
// each in its unit, and the end.
func section4(startUnit byte, start uint32, lengthUnit byte, length uint32, end time.Time) Octets {
	o := make(Octets, 58)
	o[8], o[17] = 8, startUnit
	binary.BigEndian.PutUint32(o[18:], start)
	binary.BigEndian.PutUint16(o[34:], uint16(end.Year()))
	o[36], o[37], o[38], o[39], o[40] = byte(end.Month()), byte(end.Day()), byte(end.Hour()), byte(end.Minute()), byte(end.Second())
	o[41], o[47], o[48] = 1, 2, lengthUnit
	binary.BigEndian.PutUint32(o[49:], length)
	return o
}

// TestTimeUnits reads steps and intervals in all 256 units of both editions. A unit
// that its edition does not define is refused by its number.
func TestTimeUnits(t *testing.T) {
	init := time.Date(2024, 3, 1, 6, 0, 0, 0, time.UTC)
	for unit := range 256 {
		for _, p := range [][2]int{{0, 0}, {0, 1}, {1, 2}} {
			begin, _ := after(t, init, p[0], 1, unit)
			end, ok := after(t, init, p[1], 1, unit)
			check := func(edition int, f *Field, end time.Time, interval time.Duration) {
				t.Helper()
				fits := end.Sub(init) < 290*365*24*time.Hour
				switch {
				case ok && fits && (!f.Time.Known || f.Time.Reason != "" || f.Time.Lead != end.Sub(init) || f.Time.Interval != interval):
					t.Errorf("edition %d unit %d %v: got %+v, want lead %v interval %v", edition, unit, p, f.Time, end.Sub(init), interval)
				case !ok && !strings.Contains(f.Time.Reason, fmt.Sprintf("unit %d,", unit)):
					t.Errorf("edition %d unit %d %v is not refused by its number: %+v", edition, unit, p, f.Time)
				}
			}
			instant, mean := &Field{}, &Field{}
			if fault := instant.time1(section1(init, byte(unit), byte(p[1]), 0, 0)); fault != nil {
				t.Fatal(fault)
			}
			check(1, instant, end, 0)
			if fault := mean.time1(section1(init, byte(unit), byte(p[0]), byte(p[1]), 3)); fault != nil {
				t.Fatal(fault)
			}
			check(1, mean, end, end.Sub(begin))

			begin, _ = after(t, init, p[0], 2, unit)
			end, ok = after(t, begin, p[1]-p[0], 2, unit)
			f := &Field{}
			f.time2(section4(byte(unit), uint32(p[0]), byte(unit), uint32(p[1]-p[0]), end), productTemplates[8], Time{Known: true, Init: init})
			check(2, f, end, end.Sub(begin))
			if ok && f.Time.EndDiffers {
				t.Errorf("unit %d: the end agrees with the length", unit)
			}
		}
	}
}

// TestCalendarMonths: one month after the last of January does not exist.
func TestCalendarMonths(t *testing.T) {
	if _, reason := addSpan(time.Date(2024, 1, 31, 0, 0, 0, 0, time.UTC), 1, 2, 3); !strings.Contains(reason, "has no day 31") {
		t.Errorf("reason %q", reason)
	}
	got, reason := addSpan(time.Date(2023, 12, 1, 0, 0, 0, 0, time.UTC), 3, 1, 3)
	if want := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC); reason != "" || !got.Equal(want) {
		t.Errorf("got %v %q, want %v", got, reason, want)
	}
}

// TestIntervalEnds: units of start and length differ; a negative length ends at the
// forecast time; an end that contradicts the length is recorded.
func TestIntervalEnds(t *testing.T) {
	init := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name           string
		section        Octets
		lead, interval time.Duration
		differs        bool
		reason         string
	}{
		{"hours and minutes", section4(1, 1, 0, 30, init.Add(90*time.Minute)), 90 * time.Minute, 30 * time.Minute, false, ""},
		{"hours and seconds", section4(1, 1, 13, 90, init.Add(time.Hour+90*time.Second)), time.Hour + 90*time.Second, 90 * time.Second, false, ""},
		{"days and months", section4(2, 31, 3, 1, init.AddDate(0, 2, 0)), 61 * 24 * time.Hour, 30 * 24 * time.Hour, false, ""},
		{"negative length", section4(1, 0, 1, 0x80000018, init), 0, 24 * time.Hour, false, ""},
		{"missing length", section4(1, 12, 255, 0xffffffff, init.Add(24*time.Hour)), 24 * time.Hour, 12 * time.Hour, false, ""},
		{"other end", section4(1, 0, 1, 6, init.Add(5*time.Hour)), 6 * time.Hour, 6 * time.Hour, true, ""},
		{"undefined unit of the length", section4(1, 1, 14, 2, init.Add(time.Hour)), 0, 0, false, "unit 14,"},
		{"negative length before another end", section4(1, 6, 1, 0x80000018, init), 0, 0, false, "ends before it begins"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &Field{}
			f.time2(c.section, productTemplates[8], Time{Known: true, Init: init})
			if !strings.Contains(f.Time.Reason, c.reason) || (c.reason == "") != (f.Time.Reason == "") || f.Time.Lead != c.lead || f.Time.Interval != c.interval || f.Time.EndDiffers != c.differs {
				t.Errorf("got %+v", f.Time)
			}
		})
	}
}
