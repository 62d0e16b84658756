package dist

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// Names are those of the families and unique, and a family that is made by another's parameters is in the table too.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Table {
		f := r.AnyFamily()
		if f.ID != r.ID || seen[r.ID] || len(r.Rules) == 0 || len(f.Parameters) != len(f.Roles) {
			t.Errorf("%s: family %s, rules %v, parameters %v", r.ID, f.ID, r.Rules, f.Parameters)
		}
		seen[r.ID] = true
	}
	for _, r := range Table {
		f := r.AnyFamily()
		if c := f.Censored(); !seen[c.ID] || len(c.Parameters) != len(f.Parameters) || f.Excess.Family != nil && !c.Positive {
			t.Errorf("%s is censored as %s%v", r.ID, c.ID, c.Parameters)
		}
		if r.Size == Bins {
			if n := len(r.AverageFamily(6, 2).Parameters); n != len(r.New(11).Parameters) {
				t.Errorf("%s: %d parameters of an average of two", r.ID, n)
			}
		} else if f := r.AverageFamily(6, 2); len(f.Parameters) != len(r.New(6).Parameters) {
			t.Errorf("%s: parameters of an average of two: %v", r.ID, f.Parameters)
		}
	}
}

// StandardMoments of a location-scale family, also a truncated or censored one, are its moments far from 0.
func TestUnits(t *testing.T) {
	n := 0
	for _, f := range fixedFamilies() {
		if f.StandardMoments == (Moments{}) {
			continue
		}
		n++
		par := []float64{50, 0.7}
		mean, std := f.Moments(par)
		near(t, f.ID+": mean", mean, 50+0.7*f.StandardMoments.Mean, 1e-12)
		near(t, f.ID+": standard deviation", std, 0.7*f.StandardMoments.Std, 1e-9)
	}
	if n < 6 {
		t.Errorf("%d families have a unit", n)
	}
}

// A standard form whose mean is not its location: the exponential distribution.
func TestLocationScaleOfAnyMean(t *testing.T) {
	f := locationScale("shifted_exponential", "exponential from a location on", StandardForm{
		CDF:      func(z float64) float64 { return max(0, -math.Expm1(-z)) },
		Quantile: func(p float64) float64 { return -math.Log1p(-p) },
		Moments:  Moments{1, 1},
	})
	par := make([]float64, 2)
	f.SetMoments(par, 3, 0.5)
	mean, std := f.Moments(par)
	near(t, "mean", mean, 3, 1e-15)
	near(t, "standard deviation", std, 0.5, 1e-15)
	near(t, "location", par[0], 2.5, 1e-15)
	for _, p := range []float64{0.1, 0.5, 0.99} {
		q := f.Quantile(par, p)
		near(t, "quantile", q, f.QuantileFunc(p)(par), 1e-15)
		near(t, "distribution function", f.CDF(par, q), p, 1e-12)
	}
	if f.HalfMeanDifference != nil || f.Censored() != f {
		t.Error("what was not given is there")
	}
}

// The page of networks has the same values of each family as the table.
func TestPageOfFamilies(t *testing.T) {
	text, err := os.ReadFile("../../docs/networks.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	rows := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 6 || !strings.HasPrefix(cells[0], " `") || strings.Contains(cells[0], "model.family") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		id := strings.Split(cells[0], "`")[1]
		named, rows[id] = append(named, id), cells
	}
	if want := HeadNames(nil); !slices.Equal(named, want) {
		t.Fatalf("the page has %q, want %q", named, want)
	}
	for _, r := range Table {
		if !r.Head {
			continue
		}
		f, cells := r.AnyFamily(), rows[r.ID]
		parameters := strings.Join(f.Parameters, ", ")
		if r.Size != NoSize {
			parameters = "`model." + string(r.Size) + "`"
		}
		if !strings.HasPrefix(cells[1], parameters) {
			t.Errorf("%s: parameters %q, want %q", r.ID, cells[1], parameters)
		}
		if positive := cells[3] == "≥ 0" || cells[3] == "> 0"; positive != f.Positive || cells[3] == "" {
			t.Errorf("%s: values %q", r.ID, cells[3])
		}
		var rules []string
		for _, rule := range r.Rules {
			rules = append(rules, "`"+string(rule)+"`")
		}
		if want := strings.Join(rules, ", "); cells[4] != want {
			t.Errorf("%s: losses %q, want %q", r.ID, cells[4], want)
		}
		if want := map[bool]string{true: "yes", false: "no"}[f.Excess.Family != nil]; cells[5] != want {
			t.Errorf("%s: thresholds %q, want %q", r.ID, cells[5], want)
		}
	}
}
