package small

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// The experiment makes its data, trains, publishes, and reaches what it says.
func TestExperiment(t *testing.T) {
	testdecoder.Path(t)
	e, err := config.LoadExperiment(".")
	if err != nil {
		t.Fatal(err)
	}
	r, err := run.RunRecorded(context.Background(), run.RecordedOptions{Experiment: e, Dir: t.TempDir(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.Fprint(&b); err != nil || !r.Passed() || len(r.Record.Runs) != 2 || len(r.Record.Runs[0].Products) == 0 {
		t.Errorf("%v\n%s", err, b.String())
	}
	if s, err := os.Stat(r.Path); err != nil || s.Size() > 100e3 {
		t.Errorf("record: %v", err)
	}
}
