package jobs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// The error for a missing run directory suggests a similar name.
func TestMissingRunError(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "winter"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "winter", trained.EffectiveConfigFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, meant := range map[string]bool{"wintr": true, "summer": false} {
		_, err := reports.Write(reports.Options{Dir: filepath.Join(dir, name)})
		_, other := trained.ReadFinished(filepath.Join(dir, name))
		for _, err := range []error{err, other} {
			if exit.CodeOf(err) != exit.NotYet || strings.Contains(err.Error(), "did you mean `"+filepath.Join(dir, "winter")+"`?") != meant || strings.Contains(err.Error(), "train first") == meant {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
