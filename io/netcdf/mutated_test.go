package netcdf

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/mutate"
	"github.com/ensemble-weather/ensemble/internal/testdata"
)

// seeds returns small valid files: a header made here, and real ones if available.
func seeds(t *testing.T) [][]byte {
	t.Helper()
	out := [][]byte{[]byte("CDF\x01\x00\x00\x00\x00" + // no records
		"\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x00\x01x\x00\x00\x00\x00\x00\x00\x02" + // dimension x of 2
		"\x00\x00\x00\x00\x00\x00\x00\x00" + // no attributes
		"\x00\x00\x00\x0b\x00\x00\x00\x01\x00\x00\x00\x01t\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00" + // variable t of x
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x08\x00\x00\x00\x50" + // float32, 8 bytes at 80
		"\x43\x80\x00\x00\x43\x81\x00\x00")}
	if err := Scan(bytes.NewReader(out[0]), int64(len(out[0]))); err != nil {
		t.Fatalf("the file made here is not sound: %v", err)
	}
	if testdata.Root() == "" {
		return out
	}
	files, err := filepath.Glob(filepath.Join(testdata.Root(), "formats", "netcdf", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if s, err := os.Stat(path); err == nil && s.Size() < 64<<10 {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b)
		}
	}
	return out
}

// checkMutated scans damaged files: no panic, and every error is a fault with an
// offset.
func checkMutated(t *testing.T, n int) {
	s := seeds(t)
	r := rand.New(rand.NewPCG(7, 8))
	refused := 0
	for i := range n {
		b := mutate.File(r, s)
		err := Scan(bytes.NewReader(b), int64(len(b)))
		var fault *Fault
		if err != nil && (!errors.As(err, &fault) || fault.Offset < 0 || len(err.Error()) > 10_000) {
			t.Fatalf("file %d: %v", i, err)
		}
		if err != nil {
			refused++
		}
	}
	t.Logf("%d of %d damaged files are refused", refused, n)
}

func TestMutatedFiles(t *testing.T) { checkMutated(t, 20_000) }
