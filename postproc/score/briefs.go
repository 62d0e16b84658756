package score

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// Brief contains what a reader wants to know first about one target, over the whole area and all dates. The first
// system is the network, if there is one. Text and reports are made from it.
type Brief struct {
	Variable, Level, Lead string
	LeadH                 float64
	// Score is the main score of the first system: the CRPS of its distribution or members, or the
	// error of its spread.
	Score Value
	// Rows has the main score of every system that compares with Score, the first system first.
	Rows []Value
	// Gains are the skill scores of the first system relative to each other one, in the order of the
	// result.
	Gains []Comparison
	// Spread-skill ratio, bias, RMSE and histogram of the first system; nil: not scored.
	Ratio, Bias, RMSE *Value
	Calibration       *Calibration
	// Verdict is that on the calibration of the first system.
	Verdict Verdict
}

// targetKey identifies a target in a result.
type targetKey struct{ variable, level, lead string }

// Briefs returns a brief for each target, in the order of the result.
func (r *Result) Briefs() (all []Brief) {
	for _, k := range r.overallTargets() {
		rows := r.mainScores(k)
		if len(rows) == 0 {
			continue
		}
		first := rows[0].System
		find := func(id string) *Value { return r.Find(id, first, k.variable, k.level, k.lead) }
		b := Brief{Variable: k.variable, Level: k.level, Lead: k.lead, LeadH: rows[0].LeadH, Score: rows[0], Rows: rows, Verdict: r.VerdictOf(first, k.variable, k.level, k.lead),
			Ratio: find(SpreadSkill.ID), Bias: find(Bias.ID), RMSE: find(RMSE.ID)}
		for _, c := range r.Comparisons {
			if (targetKey{c.Variable, c.Level, c.Lead}) == k && IsOverall(c.Region, c.Season) && c.System == first && c.ID == b.Score.ID &&
				slices.ContainsFunc(rows, func(o Value) bool { return o.System == c.Reference && o.ID == c.ReferenceID }) {
				b.Gains = append(b.Gains, c)
			}
		}
		for i, c := range r.Calibration {
			if c.System == first && (targetKey{c.Variable, c.Level, c.Lead}) == k && IsOverall(c.Region, c.Season) {
				b.Calibration = &r.Calibration[i]
			}
		}
		all = append(all, b)
	}
	return all
}

// overallTargets lists the targets scored over the whole area and year.
func (r *Result) overallTargets() (targets []targetKey) {
	for _, v := range r.Scores {
		if k := (targetKey{v.Variable, v.Level, v.Lead}); IsOverall(v.Region, v.Season) && !slices.Contains(targets, k) {
			targets = append(targets, k)
		}
	}
	return targets
}

// mainScores selects one score of each system: its CRPS, or the error of its spread if the first system has no CRPS.
func (r *Result) mainScores(k targetKey) (rows []Value) {
	// Of several CRPS of a system the last is selected.
	for _, ids := range [][]string{{CRPSGauss.ID, CRPSPlain.ID, CRPSFamily.ID}, {SpreadRMSE.ID}} {
		first := ""
		for _, v := range r.Scores {
			if (targetKey{v.Variable, v.Level, v.Lead}) != k || !IsOverall(v.Region, v.Season) {
				continue
			}
			first = cmp.Or(first, v.System)
			if !slices.Contains(ids, v.ID) {
				continue
			}
			at := slices.IndexFunc(rows, func(o Value) bool { return o.System == v.System })
			if at < 0 {
				rows = append(rows, v)
			} else if slices.Index(ids, v.ID) > slices.Index(ids, rows[at].ID) {
				rows[at] = v
			}
		}
		if len(rows) > 0 && rows[0].System == first {
			return rows
		}
		if len(ids) > 1 {
			rows = nil
		}
	}
	return rows
}

// Ranking is the main score of every system that has a value, best first.
func (b *Brief) Ranking() []Value {
	all := slices.DeleteFunc(slices.Clone(b.Rows), func(v Value) bool { return math.IsNaN(float64(v.Value)) })
	slices.SortStableFunc(all, func(a, c Value) int { return cmp.Compare(a.Value, c.Value) })
	return all
}

// Prefixes of the names of systems: raw ensembles, such as raw10, and what the network made.
const (
	rawPrefix     = "raw"
	networkPrefix = "network"
)

// RawMembers is the number of members of a raw ensemble; 0 for other systems.
func RawMembers(system string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(system, rawPrefix))
	if err != nil || !strings.HasPrefix(system, rawPrefix) {
		return 0
	}
	return n
}

// Input is the skill score relative to the raw ensemble of fewest members, which the network read; nil without.
func (b *Brief) Input() *Comparison {
	return b.raw(func(a, c Comparison) int { return cmp.Compare(RawMembers(a.Reference), RawMembers(c.Reference)) })
}

// Full is the skill score relative to the raw ensemble of most members; nil without, and if it is Input.
func (b *Brief) Full() *Comparison {
	full := b.raw(func(a, c Comparison) int { return cmp.Compare(RawMembers(c.Reference), RawMembers(a.Reference)) })
	if full == b.Input() {
		return nil
	}
	return full
}

// raw is the first skill score relative to a raw ensemble in some order; nil without.
func (b *Brief) raw(order func(a, c Comparison) int) (first *Comparison) {
	for i, c := range b.Gains {
		if RawMembers(c.Reference) > 0 && (first == nil || order(c, *first) < 0) {
			first = &b.Gains[i]
		}
	}
	return first
}

// Baseline is the skill score relative to the best system that is neither a raw ensemble nor made by the network; nil
// without.
func (b *Brief) Baseline() *Comparison {
	for _, v := range b.Ranking() {
		if v.System == b.Score.System || RawMembers(v.System) > 0 || strings.HasPrefix(v.System, networkPrefix) {
			continue
		}
		if i := slices.IndexFunc(b.Gains, func(c Comparison) bool { return c.Reference == v.System }); i >= 0 {
			return &b.Gains[i]
		}
	}
	return nil
}

// Main is the skill score that a summary states first: Input, or else Baseline; nil without.
func (b *Brief) Main() *Comparison { return cmp.Or(b.Input(), b.Baseline()) }

// MainGains returns the skill scores that summaries state, in their order.
func MainGains() []func(b *Brief) *Comparison {
	return []func(b *Brief) *Comparison{(*Brief).Input, (*Brief).Full, (*Brief).Baseline}
}

// IsBiased reports whether the interval of the bias excludes 0, and the bias exceeds a tenth of the RMSE.
func (b *Brief) IsBiased() bool {
	return b.Bias != nil && b.RMSE != nil && measured(b.Bias).Relative(0) != On && measured(b.Bias).Relative(0) != Unmeasured && math.Abs(float64(b.Bias.Value)) > 0.1*float64(b.RMSE.Value)
}

// fewIndependent is the number of independent dates below which intervals are described as wide.
const fewIndependent = 10

// hasFewIndependent reports whether the dates of a score depend on each other so much that few independent ones remain.
func (v *Value) hasFewIndependent() bool {
	n := float64(v.Independent)
	return n > 0 && n < fewIndependent && n < float64(v.N)/2 && v.N >= significance.MinDates
}

// DatesText states, once for all targets, that there are few dates, or that they depend on each other, and what to do; ""
// if there are enough.
func (r *Result) DatesText(all []Brief) string {
	var few, short []*Value
	needed := r.Bootstrap.MinDates()
	for i := range all {
		switch v := &all[i].Score; {
		case v.N < needed && measured(v).Relative(0) == Unmeasured:
			short = append(short, v)
		case v.hasFewIndependent():
			few = append(few, v)
		}
	}
	some := func(n int) string { // which targets
		if n == len(all) {
			return ""
		}
		return fmt.Sprintf(" in %d of %d targets", n, len(all))
	}
	if len(short) > 0 {
		n := slices.MinFunc(short, func(a, c *Value) int { return cmp.Compare(a.N, c.N) }).N
		return fmt.Sprintf("There %s only %s%s: verify %d or more for intervals and a verdict on calibration.", map[bool]string{true: "is", false: "are"}[n == 1], humanise.Count(n, "date"), some(len(short)), needed)
	}
	if len(few) == 0 {
		return ""
	}
	low := slices.MinFunc(few, func(a, c *Value) int { return cmp.Compare(a.Independent, c.Independent) })
	high := slices.MaxFunc(few, func(a, c *Value) int { return cmp.Compare(a.Independent, c.Independent) })
	least, most := max(1, int(math.Round(float64(low.Independent)))), max(1, int(math.Round(float64(high.Independent))))
	count := fmt.Sprint(least)
	if most > least {
		count = fmt.Sprintf("%d to %d", least, most)
	}
	ones := map[bool]string{true: "one", false: "ones"}[most == 1]
	interval := "Intervals are wide"
	if len(all) == 1 {
		interval = "The interval is wide"
	} else if len(few) < len(all) {
		interval = "Their intervals are wide"
	}
	return fmt.Sprintf("The scores of neighbouring dates are alike (correlation %.2f): %d dates carry as much information as about %s independent %s%s. %s; verify more dates.", float64(low.Lag1), low.N, count, ones, some(len(few)), interval)
}
