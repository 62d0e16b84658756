package bench

import (
	"context"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestRatios: pairs of a case with and without a pass give positive ratios in order, the plans differ, and unknown passes are refused.
func TestRatios(t *testing.T) {
	c := tinyCases[BenchUNet3D]
	c.Without = "fuse,fuse-chains"
	m := measured(t, Request{Case: c, Phase: BenchTrain, Steps: 4, Pairs: true})
	if r := m.Ratios; r.N != 4 || !(r.Min > 0 && r.Min <= r.Median && r.Median <= r.Max) {
		t.Errorf("ratios %+v", r)
	}
	count := func(c Case) int {
		s, err := c.Compile(false, false)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return len(s.plan.Movement(Peak{}.Engine()))
	}
	if with, without := count(tinyCases[BenchUNet3D]), count(c); without <= with {
		t.Errorf("%d operations without fusion, %d with; want more", without, with)
	}
	c.Without = "fuse-chain"
	_, err := Measure(context.Background(), Request{Case: c, Phase: BenchTrain})
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "did you mean `fuse-chains`?") {
		t.Errorf("error %v", err)
	}
	r := Report{Results: []Result{{Ablation: &Ablation{Passes: "fuse", Train: Ratios{Median: 1.25, N: 3}}}}}
	if lines := r.ablations(); len(lines) != 1 || !strings.Contains(lines[0], "training step 1.250 times as long") {
		t.Errorf("lines %q", lines)
	}
}
