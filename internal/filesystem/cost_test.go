package filesystem_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// BenchmarkCost writes and reads a file in pieces by the layer and by package os, and reports the ratio of the throughputs,
// layer to os. Which of the two is first alternates, and each writes a new file.
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
	kinds := []struct{ write, read func() }{
		{func() { f, err := filesystem.Create(path); write(f, err) }, func() { f, err := filesystem.Open(path); read(f, err) }},
		{func() { f, err := os.Create(path); write(f, err) }, func() { f, err := os.Open(path); read(f, err) }},
	}
	var wrote, readIn [2]time.Duration
	timed := func(total *time.Duration, do func()) {
		begin := time.Now()
		do()
		*total += time.Since(begin)
	}
	for i := 0; b.Loop(); i++ {
		for _, k := range []int{i % 2, 1 - i%2} {
			timed(&wrote[k], kinds[k].write)
			timed(&readIn[k], kinds[k].read)
			if err := os.Remove(path); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(wrote[1])/float64(wrote[0]), "write-ratio")
	b.ReportMetric(float64(readIn[1])/float64(readIn[0]), "read-ratio")
}
