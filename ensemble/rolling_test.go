package ensemble

import (
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// The calendar of two years, one of them a leap year: the parts end before the forecasts of the next part begin.
func TestRollingCalendar(t *testing.T) {
	r := Rolling{First: day("2004-01-01"), Periods: 2, Test: 12, Validation: 3, Begin: day("2001-01-01"), Gap: 48 * time.Hour}
	all, err := r.Splits()
	if err != nil {
		t.Fatal(err)
	}
	second := func(s string) time.Time { return day(s).Add(-time.Second) }
	want := []Parts{
		{Period{day("2001-01-01"), second("2003-09-29")}, Period{day("2003-10-01"), second("2003-12-30")}, Period{day("2004-01-01"), second("2005-01-01")}},
		{Period{day("2001-01-01"), second("2004-09-29")}, Period{day("2004-10-01"), second("2004-12-30")}, Period{day("2005-01-01"), second("2006-01-01")}},
	}
	for k := range want {
		if all[k] != want[k] {
			t.Errorf("origin %d: %v, want %v", k, all[k], want[k])
		}
	}
	r.Train = 12
	if all, err = r.Splits(); err != nil || all[1].Train.From != day("2003-10-01") {
		t.Errorf("a window of a year: %v, %v", all, err)
	}
	r.Train = 120 // longer than the data
	if all, err = r.Splits(); err != nil || all[0].Train.From != r.Begin {
		t.Errorf("a window of ten years: %v, %v", all, err)
	}
}

// Whatever the interval of initialisations and the lead, the split of each origin has no leak, every date is
// tested once at most, and nothing that is fitted is valid at the origin or later.
func TestRollingHasNoLeak(t *testing.T) {
	for _, hours := range []int{6, 12, 24, 84, 168} {
		var inits []Init
		for at := day("2000-01-01"); at.Before(day("2003-01-01")); at = at.Add(time.Duration(hours) * time.Hour) {
			inits = append(inits, InitAt(at))
		}
		for _, lead := range []Lead{0, Lead(6 * time.Hour), Lead(48 * time.Hour), Lead(240 * time.Hour)} {
			for _, months := range []int{1, 3, 12} {
				r := Rolling{First: day("2001-06-15"), Periods: 18 / months, Test: months, Validation: 2, Begin: inits[0].Time, Gap: time.Duration(lead)}
				all, err := r.Splits()
				if err != nil {
					t.Fatal(err)
				}
				tested := map[Init]bool{}
				for k, p := range all {
					s, err := NewSplit(inits, p.Train, p.Validation, p.Test)
					if err != nil {
						t.Fatal(err)
					}
					if warn, err := s.CheckLeaks([]Lead{0, lead}, []Lead{lead}); err != nil || len(warn) > 0 {
						t.Errorf("every %d h, lead %s, origin %d: %q, %v", hours, lead, k, warn, err)
					}
					if len(s.Train)*len(s.Validation)*len(s.Test) == 0 {
						t.Errorf("every %d h, lead %s, origin %d: an empty part", hours, lead, k)
					}
					for _, in := range append(s.Train, s.Validation...) {
						if v := in.Valid(lead); !v.Before(r.Origins()[k]) {
							t.Fatalf("every %d h, lead %s, origin %d: %s is valid at %s", hours, lead, k, in, v)
						}
					}
					for _, in := range s.Test {
						if tested[in] {
							t.Fatalf("%s is tested twice", in)
						}
						tested[in] = true
					}
				}
				if want := r.First.AddDate(0, r.Periods*months, 0); !tested[InitAt(r.First)] && hours <= 24 || tested[InitAt(want)] {
					t.Errorf("every %d h: the first origin or the end of the last period", hours)
				}
			}
		}
	}
}

func TestRollingRefuses(t *testing.T) {
	good := Rolling{First: day("2004-01-01"), Periods: 1, Test: 12, Validation: 3, Begin: day("2003-01-01"), Gap: 48 * time.Hour}
	for name, c := range map[string]struct {
		change func(*Rolling)
		want   string
	}{
		"no training":   {func(r *Rolling) { r.Begin = day("2003-10-01") }, "no time for training before the origin 2004-01-01"},
		"no validation": {func(r *Rolling) { r.Validation = 0 }, "no time for validation"},
		"a long lead":   {func(r *Rolling) { r.Gap = 100 * 24 * time.Hour }, "no time for validation"},
	} {
		r := good
		c.change(&r)
		if _, err := r.Splits(); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
