package grib

import "encoding/binary"

// minSectionLength is the minimum length of each section of edition 2, by number.
var minSectionLength = [8]int64{1: 21, 2: 5, 3: 14, 4: 9, 5: 11, 6: 6, 7: 5}

// Bitmap indicators, code table 6.0.
const (
	bitmapFollows  = 0
	bitmapAsBefore = 254
	bitmapNone     = 255
)

// nextSections gives the sections that may follow a section. Sections 2 to 7, 3 to
// 7 or 4 to 7 may be repeated.
//
// Source: FM 92 GRIB2, regulation 92.2.5.
var nextSections = [8][]byte{0: {1}, 1: {2, 3}, 2: {3}, 3: {4}, 4: {5}, 5: {6}, 6: {7}, 7: {2, 3, 4}}

// parseMessage2 checks a message of edition 2.
//
// Source: FM 92 GRIB2, section 0: octets 9 to 16 hold the total length.
func parseMessage2(w *readBuffer, m Message) (Message, *Fault, error) {
	head, err := w.bytes(m.Offset, 16)
	if err != nil {
		return truncated(m, w, m.Offset, 16, "section 0", err)
	}
	declared := binary.BigEndian.Uint64(head[8:])
	if declared < 16+21+4 {
		return m, faultf("message too short", "it declares %d bytes", declared), nil
	}
	left := w.size - m.Offset
	if declared > uint64(left) {
		// Fields that are complete before the end of the file are returned with the
		// fault.
		m.Fields, _, err = walkSections(w, m, left)
		return m, faultf("file ends inside the message", "it declares %d bytes, %d left", declared, left), err
	}
	total := int64(declared)
	fields, fault, err := walkSections(w, m, total-4)
	if fault != nil || err != nil {
		return m, fault, err
	}
	return finishMessage(w, m, total, fields)
}

// walkSections visits the sections of a message up to an end. It returns the fields
// that are complete, and a fault where the structure breaks. In each section octets
// 1 to 4 hold the length and octet 5 the section number.
//
// A field ends with section 7. Section 6 may refer to the previous bitmap of the
// same message (code table 6.0, value 254).
//
// Source: FM 92 GRIB2, sections 1 to 7.
func walkSections(w *readBuffer, m Message, end int64) (fields []Sections, _ *Fault, _ error) {
	var s Sections
	var bitmap Span
	last := byte(0)
	for at := int64(16); at < end; {
		if end-at < 5 {
			return fields, faultf("sections do not fill the message", "%d bytes left after section %d", end-at, last), nil
		}
		b, err := w.bytes(m.Offset+at, 5)
		if err != nil {
			return fields, nil, err
		}
		length, n := Octets(b).U4(1), b[4]
		if !mayFollow(last, n) {
			return fields, faultf("sections out of order", "section %d after section %d at byte %d of the message", n, last, at), nil
		}
		if length < minSectionLength[n] {
			return fields, faultf("section too short", "section %d claims %d bytes, at least %d are needed", n, length, minSectionLength[n]), nil
		}
		if length > end-at {
			return fields, faultf("section too long", "section %d claims %d bytes, %d left in the message", n, length, end-at), nil
		}
		if n == 2 {
			s[2] = Span{}
		}
		s[n] = Span{at, length}
		if n == 6 {
			switch indicator, err := w.bytes(m.Offset+at, 6); {
			case err != nil:
				return fields, nil, err
			case indicator[5] == bitmapFollows:
				bitmap = s[6]
			case indicator[5] == bitmapAsBefore && bitmap.Length == 0:
				return fields, faultf("bitmap missing", "section 6 refers to an earlier bitmap of the message; there is none"), nil
			case indicator[5] == bitmapAsBefore:
				s[6] = bitmap
			}
		}
		if n == 7 {
			fields = append(fields, s)
		}
		last = n
		at += length
	}
	if last != 7 {
		return fields, faultf("sections missing", "the message ends after section %d", last), nil
	}
	return fields, nil, nil
}

// ParseSections returns the sections of the first field of an edition 2 message in
// memory.
//
// Errors: a *Fault if the message is damaged.
func ParseSections(data []byte) (*Sections, error) {
	m, fault, err := parseBytes(data)
	if err != nil {
		return nil, err
	}
	if fault != nil {
		return nil, fault
	}
	return &m.Fields[0], nil
}

// parseBytes checks a message in memory.
func parseBytes(data []byte) (Message, *Fault, error) {
	return parseMessage(bytesBuffer(data), 0)
}

// mayFollow reports whether section next may follow section last.
func mayFollow(last, next byte) bool {
	for _, n := range nextSections[last] {
		if n == next {
			return true
		}
	}
	return false
}
