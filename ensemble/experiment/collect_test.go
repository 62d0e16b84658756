package experiment

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// scoredRun writes the scores of a run.
func scoredRun(t *testing.T, dir string, crps float64) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	no := score.Missing()
	value := score.Value{ID: "crps_gauss", System: scoring.SystemNetwork, Variable: "t", Level: "850hPa", Lead: "48h", LeadH: 48, Value: score.Number(crps), CILow: no, CIHigh: no, N: 3, Unit: "K",
		Members: 2, Region: score.Everywhere, Season: score.AllYear, Threshold: no}
	raw := value
	raw.ID, raw.System, raw.Value = "crps_plain", "raw2", 0.9
	if err := jsonfile.Write(filepath.Join(dir, trained.ScoresFile), &score.Result{Scores: []score.Value{value, raw}}); err != nil {
		t.Fatal(err)
	}
}

// Runs of records, of experiments without a record, and of no experiment are collected into one table, which another
// program can read, and compared on one page.
func TestCollect(t *testing.T) {
	root := t.TempDir()
	scoredRun(t, filepath.Join(root, "first", "base", "seed-1"), 0.5)
	scoredRun(t, filepath.Join(root, "second", "base", "seed-1"), 0.55)
	scoredRun(t, filepath.Join(root, "members", "members-02"), 0.6)
	scoredRun(t, filepath.Join(root, "alone"), 0.7)
	for name, kernels := range map[string]string{"first": "avx2", "second": "base"} {
		r := &record.Record{Experiment: name, Status: record.Pass, Start: time.Unix(0, 0), Machine: record.Machine{Kernels: kernels, Threads: 2},
			Sources: []record.Source{{Name: "experiment.yaml", Text: "x", SHA256: record.Digest("x")}},
			Runs:    []record.Run{{Variant: "base", Seed: 1}}}
		if err := r.Write(filepath.Join(root, name, record.File)); err != nil {
			t.Fatal(err)
		}
		environment, err := json.Marshal(map[string]any{"version": "1", "seed": 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name, "base", "seed-1", "environment.json"), environment, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "members", experimentFile), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Collect(context.Background(), []string{root, filepath.Join(root, "first", record.File)}) // the second is in the first
	if err != nil {
		t.Fatal(err)
	}
	called := map[string]*CollectedRun{}
	for _, r := range c.Runs {
		called[r.Label()] = r
	}
	if len(c.Runs) != 4 || called["first/base/seed-1"] == nil || called["members/members-02"] == nil || called["alone"] == nil || called["second/base/seed-1"].Seed != 1 {
		t.Fatalf("runs %v", called)
	}
	if d := c.Differences["second/base/seed-1"]; len(d) != 1 || d[0].What != "kernels" || !d[0].Bits {
		t.Errorf("differences %+v", c.Differences)
	}
	// The folders distinguish an experiment and its replay.
	scoredRun(t, filepath.Join(root, "again", "base", "seed-1"), 0.5)
	replay, err := record.Read(filepath.Join(root, "first"))
	if err != nil {
		t.Fatal(err)
	}
	if err := replay.Write(filepath.Join(root, "again", record.File)); err != nil {
		t.Fatal(err)
	}
	both, err := Collect(context.Background(), []string{filepath.Join(root, "first"), filepath.Join(root, "again")})
	if err != nil || len(both.Runs) != 2 || both.Runs[0].Label() != "first/first/base/seed-1" || both.Runs[1].Label() != "first/again/base/seed-1" || both.Runs[1].Variant != "base" {
		t.Errorf("a replay: %v, %s and %s", err, both.Runs[0].Label(), both.Runs[1].Label())
	}
	out := t.TempDir()
	if err := c.Save(out); err != nil {
		t.Fatal(err)
	}
	page := read(t, filepath.Join(out, reports.PageFile))
	for _, want := range []string{"second/base/seed-1", `class="sortable"`, "<svg", "Differences from the machine of the first run", "Scores by the numbers of the runs", "script-src 'sha256-"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	var text strings.Builder
	if err := c.Sections().WriteText(&text); err != nil || !regexp.MustCompile(`(?m)^second/base/seed-1 +kernels +base +avx2 +yes$`).MatchString(text.String()) || !strings.HasSuffix(text.String(), c.Outputs[1]+"\n") {
		t.Errorf("%v\n%s", err, text.String())
	}
	if _, err := Collect(context.Background(), []string{t.TempDir()}); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("nothing: %v", err)
	}
	got, err := exec.Command(testdata.Python(t, "pyarrow.parquet"), "-c", `
import sys, pyarrow.parquet as pq
for r in sorted((x for x in pq.read_table(sys.argv[1]).to_pylist() if x["system"] == "network"), key=lambda r: r["value"]):
    print(r["experiment"], r["run"], r["variant"], r["seed"], r["score"], r["variable"], r["level"], r["lead_h"], r["value"], r["ci_low"], r["unit"])
`, filepath.Join(out, scoresTable)).CombinedOutput()
	want := `first base/seed-1 base 1 crps_gauss t 850hPa 48.0 0.5 None K
second base/seed-1 base 1 crps_gauss t 850hPa 48.0 0.55 None K
members members-02 members-02 -1 crps_gauss t 850hPa 48.0 0.6 None K
 alone  -1 crps_gauss t 850hPa 48.0 0.7 None K
`
	if err != nil || string(got) != want {
		t.Errorf("pyarrow: %v\n%s\nwant\n%s", err, got, want)
	}
}

// The losses of a run are those of its first network, not of the pre-training before it.
func TestLossesWithoutPretraining(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	scoredRun(t, dir, 0.5)
	text := ""
	for network, of := range []string{setup.PretrainingName, "fine-tuning", setup.PretrainingName, "fine-tuning"} {
		text += fmt.Sprintf(`{"t": "2026-01-01T00:00:00Z", "kind": "epoch", "step": %d, "epoch": 1, "network": %d, "stage": %q, "validation_loss": 0.%d}`+"\n", network+1, network, of, 9-network)
	}
	if err := os.WriteFile(filepath.Join(dir, rundir.EventsFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := collectRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Loss) != 1 || r.Loss[1] != 0.8 {
		t.Errorf("losses %v, want 0.8 of the first fine-tuning", r.Loss)
	}
}
