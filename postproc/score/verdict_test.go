package score

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// Over a grid of measured numbers no two statements of a verdict contradict each other, and each follows from its
// numbers.
func TestVerdictsAgree(t *testing.T) {
	none := Measured{math.NaN(), math.NaN(), math.NaN()}
	around := func(v float64) []Measured {
		var out []Measured
		for _, d := range []float64{-0.3, -0.05, 0, 0.05, 0.3} {
			for _, half := range []float64{0.02, 0.1} {
				out = append(out, Measured{v + d, v + d - half, v + d + half})
			}
		}
		return append(out, Measured{v, math.NaN(), math.NaN()}, none)
	}
	seen := map[string]int{}
	for _, ratio := range around(1) {
		for _, convexity := range around(0) {
			for _, slope := range around(0) {
				for _, bias := range around(0) {
					for _, outside := range []int{2, 9} {
						e := Evidence{Histogram: PITHistogramKind, Places: 20, Outside: outside, Allowed: 3, Dates: 51, Unit: "K", Slope: slope, Convexity: convexity, SpreadSkill: ratio, Bias: bias}
						v := e.Verdict()
						seen[v.Calibrated+" "+v.Dispersion]++
						if fault := contradiction(e, v); fault != "" {
							t.Fatalf("%s: %+v of %+v", fault, v, e)
						}
						b := Brief{Verdict: v, Ratio: &Value{Value: Number(ratio.Value), CILow: Number(ratio.Low), CIHigh: Number(ratio.High)}}
						if fault := wordContradiction(&b); fault != "" {
							_, text := b.word()
							t.Fatalf("%s: %q beside %+v", fault, text, v)
						}
						for _, expected := range around(1) {
							if fault := expectedContradiction(v, v.OnExpected(expected)); fault != "" {
								t.Fatalf("%s: %q beside %+v", fault, v.OnExpected(expected), v)
							}
						}
					}
				}
			}
		}
	}
	for _, want := range []string{"yes right", "nearly right", "no right", "no too_small", "no too_large", "no uneven", "unknown unknown"} {
		if seen[want] == 0 {
			t.Errorf("no numbers lead to %q: %v", want, seen)
		}
	}
}

// TestAgreements: the text on a calibrated forecast states what was compared: histogram and spread, where they were.
func TestAgreements(t *testing.T) {
	right := Measured{1, 0.9, 1.1}
	none := Measured{math.NaN(), math.NaN(), math.NaN()}
	for _, c := range []struct {
		histogram string
		ratio     Measured
		want      string
	}{
		{"rank histogram", right, "the rank histogram does not differ from a flat one and the spread agrees with the error (spread/error "},
		{"rank histogram", none, "the rank histogram does not differ from a flat one"},
		{"", right, "the spread agrees with the error (spread/error "},
		{"", none, "no bias is detected"},
	} {
		if got := strings.Join(Evidence{SpreadSkill: c.ratio}.agreements(c.histogram), " and "); !strings.HasPrefix(got, c.want) || c.ratio != right && got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// wordContradiction returns what is wrong with the sentence on calibration of a summary, or "".
func wordContradiction(b *Brief) string {
	word, text := b.word()
	has := func(s string) bool { return strings.Contains(text, s) }
	v := b.Verdict
	switch {
	case text == "" || has("NaN"):
		return "no text or a missing number in it"
	case (word == "calibrated") != (v.Calibrated == "yes"), (word == "nearly calibrated") != (v.Calibrated == "nearly"), (word == "not judged") != (v.Calibrated == "unknown"):
		return "another word"
	case has("too confident") != (v.Dispersion == "too_small") && v.Calibrated == "no", has("too cautious") != (v.Dispersion == "too_large") && v.Calibrated == "no":
		return "another spread"
	case has("spread is right") && v.Dispersion != "right":
		return "a right spread that is not measured"
	case (v.Bias == "too_low" || v.Bias == "too_high") && !has(strings.ReplaceAll(v.Bias, "_", " ")):
		return "another bias"
	case has("1.00)") && v.Calibrated == "no" && !has("is right") && b.Ratio != nil && measured(b.Ratio).Relative(1) != On && measured(b.Ratio).Relative(1) != Unmeasured:
		return "a wrong spread with the ratio 1.00"
	}
	return ""
}

// A number does not appear as the value that its interval excludes: a ratio as 1, a convexity as 0, a quantile as 50 %.
func TestFormatMeasured(t *testing.T) {
	for want, got := range map[string]string{"50.02": Measured{0.0002, 0.0001, 0.0003}.quantile(), "50.0": Measured{0.0002, -0.0001, 0.0003}.quantile(), "49.4": Measured{-0.006, -0.01, -0.002}.quantile(),
		"-0.0004": Measured{-0.0004, -0.0005, -0.0003}.convexity(), "-0.000": Measured{-0.0004, -0.0005, 0.0003}.convexity(), "+0.255": Measured{0.255, 0.2, 0.3}.convexity()} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, m := range map[string]Measured{"1.00": {0.996, 0.99, 1.002}, "0.996": {0.996, 0.994, 0.998}, "1.0004": {1.0004, 1.0003, 1.0005}, "0.93": {0.93, 0.9, 0.96}} {
		if got := m.ratio(); got != want {
			t.Errorf("%+v: %q, want %q", m, got, want)
		}
	}
}

// contradiction returns what is wrong with a verdict, or "".
func contradiction(e Evidence, v Verdict) string {
	has := func(s string) bool { return strings.Contains(v.Text, s) }
	ratio, convexity := e.SpreadSkill.Relative(1), e.Convexity.Relative(0)
	slope, bias := e.Slope.Relative(0), e.Bias.Relative(0)
	switch {
	case v.Text == "" || strings.Contains(v.Text, "NaN"):
		return "no text or a missing number in it"
	case has("too small") && ratio != Below && ratio != Unmeasured, has("too large") && ratio != Above && ratio != Unmeasured:
		return "the spread is called wrong beside a ratio that is not"
	case has("too small") && convexity != Above && convexity != Unmeasured, has("too large") && convexity != Below && convexity != Unmeasured:
		return "the spread is called wrong beside a histogram that is not"
	case has("too small") && has("too large"), has("too low") && has("too high"):
		return "two opposite statements"
	case has("too low") && (slope == Below || bias == Above), has("too high") && (slope == Above || bias == Below):
		return "the bias is called the opposite"
	case (has("Calibrated:") || has("Nearly calibrated")) && (ratio == Below || ratio == Above || convexity == Below || convexity == Above || slope == Below || slope == Above || bias == Below || bias == Above):
		return "called calibrated beside a number that is wrong"
	case has("Calibrated:") && e.Outside > e.Allowed && e.Histogram != "":
		return "called calibrated beside a histogram that is not flat"
	case v.Calibrated == "no" && has("Calibrated"):
		return "two verdicts"
	case (v.Calibrated == "yes") != strings.HasPrefix(v.Text, "Calibrated:"):
		return "word and text differ"
	case has("equals the error") && ratio != On, has("smaller than the error") && ratio != Below, has("larger than the error") && ratio != Above:
		return "spread and error are compared wrongly"
	}
	return ""
}

// expectedContradiction returns what is wrong with a sentence on the expected CRPS beside a verdict, or "".
func expectedContradiction(v Verdict, text string) string {
	switch {
	case strings.Contains(text, "too small a spread") && v.Dispersion != "too_small", strings.Contains(text, "too large a spread") && v.Dispersion != "too_large":
		return "another spread"
	case strings.Contains(text, "a bias") && (v.Bias == "none" || v.Bias == "unknown"):
		return "another bias"
	}
	return ""
}

// A ratio of 1.00 beside a histogram with too full tails is one verdict, not two.
func TestVerdictOfUnevenSpread(t *testing.T) {
	e := Evidence{Histogram: RankHistogramKind, Places: 11, Outside: 6, Allowed: 2, Dates: 51, SpreadSkill: Measured{1, 0.97, 1.03}, Convexity: Measured{0.2, 0.15, 0.25},
		Slope: Measured{0, -0.01, 0.01}, Bias: Measured{0, -0.1, 0.1}}
	v := e.Verdict()
	want := "Spread is uneven between cases: on average it equals the error (spread/error 1.00), but the reference falls into the tails too often (convexity +0.200). The rank histogram is not flat (6 of 11 places outside the band of a flat histogram)."
	if v.Dispersion != "uneven" || v.Bias != "none" || v.Calibrated != "no" || v.Text != want {
		t.Errorf("%+v", v)
	}
}

// A skill score is decided exactly if its interval does not contain 0.
func TestDecision(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{{0.1, 0.2, "better"}, {-0.2, -0.1, "worse"}, {-0.1, 0.1, "undecided"}, {0, 0.1, "undecided"}, {math.NaN(), math.NaN(), "unknown"}} {
		if got := (&Comparison{CILow: Number(c.low), CIHigh: Number(c.high)}).Decision(); got != c.want {
			t.Errorf("%s to %s: %s, want %s", fmt.Sprint(c.low), fmt.Sprint(c.high), got, c.want)
		}
	}
}
