package periods

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// The members of a network without distribution are compared, and its own forms are no references.
func TestPairs(t *testing.T) {
	of := func(system, init string, crps float64) score.DateScore {
		return score.DateScore{System: system, Score: "crps_plain", Variable: "t", Level: "850hPa", Lead: "48h", Init: init, Weight: 2, CRPS: score.Number(crps)}
	}
	const a, b = "2001-01-01T00:00:00Z", "2001-01-08T00:00:00Z"
	order, got, err := pairs([]score.DateScore{of(scoring.SystemMembers, a, 1), of("raw5", a, 2), of("raw5", b, 3), of("emos", a, 1.5)})
	if err != nil || len(order) != 2 || order[0].reference != "raw5" || order[0].system != scoring.SystemMembers || len(got[order[0]]) != 1 || got[order[0]][0].Reference != 2 {
		t.Errorf("%v, %v, %v", order, got, err)
	}
	order, _, err = pairs([]score.DateScore{of(scoring.SystemNetwork, a, 1), of(scoring.SystemDistribution, a, 1), of(scoring.SystemMembers, a, 1), of("raw5", a, 2)})
	if err != nil || len(order) != 1 || order[0].system != scoring.SystemNetwork {
		t.Errorf("%v, %v", order, err)
	}
	if _, _, err := pairs([]score.DateScore{of(scoring.SystemNetwork, "x", 1), of("raw5", "x", 2)}); err == nil {
		t.Error("an initialisation that is none")
	}
}

// byWeek are weekly scores of a network that improves on the members by 20 % in the middle, and by 6 percentage points
// more each year, with an annual cycle.
func byWeek(years int) (dates []score.DateScore) {
	first := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 52 * years {
		init := first.AddDate(0, 0, 7*i)
		t := init.Sub(first).Hours() / 24 / 365.2425
		reduction := 0.2 + 0.06*(t-float64(years)/2) + 0.1*math.Cos(2*math.Pi*t)
		d := score.DateScore{System: scoring.SystemNetwork, Score: "crps_gauss", Variable: "t", Level: "850hPa", Lead: "48h", Init: init.Format(time.RFC3339), Weight: 2, CRPS: score.Number(1 - reduction)}
		raw := d
		raw.System, raw.Score, raw.CRPS = "raw5", "crps_plain", 1
		dates = append(dates, d, raw)
	}
	return dates
}

// Periods are those of the calendar, in the order of time; the last row is that of all, and the trend is found.
func TestSplit(t *testing.T) {
	for by, want := range map[By][]string{
		Year:   {"2001-01-01 53", "2002-01-01 52", "2003-01-01 51", "all 156"},
		Season: {"2000-12-01 9", "2001-03-01 13", "2001-06-01 13", "2001-09-01 13", "2001-12-01 13", "2002-03-01 13"},
		Month:  {"2001-01-01 5", "2001-02-01 4"},
	} {
		groups, err := by.Split(byWeek(3))
		if err != nil {
			t.Fatal(err)
		}
		var k Skill
		if err := k.Add("", groups, nil); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range k.Periods {
			got = append(got, fmt.Sprintf("%s %d", p.Origin, p.N))
		}
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) || got[len(got)-1] != "all 156" {
			t.Errorf("%s: %q", by, got)
		}
		if by != Year {
			continue
		}
		if tr := k.Trends; len(tr) != 1 || math.Abs(float64(tr[0].PerYear)-0.06) > 1e-6 || !(tr[0].CILow > 0.05) {
			t.Errorf("trends %+v", tr)
		}
		if p := k.Periods; !(p[0].SkillScore < p[1].SkillScore && p[1].SkillScore < p[2].SkillScore && p[0].CILow < p[0].SkillScore && p[0].SkillScore < p[0].CIHigh) {
			t.Errorf("%+v", p)
		}
		var b strings.Builder
		if err := k.Sections("a note").WriteText(&b); err != nil || !strings.Contains(b.String(), "increases") || !strings.Contains(b.String(), "a note") || strings.Contains(b.String(), "variant") || strings.Contains(b.String(), "seeds") || len(k.Charts()) != 1 {
			t.Errorf("%v\n%s", err, b.String())
		}
	}
	if _, err := Year.Split([]score.DateScore{{Init: "x"}}); err == nil {
		t.Error("an initialisation that is none")
	}
	if _, err := ParseBy("decade"); err == nil {
		t.Error("a decade")
	}
	if got := Season.begin(time.Date(2004, 2, 29, 6, 0, 0, 0, time.UTC)); got != time.Date(2003, 12, 1, 0, 0, 0, 0, time.UTC) {
		t.Errorf("%v", got)
	}
}

// Summaries show the best raw ensemble and the best other reference.
func TestHardest(t *testing.T) {
	of := func(reference string, value float64) score.Period {
		return score.Period{Origin: score.AllPeriods, Reference: reference, Variable: "t", ReferenceValue: score.Number(value)}
	}
	k := Skill{Periods: []score.Period{of("raw3", 2), of("raw4", 1.8), of("climatology", 4), of("emos", 1.7)}}
	if h := k.hardest(); len(h) != 2 || h[0].Reference != "raw4" || h[1].Reference != "emos" {
		t.Errorf("%+v", h)
	}
}
