package fio

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// TestBitmapOfOtherValues: fields with simple packing are decoded without a child,
// into recycled memory. A bitmap with another number of points than values is
// rejected; no values appear at other points or from earlier fields.
func TestBitmapOfOtherValues(t *testing.T) {
	const points = testgrib.Rows * testgrib.Columns
	file := func(member, values int, bitmap []byte) []byte {
		m := testgrib.Message{Variable: testgrib.Temperature, HPa: 850, Member: member, Init: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), Unit: 1, Values: make([]float32, points)}
		s := m.Sections()
		section := func(number byte, body []byte) []byte {
			return append(append(binary.BigEndian.AppendUint32(nil, uint32(5+len(body))), number), body...)
		}
		rep := binary.BigEndian.AppendUint32(nil, uint32(values))
		rep = append(rep, 0, 0) // template 5.0
		rep = binary.BigEndian.AppendUint32(rep, math.Float32bits(280))
		s[3] = section(5, append(rep, 0, 0, 0, 0, 8, 0))
		if s[4] = section(6, []byte{255}); bitmap != nil {
			s[4] = section(6, append([]byte{0}, bitmap...))
		}
		s[5] = section(7, bytes.Repeat([]byte{1}, values))
		body := bytes.Join(s, nil)
		head := append([]byte("GRIB\x00\x00\x00\x02"), binary.BigEndian.AppendUint64(nil, uint64(16+len(body)+4))...)
		return append(append(head, body...), "7777"...)
	}
	some := bytes.Repeat([]byte{0xf0}, points/8) // every other four points
	for _, c := range []struct {
		name   string
		values int
		bitmap []byte
		want   string // "" for none
	}{
		{"as many", points / 2, some, ""},
		{"one more", points/2 + 1, some, "the bitmap has fewer points than the data have values"},
		{"one less", points/2 - 1, some, "the bitmap has more points than the data have values"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "fc.grib2")
			if err := os.WriteFile(path, slices.Concat(file(1, points, nil), file(2, c.values, c.bitmap)), 0o644); err != nil {
				t.Fatal(err)
			}
			in := open(t, Options{Pool: children(t)}, path)
			defer in.Close()
			entries := in.Catalogue().Entries
			if len(entries) != 2 {
				t.Fatalf("%d fields: %+v", len(entries), in.Catalogue().Unused)
			}
			var last []float32
			var err error
			for _, e := range entries {
				var f *ensemble.Field
				if f, err = in.ReadOne(context.Background(), e); err == nil {
					last = slices.Clone(f.Values)
					in.Recycle(f.Values)
				}
			}
			if c.want == "" {
				if err != nil || last[0] != 281 || last[4] == last[4] {
					t.Errorf("error %v, values %v", err, last[:8])
				}
				return
			}
			if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want one of %s with %q", err, path, c.want)
			}
		})
	}
}
