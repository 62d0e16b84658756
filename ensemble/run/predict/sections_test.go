package predict

import (
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// TestSections: one initialisation lists its files, several are summed up; verbose has a line for each.
func TestSections(t *testing.T) {
	day := func(d int) ensemble.Init { return ensemble.InitAt(time.Date(2026, 1, d, 0, 0, 0, 0, time.UTC)) }
	r := &results{done: map[ensemble.Init]bool{}}
	text := func() string {
		var b strings.Builder
		if err := r.Sections().WriteText(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got := text(); got != "0 initialisations, 0 of them already complete\n" {
		t.Errorf("of nothing: %q", got)
	}
	r.addInit(day(1), InitResult{Outputs: []string{"out/2026010100/a.nc"}, Members: 5, Complete: 5, Expected: 5})
	if got := text(); got != "out/2026010100/a.nc\n1 initialisation, 0 of them already complete\n" {
		t.Errorf("of one: %q", got)
	}
	r.addInit(day(2), InitResult{Outputs: []string{"out/2026010200/a.nc", "out/2026010200/b.csv"}, Existing: true, Degraded: true, Members: 4, Complete: 4, Expected: 5})
	if got := text(); got != "3 files in out, 2026-01-01T00:00Z to 2026-01-02T00:00Z\n2 initialisations, 1 of them already complete, 1 degraded\n" {
		t.Errorf("of two: %q", got)
	}
	r.Verbose = true
	if got := text(); !strings.Contains(got, "2026-01-01T00:00Z  new                                          5      1  out/2026010100\n") ||
		!strings.Contains(got, "2026-01-02T00:00Z  already complete, degraded  4, 4 of 5 complete      2  out/2026010200\n") || !strings.HasSuffix(got, "1 of them already complete, 1 degraded\n") {
		t.Errorf("verbose: %s", got)
	}
}
