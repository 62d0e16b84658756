package grib

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// message is a small valid message.
func message(step int) []byte {
	m := testgrib.Message{Variable: testgrib.Temperature, HPa: 850, Init: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), Step: step, Unit: 1, Values: make([]float32, testgrib.Rows*testgrib.Columns)}
	for i := range m.Values {
		m.Values[i] = 280 + float32(i%7)
	}
	return m.Bytes()
}

// scanned scans bytes in memory.
func scanned(t *testing.T, b []byte) Result {
	t.Helper()
	res, err := Scan(context.Background(), bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestNumbersAndPlaces: messages and faults are numbered together, in their order in the file, with their places. A message with a valid end is
// passed over as a whole: its remains are neither junk nor messages. Of one without an end the scan continues at its next "GRIB".
func TestNumbersAndPlaces(t *testing.T) {
	m := message(24)
	n := int64(len(m))
	section := bytes.Clone(m)
	section[16+4] = 9 // number of the first section
	end := bytes.Clone(m)
	end[n-1] = '8'
	edition := bytes.Clone(m)
	edition[7] = 3
	for name, c := range map[string]struct {
		damaged []byte
		what    string
	}{"a section": {section, "sections out of order"}, "the end": {end, ""}, "the edition": {edition, "unknown GRIB edition"}} {
		res := scanned(t, slices.Concat(m, c.damaged, m, m))
		if len(res.Messages) != 3 || len(res.Faults) != 1 || len(res.Junk) != 0 {
			t.Errorf("%s: %d messages, %d faults, junk %v", name, len(res.Messages), len(res.Faults), res.Junk)
			continue
		}
		if f := res.Faults[0]; f.Message != 2 || f.Offset != n || c.what != "" && f.What != c.what {
			t.Errorf("%s: %v", name, f)
		}
		for i, want := range []struct {
			number int
			offset int64
		}{{1, 0}, {3, 2 * n}, {4, 3 * n}} {
			if got := res.Messages[i]; got.Number != want.number || got.Offset != want.offset || got.Length != n || got.Edition != 2 {
				t.Errorf("%s: message %d is number %d of %d bytes at %d, want number %d at %d", name, i, got.Number, got.Length, got.Offset, want.number, want.offset)
			}
		}
	}
}

// TestZerosInPlaceOfAMessage: as many zeros as the message before them has are a message that was lost, between messages and at the end, and count
// in the numbers of those behind them. One byte less is padding.
func TestZerosInPlaceOfAMessage(t *testing.T) {
	m := message(24)
	n := int64(len(m))
	res := scanned(t, slices.Concat(m, make([]byte, n), m, make([]byte, n)))
	if len(res.Messages) != 2 || res.Messages[1].Number != 3 || len(res.Junk) != 0 || len(res.Faults) != 2 {
		t.Fatalf("%+v", res)
	}
	for i, want := range []struct {
		number int
		offset int64
	}{{2, n}, {4, 3 * n}} {
		if f := res.Faults[i]; f.What != "zeros in place of a message" || f.Message != want.number || f.Offset != want.offset {
			t.Errorf("%v, want message %d at %d", f, want.number, want.offset)
		}
	}
	damaged := bytes.Clone(m)
	damaged[16+4] = 9
	if res := scanned(t, slices.Concat(m, make([]byte, n), damaged, m, []byte("junk"), damaged)); len(res.Faults) != 3 || res.Faults[0].Message != 2 || res.Faults[1].Message != 3 || res.Messages[1].Number != 4 || !slices.Equal(res.Junk, []Junk{{4 * n, 4}}) {
		t.Errorf("before damaged messages: %+v", res)
	}
	for _, gap := range [][]byte{make([]byte, n-1), make([]byte, n+1)} {
		if res := scanned(t, slices.Concat(m, gap, m, gap)); len(res.Faults)+len(res.Junk) != 0 || res.Messages[1].Number != 2 {
			t.Errorf("gaps of %d zeros: %+v", len(gap), res)
		}
	}
	last := make([]byte, n)
	last[n-1] = 1
	if res := scanned(t, slices.Concat(m, last)); len(res.Faults) != 0 || len(res.Junk) != 1 || res.Junk[0] != (Junk{n, n}) {
		t.Errorf("zeros but for the last byte: %+v", res)
	}
	// Zeros of more than one read, and before any message.
	if res := scanned(t, slices.Concat(make([]byte, n), m)); len(res.Faults) != 0 || len(res.Junk) != 0 || len(res.Messages) != 1 {
		t.Errorf("zeros before the first message: %+v", res)
	}
	far := make([]byte, 3*maxPadding)
	far[len(far)-1] = 1
	all, err1 := isZero(bytes.NewReader(far), 0, int64(len(far)))
	before, err2 := isZero(bytes.NewReader(far), 0, int64(len(far)-1))
	if _, err := isZero(bytes.NewReader(far[:len(far)-1]), 0, int64(len(far))); all || !before || err1 != nil || err2 != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a byte behind the first read: %t %t %v %v; the end of the file: %v", all, before, err1, err2, err)
	}
}

// TestDamageEndsTheScan: a file with damage only has a bounded number of faults.
func TestDamageEndsTheScan(t *testing.T) {
	const most = 1000
	res := scanned(t, slices.Concat(bytes.Repeat([]byte("GRIB\x00\x00\x00\x07"), most+5), message(24)))
	if len(res.Faults) != most || len(res.Messages) != 0 || res.Faults[most-1].Message != most || res.Faults[most-1].Offset != 8*(most-1) {
		t.Errorf("%d faults, %d messages, the last %v", len(res.Faults), len(res.Messages), res.Faults[len(res.Faults)-1])
	}
	res = scanned(t, slices.Concat(bytes.Repeat([]byte("GRIB\x00\x00\x00\x07"), most-1), message(24)))
	if len(res.Faults) != most-1 || len(res.Messages) != 1 || len(res.Junk) != 0 {
		t.Errorf("%d faults, %d messages, junk %v", len(res.Faults), len(res.Messages), res.Junk)
	}
}

// TestScanIsCancelled: a scan ends with the error of its context.
func TestScanIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	b := message(24)
	if res, err := Scan(ctx, bytes.NewReader(b), int64(len(b))); !errors.Is(err, context.Canceled) || len(res.Messages) > 0 {
		t.Errorf("%d messages, %v", len(res.Messages), err)
	}
}

// brokenReader fails from a byte on.
type brokenReader struct {
	*bytes.Reader
	from int64
}

var errBroken = errors.New("the device is gone")

// ReadAt fails if the range reaches the byte.
func (r brokenReader) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > r.from {
		return 0, errBroken
	}
	return r.Reader.ReadAt(p, off)
}

// TestReadErrors: an error of reading is returned, not taken for damage, wherever it appears: at the first byte, in a message, and in a gap.
func TestReadErrors(t *testing.T) {
	b := slices.Concat(bytes.Repeat(message(24), 50), bytes.Repeat([]byte{'.'}, 3*maxRead), message(24))
	for _, from := range []int64{0, 1, minRead, 3 * minRead, int64(len(b)) / 2, int64(len(b)) - 1} {
		res, err := Scan(context.Background(), brokenReader{bytes.NewReader(b), from}, int64(len(b)))
		if !errors.Is(err, errBroken) || len(res.Faults) > 0 {
			t.Errorf("from byte %d: %d faults, %v", from, len(res.Faults), err)
		}
	}
	// The file became shorter: it ends inside a message.
	m := message(24)
	if res, err := Scan(context.Background(), bytes.NewReader(m[:40]), int64(len(m))); err == nil && len(res.Faults) == 0 || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%+v, %v", res, err)
	}
}

// onceBroken fails in one call.
type onceBroken struct {
	*bytes.Reader
	calls, at int
}

func (r *onceBroken) ReadAt(p []byte, off int64) (int, error) {
	if r.calls++; r.calls == r.at {
		return 0, errBroken
	}
	return r.Reader.ReadAt(p, off)
}

// TestOneReadError: an error of any one read is returned, also if the next read succeeds.
func TestOneReadError(t *testing.T) {
	large := message(24)
	large = slices.Concat(large[:8], binary.BigEndian.AppendUint64(nil, 100000), large[16:len(large)-4], make([]byte, 100000-len(large)), large[len(large)-4:]) // with a gap that is not read
	b := slices.Concat([]byte("....."), bytes.Repeat(message(24), 3), large, bytes.Repeat([]byte{'.'}, 3*maxRead), message(24))
	for at := 1; ; at++ {
		r := &onceBroken{Reader: bytes.NewReader(b), at: at}
		_, err := Scan(context.Background(), r, int64(len(b)))
		if r.calls < at {
			if at < 5 {
				t.Errorf("%d reads", at-1)
			}
			return
		}
		if !errors.Is(err, errBroken) {
			t.Errorf("read %d fails: %v", at, err)
		}
	}
}

// TestFewBytes: what is too short for a message is junk, or a fault that states what is missing.
func TestFewBytes(t *testing.T) {
	for _, c := range []struct {
		text         string
		faults, junk int
	}{{"", 0, 0}, {"G", 0, 1}, {"GRI", 0, 1}, {"GRIB", 1, 0}, {".GRIB", 1, 1}, {"GRIB\x00\x00\x00", 1, 0}} {
		res := scanned(t, []byte(c.text))
		if len(res.Faults) != c.faults || len(res.Junk) != c.junk || len(res.Messages) != 0 {
			t.Errorf("%q: %+v", c.text, res)
		}
		if c.faults > 0 && (res.Faults[0].What != "file ends inside the message" || !strings.Contains(res.Faults[0].Why, "section 0 needs 8 bytes, ")) {
			t.Errorf("%q: %v", c.text, res.Faults[0])
		}
	}
}

// TestPartialMessage: fields that are complete before the end of the file are visited, with the fault.
func TestPartialMessage(t *testing.T) {
	m := message(24)
	whole := 0
	for n := len(m) - 4; n < len(m); n++ { // without the end marker the field is complete
		idx := index(t, m[:n])
		if len(idx.Messages) != 0 || len(idx.Faults) != 1 {
			t.Errorf("%d of %d bytes: %d messages, faults %v", n, len(m), len(idx.Messages), idx.Faults)
		}
		for _, f := range idx.Fields {
			if !f.Partial {
				t.Errorf("%d of %d bytes: the field is not marked", n, len(m))
			}
			whole++
		}
	}
	if idx := index(t, m); len(idx.Fields) != 1 || idx.Fields[0].Partial || whole == 0 {
		t.Errorf("%d fields of damaged messages; of the sound one %+v", whole, idx.Fields)
	}
}

// TestFaultOfAField: a message whose field cannot be read is a fault with its place, the fields of others are there. It is no message.
func TestFaultOfAField(t *testing.T) {
	m := message(24)
	n := int64(len(m))
	month := bytes.Clone(m)
	month[16+14] = 13 // of the reference time, in section 1
	idx := index(t, slices.Concat(m, month, m))
	if len(idx.Messages) != 2 || len(idx.Fields) != 2 || len(idx.Faults) != 1 || len(idx.Junk) != 0 {
		t.Fatalf("%d messages, %d fields, faults %v, junk %v", len(idx.Messages), len(idx.Fields), idx.Faults, idx.Junk)
	}
	if f := idx.Faults[0]; f.What != "invalid reference time" || f.Message != 2 || f.Offset != n {
		t.Errorf("%+v", f)
	}
	if got := idx.Fields[1]; got.Message != 3 || got.Offset != 2*n {
		t.Errorf("message %d at %d", got.Message, got.Offset)
	}
}
