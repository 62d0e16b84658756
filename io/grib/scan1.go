package grib

import "bytes"

// parseMessage1 checks a message of edition 1 whose section 0 is head.
//
// Source: FM 92 GRIB1, sections 0 to 5. Section 0, octets 5 to 7: length of the
// message. Octets 1 to 3 of sections 1 to 4: length of the section. Section 1,
// octet 8, bits 1 and 2 declare sections 2 (grid) and 3 (bitmap).
func parseMessage1(w *readBuffer, m Message, head Octets) (Message, *Fault, error) {
	total := int64(head.U3(5))
	var s Sections
	at := int64(8)
	// next reads a section, whose first three octets are its length.
	next := func(n int, least int64, name string) (Octets, *Fault, error) {
		b, err := w.bytes(m.Offset+at, 3)
		if err != nil {
			_, f, err := truncated(m, w, m.Offset+at, 3, name, err)
			return nil, f, err
		}
		length := int64(Octets(b).U3(1))
		if length < least {
			return nil, faultf(name+" too short", "it claims %d bytes, at least %d are needed", length, least), nil
		}
		s[n] = Span{at, length}
		at += length
		body, err := w.bytes(m.Offset+s[n].Offset, min(length, maxSection, w.size-m.Offset-s[n].Offset))
		if err != nil || int64(len(body)) < min(length, maxSection) {
			return nil, faultf("file ends inside the message", "%s needs %d bytes, %d left", name, length, w.size-m.Offset-s[n].Offset), nil
		}
		return body, nil, nil
	}
	pds, fault, err := next(1, 28, "product section")
	if fault != nil || err != nil {
		return m, fault, err
	}
	flags := pds.U1(8)
	if flags&0x80 != 0 {
		if _, fault, err = next(2, 32, "grid section"); fault != nil || err != nil {
			return m, fault, err
		}
	}
	if flags&0x40 != 0 {
		if _, fault, err = next(3, 6, "bitmap section"); fault != nil || err != nil {
			return m, fault, err
		}
	}
	b, err := w.bytes(m.Offset+at, 11)
	if err != nil {
		return truncated(m, w, m.Offset+at, 11, "data section", err)
	}
	data := int64(Octets(b).U3(1))
	if total&0x800000 != 0 && data < 120 {
		// Messages above 8 MiB set the first bit of the length and count in units
		// of 120 bytes. The length of section 4 then holds the excess. This is a
		// convention of ECMWF that all centres follow.
		total = (total&0x7fffff)*120 - data + 4
		data = total - 4 - at
	}
	if data < 11 {
		return m, faultf("data section too short", "it claims %d bytes, at least 11 are needed", data), nil
	}
	s[4] = Span{at, data}
	if want := at + data + 4; total != want {
		return m, faultf("lengths do not add up", "message claims %d bytes, its sections %d", total, want), nil
	}
	return finishMessage(w, m, total, []Sections{s})
}

// finishMessage checks the end marker "7777" (section 5 of edition 1, section 8 of
// edition 2) and completes the message.
func finishMessage(w *readBuffer, m Message, total int64, fields []Sections) (Message, *Fault, error) {
	if total > w.size-m.Offset {
		return m, faultf("file ends inside the message", "it declares %d bytes, %d left", total, w.size-m.Offset), nil
	}
	end, err := w.bytes(m.Offset+total-4, 4)
	if err != nil {
		return m, nil, err
	}
	if !bytes.Equal(end, []byte("7777")) {
		return m, faultf("end marker missing", "%q instead of 7777", end), nil
	}
	m.Length, m.Fields = total, fields
	return m, nil, nil
}
