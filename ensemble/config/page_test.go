package config

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The minimal training of docs/configuration.md is one, without any other source.
func TestMinimalConfiguration(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```yaml\n(version: 1\n.*?)^```$").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/configuration.md has no example")
	}
	c, err := LoadTrain(Sources{Files: []string{write(t, "train.yaml", string(block[1]))}, IgnoreEnvironment: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Data.Forecasts, c.Data.Targets; len(got) != 1 || len(want) != 1 || c.Train.Train.Epochs != 12 {
		t.Errorf("forecasts %v, targets %v, %d epochs", got, want, c.Train.Train.Epochs)
	}
}
