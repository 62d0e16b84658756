package grib

import (
	"errors"
	"fmt"
	"io"
)

// readBuffer reads a file through one moving buffer. Scanning many small messages
// then needs few reads, and scanning large ones reads only their headers. A read
// after a jump is short; its size doubles as long as reading continues where it
// ended.
type readBuffer struct {
	r       io.ReaderAt
	size    int64
	at      int64 // file offset of buf
	buf     []byte
	backing []byte
	next    int // bytes of the next read
}

// Bounds of one read: the headers of a message, and the size at which the cost of a
// call is negligible.
const (
	minRead = 4 << 10
	maxRead = 128 << 10
)

func newReadBuffer(r io.ReaderAt, size int64) *readBuffer {
	return &readBuffer{r: r, size: size, backing: make([]byte, maxRead), next: minRead}
}

// bytesBuffer returns a readBuffer of data in memory.
func bytesBuffer(data []byte) *readBuffer {
	return &readBuffer{size: int64(len(data)), buf: data}
}

// bytes returns n bytes from off, valid until the next call.
//
// Errors: io.ErrUnexpectedEOF past the end of the file.
func (w *readBuffer) bytes(off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off > w.size || n > w.size-off {
		return nil, io.ErrUnexpectedEOF
	}
	if off >= w.at && off+n <= w.at+int64(len(w.buf)) {
		return w.buf[off-w.at : off-w.at+n], nil
	}
	if n > int64(len(w.backing)) {
		w.backing = make([]byte, n)
	}
	w.next = min(2*w.next, maxRead)
	if end := w.at + int64(len(w.buf)); off < w.at || off > end {
		w.next = minRead
	}
	got, err := w.r.ReadAt(w.backing[:min(max(n, int64(w.next)), w.size-off)], off)
	if int64(got) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read at byte %d: %w", off, err)
	}
	w.at, w.buf = off, w.backing[:got]
	return w.buf[:n], nil
}

// available returns the buffered bytes from off, at least one. It reads if none is
// buffered.
func (w *readBuffer) available(off int64) ([]byte, error) {
	if _, err := w.bytes(off, 1); err != nil {
		return nil, err
	}
	return w.buf[off-w.at:], nil
}
