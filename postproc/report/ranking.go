package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/postproc/score"
)

// rankingSVG draws the main score of every system with its interval, best first; the first system of the
// brief is highlighted.
//
// The x axis is the score in the unit of the variable, smaller is better. It does not begin at 0: systems
// differ by a few percent, which would be invisible. Hence dots and not bars, whose length would have
// no meaning. It contains all values and intervals with a margin of 4 %, and at most four ticks, since
// more would overlap. On the right are the value and the skill score of the first system relative to this
// one, with the symbol of the decision: two intervals that overlap do not show whether systems
// differ, the paired comparison on the same dates does.
//
// Missing: a system without an interval has a dot only; Brief.Ranking has no missing values.
// Unit: SVG units of a viewBox of width 420; a row of 25 for each system.
func rankingSVG(b *score.Brief, confidence float64) string {
	const w, left, right, row = 420.0, 136.0, 134.0, 25.0
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range b.Ranking() {
		for _, x := range []float64{float64(v.Value), float64(v.CILow), float64(v.CIHigh)} {
			if !math.IsNaN(x) {
				low, high = math.Min(low, x), math.Max(high, x)
			}
		}
	}
	if !(high > low) {
		low, high = low-math.Abs(low)*0.1-1e-9, high+math.Abs(high)*0.1+1e-9
	}
	rim := 0.04 * (high - low)
	low, high = low-rim, high+rim
	h := row*float64(len(b.Ranking())) + 40
	x := func(v float64) float64 { return left + (v-low)/(high-low)*(w-left-right) }
	var s strings.Builder
	fmt.Fprintf(&s, `<svg class="ranking" viewBox="0 0 %s %s" role="img" aria-label="%s">`, num(w), num(h), html.EscapeString(rankingAlt(b, confidence)))
	marks, places := ticks(low, high, false)
	if len(marks) > 4 {
		every := (len(marks) + 3) / 4
		kept := marks[:0:0]
		for i := 0; i < len(marks); i += every {
			kept = append(kept, marks[i])
		}
		marks = kept
	}
	for _, t := range marks {
		fmt.Fprintf(&s, `<path class="grid" d="M%s 4V%s"/><text class="tick" x="%s" y="%s" text-anchor="middle">%s</text>`, num(x(t)), num(h-34), num(x(t)), num(h-20), decimals(t, places))
	}
	fmt.Fprintf(&s, `<text class="tick" x="%s" y="%s" text-anchor="middle">%s</text>`, num((left+w-right)/2), num(h-4), html.EscapeString(mainScore(b)+unitInBrackets(unit(b.Score.Unit))))
	for i, v := range b.Ranking() {
		y := row*float64(i) + row/2 + 2
		class := "other"
		if v.System == b.Score.System {
			class = "own"
		}
		fmt.Fprintf(&s, `<g class="%s"><text class="name" x="%s" y="%s" text-anchor="end">%s</text>`, class, num(left-8), num(y+4), html.EscapeString(systemName(v.System)))
		if !math.IsNaN(float64(v.CILow)) {
			fmt.Fprintf(&s, `<path class="whisker" d="M%s %sH%s"/>`, num(x(float64(v.CILow))), num(y), num(x(float64(v.CIHigh))))
		}
		fmt.Fprintf(&s, `<circle cx="%s" cy="%s" r="4.5"/><text class="name" x="%s" y="%s" text-anchor="end">%s</text><text class="name" x="%s" y="%s" text-anchor="end">%s</text></g>`,
			num(x(float64(v.Value))), num(y), num(w-right+56), num(y+4), figures(float64(v.Value)), num(w-2), num(y+4), skillOver(b, v.System))
	}
	s.WriteString(`</svg>`)
	return s.String()
}

// skillOver is the skill score of the first system relative to another one in percent, with the symbol of
// its decision, no symbol without an interval; "" if the two were not compared.
func skillOver(b *score.Brief, system string) string {
	for i := range b.Gains {
		if c := &b.Gains[i]; c.Reference == system {
			return percent(float64(c.SkillScore)) + map[string]string{"better": " ▲", "worse": " ▼", "undecided": " ○", "unknown": ""}[c.Decision()]
		}
	}
	return ""
}

// rankingAlt describes the ranking as text, for screen readers: place, name, value with interval, and skill
// of every system.
func rankingAlt(b *score.Brief, confidence float64) string {
	var parts []string
	for i, v := range b.Ranking() {
		part := fmt.Sprintf("%d. %s %s (%s)", i+1, systemName(v.System), figures(float64(v.Value)), interval(float64(v.CILow), float64(v.CIHigh), 1))
		if skill := skillOver(b, v.System); skill != "" {
			part += ", skill of the first system " + skill
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("Ranking by %s%s with %s intervals, best first: %s.", mainScore(b), unitInBrackets(unit(b.Score.Unit)), share(confidence), strings.Join(parts, "; "))
}

// skillChart is the picture of the skill relative to the raw ensemble that the network read: over the lead if there are several
// leads, else by target. It is false without comparisons, and for a single target, whose ranking has
// the same number.
//
// Over the lead, x is the lead in hours and y the skill score in percent with its interval, a line for each
// variable and level. The y axis contains 0, where both systems are equal.
func skillChart(all []score.Brief, confidence float64) (glanceFigure, bool) {
	var gains []*score.Comparison
	var names []string
	if len(all) == 1 {
		return glanceFigure{}, false // the ranking shows it
	}
	for i := range all {
		if c := all[i].Input(); c != nil {
			gains, names = append(gains, c), append(names, QuantityName(all[i].Variable, all[i].Level))
		}
	}
	if len(gains) == 0 {
		return glanceFigure{}, false
	}
	of := mainScore(&all[0])
	note := fmt.Sprintf("Skill score 1 − %s / %s of %s, with %s intervals; above 0 the network is better.", of, of, systemName(gains[0].Reference), share(confidence))
	if !severalLeads(all) {
		return glanceFigure{Title: "Skill over " + systemName(gains[0].Reference) + ", lead " + spaced(all[0].Lead), Note: note, SVG: htmlOf(skillRows(gains, names, confidence))}, true
	}
	c := Chart{Title: "Skill over " + systemName(gains[0].Reference) + " by lead", X: "lead (h)", Y: "skill score (%)", Zero: true, Narrow: true}
	for i, g := range gains {
		k := slices.IndexFunc(c.Lines, func(l Line) bool { return l.Name == names[i] })
		if k < 0 {
			k, c.Lines = len(c.Lines), append(c.Lines, Line{Name: names[i]})
		}
		l := &c.Lines[k]
		l.X, l.Y, l.Low, l.High = append(l.X, g.LeadH), append(l.Y, 100*float64(g.SkillScore)), append(l.Low, 100*float64(g.CILow)), append(l.High, 100*float64(g.CIHigh))
	}
	for i := range c.Lines {
		sortLine(&c.Lines[i])
	}
	return glanceFigure{Title: c.Title, Note: note, SVG: htmlOf(c.svg())}, true
}

// skillRows draws one row for each skill score, about a line at zero, in the order of the targets.
//
// The x axis is the skill score in percent. It contains 0 and all values and intervals; a skill below
// −100 %, a score of more than twice that of the reference, is drawn at the left border, so that it does
// not compress the others. The number on the right is not limited.
//
// Shape: gains and names of equal length. Missing: a score without an interval has a dot only.
// Unit: SVG units of a viewBox of width 420; a row of 25 for each score.
func skillRows(gains []*score.Comparison, names []string, confidence float64) string {
	const w, left, right, row = 420.0, 172.0, 68.0, 25.0
	low, high := 0.0, 0.0
	var alt []string
	for i, g := range gains {
		for _, v := range []float64{float64(g.SkillScore), float64(g.CILow), float64(g.CIHigh)} {
			if !math.IsNaN(v) {
				low, high = math.Min(low, 100*v), math.Max(high, 100*v)
			}
		}
		alt = append(alt, fmt.Sprintf("%s %s (%s)", names[i], percent(float64(g.SkillScore)), between(g)))
	}
	low, high = math.Max(low, -100), math.Max(high, low+1)
	rim := 0.04 * (high - low)
	if low < 0 {
		low -= rim
	}
	high += rim
	h := row*float64(len(gains)) + 40
	x := func(v float64) float64 { return left + (math.Max(v, low)-low)/(high-low)*(w-left-right) }
	var s strings.Builder
	fmt.Fprintf(&s, `<svg class="ranking" viewBox="0 0 %s %s" role="img" aria-label="%s">`, num(w), num(h), html.EscapeString(fmt.Sprintf("Skill scores with %s intervals: %s.", share(confidence), strings.Join(alt, "; "))))
	marks, places := ticks(low, high, false)
	for i, t := range marks {
		if len(marks) <= 5 || i%2 == 0 {
			fmt.Fprintf(&s, `<path class="grid" d="M%s 4V%s"/><text class="tick" x="%s" y="%s" text-anchor="middle">%s</text>`, num(x(t)), num(h-34), num(x(t)), num(h-20), decimals(t, places))
		}
	}
	fmt.Fprintf(&s, `<path class="zero" d="M%s 4V%s"/><text class="tick" x="%s" y="%s" text-anchor="middle">skill score (%%)</text>`, num(x(0)), num(h-34), num((left+w-right)/2), num(h-4))
	for i, g := range gains {
		y := row*float64(i) + row/2 + 2
		fmt.Fprintf(&s, `<g class="own"><text class="name" x="%s" y="%s" text-anchor="end">%s</text>`, num(left-8), num(y+4), html.EscapeString(abbreviated(names[i])))
		if !math.IsNaN(float64(g.CILow)) {
			fmt.Fprintf(&s, `<path class="whisker" d="M%s %sH%s"/>`, num(x(100*float64(g.CILow))), num(y), num(x(100*float64(g.CIHigh))))
		}
		fmt.Fprintf(&s, `<circle cx="%s" cy="%s" r="4.5"/><text class="name" x="%s" y="%s">%s</text></g>`, num(x(100*float64(g.SkillScore))), num(y), num(w-right+6), num(y+4), percent(float64(g.SkillScore)))
	}
	s.WriteString(`</svg>`)
	return s.String()
}

// abbreviated shortens the names of targets for narrow pictures, whose labels are 130 to 160 units wide.
func abbreviated(name string) string {
	return strings.NewReplacer("Geopotential height", "Geopotential", "Mean sea level pressure", "Sea level pressure", " at ", " ").Replace(name)
}
