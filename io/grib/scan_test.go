package grib

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testdata"
)

func load(t testing.TB, set, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata.Dir(t, set), name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func index(t testing.TB, b []byte) *Index {
	t.Helper()
	idx, err := ReadIndex(context.Background(), bytes.NewReader(b), int64(len(b)), &GridCache{})
	if err != nil {
		t.Fatal(err)
	}
	return idx
}

// Bytes before, between and after messages are junk and hide no message.
func TestJunk(t *testing.T) {
	m := load(t, "formats", "grib1/regular_ll_simple_8bit.grib1")
	junk := []byte("ZCZC 123 GRI bulletin\r\n")
	b := append(append(append(append([]byte(nil), junk...), m...), junk...), m...)
	b = append(b, junk...)
	idx := index(t, b)
	if len(idx.Messages) != 2 || len(idx.Faults) != 0 || len(idx.Junk) != 3 {
		t.Fatalf("%d messages, %d faults, %d junk", len(idx.Messages), len(idx.Faults), len(idx.Junk))
	}
	if idx.Messages[1].Offset != int64(2*len(junk)+len(m)) {
		t.Errorf("second message at %d", idx.Messages[1].Offset)
	}
}

// Messages are found at any position relative to the read buffer.
func TestReadBuffer(t *testing.T) {
	m := load(t, "formats", "grib1/regular_ll_simple_8bit.grib1")
	for _, pad := range []int{minRead - 5, minRead - 4, minRead - 3, minRead - 1, minRead, minRead + 1, 3*minRead - 2, maxRead - 4, maxRead - 1, maxRead + 1} {
		b := append(bytes.Repeat([]byte{'.'}, pad), m...)
		if idx := index(t, b); len(idx.Messages) != 1 || idx.Messages[0].Offset != int64(pad) {
			t.Errorf("padding %d: %d messages", pad, len(idx.Messages))
		}
	}
}

// A message truncated at any byte is a fault at its start.
func TestEveryPrefixIsAFault(t *testing.T) {
	for _, name := range []string{"grib1/regular_ll_simple_8bit.grib1", "grib2/same_field_ccsds.grib2"} {
		m := load(t, "formats", name)
		for n := 4; n < len(m); n += 1 + n/40 {
			idx := index(t, m[:n])
			if len(idx.Messages) != 0 || len(idx.Faults) == 0 || idx.Faults[0].Offset != 0 {
				t.Fatalf("%s cut at %d: %d messages, %d faults", name, n, len(idx.Messages), len(idx.Faults))
			}
		}
	}
}

// 64-bit IEEE numbers with a bitmap. The message is synthetic because no valid file
// of this kind was found.
func TestUnpackIEEE64(t *testing.T) {
	rep := binary.BigEndian.AppendUint32(nil, 12)
	rep = append(rep, 5, 0, 0, 0, 2, 0, 4, 2)
	bitmap := []byte{0, 0, 0, 7, 6, 0, 0b0101_0000}
	data := []byte{0, 0, 0, 21, 7}
	for _, v := range []float64{273.15, -1.5} {
		data = binary.BigEndian.AppendUint64(data, math.Float64bits(v))
	}
	message := append(append(append([]byte(nil), rep...), bitmap...), data...)
	s := Sections{5: {0, 12}, 6: {12, 7}, 7: {19, 21}}
	out := make([]float32, 4)
	ok, err := Unpack(message, &s, out)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if out[0] == out[0] || out[2] == out[2] || out[1] != 273.15 || out[3] != -1.5 {
		t.Errorf("got %v", out)
	}
}

func TestRunLengthsMustFillTheField(t *testing.T) {
	rep := Octets(append(binary.BigEndian.AppendUint32(nil, 21), 5, 0, 0, 0, 9, 0, 200, 4, 0, 2, 0, 2, 0, 0, 10, 0, 20))
	out := make([]float32, 9)
	// 4-bit numbers, largest value 2, so digits 3..15 to the base 13: level 1 once
	// and 4 more (digit 7-3), level 0 (missing), level 2 and 2 more.
	if err := runLength(out, []byte{0x17, 0x02, 0x50}, rep); err != nil {
		t.Fatal(err)
	}
	if out[0] != 10 || out[4] != 10 || out[5] == out[5] || out[6] != 20 || out[8] != 20 {
		t.Errorf("got %v", out)
	}
	if err := runLength(out, []byte{0x17}, rep); err == nil {
		t.Error("too few runs were accepted")
	}
	if err := runLength(out, []byte{0x1f, 0x1f}, rep); err == nil {
		t.Error("too long runs were accepted")
	}
}

func FuzzReadIndex(f *testing.F) {
	if testdata.Root() != "" {
		f.Add(load(f, "formats", "grib1/regular_ll_simple_8bit.grib1"))
		f.Add(load(f, "formats", "grib1/lambert_2bit.grib1")[:600])
		f.Add(load(f, "formats", "grib2/step_units_minutes.grib2"))
		f.Add(load(f, "formats", "grib2/zero_bits_per_value.grib2"))
	}
	f.Add([]byte("GRIB\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x307777"))
	f.Fuzz(func(t *testing.T, b []byte) {
		grids := &GridCache{}
		idx, err := ReadIndex(context.Background(), bytes.NewReader(b), int64(len(b)), grids)
		if err != nil {
			t.Fatalf("reading memory cannot fail: %v", err)
		}
		for _, fd := range idx.Fields {
			ref := Ref{Offset: fd.Offset, Length: fd.Length}
			if fd.Partial {
				ref.Sections = &fd.Sections
			}
			if _, err := ref.Extract(nil, bytes.NewReader(b)); err != nil {
				t.Errorf("a field that was found cannot be read: %v", err)
			}
		}
	})
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte{0, 0, 0, 12, 5, 0, 0, 0, 2, 0, 4, 2}, []byte{0, 0, 0, 6, 6, 255}, []byte{0, 0, 0, 5, 7}, 4)
	f.Fuzz(func(t *testing.T, rep, bitmap, data []byte, n int) {
		if n < 1 || n > 1<<16 {
			return
		}
		message := append(append(append([]byte(nil), rep...), bitmap...), data...)
		s := Sections{5: {0, int64(len(rep))}, 6: {int64(len(rep)), int64(len(bitmap))}, 7: {int64(len(rep) + len(bitmap)), int64(len(data))}}
		_, _ = Unpack(message, &s, make([]float32, n))
	})
}

func BenchmarkReadIndex(b *testing.B) {
	file := load(b, "gcm", "gcm_fc_198201.grib2")
	b.SetBytes(int64(len(file)))
	n := 0
	for b.Loop() {
		n = len(index(b, file).Fields)
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

// TestIsImplausible: small grids may be constant fields; for large grids the number of
// points per byte is bounded.
func TestIsImplausible(t *testing.T) {
	for _, c := range []struct {
		points, bytes int64
		want          bool
	}{{1, 0, false}, {1 << 22, 100, false}, {1<<22 + 1, 100, true}, {1 << 28, 1 << 20, true}, {1 << 24, 1 << 20, false}, {1 << 24, 1 << 24 / 200, true}, {1 << 24, 1<<24/200 + 1, false}} {
		if got := IsImplausible(c.points, c.bytes); got != c.want {
			t.Errorf("%d points in %d bytes: %v", c.points, c.bytes, got)
		}
	}
}

// Up to 8 KiB of zeros between and behind messages are padding; longer gaps, and those with other bytes, are junk.
func TestPadding(t *testing.T) {
	m := load(t, "formats", "grib1/regular_ll_simple_8bit.grib1")
	other := make([]byte, 8<<10)
	other[len(other)-1] = 1
	for _, c := range []struct {
		gap  []byte
		junk int
	}{{make([]byte, 1), 0}, {make([]byte, 8<<10), 0}, {make([]byte, 8<<10+1), 2}, {make([]byte, 9<<10), 2}, {make([]byte, 1<<20), 2}, {other, 2}} {
		idx := index(t, slices.Concat(m, c.gap, m, c.gap))
		if len(idx.Messages) != 2 || len(idx.Faults) != 0 || len(idx.Junk) != c.junk {
			t.Errorf("gaps of %d bytes: %d messages, %d faults, %d gaps reported, want %d", len(c.gap), len(idx.Messages), len(idx.Faults), len(idx.Junk), c.junk)
		}
	}
}
