package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestPacking: GRIB2 products have simple packing, which all readers open, unless CCSDS is chosen.
func TestPacking(t *testing.T) {
	f := faulty(t)
	fc := f.put("fc.grib2", join(cycle(lastDay)...))
	for _, c := range []struct {
		args []string
		want int
	}{{nil, 0}, {[]string{"--packing", "ccsds"}, 42}, {[]string{"--set", "output.packing=simple"}, 0}} {
		out := f.predict(exit.OK, nil, append(append([]string{"--format", "grib2"}, c.args...), fc)...)
		files, _ := filepath.Glob(filepath.Join(out, "2*", "*.grib2"))
		if len(files) == 0 {
			t.Fatal("no product")
		}
		for _, path := range files {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := dataTemplate(t, b); got != c.want {
				t.Errorf("%q: template 5.%d, want 5.%d", c.args, got, c.want)
			}
		}
	}
}

// dataTemplate returns the data representation template of the first field of GRIB2.
//
// Source: FM 92 GRIB2, section 5, octets 10 and 11.
func dataTemplate(t *testing.T, b []byte) int {
	t.Helper()
	for at := 16; at+11 <= len(b); at += int(binary.BigEndian.Uint32(b[at:])) {
		if b[at+4] == 5 {
			return int(binary.BigEndian.Uint16(b[at+9:]))
		}
	}
	t.Fatal("no section 5")
	return 0
}
