package bench

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestThreadCounts: powers of two below the number of cores, and that number.
func TestThreadCounts(t *testing.T) {
	for n, want := range map[int][]int{1: {1}, 2: {1, 2}, 6: {1, 2, 4, 6}, 8: {1, 2, 4, 8}} {
		if got := threadCounts(n); !slices.Equal(got, want) {
			t.Errorf("%d cores: %v, want %v", n, got, want)
		}
	}
}

// TestRateWork: what the measurements count, by hand, and each runs.
func TestRateWork(t *testing.T) {
	const points = rateSide * rateSide
	for name, c := range map[string]struct {
		of   rateGraph
		want float64
	}{
		"product": {convolutionOf(1), 2 * rateChannels * rateChannels * points},
		"minimal": {convolutionOf(3), 2 * rateChannels * rateChannels * points * 2.25},
		"starts":  {starts, 2 * rateStarts},
	} {
		m, err := ownKernels(context.Background(), 1, "f32", c.of)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.run(); err != nil {
			t.Error(err)
		}
		if math.Abs(m.work/c.want-1) > 0.1 { // conversions of layouts at both ends count as starts
			t.Errorf("%s: %g, want %g", name, m.work, c.want)
		}
		if err := m.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRace: every operation of a step has a time, and the least times add up to no more than the least step.
func TestRace(t *testing.T) {
	c := tinyCases[BenchUNet3D]
	for _, phase := range []Phase{BenchTrain, BenchPredict} {
		m, err := c.race(context.Background(), phase)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i, s := range m.OpTimes {
			if sum += s; !(s > 0) || math.IsInf(s, 0) {
				t.Errorf("%s: operation %d, %+v, took %g s", phase, i, m.Ops[i], s)
			}
		}
		if len(m.OpTimes) != len(m.Ops) || sum > m.Time || m.Values <= 0 {
			t.Errorf("%s: %d times of %d operations, together %g of %g s, %d bytes", phase, len(m.OpTimes), len(m.Ops), sum, m.Time, m.Values)
		}
	}
}

// TestRacesRefused: a file that holds no races is refused before anything is measured, and stays as it is.
func TestRacesRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "races.json")
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := AddRaces(context.Background(), path, "float32"); exit.CodeOf(err) != exit.BadData {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "{" {
		t.Errorf("%q, %v", text, err)
	}
	for _, c := range RaceCases() {
		if err := c.check(); err != nil {
			t.Error(err)
		}
	}
}
