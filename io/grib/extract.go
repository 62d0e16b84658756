package grib

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Ref is where one field lies in its file.
type Ref struct {
	Offset int64 `json:"o"`
	Length int64 `json:"l"`
	// Sections are set for a field of a message that has several.
	Sections *Sections `json:"s,omitempty"`
	Points   int       `json:"p,omitempty"` // values expected, 0 where that is not known
}

// Extract reads one field as a message of its own into dst: the message itself
// if it has one field, else its sections put together, with the bitmap that the
// field refers to.
//
// Memory: dst is grown if short and returned.
// Errors: those of r, with the place.
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
