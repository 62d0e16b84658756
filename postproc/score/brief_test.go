package score

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// briefCase makes a result of one target at each lead, by its skill score relative to raw10 with interval.
type briefCase struct {
	lead                   string
	n                      int
	skill, low, high       float64
	baseline               float64 // skill score relative to emos; NaN: none
	ratio, bias            float64
	dispersion             string
	flat                   bool
	independent, biasRange float64
}

func briefResult(all ...briefCase) *Result {
	r := &Result{Bootstrap: significance.Bootstrap{Confidence: 0.95}}
	for _, c := range all {
		add := func(id, system string, members int, v, half float64) {
			if c.n < significance.MinDates {
				half = math.NaN()
			}
			r.Scores = append(r.Scores, Value{ID: id, System: system, Members: members, Variable: "t", Level: "850hPa", Lead: c.lead, Value: Number(v), CILow: Number(v - half), CIHigh: Number(v + half),
				N: c.n, Unit: "K", Region: Everywhere, Season: AllYear, Independent: Number(c.independent), Lag1: 0.85})
		}
		add("crps_gauss", "network", 5, 1-c.skill, 0.1)
		add("rmse", "network", 5, 1, 0.1)
		add("bias", "network", 5, c.bias, c.biasRange)
		add("spread_skill", "network", 5, c.ratio, 0.02+0*c.biasRange)
		add("crps_plain", "raw5", 5, 1.1, 0.1)
		add("crps_plain", "raw10", 10, 1, 0.1)
		compare := func(reference, id string, skill float64) {
			r.Comparisons = append(r.Comparisons, Comparison{ID: "crps_gauss", System: "network", Reference: reference, ReferenceID: id, Variable: "t", Level: "850hPa", Lead: c.lead,
				SkillScore: Number(skill), CILow: Number(skill + c.low), CIHigh: Number(skill + c.high), Region: Everywhere, Season: AllYear})
		}
		compare("raw5", "crps_plain", c.skill+0.1)
		compare("raw10", "crps_plain", c.skill)
		if !math.IsNaN(c.baseline) {
			add("crps_gauss", "emos", 5, 0.9, 0.1)
			add("crps_gauss", "climatology", 0, 2, 0.1)
			compare("emos", "crps_gauss", c.baseline)
			compare("climatology", "crps_gauss", 0.6)
		}
		convexity := map[string]Number{"too_small": 0.2, "too_large": -0.2}[c.dispersion] + 0*Number(c.biasRange) // missing with few dates
		r.Calibration = append(r.Calibration, Calibration{Convexity: convexity, ConvexityLow: convexity - 0.1*Number(math.Abs(float64(convexity))), ConvexityHigh: convexity + 0.1*Number(math.Abs(float64(convexity))), System: "network", Variable: "t", Level: "850hPa", Lead: c.lead, N: c.n, Region: Everywhere, Season: AllYear,
			Slope: 0 * Number(c.biasRange), SlopeLow: 0 * Number(c.biasRange), SlopeHigh: 0 * Number(c.biasRange), Flat: c.flat, Dispersion: c.dispersion})
	}
	return r
}

// TestBrief: the sentences of one and of several targets. Spread-skill ratio and histogram do not contradict each other.
func TestBrief(t *testing.T) {
	good := briefCase{lead: "48h", n: 51, skill: 0.3, low: -0.05, high: 0.05, baseline: 0.05, ratio: 1, dispersion: "right", flat: true, independent: 40, biasRange: 0.2}
	with := func(change func(*briefCase)) briefCase {
		c := good
		change(&c)
		return c
	}
	for _, c := range []struct {
		name  string
		cases []briefCase
		want  []string // the paragraphs
	}{
		{"good", []briefCase{good}, []string{
			"The forecast error (CRPS) is 40.0 % smaller than that of the raw ensemble of 5 members (95 % interval 35.0 to 45.0 %). Relative to the raw ensemble of 10 members it is 30.0 % smaller (95 % interval 25.0 to 35.0 %). Relative to the best baseline, emos, it is 5.0 % smaller (which may be chance: 95 % interval 0.0 to 10.0 %).",
			"It is calibrated: analyses fall into the forecast's ranges as often as it states (spread / error 1.00)."}},
		{"few dates", []briefCase{with(func(c *briefCase) {
			c.n, c.low, c.high, c.baseline, c.biasRange = 1, math.NaN(), math.NaN(), math.NaN(), math.NaN()
		})}, []string{
			"The forecast error (CRPS) is 40.0 % smaller than that of the raw ensemble of 5 members (too few dates for an interval). Relative to the raw ensemble of 10 members it is 30.0 % smaller (too few dates for an interval).",
			"Calibration is not judged: there are too few dates, or only a spread (spread / error 1.00).", "There is only 1 date: verify 13 or more for intervals and a verdict on calibration."}},
		{"worse than a baseline", []briefCase{with(func(c *briefCase) { c.skill, c.baseline, c.dispersion, c.flat = -0.1, -0.2, "too_small", false })}, []string{
			"The forecast error (CRPS) is 0.0 % smaller than that of the raw ensemble of 5 members (which may be chance: 95 % interval -5.0 to 5.0 %). Relative to the raw ensemble of 10 members it is 10.0 % larger (95 % interval 5.0 to 15.0 %). Relative to the best baseline, emos, it is 20.0 % larger (95 % interval 15.0 to 25.0 %).",
			"Spread is uneven between cases: on average it equals the error (spread/error 1.00), but the reference falls into the tails too often (convexity +0.200).",
			"Watch: it is worse at t 850hPa +48h (10.0 % larger than raw10), t 850hPa +48h (20.0 % larger than emos)."}},
		{"too confident, biased", []briefCase{with(func(c *briefCase) { c.ratio, c.dispersion, c.flat, c.bias = 0.8, "too_small", false, 0.5 })}, []string{"The forecast",
			"It is too confident: analyses fall outside its ranges more often than it states (spread / error 0.80).",
			"Watch: it has a bias at t 850hPa +48h (+0.5 K, 50 % of its error)."}},
		{"dependent dates", []briefCase{with(func(c *briefCase) { c.ratio, c.dispersion, c.flat, c.independent = 1.3, "too_large", false, 4.7 })}, []string{"The forecast",
			"It is too cautious: analyses lie near its middle more often than it states (spread / error 1.30).",
			"The scores of neighbouring dates are alike (correlation 0.85): 51 dates carry as much information as about 5 independent ones. The interval is wide; verify more dates."}},
		{"several", []briefCase{good, with(func(c *briefCase) {
			c.lead, c.skill, c.ratio, c.dispersion, c.flat = "72h", 0.02, 0.7, "too_small", false
		}),
			with(func(c *briefCase) { c.lead, c.skill, c.baseline = "96h", 0.2, 0.1 })}, []string{
			"The forecast error (CRPS) is 12.0 to 40.0 % smaller than that of the raw ensemble of 5 members, depending on variable, level and lead; it is smaller beyond chance (95 % intervals) for 3 of 3. Relative to the raw ensemble of 10 members it is 2.0 to 30.0 % smaller. Relative to the best baseline of each it is 5.0 to 10.0 % smaller.",
			"Calibration of 3 targets: 2 calibrated, 1 too confident (spread / error 0.70 to 1.00; 1 is right)."}},
		{"few dates that depend on each other", []briefCase{with(func(c *briefCase) {
			c.n, c.independent, c.low, c.high, c.biasRange = 4, 2.6, math.NaN(), math.NaN(), math.NaN()
		})}, []string{"The forecast",
			"Calibration is not judged: there are too few dates, or only a spread (spread / error 1.00).", "There are only 4 dates: verify 13 or more for intervals and a verdict on calibration."}},
	} {
		got := briefResult(c.cases...).Brief("all scores: --all")
		if len(got) != 3 || len(got[0].Paragraphs) != len(c.want) {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		for i, want := range c.want {
			if p := got[0].Paragraphs[i]; p != want && !(want == "The forecast" && strings.HasPrefix(p, want)) {
				t.Errorf("%s:\n%s\nwant\n%s", c.name, p, want)
			}
		}
		var b strings.Builder
		if err := got.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
				t.Errorf("%s: %d columns: %s", c.name, n, line)
			}
		}
	}
}

// TestTooWideInterval: the reason for a missing interval has the number of independent dates and their correlation.
func TestTooWideInterval(t *testing.T) {
	nan := Missing()
	c := Comparison{SkillScore: 0.4, CILow: nan, CIHigh: nan, N: 20, Independent: 2.5, Lag1: 0.94, NoInterval: string(significance.TooWide)}
	if got, want := c.intervalText("95 %"), "no interval, which would be too wide: 20 dates carry as much information as about 2.5 independent ones, with a correlation of 0.94 from one to the next"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestBriefRows: the table has at most ten rows, and states how many are left out.
func TestBriefRows(t *testing.T) {
	var all []briefCase
	for i := range 14 {
		all = append(all, briefCase{lead: fmt.Sprintf("%dh", 24*i), n: 51, skill: 0.2, low: -0.1, high: 0.1, baseline: math.NaN(), ratio: 1, dispersion: "right", flat: true, independent: 51})
	}
	s := briefResult(all...).Brief("")[1]
	if len(s.Rows) != 10 || s.Notes[0] != "... and 4 further targets" {
		t.Errorf("%d rows, %q", len(s.Rows), s.Notes)
	}
	many := briefResult(all[0])
	for i := range 7 {
		v := many.Scores[0]
		v.System = fmt.Sprint("system", i)
		many.Scores = append(many.Scores, v)
	}
	if s := many.Brief("")[1]; len(s.Rows) != 10 || strings.HasPrefix(s.Notes[0], "...") {
		t.Errorf("of ten systems %d rows, %q", len(s.Rows), s.Notes)
	}
	last := many.Scores[0]
	last.System = "last"
	many.Scores = append(many.Scores, last)
	if s := many.Brief("")[1]; len(s.Rows) != 10 || s.Notes[0] != "... and 1 further system" {
		t.Errorf("of eleven systems %d rows, %q", len(s.Rows), s.Notes)
	}
	if got := (&Result{}).Brief(""); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
}

// TestSystemsTable: each row has the skill of the first system relative to that of the row; its own row has none.
func TestSystemsTable(t *testing.T) {
	s := briefResult(briefCase{lead: "48h", n: 51, skill: 0.3, low: -0.05, high: 0.05, baseline: 0.05, ratio: 1, dispersion: "right", flat: true, independent: 40, biasRange: 0.2}).Brief("")[1]
	got := map[any]string{}
	for _, row := range s.Rows {
		got[row[0]] = fmt.Sprintf("%v %v %v", row[4], row[5], row[6])
		if own := row[0] == "network"; (row[2] != nil) != own || (row[3] != nil) != own { // only it has an RMSE and a ratio
			t.Errorf("%s: RMSE %v, spread/error %v", row[0], row[2], row[3])
		}
	}
	for system, want := range map[string]string{"network": "  ", "raw5": "40.0 35.0 45.0", "raw10": "30.0 25.0 35.0", "emos": "5.0 0.0 10.0", "climatology": "60.0 55.0 65.0"} {
		if got[system] != want {
			t.Errorf("%s: %q, want %q", system, got[system], want)
		}
	}
}

// TestBriefsTakeTheirComparisons: a brief has the comparisons of its target, system and score with the systems of its rows, and no others.
func TestBriefsTakeTheirComparisons(t *testing.T) {
	r := briefResult(briefCase{lead: "48h", n: 51, skill: 0.3, baseline: 0.05, ratio: 1, independent: 40}, briefCase{lead: "72h", n: 51, skill: 0.3, baseline: 0.05, ratio: 1, independent: 40})
	own := r.Comparisons[1] // of 48h with raw10
	for _, change := range []func(*Comparison){
		func(c *Comparison) { c.Reference = "unknown" }, func(c *Comparison) { c.ReferenceID = "crps_fair" }, func(c *Comparison) { c.System = "emos" }, func(c *Comparison) { c.ID = "rmse" },
		func(c *Comparison) { c.Lead = "96h" }, func(c *Comparison) { c.Level = "500hPa" }, func(c *Comparison) { c.Variable = "z" }, func(c *Comparison) { c.Region = "tropics" }, func(c *Comparison) { c.Season = "DJF" },
	} {
		other := own
		change(&other)
		r.Comparisons = append(r.Comparisons, other)
	}
	for i, system := range []string{"raw5", "network"} { // of another system, and of the other target
		other := r.Calibration[i]
		other.System = system
		r.Calibration = append(r.Calibration, other)
	}
	r.Calibration[3].Lead = "96h"
	all := r.Briefs()
	if len(all) != 2 {
		t.Fatalf("%d briefs", len(all))
	}
	if all[0].Calibration != &r.Calibration[0] || all[1].Calibration != &r.Calibration[1] {
		t.Error("a brief has the histogram of another system or target")
	}
	for _, b := range all {
		var references []string
		for _, c := range b.Gains {
			references = append(references, c.Lead+" "+c.Reference)
		}
		if want := []string{b.Lead + " raw5", b.Lead + " raw10", b.Lead + " emos", b.Lead + " climatology"}; !slices.Equal(references, want) {
			t.Errorf("%q, want %q", references, want)
		}
	}
}

// TestCouplingTable: a test of members that is made for several numbers of them has their number.
func TestCouplingTable(t *testing.T) {
	r := &Result{Coupling: []Coupling{{Test: "independence", System: "a", Decided: true, Passed: true}, {Test: "independence", System: "b", InputMembers: 5, Decided: true}}}
	s := r.couplingSection("95 % low")
	if s.Rows[0][0] != "independence" || s.Rows[1][0] != "independence 5" {
		t.Errorf("tests %q and %q", s.Rows[0][0], s.Rows[1][0])
	}
	if got := r.dependentSystems(); !slices.Equal(got, []string{"b"}) || len(s.Notes) == 0 {
		t.Errorf("dependent: %q, notes %q", got, s.Notes)
	}
	passed := &Result{Coupling: r.Coupling[:1]}
	if s := passed.couplingSection("95 % low"); len(s.Notes) > 0 {
		t.Errorf("of independent members: %q", s.Notes)
	}
}

// TestRatiosOfSome: the range of the spread-skill ratios is that of the targets that have one.
func TestRatiosOfSome(t *testing.T) {
	var all []briefCase
	for i, ratio := range []float64{1, math.NaN(), 0.7} {
		all = append(all, briefCase{lead: fmt.Sprintf("%dh", 24*i), n: 51, skill: 0.2, low: -0.1, high: 0.1, baseline: math.NaN(), ratio: ratio, dispersion: "right", flat: true, independent: 51})
	}
	all = append(all, briefCase{lead: "96h", n: 51, skill: 0.2, low: -0.1, high: 0.1, baseline: math.NaN(), ratio: 2, dispersion: "right", flat: true, independent: 51})
	r := briefResult(all...)
	r.Scores = slices.DeleteFunc(r.Scores, func(v Value) bool { return v.ID == SpreadSkill.ID && v.Lead == "96h" })
	if text := r.Brief("")[0].Paragraphs[1]; !strings.Contains(text, "(spread / error 0.70 to 1.00; 1 is right)") {
		t.Error(text)
	}
}

// TestDatesText: one sentence for all targets, with the numbers of those that it is about.
func TestDatesText(t *testing.T) {
	of := func(n int, independent float64) briefCase {
		return briefCase{lead: fmt.Sprintf("%dh%g", n, independent), n: n, independent: independent, baseline: math.NaN()}
	}
	for want, cases := range map[string][]briefCase{
		"": {of(51, 40), of(60, 31), of(15, 8)},
		"The scores of neighbouring dates are alike (correlation 0.85): 15 dates carry as much information as about 7 independent ones. The interval is wide; verify more dates.":                       {of(15, 7)},
		"The scores of neighbouring dates are alike (correlation 0.85): 51 dates carry as much information as about 4 independent ones. The interval is wide; verify more dates.":                       {of(51, 3.8)},
		"The scores of neighbouring dates are alike (correlation 0.85): 51 dates carry as much information as about 1 independent one. The interval is wide; verify more dates.":                        {of(51, 0.4)},
		"The scores of neighbouring dates are alike (correlation 0.85): 51 dates carry as much information as about 4 to 9 independent ones. Intervals are wide; verify more dates.":                    {of(51, 3.8), of(51, 9.3)},
		"The scores of neighbouring dates are alike (correlation 0.85): 51 dates carry as much information as about 4 independent ones in 1 of 2 targets. Their intervals are wide; verify more dates.": {of(51, 3.8), of(51, 30)},
		"There are only 3 dates in 1 of 2 targets: verify 13 or more for intervals and a verdict on calibration.":                                                                                       {of(3, 3), of(51, 3.8)},
		"There is only 1 date: verify 13 or more for intervals and a verdict on calibration.":                                                                                                           {of(1, 0)},
	} {
		r := briefResult(cases...)
		if got := r.DatesText(r.Briefs()); got != want {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
	long := briefResult(of(13, 12))
	long.Bootstrap.BlockLength = 7
	if got := long.DatesText(long.Briefs()); got != "" { // measured blocks of another target are longer
		t.Errorf("with an interval: %q", got)
	}
	long.Scores[0].CILow, long.Scores[0].CIHigh = Missing(), Missing()
	if !strings.Contains(long.DatesText(long.Briefs()), "verify 14 or more") {
		t.Errorf("blocks of 7 dates need 14: %q", long.DatesText(long.Briefs()))
	}
}

// TestChanges: a range of skill scores on both sides of 0.
func TestChanges(t *testing.T) {
	for want, c := range map[string][2]Number{"12.3 to 20.1 % smaller": {0.123, 0.201}, "0.0 to 5.0 % smaller": {0, 0.05}, "5.0 % larger to 0.0 % smaller": {-0.05, 0},
		"5.0 % larger to 7.0 % smaller": {-0.05, 0.07}, "1.0 to 50.0 % larger": {-0.5, -0.01}, "0.4 to 0.6 % smaller": {0.004, 0.006}} {
		if got := changes(c[0], c[1]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestBriefOfOneSystem: of a system beside which there is no other the error is stated, of several targets their number.
func TestBriefOfOneSystem(t *testing.T) {
	good := briefCase{lead: "48h", n: 51, skill: 0.3, baseline: math.NaN(), ratio: 1, dispersion: "right", flat: true, independent: 51}
	other := good
	other.lead = "72h"
	for want, cases := range map[string][]briefCase{
		"The forecast error (CRPS) is 0.7000 K. There is nothing to compare it with: give --members and --run-dir.":      {good},
		"The errors of 2 targets are in the table. There is nothing to compare them with: give --members and --run-dir.": {good, other},
	} {
		r := briefResult(cases...)
		r.Scores = slices.DeleteFunc(r.Scores, func(v Value) bool { return v.System != "network" })
		r.Comparisons = nil
		got := r.Brief("")
		if len(got) == 0 || got[0].Paragraphs[0] != want || len(got[1].Rows) != len(cases) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}

// TestWatch: worse scores come before biases, and these before scores that may be worse by chance; two are named.
func TestWatch(t *testing.T) {
	at := func(lead string, change func(*briefCase)) briefCase {
		c := briefCase{lead: lead, n: 51, skill: 0.3, low: -0.05, high: 0.05, baseline: math.NaN(), ratio: 1, dispersion: "right", flat: true, independent: 51, biasRange: 0.05}
		change(&c)
		return c
	}
	good := at("24h", func(*briefCase) {})
	better := at("48h", func(c *briefCase) { c.skill = 0.04 }) // by chance, perhaps
	chance := func(lead string) briefCase { return at(lead, func(c *briefCase) { c.skill = -0.04 }) }
	biased := at("72h", func(c *briefCase) { c.bias = -0.2 })
	slightly := at("72h", func(c *briefCase) { c.bias = 0.09 }) // less than a tenth of the error
	lost := at("96h", func(c *briefCase) { c.skill = -0.2 })
	for want, cases := range map[string][]briefCase{
		"": {good, better, slightly},
		"Watch: it may be worse at t 850hPa +120h (4.0 % larger than raw10).":                                                      {good, chance("120h")},
		"Watch: it may be worse at t 850hPa +120h (4.0 % larger than raw10), t 850hPa +144h (4.0 % larger than raw10).":            {chance("120h"), chance("144h")},
		"Watch: it may be worse at t 850hPa +120h (4.0 % larger than raw10), t 850hPa +144h (4.0 % larger than raw10) and 1 more.": {chance("120h"), chance("144h"), chance("168h")},
		"Watch: it has a bias at t 850hPa +72h (-0.2 K, 20 % of its error).":                                                       {chance("120h"), biased},
		"Watch: it is worse at t 850hPa +96h (10.0 % larger than raw5), t 850hPa +96h (20.0 % larger than raw10).":                 {biased, chance("120h"), lost},
	} {
		r := briefResult(cases...)
		if got := r.watchSentence(r.Briefs()); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSkillOfFewDates: of several targets without intervals there is no count of those that are better.
func TestSkillOfFewDates(t *testing.T) {
	few := func(lead string, n int) briefCase {
		return briefCase{lead: lead, n: n, skill: 0.3, low: math.NaN(), high: math.NaN(), baseline: math.NaN(), ratio: 1, biasRange: math.NaN()}
	}
	r := briefResult(few("24h", 3), few("48h", 4))
	want := "The forecast error (CRPS) is 40.0 to 40.0 % smaller than that of the raw ensemble of 5 members, depending on variable, level and lead; there are too few dates for intervals. Relative to the raw ensemble of 10 members it is 30.0 to 30.0 % smaller."
	if got := skillSentence(r.Briefs(), "95 %"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	table := r.targetsTable(r.Briefs())
	if got := table.Title; got != "CRPS of network, dates differ" {
		t.Errorf("title %q", got)
	}
	lost := briefResult(briefCase{lead: "24h", n: 51, skill: -0.3, low: -0.1, high: 0.1, baseline: math.NaN()}, briefCase{lead: "48h", n: 51, skill: 0.05, low: -0.1, high: 0.1, baseline: math.NaN()})
	if got := skillSentence(lost.Briefs(), "95 %"); !strings.Contains(got, "beyond chance (95 % intervals) for 1 of 2.") || !strings.Contains(got, "20.0 % larger to 15.0 % smaller") {
		t.Errorf("%q", got)
	}
}

// TestIsBiased: a bias counts if its interval excludes 0 and it exceeds a tenth of the error, on both sides and in any unit.
func TestIsBiased(t *testing.T) {
	for _, c := range []struct {
		bias, half, rmse float64
		want             bool
	}{{0.2, 0.1, 1, true}, {-0.2, 0.1, 1, true}, {0.2, 0.3, 1, false}, {0.09, 0.01, 1, false}, {20, 1, 100, true}, {9, 1, 100, false}, {0.002, 0.001, 0.01, true}, {0.2, math.NaN(), 1, false}} {
		b := Brief{Bias: &Value{Value: Number(c.bias), CILow: Number(c.bias - c.half), CIHigh: Number(c.bias + c.half)}, RMSE: &Value{Value: Number(c.rmse)}}
		if got := b.IsBiased(); got != c.want {
			t.Errorf("bias %g ± %g of an error of %g: %v", c.bias, c.half, c.rmse, got)
		}
	}
	if (&Brief{Bias: &Value{Value: 1, CILow: 0.5, CIHigh: 2}}).IsBiased() || (&Brief{RMSE: &Value{Value: 1}}).IsBiased() {
		t.Error("a bias without an error, or none")
	}
}

// TestMainScores: of several CRPS of a system the last is its main score, also of the first system, and each system has one row; without a
// CRPS of the first system the error of the spread is.
func TestMainScores(t *testing.T) {
	r := briefResult(briefCase{lead: "48h", n: 51, skill: 0.3, baseline: math.NaN(), ratio: 1})
	plain := r.Scores[0]
	plain.ID, plain.Value = CRPSPlain.ID, 0.6
	r.Scores = append(r.Scores, plain)
	rows := func() (text string) {
		for _, v := range r.mainScores(targetKey{"t", "850hPa", "48h"}) {
			text += fmt.Sprintf("%s %s %g; ", v.System, v.ID, float64(v.Value))
		}
		return text
	}
	if got, want := rows(), "network crps_plain 0.6; raw5 crps_plain 1.1; raw10 crps_plain 1; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	slices.Reverse(r.Scores) // whatever their order
	if got, want := rows(), "network crps_plain 0.6; raw10 crps_plain 1; raw5 crps_plain 1.1; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	slices.Reverse(r.Scores)
	spread := r.Scores[1] // of the network, which has no CRPS now
	spread.ID, spread.Value = SpreadRMSE.ID, 0.2
	r.Scores = append(slices.DeleteFunc(r.Scores, func(v Value) bool { return v.System == "network" && (v.ID == CRPSGauss.ID || v.ID == CRPSPlain.ID) }), spread)
	if got, want := rows(), "network spread_rmse 0.2; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	one := r.Brief("")
	if got := one[0].Paragraphs[0]; !strings.HasPrefix(got, "The error of the predicted spread is 0.2000 K.") || one[1].Columns[1].Name != "error of spread" {
		t.Errorf("%s\n%+v", got, one[1].Columns)
	}
	for _, v := range slices.Clone(r.Scores) {
		v.Lead = "72h"
		r.Scores = append(r.Scores, v)
	}
	if got := r.Brief("")[1].Title; got != "error of spread of network, 51 dates" {
		t.Errorf("title %q", got)
	}
}
