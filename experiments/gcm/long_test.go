//go:build long

package gcm

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// quantity is what the rows of expected.json are about.
type quantity struct{ ID, System, Variable, Level, Lead string }

// TestLongTraining trains as train.yaml says and judges the network on 1984:
// scores within the tolerance of those that were reached, below the bounds, and
// better than every reference with a paired interval that excludes zero.
func TestLongTraining(t *testing.T) {
	data := testdata.Dir(t, "gcm")
	testdecoder.Path(t)
	text, err := os.ReadFile("expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var expected struct {
		Scores []struct {
			quantity
			Value, Tolerance float64
			AtMost           float64 `json:"at_most"`
		}
		Gains []struct {
			quantity
			Reference   string
			ReferenceID string  `json:"reference_id"`
			AtLeast     float64 `json:"at_least"`
		}
	}
	if err := json.Unmarshal(text, &expected); err != nil {
		t.Fatal(err)
	}
	if len(expected.Scores) != 4 || len(expected.Gains) != 14 {
		t.Fatalf("expected.json has %d scores and %d gains", len(expected.Scores), len(expected.Gains))
	}
	c, err := config.LoadTrain(config.Sources{Files: []string{"train.yaml"},
		Set: []string{fmt.Sprintf("data.forecasts=[%s/gcm_fc_*.grib2]", data), fmt.Sprintf("data.analyses=[%s/gcm_an_*.nc]", data)}})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r, err := run.Train(context.Background(), run.TrainOptions{Config: c, RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d steps in %s", r.Steps, time.Since(began).Round(time.Second))
	for _, want := range expected.Scores {
		got := r.Scores.Find(want.ID, want.System, want.Variable, want.Level, want.Lead)
		if got == nil {
			t.Errorf("no %+v", want.quantity)
			continue
		}
		v := float64(got.Value)
		t.Logf("%s of %s at %s: %.4f %s [%.4f, %.4f], expected %.4f", want.ID, want.Variable, want.Level, v, got.Unit, float64(got.CILow), float64(got.CIHigh), want.Value)
		if !(v <= want.AtMost) || !(math.Abs(v-want.Value) <= want.Tolerance) || got.N != 30 {
			t.Errorf("%+v: %.4f over %d starts, want %.4f ± %.4f and at most %.4f over 30", want.quantity, v, got.N, want.Value, want.Tolerance, want.AtMost)
		}
	}
	for _, want := range expected.Gains {
		i := slices.IndexFunc(r.Scores.Comparisons, func(c score.Comparison) bool {
			return quantity{c.ID, c.System, c.Variable, c.Level, c.Lead} == want.quantity && c.Reference == want.Reference && c.ReferenceID == want.ReferenceID
		})
		if i < 0 {
			t.Errorf("no comparison of %+v with %s", want.quantity, want.Reference)
			continue
		}
		got := r.Scores.Comparisons[i]
		t.Logf("%s of %s at %s against %s of %s: gain %.1f %% [%.1f, %.1f]", want.ID, want.Variable, want.Level, want.ReferenceID, want.Reference,
			100*float64(got.Gain), 100*float64(got.CILow), 100*float64(got.CIHigh))
		if !(float64(got.Gain) >= want.AtLeast) || !(got.CILow > 0) {
			t.Errorf("%+v against %s: gain %.4f [%.4f, %.4f], want at least %.4f and an interval above 0", want.quantity, want.Reference,
				float64(got.Gain), float64(got.CILow), float64(got.CIHigh), want.AtLeast)
		}
	}
}
