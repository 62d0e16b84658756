package filesystem_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// BenchmarkCost writes and reads a file in pieces by the layer and by package os in turn, and reports the ratio of the
// throughputs, layer to os.
func BenchmarkCost(b *testing.B) {
	const size, piece = 64 << 20, 64 << 10
	path, buf := filepath.Join(b.TempDir(), "f"), make([]byte, piece)
	write := func(f io.WriteCloser, err error) {
		for range size / piece {
			if err == nil {
				_, err = f.Write(buf)
			}
		}
		if err != nil || f.Close() != nil {
			b.Fatal(err)
		}
	}
	read := func(f io.ReadCloser, err error) {
		for err == nil {
			_, err = f.Read(buf)
		}
		if err != io.EOF || f.Close() != nil {
			b.Fatal(err)
		}
	}
	var took [4]time.Duration
	timed := func(i int, do func()) {
		begin := time.Now()
		do()
		took[i] += time.Since(begin)
	}
	for b.Loop() {
		timed(0, func() { f, err := filesystem.Create(path); write(f, err) })
		timed(1, func() { f, err := os.Create(path); write(f, err) })
		timed(2, func() { f, err := filesystem.Open(path); read(f, err) })
		timed(3, func() { f, err := os.Open(path); read(f, err) })
	}
	b.ReportMetric(float64(took[1])/float64(took[0]), "write-ratio")
	b.ReportMetric(float64(took[3])/float64(took[2]), "read-ratio")
}
