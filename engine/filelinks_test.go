package engine

import (
	"os"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// OnDisk returns an empty folder whose files do not lie in memory. The test is skipped if there is none.
func OnDisk(t *testing.T) string {
	for _, parent := range []string{"", "/var/tmp", "."} {
		folder, err := os.MkdirTemp(parent, "activations")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(folder) })
		if !filesystem.IsInMemory(folder) {
			return folder
		}
	}
	t.Skip("all folders for temporary files lie in memory")
	return ""
}

// TestFileLinks: copies to a disk take time from kernels only where each processor has one of their threads, and in any case have to save the margin.
func TestFileLinks(t *testing.T) {
	folder := OnDisk(t)
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
