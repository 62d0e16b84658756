package config

import (
	"strings"
	"testing"
	"time"
)

// An interval between checkpoints is printed as it is read. Without a unit, or if it is nothing, it is refused.
func TestCheckpointInterval(t *testing.T) {
	for text, want := range map[string]CheckpointInterval{
		"auto": {Time: 10 * time.Minute, Epochs: 1, IsAuto: true}, "500 steps": {Steps: 500}, "1 step": {Steps: 1}, "10 min": {Time: 10 * time.Minute}, "90s": {Time: 90 * time.Second}, "4 epochs": {Epochs: 4},
		"10 min or 1 epoch": {Time: 10 * time.Minute, Epochs: 1}, "1 epoch or 20 steps or 1h30m": {Time: 90 * time.Minute, Steps: 20, Epochs: 1},
	} {
		c, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: []string{"train.checkpoint.every=" + text}})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.Train.Train.Checkpoint.Every; got != want {
			t.Errorf("%s: read as %+v, want %+v", text, got, want)
		}
		if again, err := ParseCheckpointInterval(want.String()); again != want || err != nil {
			t.Errorf("%s: printed as %s, which is read as %+v, %v", text, want, again, err)
		}
	}
	for text, want := range map[string]string{
		"5": "write 5 epochs, 5 steps or 5 min", "0 steps": "no interval", "0s": "no interval", "1 epoch or 2 epochs": "two values", "1m or 2m": "two values",
		"soon": "an interval such as", "1 epoch or": "an interval such as", "5 weeks": "an interval such as", "99999999999999999999 steps": "an interval such as",
	} {
		_, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: []string{"train.checkpoint.every=" + text}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
