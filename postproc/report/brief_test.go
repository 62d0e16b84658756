package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// briefed is a page on targets whose skill scores have given values and half widths; the spread agrees with the error
// within its interval, or not.
func briefed(ratio float64, gains ...[2]float64) *Page {
	r := &score.Result{Bootstrap: significance.Bootstrap{Confidence: 0.95}}
	for i, g := range gains {
		level := fmt.Sprintf("%dhPa", 1000-50*i)
		for k, system := range []string{"network", "raw5", "emos"} {
			value := func(id string, v, half float64) score.Value {
				return score.Value{ID: id, System: system, Variable: "t", Level: level, Lead: "48h", LeadH: 48, Value: score.Number(v), CILow: score.Number(v - half), CIHigh: score.Number(v + half), N: 60, Unit: "K"}
			}
			r.Scores = append(r.Scores, value("crps_gauss", 1+0.1*float64(k), 0.05), value("spread_skill", ratio, 0.02), value("bias", 0, 0.1))
			if k > 0 {
				r.Comparisons = append(r.Comparisons, score.Comparison{ID: "crps_gauss", System: "network", Reference: system, ReferenceID: "crps_gauss", Variable: "t", Level: level, Lead: "48h", LeadH: 48,
					SkillScore: score.Number(g[0]), CILow: score.Number(g[0] - g[1]), CIHigh: score.Number(g[0] + g[1]), N: 60})
			}
		}
	}
	return &Page{Title: "x", Scores: r}
}

// The three lines follow from the numbers: words, tones and texts agree over a grid of skill scores, widths and
// spread-skill ratios, with one and with several targets.
func TestBriefLines(t *testing.T) {
	for _, ratio := range []float64{0.7, 0.99, 1.3} {
		for _, a := range []float64{-0.3, -0.01, 0.01, 0.3} {
			for _, half := range []float64{0.05, math.NaN()} {
				for _, second := range []float64{math.NaN(), -0.3, 0.3} {
					gains := [][2]float64{{a, half}}
					if second == second {
						gains = append(gains, [2]float64{second, half})
					}
					lines := briefLines(briefed(ratio, gains...))
					gain, calibrated, watch := lines[0], lines[1], lines[2]
					better, worse := 0, 0
					for _, g := range gains {
						if g[0]-half > 0 {
							better++
						} else if g[0]+half < 0 {
							worse++
						}
					}
					all := len(gains)
					if (gain.Word == "Better") != (better == all) || (gain.Word == "Worse") != (worse == all) || gain.Tone == "good" && worse > 0 || gain.Tone == "bad" && worse == 0 ||
						strings.Contains(gain.Text, "worse") != (worse > 0) || strings.Contains(watch.Text, "orse than") != (worse > 0) || strings.Contains(gain.Text, "NaN") {
						t.Errorf("skill %v ± %g: %+v, %+v", gains, half, gain, watch)
					}
					if calibrated.Word != "Yes" && watch.Word == "Nothing stands out" {
						t.Errorf("%+v beside %+v", watch, calibrated)
					}
					if want := map[float64]string{0.7: "No", 0.99: "Yes", 1.3: "No"}[ratio]; calibrated.Word != want || strings.Contains(calibrated.Text, "too small") != (ratio == 0.7) || strings.Contains(calibrated.Text, "too large") != (ratio == 1.3) {
						t.Errorf("spread/error %g: %+v", ratio, calibrated)
					}
				}
			}
		}
	}
	for want, r := range map[string][2]float64{"10.0 to 30.0\u202f% lower": {0.1, 0.3}, "10.0 to 30.0\u202f% higher": {-0.3, -0.1}, "10.0\u202f% lower": {0.1, 0.1}} {
		if got := lowerRange(score.Number(r[0]), score.Number(r[1])); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if lines := briefLines(&Page{Title: "x"}); lines != nil {
		t.Errorf("a page without scores has %+v", lines)
	}
}

// One target shows its interval, several the range of skill scores and the least with its interval.
func TestGainText(t *testing.T) {
	for want, p := range map[string]*Page{
		"CRPS 30.0\u202f% lower than that of 5 raw members (95\u202f% interval 25.0 to 35.0\u202f%): better. CRPS 30.0\u202f% lower than that of the best baseline, EMOS (95\u202f% interval 25.0 to 35.0\u202f%): better.": briefed(1, [2]float64{0.3, 0.05}),
		"CRPS 10.0\u202f% higher to 20.0\u202f% lower than that of 5 raw members: better in 1, worse in 1 of 2. Least for temperature at 1000\u202fhPa (95\u202f% interval −15.0 to −5.0\u202f%).":                          briefed(1, [2]float64{-0.1, 0.05}, [2]float64{0.2, 0.05}),
	} {
		if got := briefLines(p)[0].Text; !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A page of several targets shows one at a time by radio buttons and CSS alone, all in print; every button has its
// element, and exactly one is checked.
func TestPicker(t *testing.T) {
	text := write(t, briefed(1, [2]float64{0.3, 0.05}, [2]float64{0.2, 0.05}, [2]float64{0.1, 0.05}))
	if strings.Contains(text, "<script") || strings.Count(text, ` checked=""`) != 1 || strings.Count(text, `type="radio"`) != 3 {
		t.Error("the page has a script, or not one of three buttons checked")
	}
	for i := 1; i <= 3; i++ {
		if !strings.Contains(text, fmt.Sprintf(`.picked:has(#rg%d:checked) > #g%d { display: block; }`, i, i)) || !strings.Contains(text, fmt.Sprintf(`class="pane" id="g%d"`, i)) {
			t.Errorf("button %d shows nothing", i)
		}
	}
	if !strings.Contains(text, "@media screen { .picked > .pane[id^=g] { display: none; }") {
		t.Error("panes are hidden in print too")
	}
}

// A page of many targets is divided: the summary of all is in the first part only, each target with its scores in one
// part. What cannot be divided stays whole.
func TestParts(t *testing.T) {
	var gains [][2]float64
	for range 16 {
		gains = append(gains, [2]float64{0.3, 0.05})
	}
	page := briefed(1, gains...)
	page.Config = "epochs: 4"
	for k := range 20_000 { // files of years of forecasts
		page.Inputs = append(page.Inputs, File{Path: fmt.Sprintf("fc/%05d.grib2", k), Size: 1 << 30, SHA256: strings.Repeat("a", 64)})
	}
	const limit = 170_000
	parts, err := page.Parts("index.html", limit)
	if err == nil && (!strings.Contains(string(parts[0].Text), "fc/00499.grib2") || !strings.Contains(string(parts[0].Text), "19\u202f500 further files")) {
		t.Error("the first inputs and the number of the others are not there")
	}
	if err != nil || len(parts) < 2 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	for i, p := range parts {
		text := string(p.Text)
		if len(text) > limit {
			t.Errorf("%s has %d bytes", p.Name, len(text))
		}
		if first := i == 0; strings.Contains(text, "What was gained?") != first || strings.Contains(text, "epochs: 4") != first || strings.Contains(text, "Skill over") != first {
			t.Errorf("%s: the summary is there: %t", p.Name, !first)
		}
	}
	for i := range gains {
		name := fmt.Sprintf("Temperature at %d\u202fhPa, lead 48\u202fh", 1000-50*i)
		for _, heading := range []string{"<h3>" + name + "</h3>", "<summary>" + name + "</summary>"} {
			n := 0
			for _, p := range parts {
				n += strings.Count(string(p.Text), heading)
			}
			if n != 1 {
				t.Errorf("%s is %d times in the parts", heading, n)
			}
		}
	}
	for _, p := range []*Page{briefed(1, gains[0]), {Title: "x", Config: strings.Repeat("a: b\n", 40_000)}} {
		if parts, err := p.Parts("index.html", 1000); err != nil || len(parts) != 1 || strings.Contains(string(parts[0].Text), "variables and leads, to stay") {
			t.Errorf("%d parts of a page that cannot be divided, %v", len(parts), err)
		}
	}
}
