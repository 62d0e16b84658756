package gcm

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// The experiment is sound, and expects what the task asks for: bounds of every score, and a gain over every reference.
func TestExperimentIsSound(t *testing.T) {
	e, err := config.LoadExperiment(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Data.Files) != 34 || len(e.Scores) != 4 || len(e.SkillScores) != 14 {
		t.Errorf("%d files, %d scores and %d gains", len(e.Data.Files), len(e.Scores), len(e.SkillScores))
	}
	for _, s := range e.Scores {
		if s.AtMost == 0 || s.Tolerance == 0 || s.Value > s.AtMost {
			t.Errorf("%+v", s)
		}
	}
}
