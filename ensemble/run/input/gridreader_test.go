package input

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/regrid"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// TestAgainstCDO compares interpolation with CDO for the same fields (testdata/cdo, made by golden.sh).
// Rectangular grids agree up to float32 rounding. In quadrilaterals CDO treats longitude and latitude as
// plane coordinates, we use the tangent plane; at the margin CDO extends half a cell further (bilinear does
// not, nearest by any distance).
func TestAgainstCDO(t *testing.T) {
	dir := testdata.Dir(t, "formats")
	pool, err := decode.NewPool(decode.Options{Program: testdecoder.Path(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, c := range []struct {
		name, file, to string
		most           float64 // difference over the range of the field
		margin         int     // points present in one result only
	}{
		{"latlon", "grib2/ccsds_2t.grib2", "36x18", 1e-6, 0},
		{"gaussian", "grib1/regular_gg.grib1", "36x18", 1e-6, 0},
		{"octahedral", "grib2/octahedral_o32.grib2", "36x18", 1e-6, 0},
		{"polar", "grib2/polar_stereographic_5msg.grib2", "2deg@60/-120/20/-60", 1e-3, 11}, // cells of 190 km
		{"rotated", "grib1/rotated_ll_24bit.grib1", "1deg@60/-10/48/6", 5e-6, 17},
	} {
		in, err := fio.Open(context.Background(), []string{filepath.Join(dir, c.file)}, fio.Options{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		e := in.Catalogue().Select(func(e ensemble.Entry) bool { return e.Message == 1 })[0]
		field, err := in.ReadOne(context.Background(), e)
		if err != nil {
			t.Fatal(err)
		}
		native := in.Conversion(e)
		in.Close()
		to, err := ensemble.NamedGrid(c.to)
		if err != nil {
			t.Fatal(err)
		}
		for method, m := range map[string]regrid.Method{"bil": regrid.Bilinear, "con": regrid.Conservative, "nn": regrid.Nearest} {
			text, err := os.ReadFile(filepath.Join("testdata", "cdo", c.name+"-"+method+".txt"))
			if errors.Is(err, os.ErrNotExist) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			words := strings.Fields(string(text))
			if len(words) != to.Size() {
				t.Fatalf("%s %s: %d values, want %d", c.name, method, len(words), to.Size())
			}
			got := make([]float32, to.Size())
			regrid.Apply(runtest.WeightsBetween(t, field.Grid, to, m), got, field.Values)
			lo, hi, most, margin := math.Inf(1), math.Inf(-1), 0.0, 0
			for i, word := range words {
				want, err := strconv.ParseFloat(word, 64)
				if err != nil {
					t.Fatal(err)
				}
				y := native.ToNative(float64(got[i]))
				if (want == -999) != (y != y) {
					margin++
				} else if y == y {
					lo, hi, most = min(lo, want), max(hi, want), max(most, math.Abs(y-want))
				}
			}
			if most > c.most*(hi-lo) || margin > c.margin || !(hi > lo) {
				t.Errorf("%s by %s: %.3g of the range %g to %g, %d points in one answer only; want at most %.3g and %d", c.name, m, most/(hi-lo), lo, hi, margin, c.most, c.margin)
			}
		}
	}
}
