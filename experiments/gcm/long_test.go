//go:build long

package gcm

import (
	"context"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/experiment"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// TestLongTraining runs the experiment and scores the network on 1984: scores within the tolerance of the recorded
// ones, below the bounds, and better than every reference, with a paired interval that excludes zero.
func TestLongTraining(t *testing.T) {
	data := testdata.Dir(t, "gcm")
	testdecoder.Path(t)
	e, err := experimentfile.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	r, err := experiment.Run(context.Background(), experiment.Options{Experiment: e, Data: data, Dir: t.TempDir(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := r.Sections().WriteText(&table); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d steps in %.0f s\n%s", r.Record.Runs[0].Steps, r.Record.Runs[0].Seconds, table.String())
	if !r.Passed() {
		t.Error("a check failed")
	}
	for _, s := range r.Record.Runs[0].Scores {
		if s.System == "network" && s.N != 30 {
			t.Errorf("%s of %s at %s over %d inits, want 30", s.ID, s.Variable, s.Level, s.N)
		}
	}
}
