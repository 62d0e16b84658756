package jobs

import (
	"context"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/table"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// chosenScores verifies with selected scores, thresholds, a region and seasons, and reads the output.
func chosenScores(t *testing.T, o verify.Options) {
	t.Helper()
	o.Selection = scoring.Selection{Scores: []string{"crps_fair", "brier", "reliability"}, Events: []string{"t>280", "t850>-3.15 degC"}, Regions: []string{"north=0:90:0:360"}, Seasons: true}
	none := o
	none.Selection.Events = []string{"t>280", "u>3"}
	if _, err := verify.Run(context.Background(), none); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "no mean and spread of u") {
		t.Errorf("an event of a variable that the products do not have: %v", err)
	}
	r, err := verify.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, v := range r.Scores.Scores {
		seen[v.ID+" "+v.Region] = true
		if v.ID == "brier" && v.Threshold != 270 && v.Threshold != 280 {
			t.Errorf("threshold %v", v.Threshold)
		}
	}
	for _, want := range []string{"crps_fair all", "brier all", "brier north"} {
		if !seen[want] {
			t.Errorf("no %s among %v", want, seen)
		}
	}
	if seen["rmse all"] || len(r.Scores.Diagrams) == 0 {
		t.Errorf("scores that were not chosen, or %d diagrams", len(r.Scores.Diagrams))
	}
	f, err := os.Open(filepath.Join(o.Out, scoring.ScoresCSV))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 1+len(r.Scores.Scores) {
		t.Errorf("%d lines of CSV for %d scores, %v", len(rows), len(r.Scores.Scores), err)
	}
	head := strings.Join(rows[0], " ")
	for _, want := range []string{"id", "value", "formula", "divisor", "weights", "members", "region", "threshold"} {
		if !strings.Contains(head, want) {
			t.Errorf("the CSV has no column %s: %s", want, head)
		}
	}
	values, err := table.Read[scoring.DiagramValue](t.Context(), filepath.Join(o.Out, scoring.DiagramsTable))
	if err != nil || len(values) == 0 || values[0].Column != "probability" {
		t.Errorf("%d values of diagrams, %v", len(values), err)
	}
	comparisons, err := table.Read[score.Comparison](t.Context(), filepath.Join(o.Out, scoring.ComparisonsTable))
	if err != nil || len(comparisons) != len(r.Scores.Comparisons) {
		t.Errorf("%d comparisons, %v", len(comparisons), err)
	}
	o.Selection.Regions = []string{"nowhere=89.9:90:1:1.0001"}
	if _, err := verify.Run(context.Background(), o); exit.CodeOf(err) != exit.Usage {
		t.Errorf("an empty region: %v", err)
	}
}

// Syntax errors are found before any file is opened, with the expected form.
func TestScoreSelection(t *testing.T) {
	for _, c := range []struct {
		choice scoring.Selection
		want   string
	}{
		{scoring.Selection{Scores: []string{"crps"}}, `unknown score "crps"`},
		{scoring.Selection{Events: []string{"273"}}, "is not an event: write"},
		{scoring.Selection{Events: []string{"t>warm"}}, `"warm" is not a number`},
		{scoring.Selection{Events: []string{"t850<280"}}, "is not above a threshold"},
		{scoring.Selection{Events: []string{"t>5hPa"}}, "unit hPa does not apply to t"},
		{scoring.Selection{Regions: []string{"moon"}}, `unknown region "moon"`},
	} {
		_, err := verify.Run(context.Background(), verify.Options{Forecast: []string{"nowhere"}, Selection: c.choice})
		var e *exit.Error
		if !errors.As(err, &e) || e.Code != exit.Usage || !strings.Contains(e.Why, c.want) || e.Fix == "" {
			t.Errorf("%+v: %v", c.choice, err)
		}
	}
	if got := (scoring.Selection{Scores: []string{"default", "brier"}}).IDs(); len(got) != len(score.Default)+1 || (scoring.Selection{}).IDs() != nil {
		t.Errorf("ids %v", got)
	}
	if got := (scoring.Selection{Scores: []string{"all"}}).IDs(); len(got) != len(score.Table) {
		t.Errorf("%d of %d scores", len(got), len(score.Table))
	}
}
