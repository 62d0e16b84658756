package optimum

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
)

// Both sizes of the benchmark have an oracle and one training that differs in its dates only.
func TestSizesHaveOneTraining(t *testing.T) {
	dates := regexp.MustCompile(`(?m)^#.*$|\d{4}-\d{2}-\d{2}`)
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
