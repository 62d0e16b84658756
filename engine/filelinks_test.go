package engine

import (
	"testing"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// TestFileLinks: copies to a disk take time from kernels only where each processor has one of their threads, and in any case have to save the margin.
func TestFileLinks(t *testing.T) {
	folder := t.TempDir()
	if filesystem.IsInMemory(folder) {
		t.Skip("the folder for temporary files lies in memory")
	}
	for _, c := range []struct {
		threads, processors int
		lose                bool
	}{{1, 2, false}, {2, 2, true}, {3, 2, true}} {
		by, err := fileLinks(folder, c.threads, c.processors)
		if err != nil {
			t.Fatal(err)
		}
		most := (1/by.ToHost + 1/by.FromHost) / 2 / float64(c.threads) // if a copy keeps a processor busy all the time
		if by.ToHost <= 0 || by.FromHost <= 0 || by.Margin != diskMargin || by.Lost > 0 != c.lose || by.Lost > most*1.001 {
			t.Errorf("%d threads on %d processors: %+v", c.threads, c.processors, by)
		}
	}
}
