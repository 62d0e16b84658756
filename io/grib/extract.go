package grib

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Ref is the position of one field in its file.
type Ref struct {
	Offset int64 `json:"o"` // of the message, in bytes
	Length int64 `json:"l"` // of the message, in bytes
	// Sections is set for a field of a message with several fields; nil for the
	// only field of a message.
	Sections *Sections `json:"s,omitempty"`
	Points   int       `json:"p,omitempty"` // expected number of values; 0 if unknown
}

// Extract reads one field as a message of its own into dst. The only field of a
// message is copied with the whole message. A field of a message with several
// fields is assembled from its sections, including the bitmap that section 6 refers
// to (code table 6.0, value 254).
//
// Memory: dst is grown if it is too short, and returned. A nil dst allocates.
// Errors: those of r, with the byte offset.
func (f *Ref) Extract(dst []byte, r io.ReaderAt) ([]byte, error) {
	if f.Sections == nil {
		if int64(cap(dst)) < f.Length {
			dst = make([]byte, f.Length)
		}
		dst = dst[:f.Length]
		if _, err := r.ReadAt(dst, f.Offset); err != nil {
			return nil, fmt.Errorf("read %d bytes at %d: %w", f.Length, f.Offset, err)
		}
		return dst, nil
	}
	total := int64(16 + 4)
	for _, s := range f.Sections {
		total += s.Length
	}
	if int64(cap(dst)) < total {
		dst = make([]byte, total)
	}
	dst = dst[:total]
	if _, err := r.ReadAt(dst[:16], f.Offset); err != nil {
		return nil, fmt.Errorf("read section 0 at %d: %w", f.Offset, err)
	}
	binary.BigEndian.PutUint64(dst[8:], uint64(total))
	at := int64(16)
	for n, s := range f.Sections {
		if s.Length == 0 {
			continue
		}
		if _, err := r.ReadAt(dst[at:at+s.Length], f.Offset+s.Offset); err != nil {
			return nil, fmt.Errorf("read section %d at %d: %w", n, f.Offset+s.Offset, err)
		}
		at += s.Length
	}
	copy(dst[at:], "7777")
	return dst, nil
}
