package grib

import (
	"errors"
	"fmt"
	"io"
)

// window reads a file through one moving buffer, so that scanning many small
// messages costs few reads and scanning large ones reads only their headers.
type window struct {
	r    io.ReaderAt
	size int64
	at   int64
	buf  []byte
	room []byte
}

const windowSize = 128 << 10

func newWindow(r io.ReaderAt, size int64) *window {
	return &window{r: r, size: size, room: make([]byte, windowSize)}
}

// bytes gives n bytes from off, valid until the next call.
//
// Errors: io.ErrUnexpectedEOF past the end of the file.
func (w *window) bytes(off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off > w.size || n > w.size-off {
		return nil, io.ErrUnexpectedEOF
	}
	if off >= w.at && off+n <= w.at+int64(len(w.buf)) {
		return w.buf[off-w.at : off-w.at+n], nil
	}
	if n > int64(len(w.room)) {
		w.room = make([]byte, n)
	}
	got, err := w.r.ReadAt(w.room[:min(int64(len(w.room)), w.size-off)], off)
	if int64(got) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read at byte %d: %w", off, err)
	}
	w.at, w.buf = off, w.room[:got]
	return w.buf[:n], nil
}

// rest gives what is at hand from off on without another read, at least one
// byte, after reading if necessary.
func (w *window) rest(off int64) ([]byte, error) {
	if _, err := w.bytes(off, 1); err != nil {
		return nil, err
	}
	return w.buf[off-w.at:], nil
}
