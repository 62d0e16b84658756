package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// target is the part of the page on one variable, level and lead.
type target struct {
	Name string
	// Dates, points and weights.
	About   string
	Columns []column
	Rows    []row
	// Skill scores.
	Gains []comparison
	// Components of a skill score.
	Split []comparison
	// What is said about them; none or one.
	SplitNotes []string
	// CRPS of idealised ensembles, with a summary as title; none or one.
	Best []Table
	// Skill scores where the extreme forecast index is largest.
	Extreme []comparison
	// Interpretation of the histograms.
	Words []Fact
	// Rank histograms.
	Ranks []template.HTML
	// The rank histograms as text.
	Shares []Fact
	Drawn  []diagram
	// Scores by region and season.
	Parts *parts
	// Coupling holds the tests of the systems' members for independence.
	Coupling []couplingRow
}

// column is a score in the table of a target.
//
// ID includes the threshold; Better describes the direction.
type column struct{ ID, Name, Unit, Better string }

// row is a system in the table of a target.
type row struct {
	// Members is the number of members, "–" for distributions.
	System, Members string
	// Cells has one entry for each column.
	Cells []cell
	// Its members failed a test of independence.
	Coupled bool
}

// cell is a score of a system with its interval.
type cell struct {
	// Value is "–" if the system does not have the score.
	Value, Interval string
	// Best marks the best value of a column.
	Best bool
}

// comparison is a skill score, or a component of one, with its picture. Both systems were scored on the same
// dates and points, so the interval is that of the paired difference.
type comparison struct {
	// ID is that of the score with its threshold, or the name of a component.
	System, Reference, ID string
	// Value and Interval are percentages, P a p-value or "".
	Value, Interval, P string
	// Verdict is "better", "worse" or "undecided" with a symbol. Decided: the interval does
	// not contain zero.
	Verdict string
	Decided bool
	Plot    template.HTML
}

// note is the definition of a score.
type note struct{ ID, Name, Formula, Better, Doc string }

// targets groups a result by variable, level and lead, in the order of the result. Targets without
// scores over the whole area and year are left out.
func targets(r *score.Result) []target {
	if r == nil {
		return nil
	}
	type key struct{ variable, level, lead string }
	var keys []key
	for _, v := range r.Scores {
		if k := (key{v.Variable, v.Level, v.Lead}); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	var out []target
	for _, k := range keys {
		// values are the scores over the whole area and year, all those of every region and
		// season.
		var values []score.Value
		for _, v := range r.Scores {
			if k == (key{v.Variable, v.Level, v.Lead}) {
				values = append(values, v)
			}
		}
		all := values
		values = slices.DeleteFunc(slices.Clone(all), func(v score.Value) bool { return !score.IsOverall(v.Region, v.Season) })
		if len(values) == 0 {
			continue
		}
		t := target{Name: about(k.variable, k.level, k.lead)}
		v := values[0]
		t.About = fmt.Sprintf("%s, %s point values, %s missing; weights %s.", humanise.Count(v.N, "date"), thousands(v.Points), thousands(v.Missing), v.Weights)
		t.scores(values)
		var gains, extreme []score.Comparison
		for _, c := range r.Comparisons {
			if k != (key{c.Variable, c.Level, c.Lead}) {
				continue
			}
			if score.IsOverall(c.Region, c.Season) {
				gains = append(gains, c)
			} else if c.Region == score.LargestEFI && c.Season == score.AllYear {
				extreme = append(extreme, c)
			}
		}
		t.Gains, t.Extreme = drawComparisons(gains, r.Bootstrap.Confidence), drawComparisons(extreme, r.Bootstrap.Confidence)
		var shares []score.Comparison
		for _, s := range r.SkillComponents {
			if k == (key{s.Variable, s.Level, s.Lead}) && score.IsOverall(s.Region, s.Season) {
				shares = append(shares, score.Comparison{ID: componentNames[s.Component], System: s.System, Reference: s.Reference, ReferenceID: s.ReferenceID,
					SkillScore: s.Reduction, CILow: s.CILow, CIHigh: s.CIHigh, P: score.Missing()})
				if note := r.BetterBaseline(s); note != "" {
					t.SplitNotes = append(t.SplitNotes, strings.ToUpper(note[:1])+note[1:]+".")
				}
			}
		}
		t.Split = drawComparisons(shares, r.Bootstrap.Confidence)
		var ideal []score.IdealScore
		for _, y := range r.IdealScores {
			if k == (key{y.Variable, y.Level, y.Lead}) && score.IsOverall(y.Region, y.Season) {
				ideal = append(ideal, y)
			}
		}
		t.Best = idealScoreTables(ideal, r)
		for _, c := range r.Calibration {
			if k == (key{c.Variable, c.Level, c.Lead}) && score.IsOverall(c.Region, c.Season) {
				t.Words = append(t.Words, Fact{c.System, c.Text})
			}
		}
		for i := range r.Ranks {
			if h := &r.Ranks[i]; k == (key{h.Variable, h.Level, h.Lead}) && score.IsOverall(h.Region, h.Season) {
				t.Ranks = append(t.Ranks, template.HTML(rankSVG(h))) // text in it is escaped
				var shares []string
				for _, s := range h.Shares {
					shares = append(shares, share(s))
				}
				t.Shares = append(t.Shares, Fact{fmt.Sprintf("%s, %d members", h.System, h.Members), strings.Join(shares, ", ")})
			}
		}
		// Diagrams are drawn for the whole area and year only.
		var drawn []score.Diagram
		for _, d := range r.Diagrams {
			if k == (key{d.Variable, d.Level, d.Lead}) && score.IsOverall(d.Region, d.Season) {
				drawn = append(drawn, d)
			}
		}
		t.Drawn, t.Parts = diagrams(drawn), partsOf(all)
		t.coupling(r, k.variable, k.level, k.lead)
		out = append(out, t)
	}
	return out
}

// scores fills the table of systems by scores and marks the best value of each column.
//
// Scores are in the order of score.Table, systems in that of the result. A column without a
// direction, or with a single system, has no best value.
func (t *target) scores(values []score.Value) {
	// ids are score names with thresholds, byName the ids without.
	var ids, systems []string
	byName := map[string]string{}
	for _, v := range values {
		if name := score.Label(v.ID, v.Threshold); !slices.Contains(ids, name) {
			ids = append(ids, name)
			byName[name] = v.ID
		}
		if !slices.Contains(systems, v.System) {
			systems = append(systems, v.System)
		}
	}
	slices.SortStableFunc(ids, func(a, b string) int { return order(byName[a]) - order(byName[b]) })
	t.Rows = make([]row, len(systems))
	for i, s := range systems {
		t.Rows[i] = row{System: s, Members: "–", Cells: make([]cell, len(ids))}
	}
	for c, id := range ids {
		s := score.ByID(byName[id])
		col := column{ID: id, Name: id}
		if s != nil {
			col.Name, col.Better = s.Name, betterText(s.Better)
		}
		// best is the system nearest to the optimum among several.
		best, nearest, several := -1, math.Inf(1), 0
		for i, name := range systems {
			k := slices.IndexFunc(values, func(v score.Value) bool { return score.Label(v.ID, v.Threshold) == id && v.System == name })
			if k < 0 {
				t.Rows[i].Cells[c] = cell{Value: "–"}
				continue
			}
			v := values[k]
			col.Unit = unit(v.Unit)
			if v.Members > 0 {
				t.Rows[i].Members = strconv.Itoa(v.Members)
			}
			t.Rows[i].Cells[c] = cell{Value: figures(float64(v.Value)), Interval: interval(float64(v.CILow), float64(v.CIHigh), 1)}
			if s == nil || s.Better == score.Neither || s.Better == score.Nominal || math.IsNaN(float64(v.Value)) {
				continue
			}
			several++
			if d := distance(s.Better, float64(v.Value)); d < nearest {
				best, nearest = i, d
			}
		}
		if several > 1 {
			t.Rows[best].Cells[c].Best = true
		}
		t.Columns = append(t.Columns, col)
	}
}

// order is the position of a score in score.Table.
func order(id string) int { return slices.Index(score.Table, score.ByID(id)) }

// distance is the difference of a value from the optimum of its score; smaller is better. For
// scores where higher is better it is the negative value.
func distance(b score.Better, v float64) float64 {
	switch b {
	case score.Zero:
		return math.Abs(v)
	case score.One:
		return math.Abs(v - 1)
	case score.Higher:
		return -v
	default:
		return v
	}
}

// betterText describes the direction of a score.
func betterText(b score.Better) string {
	return map[score.Better]string{score.Lower: "lower is better", score.Zero: "0 is best", score.One: "1 is best", score.Higher: "higher is better", score.Nominal: "best as named", score.Neither: "neither way is better"}[b]
}

// componentNames maps the components of a skill score to names for display.
var componentNames = map[string]string{
	"finite_size": "finite ensemble size", "bias": "local bias", "dispersion": "dispersion", "season": "season and shrinkage", "information": "information", "total": "total",
	"over_infinite_ensemble": "total relative to an infinite ensemble", "dispersion_first": "dispersion, corrected first", "bias_second": "local bias, corrected second",
}

// drawComparisons converts comparisons to rows. All pictures have the same scale: the range of
// all values and intervals with a margin of 0.02, within ±1. A comparison is decided if its
// interval does not contain zero.
func drawComparisons(all []score.Comparison, confidence float64) (out []comparison) {
	low, high := 0.0, 0.0
	for _, c := range all {
		for _, v := range []float64{float64(c.SkillScore), float64(c.CILow), float64(c.CIHigh)} {
			if !math.IsNaN(v) {
				low, high = math.Min(low, v), math.Max(high, v)
			}
		}
	}
	low, high = math.Max(low-0.02, -1), math.Min(high+0.02, 1)
	for _, c := range all {
		g := comparison{System: c.System, Reference: c.Reference, ID: score.Label(c.ID, c.Threshold), P: probability(float64(c.P)), Value: percent(float64(c.SkillScore)),
			Interval: interval(float64(c.CILow), float64(c.CIHigh), 100)}
		if c.ReferenceID != "" && c.ReferenceID != c.ID {
			g.Reference += " (" + c.ReferenceID + ")"
		}
		decision := c.Decision()
		g.Verdict = map[string]string{"better": "▲ better", "worse": "▼ worse", "undecided": "○ undecided", "unknown": "– no interval"}[decision]
		g.Decided = decision == "better" || decision == "worse"
		g.Plot = template.HTML(comparisonSVG(&c, low, high, confidence)) // text in it is escaped
		out = append(out, g)
	}
	return out
}

// comparisonSVG draws a skill score as a dot with its interval as whiskers, about a line at
// zero. Values outside low to high are drawn at the border.
//
// Unit: SVG units of a 200 × 18 viewBox.
func comparisonSVG(c *score.Comparison, low, high, confidence float64) string {
	const w = 200.0
	x := func(v score.Number) float64 {
		return 4 + (math.Min(math.Max(float64(v), low), high)-low)/(high-low)*(w-8)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="gain" viewBox="0 0 %s 18" role="img" aria-label="%s">`, num(w), html.EscapeString(fmt.Sprintf(
		"skill score of %s relative to %s in %s: %s, %s interval %s", c.System, c.Reference, c.ID, percent(float64(c.SkillScore)), share(confidence), interval(float64(c.CILow), float64(c.CIHigh), 100))))
	fmt.Fprintf(&b, `<path class="zero" d="M%s 0V18"/>`, num(x(0)))
	if !math.IsNaN(float64(c.CILow)) {
		fmt.Fprintf(&b, `<path class="whisker" d="M%s 9H%sM%s 5v8M%s 5v8"/>`, num(x(c.CILow)), num(x(c.CIHigh)), num(x(c.CILow)), num(x(c.CIHigh)))
	}
	if !math.IsNaN(float64(c.SkillScore)) {
		fmt.Fprintf(&b, `<circle cx="%s" cy="9" r="3.6"/>`, num(x(c.SkillScore)))
	}
	b.WriteString(`</svg>`)
	return b.String()
}

// rankSVG draws a rank histogram with the bands of a flat histogram: the inner one for
// independent points, the outer one from the resampled dates or, without these, for
// independent dates.
//
// With K ranks and n independent cases the band is 1/K ± 1.96 √((1/K)(1−1/K)/n), see flatBand.
// Neighbouring points are dependent, so the inner band is too narrow and the outer one
// decides.
//
// x is the rank of the reference among the members, from 1 (below all) to K = M+1 (above all), y the
// share of cases in percent, from 0. A slope shows a bias, a U shape too small a spread. The y axis
// ends 5 % above the highest bar and band.
//
// Unit: SVG units of a 300 × 168 viewBox. Missing: High without values gives the band of independent dates.
// Source: Hamill 2001, doi:10.1175/1520-0493(2001)129<0550:IORHFV>2.0.CO;2.
func rankSVG(h *score.RankHistogram) string {
	const w, hh, left, right, top, bottom = 300.0, 168.0, 40.0, 6.0, 8.0, 34.0
	n := len(h.Shares)
	flat := 1 / float64(n)
	var cases float64
	for _, c := range h.Counts {
		cases += c
	}
	// Without bootstrap bands, the outer band assumes that dates are independent.
	inner, outer := flatBand(flat, cases), flatBand(flat, float64(h.N))
	most := math.Max(slices.Max(h.Shares), flat+outer)
	banded := len(h.High) == n && !math.IsNaN(float64(h.High[0]))
	if banded {
		most = slices.Max(h.Shares)
		for _, v := range h.High {
			most = math.Max(most, float64(v))
		}
	}
	most *= 1.05
	// y is the height of a share, each the width of a rank.
	y := func(v float64) float64 { return hh - bottom - v/most*(hh-top-bottom) }
	each := (w - left - right) / float64(n)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="ranks" viewBox="0 0 %s %s" role="img" aria-label="%s">`, num(w), num(hh), html.EscapeString(rankAlt(h, flat, outer, banded)))
	band := func(class string, d float64) {
		fmt.Fprintf(&b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`, class, num(left), num(y(flat+d)), num(w-left-right), num(y(math.Max(flat-d, 0))-y(flat+d)))
	}
	if banded { // width from the resampled dates, rank by rank
		for i := range h.Shares {
			low, high := math.Max(float64(h.Low[i]), 0), math.Max(float64(h.High[i]), 0)
			fmt.Fprintf(&b, `<rect class="outer" x="%s" y="%s" width="%s" height="%s"/>`, num(left+float64(i)*each), num(y(high)), num(each), num(y(low)-y(high)))
		}
	} else {
		band("outer", outer)
	}
	// The bars; ranks are numbered, with more than 12 every fifth.
	for i, s := range h.Shares {
		fmt.Fprintf(&b, `<rect class="share" x="%s" y="%s" width="%s" height="%s"/>`, num(left+float64(i)*each+each*0.1), num(y(s)), num(each*0.8), num(y(0)-y(s)))
		if n <= 12 || i%5 == 0 {
			fmt.Fprintf(&b, `<text class="tick" x="%s" y="%s" text-anchor="middle">%d</text>`, num(left+(float64(i)+0.5)*each), num(hh-bottom+13), i+1)
		}
	}
	band("inner", math.Max(inner, most*0.004))
	marks, _ := ticks(0, most, false)
	for _, t := range marks {
		fmt.Fprintf(&b, `<text class="tick" x="%s" y="%s" text-anchor="end">%s</text>`, num(left-5), num(y(t)+4), strings.Replace(share(t), "\u202f", "", 1))
	}
	fmt.Fprintf(&b, `<path class="frame" d="M%s %sH%s"/>`, num(left), num(y(0)), num(w-right))
	fmt.Fprintf(&b, `<text class="name" x="%s" y="%s" text-anchor="middle">%s, %d members: rank</text></svg>`, num((left+w-right)/2), num(hh-5), html.EscapeString(h.System), h.Members)
	return b.String()
}

// flatBand is half the width of the 95 % band of a share with probability p in n independent
// cases, by the normal approximation of the binomial distribution:
//
//	1.96 √(p(1−p)/n)
//
// 1.96 is the 97.5 % quantile of the standard normal distribution.
func flatBand(p, n float64) float64 { return 1.96 * math.Sqrt(p*(1-p)/n) }

// rankAlt describes a rank histogram as text, for screen readers: the share of each rank, and the
// range of a flat histogram.
func rankAlt(h *score.RankHistogram, flat, outer float64, banded bool) string {
	var parts []string
	for i, s := range h.Shares {
		parts = append(parts, fmt.Sprintf("%d: %s", i+1, share(s)))
	}
	if banded {
		for i := range parts {
			parts[i] += fmt.Sprintf(" (flat: %s to %s)", share(math.Max(float64(h.Low[i]), 0)), share(math.Max(float64(h.High[i]), 0)))
		}
		return fmt.Sprintf("Rank histogram of %s, %d members, %d dates. Share of cases by rank, and the range of a flat histogram: %s.", h.System, h.Members, h.N, strings.Join(parts, ", "))
	}
	return fmt.Sprintf("Rank histogram of %s, %d members, %d dates. Share of cases by rank: %s. A flat histogram has %s in each; with one independent case per date between %s and %s.",
		h.System, h.Members, h.N, strings.Join(parts, ", "), share(flat), share(math.Max(flat-outer, 0)), share(flat+outer))
}

// notes returns the definitions of the scores in a result, in the order of score.Table. A score
// that is not in the table has only its formula.
func notes(r *score.Result) (out []note) {
	if r == nil {
		return nil
	}
	for _, v := range r.Scores {
		if slices.ContainsFunc(out, func(n note) bool { return n.ID == v.ID }) {
			continue
		}
		n := note{ID: v.ID, Formula: v.Formula}
		if s := score.ByID(v.ID); s != nil {
			n.Name, n.Better, n.Doc = s.Name, betterText(s.Better), s.Doc
		}
		out = append(out, n)
	}
	slices.SortStableFunc(out, func(a, b note) int { return order(a.ID) - order(b.ID) })
	return out
}

// divisors groups the systems by the divisor of their spread: of members, or predicted. Systems
// without a spread are left out.
func divisors(r *score.Result) (out []Fact) {
	if r == nil {
		return nil
	}
	var seen []string
	for _, v := range r.Scores {
		way := map[string]string{"M-1": "of the members, divisor M − 1", "predicted": "predicted, without a divisor"}[v.Divisor]
		if way == "" || slices.Contains(seen, v.System) {
			continue
		}
		seen = append(seen, v.System)
		i := slices.IndexFunc(out, func(f Fact) bool { return f.Name == way })
		if i < 0 {
			i, out = len(out), append(out, Fact{Name: way})
		} else {
			out[i].Text += ", "
		}
		out[i].Text += v.System
	}
	return out
}

// resampling describes the bootstrap: level, number of resamples, block length and seed; "" without
// scores.
func resampling(r *score.Result) string {
	if r == nil || r.Bootstrap.Resamples == 0 {
		return ""
	}
	b := r.Bootstrap
	return fmt.Sprintf("Intervals: %s, %d resamples of blocks of up to %d dates, seed %d.", share(b.Confidence), b.Resamples, b.BlockLength, b.Seed)
}

// probability formats a p-value with three decimals, or as "p < 0.001"; "" for NaN.
func probability(p float64) string {
	switch {
	case math.IsNaN(p):
		return ""
	case p < 0.001:
		return "p < 0.001"
	}
	return "p = " + decimals(p, 3)
}

// figures formats a value with about four significant digits: at most four decimals, an exponent
// below 1e-3, "–" for NaN. More digits than the interval supports would suggest a precision that scores of
// some hundred dates do not have.
func figures(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	a := math.Abs(v)
	d := 0
	for d < 4 && a < math.Pow(10, float64(3-d)) {
		d++
	}
	if a != 0 && a < 1e-3 {
		return strings.Replace(strconv.FormatFloat(v, 'e', 2, 64), "-", "−", 1)
	}
	return decimals(v, d)
}

// noInterval replaces an interval if there are too few dates.
const noInterval = "no interval"

// interval formats both ends of an interval, times factor; a factor of 100 means percent with one
// decimal:
//
//	1.234 to 1.456,   12.3 to 45.6 %
func interval(low, high, factor float64) string {
	if math.IsNaN(low) || math.IsNaN(high) {
		return noInterval
	}
	if factor == 100 {
		return decimals(100*low, 1) + " to " + decimals(100*high, 1) + "\u202f%"
	}
	return figures(low) + " to " + figures(high)
}

// percent formats a fraction in percent with its sign and one decimal; "–" for NaN:
//
//	0.1234 → +12.3 %
func percent(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	s := decimals(100*v, 1) + "\u202f%"
	if v > 0 {
		s = "+" + s
	}
	return s
}

// share formats a fraction of the whole in percent, with at most one decimal:
//
//	0.0909 → 9.1 %
func share(v float64) string { return short(math.Round(v*1000)/10) + "\u202f%" }

// thousands formats an integer with thin spaces between groups of three digits:
//
//	1234567 → 1 234 567
//
// Source: SI brochure, 9th edition, section 5.4.4. A comma or a point would be a decimal marker for some
// readers.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// longName is the name of a variable for display.
func longName(variable string) string {
	if v, ok := ensemble.VariableNamed(variable); ok && v.LongName != "" {
		return capitalise(v.LongName)
	}
	return variable
}

// QuantityName is a variable with its level for display: "Temperature at 850 hPa". Variables of a single
// level, whose name contains it, have none: "2 metre temperature".
func QuantityName(variable, level string) string {
	if v, ok := ensemble.VariableNamed(variable); ok && !v.OnManyLevels() && v.Level.String() == level {
		return longName(variable)
	}
	return longName(variable) + " at " + spaced(level)
}

// joined matches a number that is followed by its unit without a space.
var joined = regexp.MustCompile(`(\d)(hPa|h|m)\b`)

// spaced inserts a thin space between a number and its unit:
//
//	850hPa → 850 hPa
//
// Source: SI brochure, 9th edition, section 5.4.3.
func spaced(s string) string { return joined.ReplaceAllString(s, "$1\u202f$2") }
