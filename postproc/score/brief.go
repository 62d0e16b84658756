package score

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// briefRows is the largest number of rows in the table of a Brief.
const briefRows = 10

// Brief formats the result for a first look: two or three sentences (the skill of the first
// system, its calibration, what needs attention), then one table of at most ten
// rows. With one target a row is a system, with several it is a target. Sections has all
// results.
func (r *Result) Brief() answer.Sections {
	all := r.briefTargets()
	if len(all) == 0 {
		return nil
	}
	short := answer.Section{Title: "In short", Paragraphs: []string{skillSentence(all, r.Bootstrap.confidence()), calibrationSentence(all)}}
	if text := r.watchSentence(all); text != "" {
		short.Paragraphs = append(short.Paragraphs, text)
	}
	table := r.targetsTable(all)
	if len(all) == 1 {
		table = r.systemsTable(&all[0])
	}
	return answer.Sections{short, table}
}

// briefTarget holds what a Brief states about one target.
type briefTarget struct {
	targetKey
	rows        []Value      // the main score of each system, as in a summary
	raw         *Comparison  // with the raw ensemble of most members; nil without
	baseline    *Comparison  // with the best baseline; nil without
	ratio       *Value       // spread-skill ratio of the first system; nil without
	bias        *Value       // bias of the first system; nil without
	rmse        *Value       // RMSE of the first system; nil without
	calibration *Calibration // of the first system; nil without
	verdict     Verdict      // on the calibration of the first system
}

// briefTargets collects what a Brief states, by target.
func (r *Result) briefTargets() (all []briefTarget) {
	for _, k := range r.summaryTargets() {
		rows := r.summaryScores(k)
		if len(rows) == 0 {
			continue
		}
		first := rows[0].System
		t := briefTarget{targetKey: k, rows: rows, verdict: r.VerdictOf(first, k.variable, k.level, k.lead)}
		find := func(id string) *Value { return r.Find(id, first, k.variable, k.level, k.lead) }
		t.ratio, t.bias, t.rmse = find(SpreadSkill.ID), find(Bias.ID), find(RMSE.ID)
		var members int
		var best Number
		for _, v := range rows[1:] {
			c := r.summaryComparison(k, rows[0], v)
			switch {
			case c == nil || strings.HasPrefix(v.System, first):
			case strings.HasPrefix(v.System, rawPrefix):
				if v.Members > members {
					t.raw, members = c, v.Members
				}
			case t.baseline == nil || v.Value < best:
				t.baseline, best = c, v.Value
			}
		}
		for i, c := range r.Calibration {
			if c.System == first && (targetKey{c.Variable, c.Level, c.Lead}) == k && IsOverall(c.Region, c.Season) {
				t.calibration = &r.Calibration[i]
			}
		}
		all = append(all, t)
	}
	return all
}

// rawPrefix begins the names of raw ensembles, such as raw10.
const rawPrefix = "raw"

// name is the target as text.
func (k targetKey) name() string { return target(k.variable, k.level, k.lead, "", "") }

// quantity names the main score of the target for a reader without statistics.
func (t *briefTarget) quantity() string {
	if t.rows[0].ID == SpreadRMSE.ID {
		return "error of the predicted spread"
	}
	return "forecast error (CRPS)"
}

// main is the comparison that the first sentence states: with the raw ensemble or else the best baseline; nil without.
func (t *briefTarget) main() *Comparison {
	if t.raw != nil {
		return t.raw
	}
	return t.baseline
}

// referenceName describes the reference of a comparison.
func referenceName(c *Comparison) string {
	if n, is := strings.CutPrefix(c.Reference, rawPrefix); is {
		return "the raw ensemble of " + n + " members"
	}
	return "the baseline " + c.Reference
}

// change describes a skill score as a change in error: "12.3 % smaller".
func change(skill Number) string {
	if skill < 0 {
		return fmt.Sprintf("%.1f %% larger", -100*float64(skill))
	}
	return fmt.Sprintf("%.1f %% smaller", 100*float64(skill))
}

// intervalText states the interval of a skill score, or why there is none.
func (c *Comparison) intervalText(confidence string) string {
	switch {
	case math.IsNaN(float64(c.CILow)):
		return "too few dates for an interval"
	case c.CILow <= 0 && c.CIHigh >= 0:
		return fmt.Sprintf("which may be chance: %s interval %.1f to %.1f %%", confidence, 100*float64(c.CILow), 100*float64(c.CIHigh))
	case c.CIHigh < 0:
		return fmt.Sprintf("%s interval %.1f to %.1f %%", confidence, -100*float64(c.CIHigh), -100*float64(c.CILow))
	}
	return fmt.Sprintf("%s interval %.1f to %.1f %%", confidence, 100*float64(c.CILow), 100*float64(c.CIHigh))
}

// skillSentence states the skill of the first system relative to the raw ensemble and the best baseline.
func skillSentence(all []briefTarget, confidence string) string {
	if len(all) == 1 {
		t := &all[0]
		c := t.main()
		if c == nil {
			v := t.rows[0]
			return fmt.Sprintf("The %s is %s %s. There is nothing to compare it with: give --members and --run-dir.", t.quantity(), digits(v.Value), v.Unit)
		}
		text := fmt.Sprintf("The %s is %s than that of %s (%s).", t.quantity(), change(c.SkillScore), referenceName(c), c.intervalText(confidence))
		if b := t.baseline; b != nil && b != c {
			text += fmt.Sprintf(" Relative to the best baseline, %s, it is %s (%s).", b.Reference, change(b.SkillScore), b.intervalText(confidence))
		}
		return text
	}
	compared := slices.DeleteFunc(slices.Clone(all), func(t briefTarget) bool { return t.main() == nil || math.IsNaN(float64(t.main().SkillScore)) })
	if len(compared) == 0 {
		return fmt.Sprintf("The errors of %d targets are in the table. There is nothing to compare them with: give --members and --run-dir.", len(all))
	}
	slices.SortFunc(compared, func(a, b briefTarget) int { return cmp.Compare(a.main().SkillScore, b.main().SkillScore) })
	least, most := compared[0].main(), compared[len(compared)-1].main()
	sure, judged := 0, 0
	for _, t := range compared {
		if c := t.main(); !math.IsNaN(float64(c.CILow)) {
			judged++
			if c.CILow > 0 {
				sure++
			}
		}
	}
	text := fmt.Sprintf("The %s is %s than that of %s, depending on variable, level and lead", all[0].quantity(), changes(least.SkillScore, most.SkillScore), referenceName(least))
	if judged == 0 {
		return text + "; there are too few dates for intervals."
	}
	text += fmt.Sprintf("; it is smaller beyond chance (%s intervals) for %d of %d.", confidence, sure, judged)
	low, high := math.Inf(1), math.Inf(-1)
	for _, t := range all {
		if t.baseline != nil && t.raw != nil {
			low, high = min(low, float64(t.baseline.SkillScore)), max(high, float64(t.baseline.SkillScore))
		}
	}
	if low <= high {
		text += fmt.Sprintf(" Relative to the best baseline of each it is %s.", changes(Number(low), Number(high)))
	}
	return text
}

// changes describes the range of skill scores as changes in error: "12.3 to 20.1 % smaller".
func changes(least, most Number) string {
	switch {
	case least < 0 && most < 0:
		return fmt.Sprintf("%.1f to %.1f %% larger", -100*float64(most), -100*float64(least))
	case least < 0:
		return fmt.Sprintf("%.1f %% larger to %.1f %% smaller", -100*float64(least), 100*float64(most))
	}
	return fmt.Sprintf("%.1f to %.1f %% smaller", 100*float64(least), 100*float64(most))
}

// isBiased reports whether the interval of the bias excludes 0, and the bias matters.
func (t *briefTarget) isBiased() bool {
	return t.bias != nil && t.rmse != nil && (t.bias.CILow > 0 || t.bias.CIHigh < 0) && math.Abs(float64(t.bias.Value)) > 0.1*float64(t.rmse.Value)
}

// ratioText states the spread-skill ratio: "spread / error 0.97".
func (t *briefTarget) ratioText() string {
	if t.ratio == nil || math.IsNaN(float64(t.ratio.Value)) {
		return "spread unknown"
	}
	return fmt.Sprintf("spread / error %.2f", float64(t.ratio.Value))
}

// word describes the calibration of a target in a word, and in a sentence for readers without statistics. Both follow
// from its Verdict.
func (t *briefTarget) word() (word, sentence string) {
	c, v := t.calibration, t.verdict
	switch {
	case c == nil:
		return "not judged", fmt.Sprintf("Calibration is not judged (%s).", t.ratioText())
	case c.Bias == "unknown" || v.Calibrated == "unknown":
		return "not judged", fmt.Sprintf("%s too few to judge calibration (%s).", humanise.Count(c.N, "date")+map[bool]string{true: " is", false: " are"}[c.N == 1], t.ratioText())
	case v.Calibrated == "yes":
		return "calibrated", fmt.Sprintf("It is calibrated: analyses fall into the forecast's ranges as often as it states (%s).", t.ratioText())
	case v.Calibrated == "nearly":
		return "nearly calibrated", fmt.Sprintf("It is nearly calibrated: its spread is right (%s), single ranges are hit too often or too seldom.", t.ratioText())
	case v.Dispersion == "uneven":
		return "uneven spread", v.Text
	case v.Dispersion == "too_small":
		return "too confident", fmt.Sprintf("It is too confident: analyses fall outside its ranges more often than it states (%s).", t.ratioText())
	case v.Dispersion == "too_large":
		return "too cautious", fmt.Sprintf("It is too cautious: analyses lie near its middle more often than it states (%s).", t.ratioText())
	case v.Bias == "too_low":
		return "too low", fmt.Sprintf("Its spread is right (%s), but its values are too low on average.", t.ratioText())
	case v.Bias == "too_high":
		return "too high", fmt.Sprintf("Its spread is right (%s), but its values are too high on average.", t.ratioText())
	}
	return "uneven bias", v.Text
}

// calibrationSentence states whether the first system is calibrated: for several targets how many are, and the
// frequent faults.
func calibrationSentence(all []briefTarget) string {
	if len(all) == 1 {
		_, text := all[0].word()
		return text
	}
	var words []string
	count := map[string]int{}
	for i := range all {
		word, _ := all[i].word()
		if count[word]++; count[word] == 1 {
			words = append(words, word)
		}
	}
	slices.SortStableFunc(words, func(a, b string) int { return cmp.Compare(count[b], count[a]) })
	var parts []string
	for _, w := range words {
		parts = append(parts, fmt.Sprintf("%d %s", count[w], w))
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, t := range all {
		if t.ratio != nil && !math.IsNaN(float64(t.ratio.Value)) {
			low, high = min(low, float64(t.ratio.Value)), max(high, float64(t.ratio.Value))
		}
	}
	text := fmt.Sprintf("Calibration of %d targets: %s", len(all), strings.Join(parts, ", "))
	if low <= high {
		text += fmt.Sprintf(" (spread / error %.2f to %.2f; 1 is right)", low, high)
	}
	return text + "."
}

// watchSentence states what needs attention first; "" for nothing.
func (r *Result) watchSentence(all []briefTarget) string {
	var lost, chance, biased []string
	for i := range all {
		t := &all[i]
		for _, c := range []*Comparison{t.raw, t.baseline} {
			if c == nil {
				continue
			}
			text := fmt.Sprintf("%s (%s than %s)", t.name(), change(c.SkillScore), c.Reference)
			switch {
			case c.CIHigh < 0:
				lost = append(lost, text)
			case c.CILow <= 0 && c.CIHigh >= 0 && c.SkillScore < 0:
				chance = append(chance, text)
			}
		}
		if t.isBiased() {
			biased = append(biased, fmt.Sprintf("%s (%+.3g %s, %.0f %% of its error)", t.name(), float64(t.bias.Value), t.bias.Unit, 100*math.Abs(float64(t.bias.Value))/float64(t.rmse.Value)))
		}
	}
	few := ""
	for i := range all {
		dates := humanise.Count(all[i].rows[0].N, "date")
		switch n := float64(all[i].rows[0].Independent); {
		case few != "":
		case all[i].rows[0].N < minDates:
			few = fmt.Sprintf("%s: give %d or more for intervals and calibration", dates, minDates)
		case n > 0 && n < fewIndependent:
			few = fmt.Sprintf("%s of %s count as only %.1f independent ones, so intervals are wide", dates, all[i].name(), n)
		}
	}
	for _, w := range []struct {
		what string
		list []string
	}{{"it is worse at ", lost}, {"it has a bias at ", biased}, {"it may be worse at ", chance}} {
		if len(w.list) == 0 {
			continue
		}
		more := ""
		if n := len(w.list); n > 2 {
			w.list, more = w.list[:2], fmt.Sprintf(" and %d more", n-2)
		}
		return "Watch: " + w.what + strings.Join(w.list, ", ") + more + "."
	}
	if few != "" {
		return "Watch: " + few + "."
	}
	if systems := r.dependentSystems(); len(systems) > 0 {
		return "Watch: members of " + strings.Join(systems, ", ") + " depend on each other: do not compare their fair scores."
	}
	return ""
}

// systemsTable is the table of one target, a row for each system.
func (r *Result) systemsTable(t *briefTarget) answer.Section {
	first, unit := t.rows[0], t.rows[0].Unit
	name := "CRPS"
	if first.ID == SpreadRMSE.ID {
		name = "error of spread"
	}
	s := answer.Section{Title: fmt.Sprintf("%s, %s", t.name(), humanise.Count(first.N, "date")),
		Columns: slices.Concat(answer.TextColumns("system"), []answer.Column{answer.NumberColumn(name, unit, ""), answer.NumberColumn("RMSE", unit, "")},
			answer.NumberColumns("", "spread/error", "skill %", "low", "high"))}
	for _, v := range t.rows[:min(len(t.rows), briefRows)] {
		other := func(id string) any {
			if o := r.Find(id, v.System, v.Variable, v.Level, v.Lead); o != nil {
				return digits(o.Value)
			}
			return nil
		}
		row := []any{v.System, digits(v.Value), other(RMSE.ID), other(SpreadSkill.ID)}
		if v.System == first.System {
			row = append(row, "", "", "")
		} else if c := r.summaryComparison(t.targetKey, first, v); c != nil {
			row = append(row, percent1(c.SkillScore), percent1(c.CILow), percent1(c.CIHigh))
		} else {
			row = append(row, nil, nil, nil)
		}
		s.Rows = append(s.Rows, row)
	}
	if n := len(t.rows) - briefRows; n > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("... and %s", humanise.Count(n, "further system")))
	}
	s.Notes = append(s.Notes, fmt.Sprintf("skill: by how much the %s of %s is lower; low, high: %s interval", name, first.System, r.Bootstrap.confidence()))
	return s
}

// targetsTable is the table of several targets, a row for each.
func (r *Result) targetsTable(all []briefTarget) answer.Section {
	reference := "-"
	for i := range all {
		if c := all[i].main(); c != nil {
			reference = c.Reference
		}
	}
	dates, name := humanise.Count(all[0].rows[0].N, "date"), "CRPS"
	if all[0].rows[0].ID == SpreadRMSE.ID {
		name = "error of spread"
	}
	for i := range all {
		if all[i].rows[0].N != all[0].rows[0].N {
			dates = "dates differ"
		}
	}
	s := answer.Section{Title: fmt.Sprintf("%s of %s, %s", name, all[0].rows[0].System, dates),
		Columns: append(answer.TextColumns("target", "unit"), answer.NumberColumns("", name, reference, "skill %", "low", "high", "spread/error")...)}
	for i := range all[:min(len(all), briefRows)] {
		t := &all[i]
		row := []any{t.name(), t.rows[0].Unit, digits(t.rows[0].Value), nil, nil, nil, nil, nil}
		if c := t.main(); c != nil {
			for _, v := range t.rows {
				if v.System == c.Reference {
					row[3] = digits(v.Value)
				}
			}
			row[4], row[5], row[6] = percent1(c.SkillScore), percent1(c.CILow), percent1(c.CIHigh)
		}
		if t.ratio != nil {
			row[7] = fmt.Sprintf("%.2f", float64(t.ratio.Value))
		}
		s.Rows = append(s.Rows, row)
	}
	if n := len(all) - briefRows; n > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("... and %s", humanise.Count(n, "further target")))
	}
	s.Notes = append(s.Notes, fmt.Sprintf("skill: by how much it is lower than %s; low, high: %s interval", reference, r.Bootstrap.confidence()))
	return s
}

// percent1 formats a fraction in percent with one decimal; "-" for missing values.
func percent1(n Number) string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*float64(n))
}
