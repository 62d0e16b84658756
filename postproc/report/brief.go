package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ensemble-weather/ensemble/postproc/score"
)

// briefLine is one of the three lines on top of a report. Word is its colour in words, so that a reader
// who does not see colours misses nothing (WCAG 2.2, success criterion 1.4.1).
type briefLine struct {
	// Label is the question, Word the answer in short, Text the numbers.
	Label, Word, Text string
	// Tone is "good", "fair" or "bad".
	Tone string
}

// pane holds the pictures of one target, a variable at a level and lead. A page with several targets
// shows one pane at a time.
type pane struct {
	// Target is "Temperature at 850 hPa", Lead "48 h".
	Target, Lead string
	// Verdict is the verdict on the calibration.
	Verdict string
	Figures []glanceFigure
}

// glanceFigure is a picture with a caption: Title above it, Note below, which explains how to read it.
type glanceFigure struct {
	Title, Note string
	SVG         template.HTML
	// Wide: two columns.
	Wide bool
}

// systemNames maps systems to names for display; others are shown by their names.
var systemNames = map[string]string{
	"network": "network", "network_members": "network’s members", "network_distribution": "network’s distribution", "emos": "EMOS", "emos_grid": "grid-point EMOS", "emos_grid_full": "grid-point EMOS of all members",
	"emos_point": "EMOS by point", "samos": "SAMOS", "mbm": "member by member", "mbm_crps": "member by member (CRPS)", "quantile_map": "quantile mapping", "climatology": "climatology",
	"affine": "regression",
}

// systemName is the name of a system for display.
func systemName(system string) string {
	if n := score.RawMembers(system); n > 0 {
		return fmt.Sprintf("%d raw members", n)
	}
	if name := systemNames[system]; name != "" {
		return name
	}
	return system
}

// targetName is "Temperature at 850 hPa", with the lead if the targets have several, as in
// "Temperature at 850 hPa +48 h".
func targetName(b *score.Brief, leads bool) string {
	name := QuantityName(b.Variable, b.Level)
	if leads {
		name += " +" + spaced(b.Lead)
	}
	return name
}

// severalLeads reports whether targets differ in their lead.
func severalLeads(all []score.Brief) bool {
	return slices.ContainsFunc(all, func(b score.Brief) bool { return b.Lead != all[0].Lead })
}

// briefLines answers the three questions of a reader: what was gained, is it calibrated, what to watch.
// Without scores there are none.
func briefLines(p *Page) []briefLine {
	if p.Scores == nil {
		return nil
	}
	all := p.Scores.Briefs()
	if len(all) == 0 {
		return nil
	}
	return []briefLine{gainLine(all, p.Scores.Bootstrap.Confidence), calibrationLine(all), watchLine(p, all)}
}

// lower formats a skill score s = 1 − S/S_ref as a change of S by −100 s %: "30.8 % lower" or
// "2.0 % higher". The space before the percent sign is the narrow one that does not break a line.
//
// Source: SI brochure, 9th edition, section 5.4.7 (space before %).
func lower(v score.Number) string {
	if v < 0 {
		return decimals(-100*float64(v), 1) + "\u202f% higher"
	}
	return decimals(100*float64(v), 1) + "\u202f% lower"
}

// lowerRange formats a range of skill scores: "10.0 to 30.8 % lower", "2.0 % higher to 10.0 % lower".
// Ends that print alike are one number. Two increases are in the order of their magnitude.
func lowerRange(low, high score.Number) string {
	a, b := lower(low), lower(high)
	if a == b {
		return a
	}
	if (low < 0) != (high < 0) {
		return a + " to " + b
	}
	if low < 0 { // by magnitude
		a, b = b, a
	}
	number, _, _ := strings.Cut(a, "\u202f")
	return number + " to " + b
}

// between formats the interval of a skill score in percent; noInterval if it is missing.
func between(c *score.Comparison) string {
	return interval(float64(c.CILow), float64(c.CIHigh), 100)
}

// bracketedInterval is the interval of a skill score in brackets, with its confidence, a fraction. It
// begins with a space.
func bracketedInterval(c *score.Comparison, confidence float64) string {
	if math.IsNaN(float64(c.CILow)) {
		return " (" + noInterval + ")"
	}
	return fmt.Sprintf(" (%s interval %s)", share(confidence), between(c))
}

// gainLine summarises the skill scores relative to the raw ensembles and to the best baseline, in one
// sentence for each. With several targets a sentence has the range of the scores, the number of
// targets by decision, and, except for a second raw ensemble, the target with the smallest score with
// its interval: a mean over variables of different units has no meaning. The best baseline is named if
// it is the same in all targets.
//
// Missing: without any comparison the line is "Not compared".
func gainLine(all []score.Brief, confidence float64) briefLine {
	line := briefLine{Label: "What was gained?", Word: "Not compared", Tone: "fair"}
	of := capitalise(mainScore(&all[0]))
	names := map[*score.Comparison]string{}
	var compared []*score.Comparison
	var parts []string
	for _, gain := range score.MainGains() {
		var found []*score.Comparison
		for i := range all {
			if c := gain(&all[i]); c != nil {
				found, names[c] = append(found, c), targetName(&all[i], severalLeads(all))
			}
		}
		if len(found) == 0 {
			continue
		}
		compared = append(compared, found...)
		low := slices.MinFunc(found, compareGains)
		high := slices.MaxFunc(found, compareGains)
		who := systemName(low.Reference)
		if score.RawMembers(low.Reference) == 0 {
			if who = "the best baseline"; !slices.ContainsFunc(found, func(c *score.Comparison) bool { return c.Reference != low.Reference }) {
				who += ", " + systemName(low.Reference)
			}
		}
		if len(found) == 1 {
			parts = append(parts, fmt.Sprintf("%s %s than that of %s%s: %s.", of, lower(low.SkillScore), who, bracketedInterval(low, confidence), decisions(found)))
			continue
		}
		text := fmt.Sprintf("%s %s than that of %s: %s.", of, lowerRange(low.SkillScore, high.SkillScore), who, decisions(found))
		if len(parts) == 0 || score.RawMembers(low.Reference) == 0 { // of a second raw ensemble the least is left out
			text += fmt.Sprintf(" Least for %s%s.", lowerFirst(names[low]), bracketedInterval(low, confidence))
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		line.Text = "There is nothing to compare with: the raw members were not scored."
		return line
	}
	line.Word, line.Tone = gainWord(compared)
	line.Text = strings.Join(parts, " ")
	return line
}

// lowerFirst converts the first letter to lower case.
func lowerFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(r)) + s[n:]
}

// compareGains orders skill scores, lowest first. A missing one equals every other.
func compareGains(a, b *score.Comparison) int {
	switch {
	case a.SkillScore < b.SkillScore:
		return -1
	case a.SkillScore > b.SkillScore:
		return 1
	}
	return 0
}

// decisions counts the decisions that follow from the intervals: "better", or "better in 3, undecided
// in 1 of 4". An unknown decision has too few dates for an interval.
func decisions(all []*score.Comparison) string {
	count := map[string]int{}
	for _, c := range all {
		count[c.Decision()]++
	}
	var out []string
	for _, d := range []string{"better", "undecided", "worse", "unknown"} {
		switch n := count[d]; {
		case n == len(all) && d == "unknown":
			return "too few dates to decide"
		case n == len(all) && n == 1:
			return d
		case n == len(all):
			return d + " in " + map[bool]string{true: "both", false: fmt.Sprintf("all %d", n)}[n == 2]
		case n > 0:
			out = append(out, fmt.Sprintf("%s in %d", d, n))
		}
	}
	return fmt.Sprintf("%s of %d", strings.Join(out, ", "), len(all))
}

// gainWord summarises decisions in a word and a tone:
//
//	all better            Better          good
//	some better, no worse Mostly better   good
//	better and worse      Mixed           fair
//	some worse, no better Partly worse    bad
//	all worse             Worse           bad
//	all unknown           Too few dates   fair
//	else                  Undecided       fair
func gainWord(all []*score.Comparison) (word, tone string) {
	count := map[string]int{}
	for _, c := range all {
		count[c.Decision()]++
	}
	switch {
	case count["unknown"] == len(all):
		return "Too few dates", "fair"
	case count["better"] == len(all):
		return "Better", "good"
	case count["worse"] == len(all):
		return "Worse", "bad"
	case count["worse"] > 0 && count["better"] > 0:
		return "Mixed", "fair"
	case count["worse"] > 0:
		return "Partly worse", "bad"
	case count["better"] > 0:
		return "Mostly better", "good"
	}
	return "Undecided", "fair"
}

// calibrationLine summarises the verdicts on the calibration. The worst verdict decides, in the order
// no, unknown, nearly, yes; its target is named and its reason quoted. "No" becomes "Partly" if other
// targets are calibrated.
func calibrationLine(all []score.Brief) briefLine {
	line := briefLine{Label: "Is it calibrated?"}
	order := []string{"no", "unknown", "nearly", "yes"}
	worst, count := &all[0], map[string]int{}
	var ratios []string
	for i := range all {
		b := &all[i]
		count[b.Verdict.Calibrated]++
		if slices.Index(order, b.Verdict.Calibrated) < slices.Index(order, worst.Verdict.Calibrated) {
			worst = b
		}
	}
	state := worst.Verdict.Calibrated
	line.Word = map[string]string{"yes": "Yes", "nearly": "Nearly", "no": "No", "unknown": "Too few dates"}[state]
	line.Tone = map[string]string{"yes": "good", "nearly": "good", "no": "bad", "unknown": "fair"}[state]
	if len(all) == 1 {
		line.Text = worst.Verdict.Text
		return line
	}
	if state == "yes" {
		line.Text = fmt.Sprintf("Calibrated in all %d targets: neither bias nor wrong spread is detected.", len(all))
		return line
	}
	if state == "no" && count["no"] < len(all) {
		line.Word, line.Tone = "Partly", "fair"
	}
	for _, s := range []string{"yes", "nearly", "no", "unknown"} {
		if n := count[s]; n > 0 {
			ratios = append(ratios, fmt.Sprintf("%s in %d", map[string]string{"yes": "calibrated", "nearly": "nearly calibrated", "no": "not calibrated", "unknown": "too few dates"}[s], n))
		}
	}
	line.Text = fmt.Sprintf("%s of %d targets. %s: %s", capitalise(strings.Join(ratios, ", ")), len(all), targetName(worst, severalLeads(all)), worst.Verdict.Text)
	return line
}

// watchLine lists what needs attention: warnings, targets and parts where the first system is not better,
// area where it is worse, faults of calibration, biases, few independent dates. The first four are named, the others
// counted; few dates are always named. The tone is bad if the first system is significantly worse in a target, region
// or season, else fair; good if there is nothing to list.
func watchLine(p *Page, all []score.Brief) briefLine {
	line := briefLine{Label: "What to watch?", Word: "Nothing stands out", Tone: "good"}
	var found []string
	serious := false
	for _, d := range []struct{ decision, text string }{{"worse", "worse than %s"}, {"undecided", "no significant difference to %s"}, {"unknown", "too few dates for an interval of the skill relative to %s"}} {
		for _, of := range score.MainGains() {
			var names []string
			reference := ""
			for i := range all {
				if c := of(&all[i]); c != nil && c.Decision() == d.decision {
					names, reference = append(names, lowerFirst(targetName(&all[i], severalLeads(all)))), systemName(c.Reference)
				}
			}
			if len(names) == 0 {
				continue
			}
			serious = serious || d.decision == "worse"
			text := fmt.Sprintf(d.text, reference)
			switch {
			case len(names) > 3:
				text += fmt.Sprintf(" in %d of %d targets (%s …)", len(names), len(all), strings.Join(names[:2], ", "))
			case len(all) > 1:
				text += " for " + strings.Join(names, ", ")
			}
			found = append(found, text)
		}
	}
	for _, c := range p.Scores.Comparisons {
		if !score.IsOverall(c.Region, c.Season) && score.RawMembers(c.Reference) > 0 && c.Decision() == "worse" && c.ID == all[0].Score.ID && c.System == all[0].Score.System {
			found, serious = append(found, fmt.Sprintf("%s: worse than %s in %s", QuantityName(c.Variable, c.Level), systemName(c.Reference), strings.Join(partNames(c.Region, c.Season), ", "))), true
		}
	}
	found = append(found, worsePlaces(p.Places)...)
	found = append(append(found, faults(all)...), biases(all)...)
	if n := len(p.Warnings); n > 0 {
		found = append([]string{fmt.Sprintf("%d %s, see below", n, map[bool]string{true: "warning", false: "warnings"}[n == 1])}, found...)
	}
	dates, points := p.Scores.DatesText(all), len(found)
	if dates != "" {
		points++
	}
	if points == 0 {
		line.Text = "No warnings."
		if slices.ContainsFunc(all, func(b score.Brief) bool { return b.Main() != nil }) {
			line.Text = fmt.Sprintf("No warnings, and every skill score is above 0 (%d dates).", all[0].Score.N)
		}
		return line
	}
	line.Word, line.Tone = map[bool]string{true: "One point", false: fmt.Sprintf("%d points", points)}[points == 1], "fair"
	if serious {
		line.Tone = "bad"
	}
	const most = 4
	rest := ""
	if len(found) > most {
		rest = fmt.Sprintf("; and %d more", len(found)-most)
	}
	if len(found) > 0 {
		line.Text = capitalise(strings.Join(found[:min(most, len(found))], "; ") + rest + ". ")
	}
	line.Text = strings.TrimSpace(line.Text + dates)
	return line
}

// faults states how many targets are not calibrated, so that this line does not contradict the one above; nil for none.
func faults(all []score.Brief) []string {
	n := 0
	for i := range all {
		if all[i].Verdict.Calibrated == "no" {
			n++
		}
	}
	switch {
	case n == 0:
		return nil
	case len(all) == 1:
		return []string{"not calibrated, see above"}
	}
	return []string{fmt.Sprintf("not calibrated in %d of %d targets", n, len(all))}
}

// worsePlaces describes, for each reference, on how much of the area the network is significantly worse. Shares
// below 1 % are left out. Of several targets the largest share is stated and the number that exceed 1 %.
// The points are tested together at a false discovery rate of 10 %, see significance.FalseDiscovery.
func worsePlaces(places []Panel) (out []string) {
	var references []string
	most, count := map[string]float64{}, map[string]int{}
	for i := range places {
		for _, m := range places[i].Maps {
			if m.WorseShare < 0.01 {
				continue
			}
			if !slices.Contains(references, m.Reference) {
				references = append(references, m.Reference)
			}
			most[m.Reference], count[m.Reference] = math.Max(most[m.Reference], m.WorseShare), count[m.Reference]+1
		}
	}
	for _, r := range references {
		text := fmt.Sprintf("worse than %s on %.0f\u202f%% of the area", systemName(r), 100*most[r])
		if len(places) > 1 {
			text = fmt.Sprintf("worse than %s on up to %.0f\u202f%% of the area (%d of %d targets)", systemName(r), 100*most[r], count[r], len(places))
		}
		out = append(out, text)
	}
	return out
}

// biases describes the targets whose bias matters, with the bias in the unit of the variable; nil for
// none. Up to three are named, of more the first two and their number.
func biases(all []score.Brief) []string {
	var names []string
	for i := range all {
		if b := &all[i]; b.IsBiased() {
			names = append(names, fmt.Sprintf("%s (%+.2g %s)", lowerFirst(targetName(b, severalLeads(all))), float64(b.Bias.Value), unit(b.Bias.Unit)))
		}
	}
	switch {
	case len(names) == 0:
		return nil
	case len(names) > 3:
		return []string{fmt.Sprintf("bias in %d of %d targets (%s …)", len(names), len(all), strings.Join(names[:2], ", "))}
	}
	return []string{"bias of " + strings.Join(names, ", ")}
}

// partNames names region and season, unless they are the whole.
func partNames(region, season string) (out []string) {
	if region != score.Everywhere && region != "" {
		out = append(out, strings.ReplaceAll(region, "_", " "))
	}
	if season != score.AllYear && season != "" {
		out = append(out, season)
	}
	return out
}

// panes makes the pictures of each target: the difference by place, ranking, spread and error, reliability, and
// a histogram. They answer in this order: where, how much, and whether the stated uncertainty is right.
// Maps are found by the variable and lead that their rows display. A single map that is wider than high
// takes two columns.
//
// Missing: a picture whose scores or diagram do not exist is left out.
func panes(p *Page, places []mapRow) (out []pane) {
	if p.Scores == nil {
		return nil
	}
	all := p.Scores.Briefs()
	for _, b := range all {
		t := pane{Target: QuantityName(b.Variable, b.Level), Lead: spaced(b.Lead)}
		if len(all) > 1 { // the verdict on a single target stands on top
			t.Verdict = b.Verdict.Text
		}
		for _, row := range places {
			if spaced(row.Variable) != t.Target || spaced(row.Lead) != t.Lead {
				continue
			}
			for _, m := range row.Pictures {
				t.Figures = append(t.Figures, glanceFigure{Title: "By place: CRPS minus that of " + systemName(m.Reference), SVG: m.SVG + row.Bar, Wide: len(row.Pictures) == 1 && !row.Tall,
					Note: capitalise(m.Title) + ". Blue: better. Pale: not significant at a false discovery rate of 10\u202f% (Benjamini and Hochberg, over all points)."})
			}
		}
		t.Figures = append(t.Figures, glanceFigure{Title: "Ranking", SVG: template.HTML(rankingSVG(&b, p.Scores.Bootstrap.Confidence)), // text in it is escaped
			Note: capitalise(mainScore(&b)) + "; smaller is better. Bars: " + share(p.Scores.Bootstrap.Confidence) + " intervals of each system. Percentages: skill of the network relative to it, on the same dates; ▲ better, ○ undecided, ▼ worse."})
		t.Figures = append(t.Figures, diagramFigures(p.Scores, &b)...)
		out = append(out, t)
	}
	return out
}

// mainScore names the main score of a target: that of members is the plain CRPS, of distributions that of
// their family. A network of the spread alone has the RMSE of the spread instead.
func mainScore(b *score.Brief) string {
	if b.Score.ID == score.SpreadRMSE.ID {
		return "error of the spread"
	}
	return "CRPS"
}

// diagramFigures are the small diagrams of a target: the first system, beside the raw ensemble where they
// share axes. The axes contain the points of both. One histogram is drawn, of the PIT for a
// distribution, of ranks for members. Probabilities are judged by the reliability diagram
// of an event if thresholds were scored, else by all quantiles.
func diagramFigures(r *score.Result, b *score.Brief) (out []glanceFigure) {
	find := func(id, system string) *score.Diagram {
		for i := range r.Diagrams {
			d := &r.Diagrams[i]
			if d.ID == id && d.System == system && d.Variable == b.Variable && d.Level == b.Level && d.Lead == b.Lead && score.IsOverall(d.Region, d.Season) && len(d.Rows) > 0 {
				return d
			}
		}
		return nil
	}
	raw := ""
	if c := b.Input(); c != nil {
		raw = c.Reference
	}
	own := b.Score.System
	add := func(id, title, note string) {
		d := find(id, own)
		if d == nil {
			return
		}
		f := figureOf(d)
		if f == nil || len(f.points) == 0 {
			return
		}
		f.name = systemName(own)
		if o := find(id, raw); o != nil && id != score.PITFlatness.ID {
			if g := figureOf(o); g != nil && len(g.points) > 0 {
				f.second, f.secondName = g.points, systemName(raw)
				f.low[0], f.low[1] = math.Min(f.low[0], g.low[0]), math.Min(f.low[1], g.low[1])
				f.high[0], f.high[1] = math.Max(f.high[0], g.high[0]), math.Max(f.high[1], g.high[1])
			}
		}
		if t := float64(d.Threshold); !math.IsNaN(t) {
			title = strings.TrimSpace(title + " above " + short(t) + " " + unit(b.Score.Unit))
		}
		out = append(out, glanceFigure{Title: title, Note: note, SVG: template.HTML(f.svg(title))}) // text in it is escaped
	}
	add(score.SpreadSkillBins.ID, "Spread and error", "On the diagonal, cases with twice the spread have twice the error.")
	if find(score.ReliabilityDiagram.ID, own) != nil {
		add(score.ReliabilityDiagram.ID, "Reliability", "On the diagonal, events forecast with 30\u202f% occur in 30\u202f% of the cases.")
	} else if d := find(score.PITFlatness.ID, own); d != nil {
		f := quantileReliability(d)
		f.name = systemName(own)
		out = append(out, glanceFigure{Title: "Reliability of quantiles", Note: "On the diagonal, 30\u202f% of the references fall below the 30\u202f% quantile.", SVG: template.HTML(f.svg("Reliability of quantiles"))})
	}
	if find(score.PITFlatness.ID, own) != nil {
		add(score.PITFlatness.ID, "PIT histogram", "Flat if calibrated; U-shaped if underdispersive, a hump if overdispersive.")
		return out
	}
	for i := range r.Ranks {
		h := &r.Ranks[i]
		if h.System == own && h.Variable == b.Variable && h.Level == b.Level && h.Lead == b.Lead && score.IsOverall(h.Region, h.Season) {
			out = append(out, glanceFigure{Title: "Rank histogram", Note: "Flat if calibrated; U-shaped if underdispersive, a hump if overdispersive.", SVG: template.HTML(rankSVG(h))})
		}
	}
	return out
}

// quantileReliability is the frequency of references below each quantile of the distribution, from a
// PIT histogram with K bins: the cumulative sum of its shares,
//
//	( k/K, Σ_{i≤k} share_i ),   k = 0 … K
//
// It is the empirical distribution function of the PIT, which is the diagonal if the forecast is
// calibrated. Both axes are from 0 to 1, without unit. Points have no intervals, since the sums of
// neighbouring bins depend on each other.
//
// Source: Gneiting, Balabdaoui and Raftery 2007, doi:10.1111/j.1467-9868.2007.00587.x.
func quantileReliability(d *score.Diagram) *figure {
	f := &figure{what: "reliability of quantiles", x: "forecast probability", y: "frequency of references below", diagonal: true, line: true, level: math.NaN(), high: [2]float64{1, 1}}
	at := slices.Index(d.Columns, "share")
	f.points = []mark{{0, 0, math.NaN(), math.NaN(), 1}}
	sum := 0.0
	for k, row := range d.Rows {
		sum += float64(row[at])
		f.points = append(f.points, mark{float64(k+1) / float64(len(d.Rows)), sum, math.NaN(), math.NaN(), 1})
	}
	return f
}
