package testgrib

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

// The lengths stated in a message are correct.
func TestLengths(t *testing.T) {
	for _, v := range [][2]byte{Temperature, Rain} {
		m := Message{Variable: v, HPa: 850, Init: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), Unit: 1, Values: make([]float32, Rows*Columns)}
		b := m.Bytes()
		if binary.BigEndian.Uint64(b[8:]) != uint64(len(b)) || !bytes.HasSuffix(b, []byte("7777")) {
			t.Errorf("%v: %d bytes, %d stated", v, len(b), binary.BigEndian.Uint64(b[8:]))
		}
		at := 16
		for i, s := range m.Sections() {
			if n := int(binary.BigEndian.Uint32(b[at:])); n != len(s) || int(b[at+4]) == 0 {
				t.Errorf("%v: section %d of %d bytes states %d", v, i, len(s), n)
			}
			at += len(s)
		}
	}
}
