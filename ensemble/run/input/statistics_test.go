package input

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// rain returns a field of precipitation: its interval ends at a lead in hours. init is in days, NoMember for analyses.
func rain(member ensemble.Member, init, lead, interval int, statistic string) ensemble.Entry {
	start := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	hours := func(h int) ensemble.Lead { return ensemble.Lead(time.Duration(h) * time.Hour) }
	return ensemble.Entry{Key: ensemble.Key{Variable: "tp", Level: ensemble.Level{Kind: ensemble.Surface}, Member: member, Init: ensemble.InitAt(start.AddDate(0, 0, init)), Lead: hours(lead)},
		Kind: &ensemble.Kind{Unit: "kg m-2", Grid: oneGrid, Statistic: statistic, Interval: hours(interval)}, File: fmt.Sprintf("%d_%d_%d_%d", member, init, lead, interval), Message: 1}
}

var oneGrid = &ensemble.Grid{NX: 1, NY: 1}

// rainAxes reads rain at some leads in hours.
func rainAxes(hours ...int) ensemble.Axes {
	a := ensemble.Axes{Variables: []string{"tp"}, Levels: []ensemble.Level{{Kind: ensemble.Surface}}}
	for _, h := range hours {
		a.Leads = append(a.Leads, ensemble.Lead(time.Duration(h)*time.Hour))
	}
	return a
}

// series returns the fields of one member with intervals {lead, length}.
func rains(statistic string, intervals ...[2]int) (out []ensemble.Entry) {
	for _, i := range intervals {
		out = append(out, rain(1, 0, i[0], i[1], statistic))
	}
	return out
}

func TestChooseStatistics(t *testing.T) {
	day := ensemble.Lead(24 * time.Hour)
	for _, c := range []struct {
		name    string
		entries []ensemble.Entry
		leads   []int
		request StatisticRequest
		want    string // statistics of the axes, and the terms of derived fields
		fault   string // part of the text of the first fault that prevents computation
		fix     string // part of its remedy
		code    exit.Code
	}{
		{"one", rains("sum", [2]int{24, 24}), []int{24}, StatisticRequest{}, "sum over 24h", "", "", 0},
		{"from start", rains("sum", [2]int{6, 6}, [2]int{12, 12}), []int{6, 12}, StatisticRequest{}, "sum over 6h; sum over 12h", "", "", 0},
		{"two intervals", rains("sum", [2]int{6, 6}, [2]int{6, 1}), []int{6}, StatisticRequest{}, "", "several statistics over time at lead 6h",
			"`{variable: tp, statistic: sum, interval: 1h}` or `{variable: tp, statistic: sum, interval: 6h}`", exit.Usage},
		{"instant and mean", append(rains("mean", [2]int{6, 6}), rain(1, 0, 6, 0, "")), []int{6}, StatisticRequest{}, "", "several statistics", "`{variable: tp, statistic: instant}` or `{variable: tp, statistic: mean, interval: 6h}`", exit.Usage},
		{"instant chosen", append(rains("mean", [2]int{6, 6}), rain(1, 0, 6, 0, "")), []int{6}, StatisticRequest{Choices: []StatisticChoice{{Variable: "tp", Statistic: "instant"}}}, "", "", "", 0},
		{"interval chosen", rains("sum", [2]int{6, 6}, [2]int{6, 1}), []int{6}, StatisticRequest{Choices: []StatisticChoice{{Variable: "tp", Interval: ensemble.Lead(time.Hour)}}}, "sum over 1h", "", "", 0},
		{"interval added", rains("", [2]int{24, 0}), []int{24}, StatisticRequest{Choices: []StatisticChoice{{Variable: "tp", Interval: day}}}, "sum over 24h", "", "", 0},
		{"other interval", rains("sum", [2]int{24, 6}), []int{24}, StatisticRequest{Choices: []StatisticChoice{{Variable: "tp", Interval: day}}}, "", "no tp over the requested interval", "data.intervals", exit.BadData},
		{"difference", rains("sum", [2]int{18, 18}, [2]int{24, 24}), []int{24}, StatisticRequest{Intervals: Intervals{Length: ensemble.Lead(6 * time.Hour)}}, "sum over 6h = 24 -18", "", "", 0},
		{"from-start sum of parts", rains("sum", [2]int{6, 6}, [2]int{12, 6}), []int{12}, StatisticRequest{Intervals: Intervals{FromStart: true}}, "sum over 12h = 12 6", "", "", 0},
		{"buckets that restart", rains("sum", [2]int{3, 3}, [2]int{6, 6}, [2]int{9, 3}, [2]int{12, 6}), []int{12}, StatisticRequest{Intervals: Intervals{Length: ensemble.Lead(3 * time.Hour)}}, "sum over 3h = 12 -9", "", "", 0},
		{"maximum of parts", rains("maximum", [2]int{6, 6}, [2]int{12, 6}), []int{12}, StatisticRequest{Intervals: Intervals{Length: ensemble.Lead(12 * time.Hour)}}, "maximum over 12h = 12 6", "", "", 0},
		{"no difference of maxima", rains("maximum", [2]int{6, 6}, [2]int{12, 12}), []int{12}, StatisticRequest{Intervals: Intervals{Length: ensemble.Lead(6 * time.Hour)}}, "", "cannot be computed", "missing intervals", exit.BadData},
		{"lead 0", rains("sum", [2]int{6, 6}), []int{0, 6}, StatisticRequest{}, "", "tp has no field at lead 0h", "remove 0h from data.leads", exit.BadData},
		{"gap", rains("sum", [2]int{6, 6}, [2]int{18, 6}, [2]int{24, 6}), []int{24}, StatisticRequest{Intervals: Intervals{Length: day}}, "", "tp over 24h at lead 24h cannot be computed", "missing intervals", exit.BadData},
		{"a model's interval is computed", rains("sum", [2]int{12, 12}, [2]int{24, 12}), []int{24}, StatisticRequest{Known: "the model"}, "sum over 24h = 24 12", "", "", 0},
		{"a model's interval is absent", rains("sum", [2]int{24, 6}), []int{24}, StatisticRequest{Known: "the model"}, "", "windows of 24 h and 6 h", "same interval", exit.BadData},
	} {
		axes := rainAxes(c.leads...)
		if c.request.Known != "" {
			axes.Statistics = []ensemble.VariableStatistic{{Variable: "tp", Lead: day, TimeStatistic: ensemble.TimeStatistic{Statistic: "sum", Interval: day}}}
		}
		got, cat, faults := ChooseStatistics(&ensemble.Catalogue{Entries: c.entries}, axes, c.request)
		_, err := SplitFaults(faults)
		if c.fault != "" {
			e, _ := err.(*exit.Error)
			if e == nil || !strings.Contains(e.What, c.fault) || !strings.Contains(e.Fix, c.fix) || e.Code != c.code {
				t.Errorf("%s: got %v, want %q (exit %d) with the fix %q", c.name, err, c.fault, c.code, c.fix)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var words []string
		for _, s := range got.Statistics {
			words = append(words, s.TimeStatistic.String())
		}
		text := strings.Join(words, "; ")
		read := 0
		for _, e := range cat.Entries {
			if _, _, _, ok := axes.Find(e.Key); !ok {
				continue
			}
			if read++; e.TimeStatistic() != got.StatisticOf("tp", e.Lead) {
				t.Errorf("%s: %s is %s, the axes have %s", c.name, e.Key, e.TimeStatistic(), got.StatisticOf("tp", e.Lead))
			}
			if e.Derivation != nil {
				text += " ="
				for i := len(e.Derivation.Terms) - 1; i >= 0; i-- {
					x := e.Derivation.Terms[i]
					text += fmt.Sprintf(" %g", x.Weight*x.Lead.Hours())
				}
			}
		}
		if text != c.want || read != len(c.leads) {
			t.Errorf("%s: %d fields of %q, want %d of %q", c.name, read, text, len(c.leads), c.want)
		}
	}
}

// TestMeansHaveWeights computes the mean of two intervals of unequal length.
func TestMeansHaveWeights(t *testing.T) {
	_, cat, _ := ChooseStatistics(&ensemble.Catalogue{Entries: rains("mean", [2]int{6, 6}, [2]int{24, 18})}, rainAxes(24), StatisticRequest{Intervals: Intervals{Length: ensemble.Lead(24 * time.Hour)}})
	for _, e := range cat.Entries {
		if e.Derivation != nil {
			if x := e.Derivation.Terms; len(x) != 2 || x[0].Weight != 0.25 || x[1].Weight != 0.75 || e.Derivation.NeverNegative {
				t.Errorf("terms %v", x)
			}
			return
		}
	}
	t.Error("nothing was derived")
}

func TestAnalysesOfTheSameInterval(t *testing.T) {
	day := ensemble.TimeStatistic{Statistic: "sum", Interval: ensemble.Lead(24 * time.Hour)}
	valid := ensemble.ValidAt(time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC))
	an := func(init, lead, interval int, statistic string) ensemble.Entry {
		return rain(ensemble.NoMember, init, lead, interval, statistic)
	}
	for _, c := range []struct {
		name    string
		entries []ensemble.Entry
		want    ensemble.TimeStatistic
		derive  bool
		meaning ensemble.TimeStatistic
		terms   int // of the analysis; 0: a field of a file
		fault   string
	}{
		{"a forecast of the day", []ensemble.Entry{an(0, 24, 24, "sum")}, day, false, day, 0, ""},
		{"an analysis", []ensemble.Entry{an(1, 0, 24, "sum")}, day, false, day, 0, ""},
		{"of two the shorter lead", []ensemble.Entry{an(1, 0, 24, "sum"), an(0, 24, 24, "sum")}, day, false, day, 0, ""},
		{"of two intervals the equal one", []ensemble.Entry{an(1, 0, 6, "sum"), an(1, 0, 24, "sum")}, day, false, day, 0, ""},
		{"without interval", []ensemble.Entry{an(1, 0, 0, "")}, day, false, day, 0, ""},
		{"the interval of the analyses", []ensemble.Entry{an(1, 0, 24, "sum")}, ensemble.TimeStatistic{}, false, day, 0, ""},
		{"other interval", []ensemble.Entry{an(1, 0, 6, "sum")}, day, false, day, 0, "tp: windows of 24 h and 6 h"},
		{"other statistic", []ensemble.Entry{an(1, 0, 24, "mean")}, day, false, day, 0, "tp: sum and mean"},
		{"sums of two inits", []ensemble.Entry{an(0, 12, 12, "sum"), an(0, 24, 12, "sum")}, day, true, day, 2, ""},
		{"sums over a gap", []ensemble.Entry{an(0, 6, 6, "sum"), an(0, 24, 12, "sum")}, day, true, day, 0, "tp: windows of 24 h and 12 h"},
	} {
		r := AnalysisRequest{Variables: []string{"tp"}, Levels: rainAxes().Levels, Valids: []ensemble.Valid{valid}, Derive: c.derive}
		if c.want != (ensemble.TimeStatistic{}) {
			r.Statistics = map[string]ensemble.TimeStatistic{"tp": c.want}
		}
		meanings, cat, faults := ChooseAnalyses(&ensemble.Catalogue{Entries: c.entries}, r)
		if _, err := SplitFaults(faults); c.fault != "" {
			if e, _ := err.(*exit.Error); e == nil || e.What != c.fault || e.Code != exit.BadData {
				t.Errorf("%s: got %v, want %q", c.name, err, c.fault)
			}
			continue
		} else if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(cat.Entries) != 1 || meanings["tp"] != c.meaning {
			t.Errorf("%s: %d fields of %s, want one of %s", c.name, len(cat.Entries), meanings["tp"], c.meaning)
			continue
		}
		e := cat.Entries[0]
		terms := 0
		if e.Derivation != nil {
			terms = len(e.Derivation.Terms)
		}
		if e.Lead != 0 || e.Valid() != valid || e.TimeStatistic() != c.meaning || terms != c.terms {
			t.Errorf("%s: %s, %s, %d terms", c.name, e.Key, e.TimeStatistic(), terms)
		}
	}
	two := []ensemble.Entry{an(1, 0, 24, "sum"), an(0, 24, 24, "sum")}
	if _, cat, _ := ChooseAnalyses(&ensemble.Catalogue{Entries: two}, AnalysisRequest{Variables: []string{"tp"}, Levels: rainAxes().Levels, Valids: []ensemble.Valid{valid},
		Statistics: map[string]ensemble.TimeStatistic{"tp": day}}); cat.Entries[0].File != two[0].File {
		t.Errorf("%s is used, want the analysis with the shortest lead", cat.Entries[0].File)
	}
}

func TestTargetsHaveOneInterval(t *testing.T) {
	axes, _, _ := ChooseStatistics(&ensemble.Catalogue{Entries: rains("sum", [2]int{24, 24}, [2]int{48, 48})}, rainAxes(24, 48), StatisticRequest{})
	if _, err := TargetStatistics(axes, []string{"tp"}, axes.Leads); err == nil || !strings.Contains(err.Error(), "windows of 24 h and 48 h") {
		t.Errorf("got %v", err)
	}
}

// The entry that the warning about an interval proposes is a whole entry of data.targets.
func TestOpenStatisticsProposesTarget(t *testing.T) {
	lead := ensemble.Lead(24 * time.Hour)
	for _, level := range []ensemble.Level{ensemble.SingleLevel, {Kind: ensemble.HeightAboveSoil, Value: 10}} {
		axes := ensemble.Axes{Levels: []ensemble.Level{level}, Leads: []ensemble.Lead{lead}, Variables: []string{"10fg"},
			Statistics: []ensemble.VariableStatistic{{Variable: "10fg", Lead: lead, TimeStatistic: ensemble.TimeStatistic{Statistic: "maximum"}}}}
		got := OpenStatistics(axes, []string{"10fg"}, []ensemble.Lead{lead})
		if want := "{variable: 10fg, levels: [" + level.String() + "], interval: 24h}"; len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%q lacks %s", got, want)
		}
	}
}
