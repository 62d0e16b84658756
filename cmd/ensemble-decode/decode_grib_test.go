package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/grib/ccsds"
	"github.com/ensemble-weather/ensemble/io/grib/eccodes"
)

// Values decoded in this process have the same bits as those of ecCodes.
func TestSimplePackingAgreesWithECCodes(t *testing.T) {
	compared, coded := map[int]int{}, 0
	for _, pattern := range []string{"formats/grib1/*", "formats/grib2/*", "gcm/gcm_fc_198201.grib2", "era5-eda/*.grib", "ecmwf-ens/*.grib"} {
		dir, file := filepath.Split(pattern)
		paths, err := filepath.Glob(filepath.Join(testdata.Dir(t, filepath.Dir(dir)), file))
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found, err := grib.Scan(context.Background(), bytes.NewReader(data), int64(len(data)))
			if err != nil {
				t.Fatal(path, err)
			}
			for _, m := range found.Messages {
				if len(m.Fields) != 1 {
					continue
				}
				messageBuffer = data[m.Offset : m.Offset+m.Length]
				n, err := countValues()
				if err != nil {
					continue // ecCodes cannot read it
				}
				p, ok, err := grib.ParseSimplePacking(messageBuffer, n)
				if err != nil {
					t.Errorf("%s, message %d: %v", path, m.Number, err)
				}
				if !ok {
					continue
				}
				got, want := make([]float32, n), make([]float32, n)
				if err := ccsds.Unpack(got[:p.Count], &p); err != nil {
					t.Fatal(path, err)
				}
				if err := p.ApplyBitmap(got); err != nil {
					t.Fatal(path, err)
				}
				h, err := eccodes.Open(messageBuffer)
				if err != nil {
					t.Fatal(path, err)
				}
				if _, err := h.Values(want); err != nil {
					t.Fatal(path, err)
				}
				h.Close()
				for i := range want {
					if got[i] != want[i] && !(math.IsNaN(float64(got[i])) && math.IsNaN(float64(want[i]))) {
						t.Fatalf("%s, message %d, value %d of %d (%d bits): %v, ecCodes %v", path, m.Number, i, n, p.Bits, got[i], want[i])
					}
				}
				compared[m.Edition]++
				if p.CCSDS != nil {
					coded++
					p.Data = p.Data[:len(p.Data)/2]
					if ccsds.Unpack(got[:p.Count], &p) == nil {
						t.Errorf("%s, message %d: half of a code gives all values", path, m.Number)
					}
				}
			}
		}
	}
	if compared[1] < 300 || compared[2] < 20 || coded < 5 {
		t.Errorf("fields compared, by edition: %v, of CCSDS %d", compared, coded)
	}
}
