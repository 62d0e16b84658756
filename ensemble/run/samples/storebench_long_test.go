//go:build long

package samples

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestLongStoreBench streams a large store from a cold disk in less than 1 GiB of memory. Its size in GB, and
// a folder for it, can be set. The rate depends on other load of the machine and is only reported.
func TestLongStoreBench(t *testing.T) {
	gb := 4.0
	if text := os.Getenv("ENSEMBLE_LONG_STORE_GB"); text != "" {
		var err error
		if gb, err = strconv.ParseFloat(text, 64); err != nil {
			t.Fatal(err)
		}
	}
	dir := os.Getenv("ENSEMBLE_LONG_STORE")
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "store")
	}
	const ny, nx = 352, 704
	writeNoise(t, dir, int(gb*1e9/(3*7*2*2*ny*nx*4)), ny, nx)
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // forget the peak of the writer
		t.Skip("skipped: the peak of memory cannot be reset: ", err)
	}
	r, err := StoreBench(context.Background(), StoreBenchOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Sections().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &b)
	if r.PeakMiB >= 1024 {
		t.Errorf("%.0f MiB are resident, want less than 1024", r.PeakMiB)
	}
	if r.FromDisk >= 0 && r.FromDisk < r.Bytes*95/100 {
		t.Errorf("%d of %d bytes came from the disk: the store was not cold", r.FromDisk, r.Bytes)
	}
}
