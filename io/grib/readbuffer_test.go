package grib

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// countingReader counts reads and their bytes.
type countingReader struct {
	*bytes.Reader
	calls, bytes int64
}

func (r *countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.Reader.ReadAt(p, off)
	r.calls, r.bytes = r.calls+1, r.bytes+int64(n)
	return n, err
}

// A scan reads a file of small messages once, in few reads, and of a file of large
// messages one window of each.
func TestReadBufferReadsOnce(t *testing.T) {
	for _, c := range []struct{ message, calls, bytes int64 }{
		{300, 30, 1 << 20 * 101 / 100}, {3400, 30, 1 << 20 * 101 / 100}, {9000, 30, 1 << 20 * 101 / 100},
		{40 << 10, 2 * (1<<20/(40<<10) + 2), 1 << 20 / 4}, {200 << 10, 2 * 8, 64 << 10},
	} {
		data := make([]byte, 1<<20)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		r := &countingReader{Reader: bytes.NewReader(data)}
		w := newReadBuffer(r, int64(len(data)))
		for at := int64(0); at+c.message <= int64(len(data)); at += c.message {
			// Head, end marker, then the sections, as parseMessage and its visitors look.
			for _, part := range [][2]int64{{at, 8}, {at + c.message - 4, 4}, {at + 37, 72}, {at + 16, 21}, {at, 16}, {at + 109, 37}} {
				b, err := w.bytes(part[0], part[1])
				if err != nil || !bytes.Equal(b, data[part[0]:part[0]+part[1]]) {
					t.Fatalf("messages of %d bytes: bytes from %d are wrong: %v", c.message, part[0], err)
				}
			}
		}
		if r.calls > c.calls || r.bytes > c.bytes {
			t.Errorf("messages of %d bytes: %d reads of %d bytes, at most %d of %d", c.message, r.calls, r.bytes, c.calls, c.bytes)
		}
	}
}
