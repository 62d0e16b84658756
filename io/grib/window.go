package grib

import (
	"errors"
	"fmt"
	"io"
)

// window reads a file through one moving buffer, so that scanning many small
// messages costs few reads and scanning large ones reads only their headers: after a
// jump little is read, and twice as much whenever reading goes on where it ended.
type window struct {
	r    io.ReaderAt
	size int64
	at   int64
	buf  []byte
	room []byte
	next int // bytes of the next read
}

// The least and the most that is read at once: the headers of a message, and what
// makes the cost of a call small.
const (
	windowLeast = 4 << 10
	windowMost  = 128 << 10
)

func newWindow(r io.ReaderAt, size int64) *window {
	return &window{r: r, size: size, room: make([]byte, windowMost), next: windowLeast}
}

// memoryWindow is all of some bytes at hand.
func memoryWindow(data []byte) *window {
	return &window{size: int64(len(data)), buf: data}
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
	w.next = min(2*w.next, windowMost)
	if end := w.at + int64(len(w.buf)); off < w.at || off > end {
		w.next = windowLeast
	}
	got, err := w.r.ReadAt(w.room[:min(max(n, int64(w.next)), w.size-off)], off)
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
