package gcm

import (
	"reflect"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// TestConfigOfTheDemo: the configuration for the demo's data is valid, and equals that of the GCM's leads except
// for the data and the size of the network.
func TestConfigOfTheDemo(t *testing.T) {
	demo, err := config.LoadTrain(config.Sources{Files: []string{"leads-demo.yaml"}})
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := config.LoadTrain(config.Sources{Files: []string{"leads.yaml"}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := demo.Model, gcm.Model
	b.Stages = a.Stages
	if !reflect.DeepEqual(a, b) || len(demo.Data.TargetLeads) != 2 || len(gcm.Data.TargetLeads) != 2 {
		t.Errorf("model %+v, want %+v", a, b)
	}
}

// TestConfigNeverTrainsOnTheTest: the configurations are valid, and neither training nor early stopping uses data
// of 1984, valid times of targets included.
func TestConfigNeverTrainsOnTheTest(t *testing.T) {
	for _, file := range []string{"train.yaml", "stages.yaml", "leads.yaml", "pruned.yaml"} {
		c, err := config.LoadTrain(config.Sources{Files: []string{file}})
		if err != nil {
			t.Fatal(err)
		}
		s := c.Data.Split
		first := time.Date(1984, 1, 1, 0, 0, 0, 0, time.UTC)
		if s.Train.To.End().After(s.Validation.From.Time) || !s.Validation.To.End().Before(first) || s.Test.From.Before(first) {
			t.Errorf("%s: split %+v", file, s)
		}
		if c.Train.Train.EarlyStop.Patience == 0 && c.Prune.Method == config.NoPruning {
			t.Errorf("%s: no early stopping", file)
		}
	}
}
