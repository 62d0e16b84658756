package config

import (
	"strings"
	"testing"
	"time"
)

// A duration is printed as it is read, and refused without its unit or if it is nothing.
func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10m": 10 * time.Minute, "90s": 90 * time.Second, "1h": time.Hour, "1h30m": 90 * time.Minute, "1h5s": time.Hour + 5*time.Second, "0.25s": time.Second / 4, "PT2M": 2 * time.Minute,
	} {
		c, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: []string{"train.stall_timeout=" + text}})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		again, err := ParseDuration(formatDuration(want))
		if got := c.Train.Train.StallTimeout; got != want || again != want || err != nil {
			t.Errorf("%s: %v, printed as %s and read as %v, %v", text, got, formatDuration(want), again, err)
		}
	}
	for text, want := range map[string]string{"10": "write 10s", "0s": "more than 0", "soon": "a duration with its unit"} {
		_, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: []string{"train.stall_timeout=" + text}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if got := formatDuration(DefaultStallTimeout); got != "10m" {
		t.Errorf("the default is printed as %s", got)
	}
}
