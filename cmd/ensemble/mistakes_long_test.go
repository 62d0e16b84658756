//go:build long

package main

import (
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// TestLongMistakes: of all mistakes at least 38 are mended by the fix that the message prints; the others state the reason.
func TestLongMistakes(t *testing.T) {
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	mended := 0
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			switch wrong := m.check(t); {
			case wrong != "":
				t.Error(wrong)
			case m.unfixed != "":
				t.Logf("not mended: %s", m.unfixed)
			default:
				mended++
			}
		})
	}
	t.Logf("%d of %d mistakes are mended by the fix as printed", mended, len(mistakes))
	if mended < len(mistakes)-2 || len(mistakes) < 40 {
		t.Errorf("%d of %d, want all but two of at least 40", mended, len(mistakes))
	}
}
