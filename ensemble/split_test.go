package ensemble

import (
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

func weekly(from string, n int) []Init {
	t, _ := time.Parse(time.DateOnly, from)
	out := make([]Init, n)
	for i := range out {
		out[i] = InitAt(t.AddDate(0, 0, 7*i))
	}
	return out
}

func day(s string) time.Time { t, _ := time.Parse(time.DateOnly, s); return t }

func TestSplitByRealDates(t *testing.T) {
	s, err := NewSplit(weekly("2000-01-07", 100), Period{day("2000-01-01"), day("2000-12-31")},
		Period{day("2001-01-01"), day("2001-03-31")}, Period{day("2001-04-01"), day("2002-12-31")})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Train) != 52 || len(s.Validation) != 13 || len(s.Test) != 35 {
		t.Errorf("split %d/%d/%d, want 52/13/35", len(s.Train), len(s.Validation), len(s.Test))
	}
	if _, err := NewSplit(weekly("2000-01-07", 3), Period{day("2000-01-01"), day("2000-12-31")}, Period{day("2000-01-10"), day("2000-01-20")}, Period{}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("overlapping periods: %v", err)
	}
	if _, err := NewSplit(weekly("2000-01-07", 3), Period{day("1990-01-01"), day("1990-12-31")}, Period{}, Period{}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("empty training period: %v", err)
	}
}

// Two inits in different parts with equal valid times of targets are an error, although the inits
// differ; shared inputs are only a warning.
func TestLeaks(t *testing.T) {
	leads := []Lead{0, Lead(24 * time.Hour), Lead(48 * time.Hour)}
	a := InitAt(day("2000-01-01"))
	same := Split{Train: []Init{a}, Test: []Init{a}}
	if _, err := same.CheckLeaks(leads, leads[2:3]); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "share the target valid time 2000-01-03") {
		t.Errorf("shared target: %v", err)
	}
	shifted := Split{Train: []Init{a}, Test: []Init{InitAt(day("2000-01-02"))}}
	warn, err := shifted.CheckLeaks(leads, leads[2:3])
	if err != nil || len(warn) != 1 {
		t.Errorf("shared inputs: warnings %q, error %v; want one warning", warn, err)
	}
	apart := Split{Train: []Init{a}, Test: []Init{InitAt(day("2000-01-08"))}}
	if warn, err := apart.CheckLeaks(leads, leads[2:3]); err != nil || len(warn) != 0 {
		t.Errorf("clean split: %q %v", warn, err)
	}
	if err := apart.CheckFitted("normaliser", []Valid{ValidAt(day("2000-01-10"))}, leads[2:3]); exit.CodeOf(err) != exit.Usage {
		t.Errorf("statistic fitted on a test target: %v", err)
	}
	if err := apart.CheckFitted("normaliser", []Valid{ValidAt(day("2000-01-03"))}, leads[2:3]); err != nil {
		t.Error(err)
	}
}

// TestPeriodIncludesBothEnds: the first and the last moment belong to a period, those beside them do not.
func TestPeriodIncludesBothEnds(t *testing.T) {
	p := Period{day("2000-01-01"), day("2000-12-31")}
	for _, c := range []struct {
		at   time.Time
		want bool
	}{{p.From, true}, {p.From.Add(-time.Second), false}, {p.To, true}, {p.To.Add(time.Second), false}} {
		if p.Contains(c.at) != c.want {
			t.Errorf("%v: %v, want %v", c.at, !c.want, c.want)
		}
	}
}
