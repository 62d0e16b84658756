package score

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// briefRows is the largest number of rows in the table of a Brief.
const briefRows = 10

// Brief formats the result for a first look: two to four sentences (the skill of the first
// system, its calibration, what needs attention), then one table of at most ten
// rows, then where the rest is. With one target a row is a system, with several it is a target. Sections has all
// results.
func (r *Result) Brief(rest string) answer.Sections {
	all := r.Briefs()
	if len(all) == 0 {
		return nil
	}
	short := answer.Section{Title: "In short", Paragraphs: []string{skillSentence(all, r.confidence()), calibrationSentence(all)}}
	for _, text := range []string{r.watchSentence(all), r.DatesText(all)} {
		if text != "" {
			short.Paragraphs = append(short.Paragraphs, text)
		}
	}
	table := r.targetsTable(all)
	if len(all) == 1 {
		table = r.systemsTable(&all[0])
	}
	return answer.Sections{short, table, {Text: []string{rest + "; terms: docs/glossary.md"}}}
}

// name is the target as text.
func (b *Brief) name() string { return target(b.Variable, b.Level, b.Lead, "", "") }

// quantity names the main score of the target for a reader without statistics.
func (b *Brief) quantity() string {
	if b.Score.ID == SpreadRMSE.ID {
		return "error of the predicted spread"
	}
	return "forecast error (CRPS)"
}

// referenceName describes the reference of a comparison.
func referenceName(c *Comparison) string {
	if n := RawMembers(c.Reference); n > 0 {
		return fmt.Sprintf("the raw ensemble of %d members", n)
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
	case math.IsNaN(float64(c.CILow)) && c.NoInterval == string(significance.TooWide):
		return fmt.Sprintf("no interval, which would be too wide: %d dates carry as much information as about %.1f independent ones, with a correlation of %.2f from one to the next", c.N, float64(c.Independent), float64(c.Lag1))
	case math.IsNaN(float64(c.CILow)):
		return "too few dates for an interval"
	case c.CILow <= 0 && c.CIHigh >= 0:
		return fmt.Sprintf("which may be chance: %s interval %s to %s %%", confidence, percent(c.CILow, 1), percent(c.CIHigh, 1))
	case c.CIHigh < 0:
		return fmt.Sprintf("%s interval %s to %s %%", confidence, percent(-c.CIHigh, 1), percent(-c.CILow, 1))
	}
	return fmt.Sprintf("%s interval %s to %s %%", confidence, percent(c.CILow, 1), percent(c.CIHigh, 1))
}

// skillSentence states the skill of the first system relative to the raw ensembles and the best baseline.
func skillSentence(all []Brief, confidence string) string {
	if len(all) == 1 {
		return skillOfOne(&all[0], confidence)
	}
	parts, sure, judged := []string{}, 0, 0
	for _, of := range MainGains() {
		var found []*Comparison
		for i := range all {
			if c := of(&all[i]); c != nil && !math.IsNaN(float64(c.SkillScore)) {
				found = append(found, c)
			}
		}
		if len(found) == 0 {
			continue
		}
		least := slices.MinFunc(found, compareSkill)
		most := slices.MaxFunc(found, compareSkill)
		who := referenceName(least)
		if RawMembers(least.Reference) == 0 {
			who = "the best baseline of each"
		}
		if len(parts) > 0 {
			parts = append(parts, fmt.Sprintf("Relative to %s it is %s.", who, changes(least.SkillScore, most.SkillScore)))
			continue
		}
		for _, c := range found {
			switch c.Decision() {
			case "better":
				sure++
				fallthrough
			case "worse", "undecided":
				judged++
			}
		}
		text := fmt.Sprintf("The %s is %s than that of %s, depending on variable, level and lead", all[0].quantity(), changes(least.SkillScore, most.SkillScore), who)
		if judged == 0 {
			parts = append(parts, text+"; there are too few dates for intervals.")
		} else {
			parts = append(parts, text+fmt.Sprintf("; it is smaller beyond chance (%s intervals) for %d of %d.", confidence, sure, judged))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("The errors of %d targets are in the table. There is nothing to compare them with: give --members and --run-dir.", len(all))
	}
	return strings.Join(parts, " ")
}

// skillOfOne is skillSentence of a single target.
func skillOfOne(b *Brief, confidence string) string {
	text := ""
	for _, of := range MainGains() {
		switch c := of(b); {
		case c == nil:
		case text == "":
			text = fmt.Sprintf("The %s is %s than that of %s (%s).", b.quantity(), change(c.SkillScore), referenceName(c), c.intervalText(confidence))
		default:
			who := referenceName(c)
			if RawMembers(c.Reference) == 0 {
				who = "the best baseline, " + c.Reference + ","
			}
			text += fmt.Sprintf(" Relative to %s it is %s (%s).", who, change(c.SkillScore), c.intervalText(confidence))
		}
	}
	if text == "" {
		return fmt.Sprintf("The %s is %s %s. There is nothing to compare it with: give --members and --run-dir.", b.quantity(), digits(b.Score.Value), b.Score.Unit)
	}
	return text
}

// compareSkill orders skill scores.
func compareSkill(a, c *Comparison) int { return cmp.Compare(a.SkillScore, c.SkillScore) }

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

// ratioText states the spread-skill ratio in brackets: " (spread / error 0.97)"; "" without, and beside a verdict that does
// not rest on it, because it has no interval.
func (b *Brief) ratioText() string {
	if b.Ratio == nil || math.IsNaN(float64(b.Ratio.Value)) || b.Verdict.Calibrated != "unknown" && measured(b.Ratio).Relative(1) == Unmeasured {
		return ""
	}
	return " (spread / error " + measured(b.Ratio).ratio() + ")"
}

// word describes the calibration of a target in a word, and in a sentence for readers without statistics. Both follow
// from its Verdict alone, so that they agree with reports.
func (b *Brief) word() (word, sentence string) {
	v := b.Verdict
	bias := map[string]string{"too_low": " Its values are too low on average.", "too_high": " Its values are too high on average."}[v.Bias]
	switch {
	case v.Calibrated == "unknown":
		return "not judged", fmt.Sprintf("Calibration is not judged: there are too few dates, or only a spread%s.", b.ratioText())
	case v.Calibrated == "yes":
		return "calibrated", fmt.Sprintf("It is calibrated: analyses fall into the forecast's ranges as often as it states%s.", b.ratioText())
	case v.Calibrated == "nearly":
		return "nearly calibrated", fmt.Sprintf("It is nearly calibrated: neither bias nor wrong spread is detected%s, but single ranges are hit too often or too seldom.", b.ratioText())
	case v.Dispersion == "uneven":
		return "uneven spread", v.Text
	case v.Dispersion == "too_small":
		return "too confident", fmt.Sprintf("It is too confident: analyses fall outside its ranges more often than it states%s.%s", b.ratioText(), bias)
	case v.Dispersion == "too_large":
		return "too cautious", fmt.Sprintf("It is too cautious: analyses lie near its middle more often than it states%s.%s", b.ratioText(), bias)
	case bias == "":
		return "uneven bias", v.Text
	}
	word = strings.ReplaceAll(v.Bias, "_", " ")
	if v.Dispersion == "right" {
		return word, fmt.Sprintf("Its spread is right%s, but its values are %s on average.", b.ratioText(), word)
	}
	return word, strings.TrimSpace(bias)
}

// calibrationSentence states whether the first system is calibrated: for several targets how many are, and the
// frequent faults.
func calibrationSentence(all []Brief) string {
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
		if t.Ratio != nil && !math.IsNaN(float64(t.Ratio.Value)) {
			low, high = min(low, float64(t.Ratio.Value)), max(high, float64(t.Ratio.Value))
		}
	}
	text := fmt.Sprintf("Calibration of %d targets: %s", len(all), strings.Join(parts, ", "))
	if low <= high {
		text += fmt.Sprintf(" (spread / error %.2f to %.2f; 1 is right)", low, high)
	}
	return text + "."
}

// watchSentence states what needs attention first; "" for nothing.
func (r *Result) watchSentence(all []Brief) string {
	var lost, chance, biased []string
	for i := range all {
		b := &all[i]
		for _, of := range MainGains() {
			c := of(b)
			if c == nil {
				continue
			}
			text := fmt.Sprintf("%s (%s than %s)", b.name(), change(c.SkillScore), c.Reference)
			switch decision := c.Decision(); {
			case decision == "worse":
				lost = append(lost, text)
			case decision == "undecided" && c.SkillScore < 0:
				chance = append(chance, text)
			}
		}
		if b.IsBiased() {
			biased = append(biased, fmt.Sprintf("%s (%+.3g %s, %.0f %% of its error)", b.name(), float64(b.Bias.Value), b.Bias.Unit, 100*math.Abs(float64(b.Bias.Value))/float64(b.RMSE.Value)))
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
	if systems := r.dependentSystems(); len(systems) > 0 {
		return "Watch: members of " + strings.Join(systems, ", ") + " depend on each other: do not compare their fair scores."
	}
	return ""
}

// systemsTable is the table of one target, a row for each system.
func (r *Result) systemsTable(b *Brief) answer.Section {
	first, unit := b.Score, b.Score.Unit
	name := "CRPS"
	if first.ID == SpreadRMSE.ID {
		name = "error of spread"
	}
	s := answer.Section{Title: fmt.Sprintf("%s, %s", b.name(), humanise.Count(first.N, "date")),
		Columns: slices.Concat(answer.TextColumns("system"), []answer.Column{answer.NumberColumn(name, unit, ""), answer.NumberColumn("RMSE", unit, "")},
			answer.NumberColumns("", "spread/error", "skill %", "low", "high"))}
	for _, v := range b.Rows[:min(len(b.Rows), briefRows)] {
		other := func(id string) any {
			if o := r.Find(id, v.System, v.Variable, v.Level, v.Lead); o != nil {
				return digits(o.Value)
			}
			return nil
		}
		row := []any{v.System, digits(v.Value), other(RMSE.ID), other(SpreadSkill.ID)}
		if v.System == first.System {
			row = append(row, "", "", "")
		} else if i := slices.IndexFunc(b.Gains, func(c Comparison) bool { return c.Reference == v.System }); i >= 0 {
			c := &b.Gains[i]
			row = append(row, percent(c.SkillScore, 1), percent(c.CILow, 1), percent(c.CIHigh, 1))
		} else {
			row = append(row, nil, nil, nil)
		}
		s.Rows = append(s.Rows, row)
	}
	if n := len(b.Rows) - briefRows; n > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("... and %s", humanise.Count(n, "further system")))
	}
	s.Notes = append(s.Notes, fmt.Sprintf("skill: by how much the %s of %s is lower; low, high: %s interval", name, first.System, r.confidence()))
	return s
}

// targetsTable is the table of several targets, a row for each.
func (r *Result) targetsTable(all []Brief) answer.Section {
	reference := "-"
	for i := range all {
		if c := all[i].Main(); c != nil {
			reference = c.Reference
		}
	}
	dates, name := humanise.Count(all[0].Score.N, "date"), "CRPS"
	if all[0].Score.ID == SpreadRMSE.ID {
		name = "error of spread"
	}
	for i := range all {
		if all[i].Score.N != all[0].Score.N {
			dates = "dates differ"
		}
	}
	s := answer.Section{Title: fmt.Sprintf("%s of %s, %s", name, all[0].Score.System, dates),
		Columns: append(answer.TextColumns("target", "unit"), answer.NumberColumns("", name, reference, "skill %", "low", "high", "spread/error")...)}
	for i := range all[:min(len(all), briefRows)] {
		t := &all[i]
		row := []any{t.name(), t.Score.Unit, digits(t.Score.Value), nil, nil, nil, nil, nil}
		if c := t.Main(); c != nil {
			for _, v := range t.Rows {
				if v.System == c.Reference {
					row[3] = digits(v.Value)
				}
			}
			row[4], row[5], row[6] = percent(c.SkillScore, 1), percent(c.CILow, 1), percent(c.CIHigh, 1)
		}
		if t.Ratio != nil {
			row[7] = measured(t.Ratio).ratio()
		}
		s.Rows = append(s.Rows, row)
	}
	if n := len(all) - briefRows; n > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("... and %s", humanise.Count(n, "further target")))
	}
	s.Notes = append(s.Notes, fmt.Sprintf("skill: by how much it is lower than %s; low, high: %s interval", reference, r.confidence()))
	return s
}
