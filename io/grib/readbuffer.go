package grib

import (
	"errors"
	"fmt"
	"io"
)

// readBuffer reads a file through two windows. A scan looks at the head of a message,
// then at its end, which is followed by the head of the next message; so each window
// is read once. A file of small messages is read once from begin to end: a gap shorter
// than a read is read too, and the size of reads doubles. Of large messages only the
// headers are read.
type readBuffer struct {
	r       io.ReaderAt
	size    int64
	windows [2]readWindow
	last    int // window of the last call
	next    int // bytes of the next read
}

// readWindow is a part of a file in memory.
type readWindow struct {
	at      int64 // file offset of buf
	buf     []byte
	backing []byte
}

// end returns the file offset behind the window.
func (w *readWindow) end() int64 { return w.at + int64(len(w.buf)) }

// Bounds of one read: the headers of a message, and the size at which the cost of a
// call is negligible.
const (
	minRead = 4 << 10
	maxRead = 128 << 10
)

// maxGap is the longest gap that is read. Reading it costs no more than the head and
// the end of a message.
const maxGap = 2 * minRead

func newReadBuffer(r io.ReaderAt, size int64) *readBuffer {
	return &readBuffer{r: r, size: size, next: minRead}
}

// bytesBuffer returns a readBuffer of data in memory.
func bytesBuffer(data []byte) *readBuffer {
	return &readBuffer{size: int64(len(data)), windows: [2]readWindow{{buf: data}}}
}

// bytes returns n bytes from off, valid until the next call.
//
// Errors: io.ErrUnexpectedEOF past the end of the file.
func (w *readBuffer) bytes(off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off > w.size || n > w.size-off {
		return nil, io.ErrUnexpectedEOF
	}
	for i := range w.windows {
		if v := &w.windows[i]; off >= v.at && off+n <= v.end() {
			w.last = i
			return v.buf[off-v.at:][:n], nil
		}
	}
	return w.read(off, n)
}

// read fills a window with n bytes from off and more. A window that continues another one
// begins with a copy of its last bytes, so that a message that lies in both is not
// read again.
func (w *readBuffer) read(off, n int64) ([]byte, error) {
	from, sequential := off, false // of the read
	var kept []byte
	w.last = 1 - w.last // the window of the last call stays
	for i := range w.windows {
		v := &w.windows[i]
		if near := len(v.buf) > 0 && off >= v.at && off-v.end() <= maxGap; near && (!sequential || v.end() > from) {
			from, sequential, w.last = v.end(), true, 1-i
			kept = v.buf[len(v.buf)-min(len(v.buf), 2*maxGap):]
		}
	}
	if sequential && off < from-int64(len(kept)) {
		from, kept = off, nil
	}
	if w.next = min(2*w.next, maxRead); !sequential {
		w.next = minRead
	}
	v := &w.windows[w.last]
	want := int(min(max(off+n-from, int64(w.next)), w.size-from))
	if cap(v.backing) < len(kept)+want {
		v.backing = make([]byte, max(len(kept)+want, min(2*cap(v.backing), maxRead+2*maxGap)))
	}
	v.at, v.buf = from-int64(len(kept)), nil
	text := v.backing[:copy(v.backing[:cap(v.backing)], kept)+want]
	got, err := w.r.ReadAt(text[len(kept):], from)
	if from+int64(got) < off+n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read at byte %d: %w", off, err)
	}
	v.buf = text[:len(kept)+got]
	return v.buf[off-v.at:][:n], nil
}

// available returns the buffered bytes from off, at least one. It reads if none is
// buffered.
func (w *readBuffer) available(off int64) ([]byte, error) {
	if _, err := w.bytes(off, 1); err != nil {
		return nil, err
	}
	v := &w.windows[w.last]
	return v.buf[off-v.at:], nil
}
