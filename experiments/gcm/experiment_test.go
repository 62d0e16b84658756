package gcm

import (
	"reflect"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
)

// TestExperimentIsSound: the experiment is valid, and expects bounds of every score and a skill score relative to
// every reference.
func TestExperimentIsSound(t *testing.T) {
	e, err := experimentfile.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Data.Files) != 34 || len(e.Scores) != 4 || len(e.SkillScores) != 13 {
		t.Errorf("%d files, %d scores and %d skill scores", len(e.Data.Files), len(e.Scores), len(e.SkillScores))
	}
	for _, s := range e.Scores {
		if s.AtMost == 0 || s.Tolerance == 0 || s.Value > s.AtMost {
			t.Errorf("%+v", s)
		}
	}
}

// TestPeriodsAreOfTheSameData: the rolling origins have the training and the data of the experiment.
func TestPeriodsAreOfTheSameData(t *testing.T) {
	periods, err := experimentfile.Load("periods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	year, err := experimentfile.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(periods.Data, year.Data) || periods.Config != year.Config {
		t.Errorf("data %+v and %s, want %+v and %s", periods.Data, periods.Config, year.Data, year.Config)
	}
}
