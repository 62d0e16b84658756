package score

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Number is a float64 that JSON shows as null where it is missing.
type Number float64

// MarshalJSON writes NaN and infinities as null.
func (n Number) MarshalJSON() ([]byte, error) {
	v := float64(n)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, v, 'g', 10, 64), nil
}

// UnmarshalJSON reads null as NaN.
func (n *Number) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(raw, (*float64)(n))
}

// Value is one score of one system with its interval.
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
	Members  int     `json:"members"` // used by the system; 0: none
	Divisor  string  `json:"divisor"` // of the spread
	Weights  string  `json:"weights"`
	Formula  string  `json:"formula"`
	Points   int     `json:"points"`  // point-dates that entered
	Missing  int     `json:"missing"` // point-dates dropped for all systems alike
}

// Comparison is the relative gain of one system over a reference on the same
// dates and points: (reference − system)/reference for scores where less is
// better. Its interval is paired: both scores are taken from the same resampled
// dates. Gain > 0 is better.
type Comparison struct {
	ID          string  `json:"id"`
	System      string  `json:"system"`
	Reference   string  `json:"reference"`
	ReferenceID string  `json:"reference_id"` // score of the reference; mostly ID itself
	Variable    string  `json:"variable"`
	Level       string  `json:"level"`
	Lead        string  `json:"lead"`
	LeadH       float64 `json:"lead_h"`
	Gain        Number  `json:"gain"`
	CILow       Number  `json:"ci_low"`
	CIHigh      Number  `json:"ci_high"`
	N           int     `json:"n"`
}

// Result is what verification publishes.
type Result struct {
	Scores      []Value         `json:"scores"`
	Comparisons []Comparison    `json:"comparisons"`
	Ranks       []RankHistogram `json:"rank_histograms"`
	Bootstrap   Bootstrap       `json:"bootstrap"`
}

// MarshalJSON writes empty lists as [], so that a reader can go through them.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	r.Scores = append([]Value{}, r.Scores...)
	r.Comparisons = append([]Comparison{}, r.Comparisons...)
	r.Ranks = append([]RankHistogram{}, r.Ranks...)
	return json.Marshal(plain(r))
}

// Append adds the results for another target.
func (r *Result) Append(o *Result) {
	r.Scores = append(r.Scores, o.Scores...)
	r.Comparisons = append(r.Comparisons, o.Comparisons...)
	r.Ranks = append(r.Ranks, o.Ranks...)
	r.Bootstrap = o.Bootstrap
}

// Find gives the score of a system, or nil.
func (r *Result) Find(id, system, variable, level, lead string) *Value {
	i := slices.IndexFunc(r.Scores, func(v Value) bool {
		return v.ID == id && v.System == system && v.Variable == variable && v.Level == level && v.Lead == lead
	})
	if i < 0 {
		return nil
	}
	return &r.Scores[i]
}

// Pair asks for a comparison. ReferenceID is the reference's score where it is
// not ID: the Gaussian CRPS of a distribution against the plain CRPS of members.
type Pair struct{ ID, System, Reference, ReferenceID string }

// Pairs asks for all scores with direction Lower that system and reference both
// have.
func (a *Accumulator) Pairs(system, reference string) []Pair {
	var out []Pair
	i, j := a.find(system), a.find(reference)
	if i < 0 || j < 0 {
		return nil
	}
	for _, s := range a.plan[i] {
		if s.Better == Lower && slices.Contains(a.plan[j], s) {
			out = append(out, Pair{ID: s.ID, System: system, Reference: reference})
		}
	}
	return out
}

func (a *Accumulator) find(system string) int {
	return slices.IndexFunc(a.systems, func(s System) bool { return s.Name == system })
}

// Result computes all scores of all systems, the comparisons asked for, and
// their intervals. It may be called again after more dates.
//
// Errors: no dates, a pair that names a system or score that is not there or has
// no direction Lower, a bootstrap that does not fit the dates.
func (a *Accumulator) Result(b Bootstrap, pairs []Pair) (*Result, error) {
	n := len(a.dates)
	if n == 0 {
		return nil, fmt.Errorf("score: %s: no dates", a.target.Variable)
	}
	b, err := b.resolved(n)
	if err != nil {
		return nil, err
	}
	dates := slices.SortedFunc(slices.Values(a.dates), func(x, y Date) int { return x.Init.Compare(y.Init.Time) })
	points, missing, ranks := 0, 0, histograms(a.members)
	for _, d := range dates {
		points, missing = points+d.Points, missing+d.Missing
		addRanks(ranks, d.Ranks)
	}
	once := make([]int, n)
	for i := range once {
		once[i] = 1
	}
	all := append([][]int{once}, b.draws(n)...)
	sums := make([][]float64, len(all)) // means of all parts in each resample; the first is the sample itself
	for k, times := range all {
		sums[k] = means(dates, times, a.width)
	}
	series := func(system int, id string) ([]float64, *Score) {
		for k, s := range a.plan[system] {
			if s.ID == id {
				out := make([]float64, len(sums))
				at := a.offset[system][k]
				for i, m := range sums {
					out[i] = s.Value(m[at:at+s.Parts], a.members[system])
				}
				return out, s
			}
		}
		return nil, nil
	}
	res := &Result{Bootstrap: b}
	level, lead := a.target.Level.String(), a.target.Lead.String()
	for i, sys := range a.systems {
		for _, s := range a.plan[i] {
			v, _ := series(i, s.ID)
			value := v[0]
			low, high := b.interval(v[1:], n)
			divisor := "none"
			switch {
			case s.Needs&(Spread|Members) == 0 || s == CRPSPlain || s == CRPSFair:
			case sys.Gives&Members != 0:
				divisor = "M-1"
			default:
				divisor = "predicted"
			}
			res.Scores = append(res.Scores, Value{ID: s.ID, System: sys.Name, Variable: a.target.Variable, Level: level, Lead: lead,
				LeadH: a.target.Lead.Hours(), Value: Number(value), CILow: Number(low), CIHigh: Number(high), N: n,
				Unit: s.UnitOf(a.target.Unit), Members: sys.MembersUsed, Divisor: divisor, Weights: a.grid.Name, Formula: s.Formula,
				Points: points, Missing: missing})
		}
		if a.members[i] > 0 {
			res.Ranks = append(res.Ranks, a.histogram(i, ranks[i], level, lead))
		}
	}
	for _, p := range pairs {
		i, j := a.find(p.System), a.find(p.Reference)
		if p.ReferenceID == "" {
			p.ReferenceID = p.ID
		}
		if i < 0 || j < 0 {
			return nil, fmt.Errorf("score: no system %q or %q to compare", p.System, p.Reference)
		}
		x, s := series(i, p.ID)
		y, r := series(j, p.ReferenceID)
		if s == nil || r == nil || s.Better != Lower || r.Better != Lower {
			return nil, fmt.Errorf("score: cannot compare %s of %q with %s of %q", p.ID, p.System, p.ReferenceID, p.Reference)
		}
		gain := make([]float64, len(x))
		for k := range gain {
			gain[k] = (y[k] - x[k]) / y[k]
		}
		value := gain[0]
		low, high := b.interval(gain[1:], n)
		res.Comparisons = append(res.Comparisons, Comparison{ID: p.ID, System: p.System, Reference: p.Reference, ReferenceID: p.ReferenceID,
			Variable: a.target.Variable, Level: level, Lead: lead, LeadH: a.target.Lead.Hours(),
			Gain: Number(value), CILow: Number(low), CIHigh: Number(high), N: n})
	}
	return res, nil
}

// means are Σ times·sums / Σ times·weight over the dates, NaN without weight.
func means(dates []Date, times []int, width int) []float64 {
	out := make([]float64, width)
	var weight float64
	for i, t := range times {
		if t == 0 {
			continue
		}
		k := float64(t)
		weight += k * dates[i].Weight
		for j, v := range dates[i].Sums {
			out[j] += k * v
		}
	}
	for j := range out {
		out[j] /= weight
	}
	return out
}

func (a *Accumulator) histogram(system int, ranks [][]float64, level, lead string) RankHistogram {
	var total float64
	for _, v := range ranks[1] {
		total += v
	}
	shares := make([]float64, len(ranks[1]))
	for i, v := range ranks[1] {
		shares[i] = v / total
	}
	return RankHistogram{System: a.systems[system].Name, Variable: a.target.Variable, Level: level, Lead: lead,
		Members: a.members[system], N: len(a.dates), Counts: ranks[0], Shares: shares}
}
