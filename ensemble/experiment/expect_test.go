package experiment

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// otherExperiment is the text of an experiment in the same directory.
const otherExperiment = "# another experiment\n"

// draft is an experiment without checksums of its data and without expected scores, beside another experiment.
func draft(t *testing.T, change ...string) *experimentfile.Config {
	t.Helper()
	e := recorded(t, append([]string{"seeds: [3]", "seeds: [3, 4, 5]"}, change...)...)
	text, err := os.ReadFile(e.Path)
	if err != nil {
		t.Fatal(err)
	}
	kept, _, _ := strings.Cut(string(text), "  files:\n")
	path := filepath.Join(e.Dir(), "draft.yaml")
	for name, text := range map[string]string{path: kept + "# the end\n", e.Path: otherExperiment} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if e, err = experimentfile.LoadDraft(path); err != nil {
		t.Fatal(err)
	}
	return e
}

// An experiment without results gets checksums, scores and tolerances from its trainings, and passes. Recorded again
// it is the same.
func TestExpect(t *testing.T) {
	e := draft(t)
	if _, err := experimentfile.Load(e.Path); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "ensemble experiment record") {
		t.Errorf("a draft is no experiment: %v", err)
	}
	o := Options{Experiment: e, Dir: t.TempDir(), Version: "v1.2.3"}
	r, err := Expect(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	path := e.Path
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Three test dates have no interval, so no skill score is expected.
	if len(r.Record.Checks) != 2 || !r.Passed() || r.Record.Sources[0].Text != string(text) || !strings.Contains(string(text), "# the end\n") {
		t.Fatalf("checks %+v\n%s", r.Record.Checks, text)
	}
	for _, c := range r.Record.Checks {
		var values []float64
		for _, seed := range e.Seeds {
			scores, err := trained.ReadScores(filepath.Join(o.Dir, experimentfile.BaseVariant, fmt.Sprintf("seed-%d", seed)))
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, float64(scores.Find(c.Score, scoring.SystemNetwork, c.Variable, c.Level, c.Lead).Value))
		}
		if mean, sd := meanSD(values); !c.Pass || math.Abs(float64(c.Expected/mean)-1) > 1e-4 || math.Abs(c.Tolerance/float64(2*sd)-1) > 0.06 {
			t.Errorf("%+v, the seeds have %g ± %g", c, mean, sd)
		}
	}
	loaded, err := experimentfile.Load(e.Path)
	if err != nil || len(loaded.Data.Files) != len(r.Record.Data.Files) || len(loaded.Data.Files) == 0 {
		t.Fatal(loaded, err)
	}
	o.Experiment = loaded
	if _, err := Expect(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(path); err != nil || string(again) != string(text) {
		t.Errorf("%v, recorded again:\n%s", err, again)
	}
	if other, err := os.ReadFile(filepath.Join(e.Dir(), experimentfile.FileName)); err != nil || string(other) != otherExperiment {
		t.Errorf("%v, the other experiment of the directory:\n%s", err, other)
	}
	p, err := Reproduce(context.Background(), r.Path, Options{Dir: t.TempDir(), Data: filepath.Dir(demotest.Files(t).GRIB2[0]), Version: "v1.2.3"})
	if err != nil || p.Comparison.Verdict != record.SameBits {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestExpectRefuses(t *testing.T) {
	for _, c := range []struct {
		name, version string
		change        []string
		code          exit.Code
		want          string
	}{
		{"one seed", "v1.2.3", []string{"seeds: [3, 4, 5]", "seeds: [3]"}, exit.Usage, "tolerances need 3 seeds, not 1"},
		{"a dirty tree", "v1.2.3-dirty-0123456789ab", nil, exit.BadData, "commit the changes"},
		{"no version", "", nil, exit.BadData, "nobody else has it"},
	} {
		o := Options{Experiment: draft(t, c.change...), Dir: t.TempDir(), Version: c.version}
		if _, err := Expect(context.Background(), o); exit.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := os.Stat(filepath.Join(o.Dir, experimentfile.BaseVariant)); err == nil {
			t.Errorf("%s: something was trained", c.name)
		}
	}
}

func TestOverSeeds(t *testing.T) {
	// Two origins with two seeds: the seeds have 2 and 4.
	if mean, sd := overSeeds([]score.Number{1, 3, 3, 5}, 2); mean != 3 || math.Abs(sd-math.Sqrt2) > 1e-15 {
		t.Errorf("%g ± %g", mean, sd)
	}
}

// Only the list is replaced: comments, order and other keys stay.
func TestSectionEditor(t *testing.T) {
	const text = `# about
data: # here
  folder: x
  files: # none
    - {path: old}
  forecasts: [a]

# what is expected
scores: # two
- {score: old}
# and that
seeds: [1]
`
	for _, c := range []struct{ section, key, in, want string }{
		{"data", "files", text, strings.Replace(text, "    - {path: old}", "NEW", 1)},
		{"scores", "", text, strings.Replace(text, "- {score: old}", "NEW", 1)},
		{"skill_scores", "", text, text + "skill_scores:\nNEW\n"},
		{"scores", "", "scores: [{score: old},\n  {score: older}]\nseeds: [1]\n", "scores:\nNEW\nseeds: [1]\n"},
		{"data", "files", "data:\n  folder: x\nseeds: [1]", "data:\n  folder: x\n  files:\nNEW\nseeds: [1]\n"},
		{"data", "files", "seeds: [1]\ndata: {folder: x}\n", ""},
	} {
		y := sectionEditor{path: "experiment.yaml", text: c.in}
		y.replace(c.section, c.key, []string{"NEW"})
		switch {
		case c.want == "" && (exit.CodeOf(y.err) != exit.Usage || y.text != c.in):
			t.Errorf("%s.%s: %v", c.section, c.key, y.err)
		case c.want != "" && (y.err != nil || y.text != c.want):
			t.Errorf("%s.%s: %v\n%s\nwant\n%s", c.section, c.key, y.err, y.text, c.want)
		}
	}
}
