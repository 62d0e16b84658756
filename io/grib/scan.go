package grib

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// Junk is a range of bytes outside of messages.
type Junk Span

// Result is the result of a scan.
type Result struct {
	Messages []Message
	Faults   []*Fault
	Junk     []Junk
}

// maxSection bounds a section that is read as a whole (all except bitmap and data).
// The largest in real files hold row lengths of reduced grids or lists of points.
const maxSection = 16 << 20

// maxFaults ends the scan of a file that holds only damage.
const maxFaults = 1000

// visitor is called with each valid message while its header sections are buffered.
type visitor func(m Message, w *readBuffer) *Fault

// Scan finds all messages of a file. A message is valid if its lengths add up, its
// sections follow each other as FM 92 requires, and it ends with "7777". After a
// fault the scan continues at the next "GRIB".
//
// Memory: two buffers of 128 KiB, whatever lengths the file states.
// Errors: those of reading and ctx.Err(). Damage is reported in Result.Faults.
func Scan(ctx context.Context, r io.ReaderAt, size int64) (Result, error) {
	return scan(ctx, r, size, nil)
}

func scan(ctx context.Context, r io.ReaderAt, size int64, visit visitor) (Result, error) {
	var res Result
	w := newReadBuffer(r, size)
	junkFrom := int64(0)
	off := int64(0)
	for len(res.Faults) < maxFaults {
		if err := ctx.Err(); err != nil {
			return res, err
		}
		start, err := findMessage(w, off)
		if err != nil {
			return res, err
		}
		if start < 0 {
			break
		}
		if err := res.between(r, junkFrom, start); err != nil {
			return res, err
		}
		number := len(res.Messages) + len(res.Faults) + 1
		m, fault, err := parseMessage(w, start)
		if err != nil {
			return res, err
		}
		m.Number = number
		if visit != nil && (fault == nil || len(m.Fields) > 0) {
			m.partial = fault != nil
			if bad := visit(m, w); fault == nil {
				fault = bad
			}
		}
		if fault != nil {
			fault.Message, fault.Offset = number, start
			res.Faults = append(res.Faults, fault)
			off = start + 4
			junkFrom = off
			// The end is valid, so only the inside is damaged. Continue after the
			// message.
			if m.Length > 0 {
				off, junkFrom = start+m.Length, start+m.Length
			}
			continue
		}
		res.Messages = append(res.Messages, m)
		off = start + m.Length
		junkFrom = off
	}
	return res, res.between(r, junkFrom, size)
}

// between records what lies between two messages: nothing, padding or junk. Zeros of the length of the message before them are
// a message that was overwritten.
//
// Errors: those of reading.
func (res *Result) between(r io.ReaderAt, from, to int64) error {
	if to <= from || !isJunk(res.Faults, from) {
		return nil
	}
	n := len(res.Messages)
	overwritten := n > 0 && to-from == res.Messages[n-1].Length
	zero := false
	if overwritten || to-from <= maxPadding {
		var err error
		if zero, err = isZero(r, from, to); err != nil {
			return err
		}
	}
	switch {
	case zero && overwritten:
		f := faultf("zeros in place of a message", "%d bytes are zero, as many as the message before them has", to-from)
		f.Message, f.Offset = n+len(res.Faults)+1, from
		res.Faults = append(res.Faults, f)
	case !zero:
		res.Junk = append(res.Junk, Junk{from, to - from})
	}
	return nil
}

// maxPadding bounds the zeros with which archives fill blocks.
const maxPadding = 8 << 10

// isZero reports whether a range of bytes holds only zeros.
//
// Errors: those of reading, and io.ErrUnexpectedEOF if the file became shorter.
func isZero(r io.ReaderAt, from, to int64) (bool, error) {
	var b [8 << 10]byte
	for from < to {
		part := b[:min(int64(len(b)), to-from)]
		if n, err := r.ReadAt(part, from); n < len(part) {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return false, fmt.Errorf("read at byte %d: %w", from, err)
		}
		if len(bytes.Trim(part, "\x00")) > 0 {
			return false, nil
		}
		from += int64(len(part))
	}
	return true, nil
}

// isJunk reports whether the bytes from off are junk. It is false for the remains
// of a damaged message, which has been reported.
func isJunk(faults []*Fault, off int64) bool {
	return len(faults) == 0 || faults[len(faults)-1].Offset+4 != off
}

// findMessage returns the offset of the next "GRIB" from off, or -1.
func findMessage(w *readBuffer, off int64) (int64, error) {
	for off+4 <= w.size {
		b, err := w.available(off)
		if err != nil {
			return 0, err
		}
		if len(b) < 4 {
			if b, err = w.bytes(off, 4); err != nil {
				return 0, err
			}
		}
		if i := bytes.Index(b, []byte("GRIB")); i >= 0 {
			return off + int64(i), nil
		}
		off += int64(len(b)) - 3
	}
	return -1, nil
}

// parseMessage checks the message at off. The error is of reading; damage is the
// fault. With a fault, Message.Length is set only if the end of the message is
// certain.
//
// Source: FM 92 GRIB1 and GRIB2, section 0 (indicator section).
func parseMessage(w *readBuffer, off int64) (Message, *Fault, error) {
	m := Message{Offset: off}
	head, err := w.bytes(off, 8)
	if err != nil {
		return truncated(m, w, off, 8, "section 0", err)
	}
	m.Edition = int(head[7])
	switch m.Edition {
	case 1:
		return parseMessage1(w, m, Octets(head))
	case 2:
		return parseMessage2(w, m)
	default:
		return m, faultf("unknown GRIB edition", "edition %d", m.Edition), nil
	}
}

// truncated converts a read past the end of the file into a fault and returns any
// other error.
func truncated(m Message, w *readBuffer, off, need int64, part string, err error) (Message, *Fault, error) {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return m, faultf("file ends inside the message", "%s needs %d bytes, %d left", part, need, w.size-off), nil
	}
	return m, nil, err
}
