package score

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// Measured is a value with its confidence interval; NaN: not measured, or without an interval.
type Measured struct{ Value, Low, High float64 }

// measured converts a score; the zero pointer is not measured.
func measured(v *Value) Measured {
	if v == nil {
		return Measured{math.NaN(), math.NaN(), math.NaN()}
	}
	return Measured{float64(v.Value), float64(v.CILow), float64(v.CIHigh)}
}

// Side is the position of an interval relative to a value: Below, On (contains it) or Above.
type Side int

// The positions of an interval.
const (
	Unmeasured Side = iota // without an interval
	Below
	On
	Above
)

// Relative returns the position of the interval relative to a value.
func (m Measured) Relative(to float64) Side {
	switch {
	case math.IsNaN(m.Low) || math.IsNaN(m.High):
		return Unmeasured
	case m.High < to:
		return Below
	case m.Low > to:
		return Above
	}
	return On
}

// format formats the value, times factor, with some decimals; with more if it would otherwise appear as a value that its
// interval excludes. verb is "%.*f" or "%+.*f".
func (m Measured) format(verb string, places int, factor, add, excluded float64) string {
	v := factor*m.Value + add
	text := fmt.Sprintf(verb, places, v)
	side := m.Relative((excluded - add) / factor)
	for most := places + 4; side != On && side != Unmeasured && places < most; text = fmt.Sprintf(verb, places, v) {
		if shown, err := strconv.ParseFloat(text, 64); err != nil || shown != excluded {
			break
		}
		places++
	}
	return text
}

// ratio formats a spread-skill ratio, convexity that of a histogram, and quantile the place of the reference that follows
// from a slope, in percent.
func (m Measured) ratio() string     { return m.format("%.*f", 2, 1, 0, 1) }
func (m Measured) convexity() string { return m.format("%+.*f", 3, 1, 0, 0) }
func (m Measured) quantile() string  { return m.format("%.*f", 1, 100, 50, 50) }

// Evidence contains the measurements of one system from which the verdict on its calibration follows.
type Evidence struct {
	Histogram        string // RankHistogramKind or PITHistogramKind; "": none
	Places           int    // of the histogram
	Outside, Allowed int    // places outside the band of a flat histogram, and the number expected by chance
	Dates            int
	Unit             string   // of Bias
	Slope, Convexity Measured // of the histogram, see Calibration
	SpreadSkill      Measured // ratio of spread to error
	Bias             Measured // forecast minus reference
}

// Verdict is the verdict on the calibration of one system. All sentences on bias, spread and
// calibration are made from it, so that no two of them contradict each other.
type Verdict struct {
	Calibrated string // "yes"; "nearly": only the histogram is not flat; "no"; "unknown": without intervals
	Bias       string // of the forecasts: "none", "too_low", "too_high", "uneven" or "unknown"
	Dispersion string // of the spread: "right", "too_small", "too_large", "uneven" or "unknown"
	Text       string // sentences
}

// Verdict combines the measurements. Bias and spread are measured twice: by the histogram, which
// counts cases, and by mean error and spread-skill ratio, which are dominated by large errors. If
// the intervals of both lead to different answers, the answer is "uneven" and the text names both
// numbers. What is not measured does not count.
//
// Missing: without any interval everything is "unknown".
func (e Evidence) Verdict() Verdict {
	v := Verdict{
		Bias:       combine(words(e.Slope.Relative(0), "too_high", "none", "too_low"), words(e.Bias.Relative(0), "too_low", "none", "too_high")),
		Dispersion: combine(words(e.Convexity.Relative(0), "too_large", "right", "too_small"), words(e.SpreadSkill.Relative(1), "too_small", "right", "too_large")),
	}
	flat := e.Outside <= e.Allowed
	switch {
	case v.Bias == "unknown" && v.Dispersion == "unknown":
		v.Calibrated = "unknown"
	case v.Bias != "none" && v.Bias != "unknown" || v.Dispersion != "right" && v.Dispersion != "unknown":
		v.Calibrated = "no"
	case !flat:
		v.Calibrated = "nearly"
	default:
		v.Calibrated = "yes"
	}
	v.Text = e.text(v, flat)
	return v
}

// words translates the position of an interval; "unknown" without one.
func words(s Side, below, on, above string) string {
	return [...]string{Unmeasured: "unknown", Below: below, On: on, Above: above}[s]
}

// combine joins two answers to one question: "unknown" does not count, different ones are "uneven".
func combine(a, b string) string {
	switch {
	case a == "unknown":
		return b
	case b == "unknown" || a == b:
		return a
	}
	return "uneven"
}

// text describes a verdict in sentences.
func (e Evidence) text(v Verdict, flat bool) string {
	name := map[string]string{RankHistogramKind: "rank histogram", PITHistogramKind: "PIT histogram"}[e.Histogram]
	outside := fmt.Sprintf("%d of %d places outside the band of a flat histogram", e.Outside, e.Places)
	switch v.Calibrated {
	case "unknown":
		return fmt.Sprintf("Too few dates (%s) to judge the %s.", humanise.Count(e.Dates, "date"), cmp.Or(name, "calibration"))
	case "yes":
		return fmt.Sprintf("Calibrated: with %s %s.", humanise.Count(e.Dates, "date"), strings.Join(e.agreements(name), " and "))
	case "nearly":
		return fmt.Sprintf("Nearly calibrated: with %s neither bias nor wrong spread is detected, but some ranges of the forecast are hit too often or too seldom: the %s is not flat (%s).", humanise.Count(e.Dates, "date"), name, outside)
	}
	var found []string
	if t := e.biasText(v.Bias); t != "" {
		found = append(found, t)
	}
	if t := e.spreadText(v.Dispersion); t != "" {
		found = append(found, t)
	}
	if name != "" && !flat {
		found = append(found, fmt.Sprintf("The %s is not flat (%s).", name, outside))
	}
	return strings.Join(found, " ")
}

// agreements lists what does not differ from a calibrated forecast.
func (e Evidence) agreements(histogram string) (out []string) {
	if histogram != "" {
		out = append(out, "the "+histogram+" does not differ from a flat one")
	}
	if e.SpreadSkill.Relative(1) == On {
		out = append(out, fmt.Sprintf("the spread agrees with the error (spread/error %s)", e.SpreadSkill.ratio()))
	}
	if len(out) == 0 {
		out = append(out, "no bias is detected")
	}
	return out
}

// biasText describes the bias; "" if there is none.
func (e Evidence) biasText(bias string) string {
	quantile := fmt.Sprintf("on average the reference falls on the %s %% quantile", e.Slope.quantile())
	mean := fmt.Sprintf("mean error %+.2g %s", e.Bias.Value, e.Unit)
	var numbers []string
	if e.Bias.Relative(0) != Unmeasured {
		numbers = append(numbers, strings.TrimSpace(mean))
	}
	if e.Slope.Relative(0) != Unmeasured {
		numbers = append(numbers, quantile)
	}
	switch bias {
	case "too_low", "too_high":
		return fmt.Sprintf("Forecasts are %s: %s.", strings.ReplaceAll(bias, "_", " "), strings.Join(numbers, "; "))
	case "uneven":
		return fmt.Sprintf("Bias is uneven between cases: the %s, but %s.", strings.TrimSpace(mean+words(e.Bias.Relative(0), "", " does not differ from 0", "")), quantile)
	}
	return ""
}

// spreadText describes a wrong spread; "" if it is right.
func (e Evidence) spreadText(dispersion string) string {
	counts := words(e.Convexity.Relative(0), "near the median too often", "into the tails as often as it should", "into the tails too often")
	histogram := fmt.Sprintf("the reference falls %s (convexity %s)", counts, e.Convexity.convexity())
	switch dispersion {
	case "too_small", "too_large":
		var numbers []string
		if e.SpreadSkill.Relative(1) != Unmeasured {
			numbers = append(numbers, "spread/error is "+e.SpreadSkill.ratio())
		}
		if e.Convexity.Relative(0) != Unmeasured {
			numbers = append(numbers, histogram)
		}
		return fmt.Sprintf("Spread is %s: %s.", strings.ReplaceAll(dispersion, "_", " "), strings.Join(numbers, ", and "))
	case "uneven":
		return fmt.Sprintf("Spread is uneven between cases: on average it %s the error (spread/error %s), but %s.",
			words(e.SpreadSkill.Relative(1), "is smaller than", "equals", "is larger than"), e.SpreadSkill.ratio(), histogram)
	}
	return ""
}

// OnExpected describes the ratio of the CRPS to the one that the forecasts expect of themselves. It
// gives a reason only if the verdict contains it.
func (v Verdict) OnExpected(ratio Measured) string {
	switch ratio.Relative(1) {
	case Above:
		switch {
		case v.Dispersion == "too_small":
			return "is above its expected CRPS, as it must be with too small a spread"
		case v.Bias != "none" && v.Bias != "unknown":
			return "is above its expected CRPS, as it must be with a bias"
		}
		return "is above its expected CRPS"
	case Below:
		if v.Dispersion == "too_large" {
			return "is below its expected CRPS, as it must be with too large a spread"
		}
		return "is below its expected CRPS"
	case On:
		return "agrees with its expected CRPS"
	}
	return "has no interval to compare it with its expected CRPS"
}

// VerdictOf returns the verdict on a system over the whole area and all dates, from the scores and
// histograms of a result.
func (r *Result) VerdictOf(system, variable, level, lead string) Verdict {
	return r.evidence(system, variable, level, lead, Everywhere, AllYear).Verdict()
}

// evidence collects what a result contains on a system in a region and season.
func (r *Result) evidence(system, variable, level, lead, region, season string) Evidence {
	nan := measured(nil)
	e := Evidence{Slope: nan, Convexity: nan, SpreadSkill: nan, Bias: nan}
	same := func(r, s string) bool {
		return r == region && s == season || IsOverall(r, s) && IsOverall(region, season)
	}
	for i := range r.Scores {
		v := &r.Scores[i]
		if v.System != system || v.Variable != variable || v.Level != level || v.Lead != lead || !same(v.Region, v.Season) {
			continue
		}
		e.Dates = max(e.Dates, v.N)
		switch v.ID {
		case SpreadSkill.ID:
			e.SpreadSkill = measured(v)
		case Bias.ID:
			e.Bias, e.Unit = measured(v), v.Unit
		}
	}
	for i := range r.Calibration {
		c := &r.Calibration[i]
		if c.System == system && c.Variable == variable && c.Level == level && c.Lead == lead && same(c.Region, c.Season) {
			e.Histogram, e.Places, e.Outside, e.Allowed, e.Dates = c.Histogram, c.Places, c.Outside, c.Allowed, c.N
			e.Slope = Measured{float64(c.Slope), float64(c.SlopeLow), float64(c.SlopeHigh)}
			e.Convexity = Measured{float64(c.Convexity), float64(c.ConvexityLow), float64(c.ConvexityHigh)}
		}
	}
	return e
}

// Decision is the verdict on a skill score that follows from its interval: "better", "worse",
// "undecided" if the interval contains 0, or "unknown" without an interval.
func (c *Comparison) Decision() string {
	return words(Measured{float64(c.SkillScore), float64(c.CILow), float64(c.CIHigh)}.Relative(0), "worse", "undecided", "better")
}
