package gcm

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// The configuration is sound, and nothing of 1984 enters training or early
// stopping, with their target valid times.
func TestConfigNeverTrainsOnTheTest(t *testing.T) {
	c, err := config.LoadTrain(config.Sources{Files: []string{"train.yaml"}})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Data.Split
	first := time.Date(1984, 1, 1, 0, 0, 0, 0, time.UTC)
	if s.Train.To.End().After(s.Validation.From.Time) || !s.Validation.To.End().Before(first) || s.Test.From.Before(first) {
		t.Errorf("split %+v", s)
	}
	if c.Train.Train.EarlyStop.Patience == 0 {
		t.Error("no early stopping")
	}
}
