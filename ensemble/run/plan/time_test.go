package plan

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// ratesFile writes a machine of two cores on which all work is done at this multiple of some rates.
func ratesFile(t *testing.T, speed float64) string {
	t.Helper()
	var rates []string
	for n := 1; n <= 2; n++ {
		v := speed * float64(n)
		rates = append(rates, fmt.Sprintf(`{"threads": %d, "products": %g, "minimal_products": %g, "elementwise": %g, "l2": %g, "l3": %g, "dram": %g, "start_s": %g}`,
			n, 50e9*v, 40e9*v, 10e9*v, 100e9*v, 30e9*v, 10e9*v, 1e-6/v))
	}
	path := filepath.Join(t.TempDir(), "machine.json")
	text := fmt.Sprintf(`{"format": 1, "arch": "amd64", "isa": "avx2", "cores": 2, "rates": [%s]}`, strings.Join(rates, ", "))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// timed predicts the demo's network on a field of 32×64 points.
func timed(t *testing.T, machine string, set ...string) (*TimeResult, error) {
	t.Helper()
	c, err := config.LoadTrain(config.Sources{Files: []string{"../demo/demo.yaml"}, Set: append([]string{"model.base=2"}, set...)})
	if err != nil {
		t.Fatal(err)
	}
	return Time(context.Background(), TimeOptions{Config: c, Crop: setup.Crop{Height: 32, Width: 64}, MachineFile: machine})
}

// TestTime: a machine that does everything twice as fast takes half the time, for training and prediction; times lie within their
// intervals, classes add up, and memory does not depend on speed.
func TestTime(t *testing.T) {
	slow, err := timed(t, ratesFile(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	fast, err := timed(t, ratesFile(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range [][2]PhaseTime{{slow.Train, fast.Train}, {slow.Predict, fast.Predict}} {
		s := p[0]
		if math.Abs(s.Seconds/p[1].Seconds-2) > 1e-9 || !(s.Low > 0 && s.Low < s.Seconds) || s.High != 0 && s.High <= s.Seconds || s.Memory != p[1].Memory || s.Memory <= setup.ProgramBytes {
			t.Errorf("%+v, twice as fast %+v", s, p[1])
		}
		sum := 0.0
		for _, c := range s.Classes {
			sum += c
		}
		if math.Abs(sum/s.Seconds-1) > 1e-9 {
			t.Errorf("classes add up to %g of %g s", sum, s.Seconds)
		}
	}
	if slow.Train.Seconds <= slow.Predict.Seconds || slow.Threads != 2 || slow.Precision != "f32" {
		t.Errorf("%+v", slow)
	}
}

// TestTimeRefused: each fault of the input has its exit code.
func TestTimeRefused(t *testing.T) {
	good := ratesFile(t, 1)
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	truncated := filepath.Join(t.TempDir(), "truncated.json")
	if err := os.WriteFile(truncated, text[:len(text)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		machine string
		set     []string
		want    exit.Code
	}{
		{truncated, nil, exit.BadData},
		{filepath.Join(t.TempDir(), "none.json"), nil, exit.NotYet},
		{good, []string{"train.threads=3"}, exit.Usage},
		{good, []string{"train.device=cuda"}, exit.Usage},
	} {
		if _, err := timed(t, c.machine, c.set...); exit.CodeOf(err) != c.want {
			t.Errorf("%s %v: %v, want exit %d", c.machine, c.set, err, c.want)
		}
	}
}
