package experiment

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// keysOf parses keys of a sweep.
func keysOf(t *testing.T, texts ...string) (keys []SweepKey) {
	t.Helper()
	for _, text := range texts {
		k, err := ParseSweepKey(text)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	return keys
}

func TestGridOfTrials(t *testing.T) {
	all, err := Trials(keysOf(t, "model.base=2,4", "data.leads=[0h,48h],[48h]"), 0, 0)
	want := [][]string{{"model.base=2", "data.leads=[0h,48h]"}, {"model.base=2", "data.leads=[48h]"}, {"model.base=4", "data.leads=[0h,48h]"}, {"model.base=4", "data.leads=[48h]"}}
	if err != nil || !slices.EqualFunc(all, want, slices.Equal) {
		t.Errorf("%q, %v", all, err)
	}
	few, err := Trials(keysOf(t, "model.base=2,4"), 5, 1) // more trials than combinations
	if err != nil || len(few) != 2 {
		t.Errorf("%q, %v", few, err)
	}
}

// Random trials are in their ranges, on a logarithmic scale if these are wide, distinct, and repeatable.
func TestRandomTrials(t *testing.T) {
	keys := keysOf(t, "train.learning_rate=0.0001..0.01", "model.dropout=0.1..0.5", "model.base=2..4", "model.kind=unet3d,unet2d")
	all, err := Trials(keys, 1000, 7)
	if err != nil || len(all) != 1000 {
		t.Fatal(len(all), err)
	}
	below, bases, distinct := 0, map[string]int{}, map[string]bool{}
	for _, set := range all {
		distinct[strings.Join(set, " ")] = true
		for i, high := range []float64{0.01, 0.5, 4} {
			_, text, _ := strings.Cut(set[i], "=")
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || v < []float64{0.0001, 0.1, 2}[i] || v > high {
				t.Fatalf("%q: %v", set[i], err)
			}
			if i == 0 && v < 0.001 {
				below++
			}
			if i == 2 {
				bases[text]++
			}
		}
	}
	// Half are below the geometric mean, a third have each base, with standard deviations of 16 and 15.
	if below < 420 || below > 580 || len(bases) != 3 || bases["2"] < 260 || bases["4"] < 260 || len(distinct) != 1000 {
		t.Errorf("%d of 1000 below the middle, bases %v, %d distinct", below, bases, len(distinct))
	}
	if fewer, err := Trials(keys, 10, 7); err != nil || !slices.EqualFunc(fewer, all[:10], slices.Equal) {
		t.Errorf("ten are not the first of a thousand: %q, %v", fewer, err)
	}
	if whole, err := Trials(keysOf(t, "model.base=2..4"), 50, 7); err != nil || len(whole) != 3 {
		t.Errorf("of three numbers: %q, %v", whole, err)
	}
}

// A sweep that names test dates is refused, as are other keys that make trials incomparable.
func TestSweepRefusesKeys(t *testing.T) {
	for text, want := range map[string]string{
		"data.split.test.from=1984-01-01,1984-02-01": "test dates judge the winner",
		"data.split.test.to=1984-12-31":              "--final tests the winner",
		"data.split.validation.to=1983-12-31":        "same validation dates",
		"data.split.fractions.train=0.5..0.7":        "same validation dates",
		"data.targets=[t],[gh]":                      "different targets",
		"train.threads=1,2":                          "bits",
		"train.seed=1..100":                          "luck",
		"model.base":                                 "no values",
		"model.base=":                                "no values",
		"=2":                                         "no values",
		"model.base=4..2":                            "the smaller one first",
		"model.base=x..2":                            "two finite numbers",
		"model.base=2,4,2":                           "listed twice",
	} {
		if _, err := ParseSweepKey(text); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for want, keys := range map[string][]string{
		"needs keys":              nil,
		"given twice":             {"model.base=2", "model.base=4"},
		"has no number of trials": {"model.dropout=0.1..0.5"},
		"more than 10000 trials":  {"a=" + numbers(200), "b=" + numbers(200)},
	} {
		if _, err := Trials(keysOf(t, keys...), 0, 0); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", keys, err, want)
		}
	}
}

// numbers lists the numbers below n.
func numbers(n int) string {
	var out []string
	for i := range n {
		out = append(out, strconv.Itoa(i))
	}
	return strings.Join(out, ",")
}
