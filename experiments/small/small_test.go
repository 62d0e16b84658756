package small

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/experiment"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// record.json was made on another machine. Replayed here it gives its scores, to the bits where nothing differs on which
// they may depend; and it is of the experiment as it stands.
func TestRecordIsReproduced(t *testing.T) {
	testdecoder.Path(t)
	r, err := experiment.Reproduce(context.Background(), "record.json", experiment.Options{Dir: t.TempDir(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.Fprint(&b); err != nil || !r.Passed() || len(r.Record.Runs) != 2 || len(r.Record.Runs[0].Products) == 0 {
		t.Errorf("%v", err)
	}
	t.Log("\n" + b.String())
	for _, s := range r.Was.Sources {
		if text, err := os.ReadFile(s.Name); err != nil || string(text) != s.Text {
			t.Errorf("%s is not that of the record: %v", s.Name, err)
		}
	}
}
