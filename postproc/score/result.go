package score

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// Number is a float64 that JSON encodes as null if it is NaN or infinite.
type Number float64

// Missing returns the missing number, NaN.
func Missing() Number { return Number(math.NaN()) }

// MarshalJSON encodes NaN and infinities as null.
func (n Number) MarshalJSON() ([]byte, error) {
	v := float64(n)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, v, 'g', 10, 64), nil
}

// UnmarshalJSON decodes null as NaN.
func (n *Number) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(raw, (*float64)(n))
}

// Value is one score of one system with its confidence interval.
type Value struct {
	ID       string  `json:"id"`
	System   string  `json:"system"`
	Variable string  `json:"variable"`
	Level    string  `json:"level"`
	Lead     string  `json:"lead"`
	LeadH    float64 `json:"lead_h"`
	Value    Number  `json:"value"`
	CILow    Number  `json:"ci_low"`
	CIHigh   Number  `json:"ci_high"`
	N        int     `json:"n"` // dates
	Unit     string  `json:"unit"`
	Members  int     `json:"members"` // number of members used by the system; 0: none
	Divisor  string  `json:"divisor"` // divisor of the spread: "M-1", "predicted" or "none"; "published": from a published probability or quantile
	Weights  string  `json:"weights"`
	Formula  string  `json:"formula"`
	Points   int     `json:"points"`  // number of pairs of point and date
	Missing  int     `json:"missing"` // pairs left out for all systems
	Region   string  `json:"region"`  // Everywhere, or the name of a region
	Season   string  `json:"season"`  // AllYear, or DJF, MAM, JJA, SON
	// Threshold of the event, or the probability of the quantile; missing for scores without either.
	Threshold Number `json:"threshold"`
	// MissingMembers is the number of missing member values of this system.
	MissingMembers int `json:"missing_members"`
	// Independent is the number of independent dates with the same standard error; missing if
	// the score is not defined without one of the dates. Lag1 is the correlation of neighbouring dates
	// (significance.Memory).
	Independent Number `json:"independent_dates"`
	Lag1        Number `json:"lag_1_correlation"`
	NoInterval  string `json:"no_interval"`  // why there is no interval, a significance.Reason
	PairDivisor string `json:"pair_divisor"` // divisor of the distances between members, or of fractions of members; "": none
}

// Comparison is the skill score of a system relative to a reference system, on the same
// dates and points, for scores where lower is better:
//
//	SkillScore = 1 − score(system) / score(reference)
//
// Above 0 the system is better. The interval is paired: both scores are computed from
// the same resampled dates (significance.Bootstrap.EstimateSkill).
type Comparison struct {
	ID          string  `json:"id"`
	System      string  `json:"system"`
	Reference   string  `json:"reference"`
	ReferenceID string  `json:"reference_id"` // score of the reference; usually ID
	Variable    string  `json:"variable"`
	Level       string  `json:"level"`
	Lead        string  `json:"lead"`
	LeadH       float64 `json:"lead_h"`
	SkillScore  Number  `json:"skill_score"`
	CILow       Number  `json:"ci_low"`
	CIHigh      Number  `json:"ci_high"`
	N           int     `json:"n"`
	Region      string  `json:"region"`
	Season      string  `json:"season"`
	Threshold   Number  `json:"threshold"`
	// P is the p-value of [significance.DieboldMariano] for equal scores; missing for scores that are not
	// means over dates.
	P       Number `json:"p_value"`
	Weights string `json:"weights"`
	// Memory of the differences, and why there is no interval, as in Value.
	Independent Number `json:"independent_dates"`
	Lag1        Number `json:"lag_1_correlation"`
	NoInterval  string `json:"no_interval"`
}

// DiagramKey identifies a diagram.
type DiagramKey struct {
	ID        string  `json:"id"`
	System    string  `json:"system"`
	Variable  string  `json:"variable"`
	Level     string  `json:"level"`
	Lead      string  `json:"lead"`
	LeadH     float64 `json:"lead_h"`
	Region    string  `json:"region"`
	Season    string  `json:"season"`
	Threshold Number  `json:"threshold"`
}

// Diagram is the table of numbers of a diagram.
//
// Shape: Rows [row][column]; Low and High [row] are the bootstrap interval of column IntervalColumn.
type Diagram struct {
	DiagramKey
	Unit           string     `json:"unit"` // unit of columns other than shares and probabilities
	Members        int        `json:"members"`
	N              int        `json:"n"` // dates
	Columns        []string   `json:"columns"`
	Rows           [][]Number `json:"rows"`
	IntervalColumn string     `json:"interval_column"` // name of the column with an interval
	Low            []Number   `json:"low"`
	High           []Number   `json:"high"`
}

// SkillComponent is one component of the skill score of a system relative to a raw ensemble: a
// reduction in CRPS divided by the CRPS of the raw ensemble (package postproc/skill). The
// components finite_size, bias, dispersion, season and information add up to total.
// over_infinite_ensemble is the reduction relative to an infinite raw ensemble. dispersion_first
// and bias_second are bias and dispersion corrected in the reverse order. Baseline is the best of the listed baselines on
// the same dates, on the component season only, if its CRPS is below that of the step.
type SkillComponent struct {
	Component   string  `json:"component"`
	System      string  `json:"system"`
	Reference   string  `json:"reference"`
	ReferenceID string  `json:"reference_id"` // score of the reference
	Variable    string  `json:"variable"`
	Level       string  `json:"level"`
	Lead        string  `json:"lead"`
	LeadH       float64 `json:"lead_h"`
	Reduction   Number  `json:"reduction"`
	CILow       Number  `json:"ci_low"`
	CIHigh      Number  `json:"ci_high"`
	CRPS        Number  `json:"crps"` // CRPS of the forecast after this step
	// Baseline is a name, "" for none.
	Baseline     string `json:"baseline"`
	BaselineCRPS Number `json:"baseline_crps"`
	N            int    `json:"n"` // dates
	Region       string `json:"region"`
	Season       string `json:"season"`
	Weights      string `json:"weights"`
}

// IdealScore is the CRPS of an idealised ensemble, to which the CRPS of a system is
// compared (package postproc/skill). Ratio is the CRPS of the system divided by it.
type IdealScore struct {
	ID        string  `json:"id"`
	System    string  `json:"system"`
	Reference string  `json:"reference"` // ensemble whose members are idealised; the system itself for expected
	Variable  string  `json:"variable"`
	Level     string  `json:"level"`
	Lead      string  `json:"lead"`
	LeadH     float64 `json:"lead_h"`
	Formula   string  `json:"formula"`
	Unit      string  `json:"unit"`
	CRPS      Number  `json:"crps"`
	CILow     Number  `json:"ci_low"`
	CIHigh    Number  `json:"ci_high"`
	Ratio     Number  `json:"ratio"`
	RatioLow  Number  `json:"ratio_low"`
	RatioHigh Number  `json:"ratio_high"`
	N         int     `json:"n"` // dates
	Region    string  `json:"region"`
	Season    string  `json:"season"`
	Weights   string  `json:"weights"`
}

// DateScore is the contribution of one init to the mean CRPS of a system, and of the network to that
// of the raw ensemble: means over the points of that init, whose weights add up to Weight.
type DateScore struct {
	System   string  `json:"system"`
	Score    string  `json:"score"` // ID of the CRPS of the system
	Variable string  `json:"variable"`
	Level    string  `json:"level"`
	Lead     string  `json:"lead"`
	LeadH    float64 `json:"lead_h"`
	Init     string  `json:"init"`   // RFC 3339
	Region   string  `json:"region"` // Everywhere, or the name of a region
	Weight   float64 `json:"weight"`
	CRPS     Number  `json:"crps"`
	// Of the network Everywhere only, as all that follows. Points is the number of points with forecast
	// and analysis; UnweightedCRPS is their mean CRPS with equal weights.
	Points         int    `json:"points"`
	UnweightedCRPS Number `json:"crps_unweighted"`
	Reference      string `json:"reference"`
	ReferenceCRPS  Number `json:"reference_crps"`
	// The same over the points of LargestEFI; weight 0 and missing without a climate.
	ExtremeWeight        float64 `json:"extreme_weight"`
	ExtremeCRPS          Number  `json:"extreme_crps"`
	ExtremeReferenceCRPS Number  `json:"extreme_reference_crps"`
	// SpreadMSE is the mean squared difference from the spread of the full ensemble (see
	// SpreadRMSE); weight 0 and missing if that spread is unknown.
	SpreadWeight float64 `json:"spread_weight"`
	SpreadMSE    Number  `json:"spread_mse"`
}

// Result holds all verification results.
type Result struct {
	Scores          []Value                `json:"scores"`
	Comparisons     []Comparison           `json:"comparisons"`
	SkillComponents []SkillComponent       `json:"skill_components"`
	IdealScores     []IdealScore           `json:"ideal_scores"`
	Ranks           []RankHistogram        `json:"rank_histograms"`
	Calibration     []Calibration          `json:"calibration"`
	Diagrams        []Diagram              `json:"diagrams"`
	Coupling        []Coupling             `json:"coupling"`
	Bootstrap       significance.Bootstrap `json:"bootstrap"`
	Periods         []Period               `json:"periods,omitempty"` // if periods were asked for
	Trends          []Trend                `json:"trends,omitempty"`
	Dates           []DateScore            `json:"-"` // Everywhere; stored as a table of its own
	RegionDates     []DateScore            `json:"-"` // of regions; in the same table
}

// MarshalJSON encodes empty lists as [] instead of null.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	r.Scores = append([]Value{}, r.Scores...)
	r.Comparisons = append([]Comparison{}, r.Comparisons...)
	r.SkillComponents = append([]SkillComponent{}, r.SkillComponents...)
	r.IdealScores = append([]IdealScore{}, r.IdealScores...)
	r.Ranks = append([]RankHistogram{}, r.Ranks...)
	r.Calibration = append([]Calibration{}, r.Calibration...)
	r.Diagrams = append([]Diagram{}, r.Diagrams...)
	r.Coupling = append([]Coupling{}, r.Coupling...)
	return json.Marshal(plain(r))
}

// Append adds the results of another target.
func (r *Result) Append(o *Result) {
	r.Scores = append(r.Scores, o.Scores...)
	r.Comparisons = append(r.Comparisons, o.Comparisons...)
	r.SkillComponents = append(r.SkillComponents, o.SkillComponents...)
	r.IdealScores = append(r.IdealScores, o.IdealScores...)
	r.Ranks = append(r.Ranks, o.Ranks...)
	r.Calibration = append(r.Calibration, o.Calibration...)
	r.Diagrams = append(r.Diagrams, o.Diagrams...)
	r.Coupling = append(r.Coupling, o.Coupling...)
	longest := max(r.Bootstrap.BlockLength, o.Bootstrap.BlockLength)
	r.Bootstrap = o.Bootstrap
	r.Bootstrap.BlockLength = longest
	r.Dates = append(r.Dates, o.Dates...)
	r.RegionDates = append(r.RegionDates, o.RegionDates...)
}

// Find returns the score of a system over the whole area and all dates, or nil. If there
// are several thresholds it is that of the first.
func (r *Result) Find(id, system, variable, level, lead string) *Value {
	i := slices.IndexFunc(r.Scores, func(v Value) bool {
		return v.ID == id && v.System == system && v.Variable == variable && v.Level == level && v.Lead == lead && IsOverall(v.Region, v.Season)
	})
	if i < 0 {
		return nil
	}
	return &r.Scores[i]
}

// IsOverall reports whether region and season are the whole area and all dates, or empty.
func IsOverall(region, season string) bool {
	return (region == "" || region == Everywhere) && (season == "" || season == AllYear)
}

// Pair requests a Comparison. ReferenceID is the score of the reference if it differs from
// ID: the Gaussian CRPS of a distribution compares with the plain CRPS of members. Empty:
// ID.
type Pair struct{ ID, System, Reference, ReferenceID string }

// Pairs returns a Pair for every score with direction Lower that both systems have, for
// all thresholds.
func (a *Accumulator) Pairs(system, reference string) []Pair {
	var out []Pair
	i, j := a.systemIndex(system), a.systemIndex(reference)
	if i < 0 || j < 0 {
		return nil
	}
	for _, s := range a.plan[i] {
		if s.hasSkillScore() && s.event <= 0 && slices.Contains(a.plan[j], s) {
			out = append(out, Pair{ID: s.ID, System: system, Reference: reference})
		}
	}
	return out
}

// HasScore reports whether a score is computed for a system.
func (a *Accumulator) HasScore(system, id string) bool {
	i := a.systemIndex(system)
	return i >= 0 && slices.ContainsFunc(a.plan[i], func(p planned) bool { return p.ID == id })
}

// hasSkillScore reports whether the score has a skill score.
func (s *Score) hasSkillScore() bool { return s.Better == Lower && s.Value != nil && !s.NoSkillScore }

// systemIndex returns the index of a system, or −1.
func (a *Accumulator) systemIndex(system string) int {
	return slices.IndexFunc(a.systems, func(s System) bool { return s.Name == system })
}

// Seasons are the names of the seasons in results.
var Seasons = []string{"DJF", "MAM", "JJA", "SON"}

// SeasonOf returns the season of the month of a valid time.
func SeasonOf(valid time.Time) string { return Seasons[valid.UTC().Month()%12/3] }

// Result computes all scores of all systems and the requested comparisons, with
// intervals: over the whole area, then by region; over all dates, then by season. It may
// be called again after more dates were added.
//
// Errors: no dates; a pair with an unknown system or score, or without direction Lower;
// a bootstrap that does not fit the dates.
func (a *Accumulator) Result(b significance.Bootstrap, pairs []Pair) (*Result, error) {
	if len(a.dates) == 0 {
		return nil, fmt.Errorf("score: %s: no dates", a.target.Variable)
	}
	dates := a.sortedDates()
	whole, err := b.Resolved(len(dates))
	if err != nil {
		return nil, err
	}
	out := &Result{Bootstrap: whole}
	for _, season := range append([]string{AllYear}, Seasons...) {
		part := dates
		if season != AllYear {
			if !a.o.Seasons {
				break
			}
			part = slices.DeleteFunc(slices.Clone(dates), func(d Date) bool {
				return SeasonOf(d.Init.Valid(a.target.Lead).Time) != season
			})
		}
		if len(part) == 0 {
			continue
		}
		fit := whole
		fit.BlockLength = min(fit.BlockLength, len(part))
		for r := range a.areas() {
			v := a.view(part, r, season, fit)
			if err := v.result(out, pairs); err != nil {
				return nil, err
			}
			out.Bootstrap.BlockLength = max(out.Bootstrap.BlockLength, v.b.BlockLength)
		}
	}
	return out, nil
}

// view computes the scores of some dates in one region.
type view struct {
	*Accumulator
	b              significance.Bootstrap
	dates          []Date
	region         int
	name, season   string
	entries        [][]entry
	sums           [][]float64 // [resample][part] means; the first is the sample itself
	without        [][]float64 // [date][part] means without the date
	groups         int         // of forecast probabilities in decompositions
	width          int         // number of parts
	points, absent int         // pairs of point and date, scored and left out
	missing        []int       // [system] missing member values
}

// view prepares the resampled means of some dates in one region.
func (a *Accumulator) view(dates []Date, region int, season string, b significance.Bootstrap) *view {
	v := &view{Accumulator: a, b: b, dates: dates, region: region, name: a.areas()[region], season: season, missing: make([]int, len(a.systems))}
	v.entries, v.width = a.layout(a.members)
	v.groups = commonGroups(a.members)
	cells := make([]RegionSums, 0, len(dates))
	v.dates = nil
	for _, d := range dates {
		c := d.Regions[region]
		v.points, v.absent = v.points+c.Points, v.absent+c.Missing
		for s, m := range c.MissingMembers {
			v.missing[s] += m
		}
		if c.Weight > 0 { // a date without any value is no date of the sample
			v.dates, cells = append(v.dates, d), append(cells, c)
		}
	}
	n := len(cells)
	total := RegionSums{MissingMembers: make([]int, len(a.systems)), Sums: make([]float64, v.width)}
	once := make([]int, n)
	for i, c := range cells {
		total.add(c)
		once[i] = 1
	}
	v.sums = [][]float64{means(cells, once, v.width)}
	v.without = make([][]float64, n)
	for i, c := range cells {
		v.without[i] = make([]float64, v.width)
		for j, x := range c.Sums {
			v.without[i][j] = (total.Sums[j] - x) / (total.Weight - c.Weight)
		}
	}
	v.b = b.WithMemory(n, v.influences(everySystem))
	for _, times := range v.b.Draws(n) {
		v.sums = append(v.sums, means(cells, times, v.width))
	}
	return v
}

// everySystem selects the scores of all systems.
const everySystem = -1

// influences returns the influence of each date on the scores of a system that are one mean over dates; of one system only
// those that judge it, not the memory of its spread.
//
// Shape: [score][date], in proportion.
func (v *view) influences(system int) (out [][]float64) {
	for s, row := range v.entries {
		for _, e := range row {
			if e.Value == nil || e.Parts != 1 || system != everySystem && (s != system || e.Better == Neither) {
				continue
			}
			x := make([]float64, len(v.without))
			for t, m := range v.without {
				x[t] = -v.value(s, &e, m)
			}
			out = append(out, x)
		}
	}
	return out
}

// value computes a score from a row of means.
func (v *view) value(system int, e *entry, mean []float64) float64 {
	own := mean[e.at : e.at+e.size]
	if e.Grouped {
		own = regroup(own, v.groups)
	}
	return e.Value(own, v.members[system])
}

// estimate is the value of a score with its interval. ofErrors is v.b with the memory of the scores of the system that are one
// mean over dates, which others may hide. The interval of a sum of squares is that of its root, whose standard error depends
// less on the value. Parts of a score and distances from flat histograms need more dates than means.
func (v *view) estimate(system int, e *entry, ofErrors significance.Bootstrap) (value float64, interval significance.Estimate) {
	b := v.b
	if e.Parts != 1 {
		b = ofErrors
	}
	if e.isPart() {
		b = b.OfParts()
	}
	if e.Grouped && !e.isSumOfSquares() {
		b = b.Symmetric()
	}
	values, without := v.each(func(mean []float64) float64 { return v.value(system, e, mean) })
	value = values[0]
	if !e.isSumOfSquares() {
		return value, b.Estimate(values, without)
	}
	for _, of := range [][]float64{values, without} {
		for i, x := range of {
			of[i] = math.Sqrt(x)
		}
	}
	interval = b.Estimate(values, without)
	interval.Low, interval.High = max(interval.Low, 0)*max(interval.Low, 0), interval.High*interval.High
	return value, interval
}

// each applies a function to the means of the sample and the resamples, and to those without each date.
func (v *view) each(of func(mean []float64) float64) (values, without []float64) {
	values, without = make([]float64, len(v.sums)), make([]float64, len(v.without))
	for k, m := range v.sums {
		values[k] = of(m)
	}
	for k, m := range v.without {
		without[k] = of(m)
	}
	return values, without
}

// find returns a score of a system; nil if the system has no such score.
func (v *view) find(system int, id string, event int) *entry {
	i := slices.IndexFunc(v.entries[system], func(e entry) bool { return e.ID == id && e.event == event })
	if i < 0 || v.entries[system][i].Value == nil {
		return nil
	}
	return &v.entries[system][i]
}

// threshold is the threshold of a score, or the probability of its quantile; missing if it has neither.
func (a *Accumulator) threshold(e *entry) Number {
	switch {
	case e.event < 0:
		return Missing()
	case e.IsPerQuantile():
		return Number(a.o.Levels[e.event])
	}
	return Number(a.o.Thresholds[e.event])
}

// isPublished reports whether a score of a system uses a published probability or quantile, of
// several thresholds only such.
func (a *Accumulator) isPublished(system int, e *entry) bool {
	s := &a.systems[system]
	switch {
	case e.event < 0:
		return e.SharedSums == rpsSums && len(s.Thresholds) == len(a.o.Thresholds) && len(s.Thresholds) > 0
	case e.IsPerQuantile():
		return slices.Contains(s.Levels, a.o.Levels[e.event])
	}
	return e.Needs == Distribution|Events && slices.Contains(s.Thresholds, a.o.Thresholds[e.event])
}

// result appends the scores, histograms, diagrams and comparisons of the view to out.
func (v *view) result(out *Result, pairs []Pair) error {
	n, t := len(v.dates), v.target
	level, lead := t.Level.String(), t.Lead.String()
	for i, sys := range v.systems {
		ofErrors := v.b.WithDecay(v.influences(i))
		for k := range v.entries[i] {
			e := &v.entries[i][k]
			if e.Diagram != nil {
				out.Diagrams = append(out.Diagrams, v.diagram(i, e))
			}
			if e.Value == nil {
				continue
			}
			value, interval := v.estimate(i, e, ofErrors)
			low, high := e.limits(value, interval.Low, interval.High)
			divisor, pairs := "none", ""
			switch {
			case v.isPublished(i, e):
				divisor = "published"
			case sys.Provides&Members != 0 && e.Divisor == "M-1" && e.Needs&Spread != 0:
				divisor = "M-1"
			case sys.Provides&Members != 0:
				pairs = e.Divisor
			case e.Needs&(Spread|Distribution) != 0:
				divisor = "predicted"
			}
			out.Scores = append(out.Scores, Value{ID: e.ID, System: sys.Name, Variable: t.Variable, Level: level, Lead: lead,
				LeadH: t.Lead.Hours(), Value: Number(value), CILow: Number(low), CIHigh: Number(high), N: n,
				Unit: e.UnitOf(t.Unit), Members: sys.MembersUsed, Divisor: divisor, Weights: v.grid.Name, Formula: v.formula(e),
				Points: v.points, Missing: v.absent, Region: v.name, Season: v.season, Threshold: v.threshold(e),
				MissingMembers: v.missing[i], Independent: Number(interval.Independent), Lag1: Number(interval.Lag1), NoInterval: string(interval.NoInterval), PairDivisor: pairs})
		}
		if k := slices.IndexFunc(v.entries[i], func(e entry) bool { return e.SharedSums == ranks }); k >= 0 {
			e := &v.entries[i][k]
			h := v.shares(func(mean []float64) []float64 { return mean[e.at+v.members[i]+1 : e.at+e.size] })
			out.Ranks = append(out.Ranks, v.histogram(i, e, h))
			out.Calibration = append(out.Calibration, v.calibration(i, RankHistogramKind, h))
		}
		if k := slices.IndexFunc(v.entries[i], func(e entry) bool { return e.Score == PITFlatness }); k >= 0 {
			e := &v.entries[i][k]
			h := v.shares(func(mean []float64) []float64 { return mean[e.at : e.at+e.size] })
			out.Calibration = append(out.Calibration, v.calibration(i, PITHistogramKind, h))
		}
	}
	for i := range out.Calibration {
		if c := &out.Calibration[i]; c.Region == v.name && c.Season == v.season {
			found := out.evidence(c.System, c.Variable, c.Level, c.Lead, c.Region, c.Season).Verdict()
			c.Bias, c.Dispersion, c.Text = found.Bias, found.Dispersion, found.Text
		}
	}
	for _, p := range pairs {
		if err := v.compare(out, p); err != nil {
			return err
		}
	}
	return nil
}

// compare appends the comparison of a pair, for each threshold if its score has any.
//
// Errors: an unknown system; a score that one of them lacks or that has no skill score.
func (v *view) compare(out *Result, p Pair) error {
	i, j := v.systemIndex(p.System), v.systemIndex(p.Reference)
	if p.ReferenceID == "" {
		p.ReferenceID = p.ID
	}
	if i < 0 || j < 0 {
		return fmt.Errorf("score: comparison of unknown systems %q and %q", p.System, p.Reference)
	}
	events := []int{-1}
	if s := ByID(p.ID); s != nil && (s.IsPerThreshold() || s.IsPerQuantile()) {
		list := v.o.Thresholds
		if s.IsPerQuantile() {
			list = v.o.Levels
		}
		events = events[:0]
		for e := range list {
			events = append(events, e)
		}
	}
	n, t := len(v.dates), v.target
	for _, event := range events {
		s, r := v.find(i, p.ID, event), v.find(j, p.ReferenceID, event)
		if s == nil || r == nil || !s.hasSkillScore() || !r.hasSkillScore() {
			return fmt.Errorf("score: no skill score of %s of %q relative to %s of %q: not computed, or not a score where lower is better", p.ID, p.System, p.ReferenceID, p.Reference)
		}
		ratios, without := v.each(func(mean []float64) float64 { return v.value(i, s, mean) / v.value(j, r, mean) })
		interval := v.b.EstimateSkill(ratios, without)
		out.Comparisons = append(out.Comparisons, Comparison{ID: p.ID, System: p.System, Reference: p.Reference, ReferenceID: p.ReferenceID,
			Variable: t.Variable, Level: t.Level.String(), Lead: t.Lead.String(), LeadH: t.Lead.Hours(),
			SkillScore: Number(1 - ratios[0]), CILow: Number(interval.Low), CIHigh: Number(interval.High), N: n,
			Region: v.name, Season: v.season, Threshold: v.threshold(s), P: Number(v.pValue(s, r)), Weights: v.grid.Name,
			Independent: Number(interval.Independent), Lag1: Number(interval.Lag1), NoInterval: string(interval.NoInterval)})
	}
	return nil
}

// pValue is the p-value of [significance.DieboldMariano] for scores that are means over dates of one
// quantity, up to a final function; NaN for others.
func (v *view) pValue(x, y *entry) float64 {
	one := func(e *entry) bool { return e.Parts == 1 || e.PerDate != nil }
	if !one(x) || !one(y) {
		return math.NaN()
	}
	var diff []float64
	for _, d := range v.dates {
		if c := d.Regions[v.region]; c.Weight > 0 {
			diff = append(diff, (c.Sums[x.at]-c.Sums[y.at])/c.Weight)
		}
	}
	return v.b.DieboldMariano(diff).P
}

// means is Σ times·sums / Σ times·weight over the dates; NaN without weight. The sums of up to four dates
// are added in one pass, in their order.
func means(dates []RegionSums, times []int, width int) []float64 {
	out := make([]float64, width)
	var weight float64
	var sums [4][]float64
	var factor [4]float64
	n := 0
	for i, t := range times {
		if t != 0 {
			factor[n], sums[n] = float64(t), dates[i].Sums[:width]
			weight += factor[n] * dates[i].Weight
			n++
		}
		switch {
		case n == len(sums):
			a, b, c, d := sums[0][:width], sums[1][:width], sums[2][:width], sums[3][:width]
			for j := range out {
				out[j] = out[j] + factor[0]*a[j] + factor[1]*b[j] + factor[2]*c[j] + factor[3]*d[j]
			}
			n = 0
		case i == len(times)-1:
			for k := range n {
				for j, v := range sums[k] {
					out[j] += factor[k] * v
				}
			}
		}
	}
	for j := range out {
		out[j] /= weight
	}
	return out
}

// diagram computes the table of a diagram with the interval of its column.
func (v *view) diagram(system int, e *entry) Diagram {
	t := v.target
	d := Diagram{DiagramKey: DiagramKey{ID: e.ID, System: v.systems[system].Name, Variable: t.Variable, Level: t.Level.String(), Lead: t.Lead.String(), LeadH: t.Lead.Hours(),
		Region: v.name, Season: v.season, Threshold: v.threshold(e)}, Unit: e.UnitOf(t.Unit), Members: v.systems[system].MembersUsed, N: len(v.dates),
		Columns: e.Diagram.Columns, IntervalColumn: e.Diagram.Columns[e.Diagram.IntervalColumn], Rows: [][]Number{}, Low: []Number{}, High: []Number{}}
	rows := func(sums []float64) [][]float64 {
		return e.Diagram.Rows(&Totals{Sums: sums[e.at : e.at+e.size], Weight: 1, Members: v.members[system]})
	}
	whole := rows(v.sums[0])
	column := func(means [][]float64) [][]float64 { // [row][sample] values of the column
		out := make([][]float64, len(whole))
		for i := range out {
			out[i] = make([]float64, len(means))
		}
		for k, m := range means {
			for i, row := range rows(m) {
				out[i][k] = row[e.Diagram.IntervalColumn]
			}
		}
		return out
	}
	resampled, without := column(v.sums), column(v.without)
	for i, row := range whole {
		if e.Diagram.WeightColumn >= 0 && !(row[e.Diagram.WeightColumn] > 0) {
			continue
		}
		// Resamples without this row do not count.
		values := slices.DeleteFunc(resampled[i], math.IsNaN)
		low, high := math.NaN(), math.NaN()
		if x := row[e.Diagram.IntervalColumn]; len(values) > 2 && !math.IsNaN(x) {
			for t, y := range without[i] {
				if math.IsNaN(y) {
					without[i][t] = x
				}
			}
			interval := v.b.Estimate(values, without[i])
			low, high = min(x, max(interval.Low, e.Diagram.Least)), max(x, min(interval.High, e.Diagram.Most))
		}
		numbers := make([]Number, len(row))
		for k, x := range row {
			numbers[k] = Number(x)
		}
		d.Rows, d.Low, d.High = append(d.Rows, numbers), append(d.Low, Number(low)), append(d.High, Number(high))
	}
	return d
}

// histogramShares are the shares of a histogram, which add up to 1: of the sample, then of
// the resamples; and without each date.
//
// Shape: [sample][place].
type histogramShares struct{ all, without [][]float64 }

// shares returns the shares of a histogram whose weights are a part of the means.
func (v *view) shares(of func(mean []float64) []float64) (h histogramShares) {
	normalised := func(means [][]float64) [][]float64 {
		out := make([][]float64, len(means))
		for i, m := range means {
			weights := of(m)
			var total float64
			for _, w := range weights {
				total += w
			}
			out[i] = make([]float64, len(weights))
			for k, w := range weights {
				out[i][k] = w / total
			}
		}
		return out
	}
	return histogramShares{normalised(v.sums), normalised(v.without)}
}

// interval is that of a function of the shares.
func (h histogramShares) interval(b significance.Bootstrap, of func(shares []float64) float64) (value float64, e significance.Estimate) {
	apply := func(shares [][]float64) []float64 {
		out := make([]float64, len(shares))
		for i, s := range shares {
			out[i] = of(s)
		}
		return out
	}
	values := apply(h.all)
	return values[0], b.Estimate(values, apply(h.without))
}

// histogram is the rank histogram of a system of members.
func (v *view) histogram(system int, e *entry, shares histogramShares) RankHistogram {
	t, m := v.target, v.members[system]
	h := RankHistogram{System: v.systems[system].Name, Variable: t.Variable, Level: t.Level.String(), Lead: t.Lead.String(), Region: v.name, Season: v.season,
		Members: m, N: len(v.dates), Counts: make([]float64, m+1), Shares: make([]float64, m+1)}
	for _, d := range v.dates {
		for k, c := range d.Regions[v.region].Sums[e.at : e.at+m+1] {
			h.Counts[k] += c
		}
	}
	h.Shares = shares.all[0]
	flat, dates := 1/float64(m+1), make([]float64, m+1)
	for k, s := range h.Shares {
		_, i := shares.interval(v.b, func(shares []float64) float64 { return shares[k] })
		h.Low, h.High = append(h.Low, Number(flat-(i.High-s))), append(h.High, Number(flat+(s-i.Low)))
		dates[k] = s * float64(len(v.dates))
	}
	h.Test = TestFlatness(dates)
	return h
}
