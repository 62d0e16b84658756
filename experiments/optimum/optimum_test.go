package optimum

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
)

// Both sizes of the benchmark have an oracle and one training, which differs in its dates, width and epochs only.
func TestSizesHaveOneTraining(t *testing.T) {
	dates := regexp.MustCompile(`(?m)^#.*$|\d{4}-\d{2}-\d{2}|base: \d+|epochs: \d+`)
	var texts []string
	for _, dir := range []string{".", "../optimum-small"} {
		e, err := experimentfile.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if e.Data.Source != experimentfile.OptimumSource || !slices.Equal(e.Data.Oracle, []string{"optimum_or_*.grib2"}) {
			t.Errorf("%s: data %+v", dir, e.Data)
		}
		text, err := os.ReadFile(dir + "/" + e.Config)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, dates.ReplaceAllString(string(text), ""))
	}
	if texts[0] != texts[1] {
		t.Errorf("other settings:\n%s\n%s", texts[0], texts[1])
	}
}

// The learning curve has the data of the benchmark, and trainings that begin one year to all years before the validation.
func TestYearsHaveTheSameData(t *testing.T) {
	whole, err := experimentfile.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	e, err := experimentfile.Load("years.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(e.Data, whole.Data) || e.Config != whole.Config {
		t.Errorf("data %+v and configuration %s, want %+v and %s", e.Data, e.Config, whole.Data, whole.Config)
	}
	var begins []string
	for _, v := range e.Variants {
		begins = append(begins, v.Name+" "+strings.TrimPrefix(strings.Join(v.Set[:min(len(v.Set), 1)], ""), "data.split.train.from="))
	}
	if want := []string{"years-1 2020-01-01", "years-2 2019-01-01", "years-5 2016-01-01", "years-10 2011-01-01", "years-20 "}; !slices.Equal(begins, want) {
		t.Errorf("variants %q, want %q", begins, want)
	}
}

// Reforecasts have the five members that networks read, and the years of the benchmark.
func TestReforecastsAreOfTheBenchmark(t *testing.T) {
	e, err := experimentfile.Load("reforecast.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if e.Data.Optimum != (experimentfile.OptimumData{Reforecasts: 5}) || !slices.Contains(e.Set, "data.members.full=5") || !slices.Equal(e.Data.Oracle, []string{"optimum_or_*.grib2"}) {
		t.Errorf("data %+v, settings %q", e.Data, e.Set)
	}
}
