package jobs

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// A training splits its reduction in CRPS: the parts add up to the total of the scores, and the model's files
// reproduce the steps.
func TestReductionIsSplit(t *testing.T) {
	dir := traintest.TrainedRun(t)
	r, err := trained.ReadScores(dir)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for i, s := range r.SkillComponents {
		if s.Component != "total" {
			continue
		}
		total++
		var sum float64
		for _, p := range r.SkillComponents[i-5 : i] {
			sum += float64(p.Reduction)
		}
		if !(math.Abs(sum-float64(s.Reduction)) < 1e-9) || s.N == 0 || s.Reduction < s.CILow || s.Reduction > s.CIHigh { // three starts have no interval
			t.Errorf("parts add up to %g of %+v", sum, s)
		}
		found := false
		for _, c := range r.Comparisons {
			if c.ID == score.CRPSGauss.ID && c.Reference == s.Reference && c.ReferenceID == s.ReferenceID && c.Variable == s.Variable && c.Level == s.Level && score.IsOverall(c.Region, c.Season) {
				found = true
				if !(math.Abs(float64(c.SkillScore-s.Reduction)) < 1e-6) {
					t.Errorf("%s %s: %g in all, the scores say %g", s.Variable, s.Level, s.Reduction, c.SkillScore)
				}
			}
		}
		if !found {
			t.Errorf("no skill score for %+v", s)
		}
	}
	if total == 0 {
		t.Fatal("no skill score was decomposed")
	}
	m, err := model.Load(dir+"/model", false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i, b := range m.Baselines {
		if b.Reduction == nil || len(b.Reduction.Bias) != m.Grid.Size() || len(b.Reduction.Seasonal.Theta) != 6*m.Grid.Size() || b.Reduction.Members != m.Task.FullMembers {
			t.Errorf("target %d has the steps %+v", i, b.Reduction)
		}
	}
}
