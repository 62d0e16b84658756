package config

import (
	"math"
	"strings"
	"testing"
)

// An average of weights is given as a decay or as a time, is printed as it is read, and a number that is neither is
// refused with what may be meant.
func TestAveraging(t *testing.T) {
	for text, want := range map[string]Averaging{
		"0": {}, "0.999": {Decay: 0.999}, "10 epochs": {Epochs: 10}, "1 epoch": {Epochs: 1}, "0.5 epochs": {Epochs: 0.5}, "500 steps": {Steps: 500}, "500steps": {Steps: 500},
	} {
		c, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: []string{"train.ema=" + text}})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		again, err := ParseAveraging(want.String())
		if got := c.Train.Train.EMA; got != want || again != want || err != nil || got.IsEnabled() != (text != "0") {
			t.Errorf("%s: %v, printed as %s and read as %v, %v", text, got, want, again, err)
		}
	}
	for text, want := range map[string]string{
		"10": "for a time write 10 epochs or 10 steps", "1": "less than 1", "0 epochs": "no time to average over", "-0.5": "a decay such as", "10 days": "a decay such as", "[1]": "a decay such as",
	} {
		_, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: []string{"train.ema=" + text}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	// After the time the weight of the first step has a share of 1/e.
	a := Averaging{Epochs: 4}
	if share := math.Pow(a.DecayOf(25), 100); math.Abs(share-1/math.E) > 1e-9 {
		t.Errorf("share %g after 100 steps", share)
	}
}
