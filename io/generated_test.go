package fio

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product/encode"
	"github.com/ensemble-weather/ensemble/io/zarr"
)

// madeFile is a file under construction: the same description becomes NetCDF and
// Zarr of both versions.
type madeFile struct {
	encode.NetCDF
	payload []byte
}

// add adds a variable of a type; dimensions are those of coordinates.
func (m *madeFile) add(name string, kind encode.Type, dims []string, values []float64, attrs ...encode.Attribute) {
	at := len(m.payload)
	for _, x := range values {
		switch kind {
		case encode.Double:
			m.payload = binary.LittleEndian.AppendUint64(m.payload, math.Float64bits(x))
		case encode.Float:
			m.payload = binary.LittleEndian.AppendUint32(m.payload, math.Float32bits(float32(x)))
		case encode.Int:
			m.payload = binary.LittleEndian.AppendUint32(m.payload, uint32(int32(x)))
		case encode.Short:
			m.payload = binary.LittleEndian.AppendUint16(m.payload, uint16(int16(x)))
		}
	}
	block := encode.Block{Offset: at, Length: len(m.payload) - at}
	for len(m.payload)%8 != 0 { // blocks begin at multiples of 8
		m.payload = append(m.payload, 0)
	}
	m.Variables = append(m.Variables, encode.Variable{Name: name, Type: kind, Dimensions: dims, Attributes: attrs, Values: block})
}

// axis adds a coordinate with a dimension of its own.
func (m *madeFile) axis(name string, kind encode.Type, values []float64, attrs ...encode.Attribute) {
	m.Dimensions = append(m.Dimensions, encode.Dimension{Name: name, Size: len(values)})
	m.add(name, kind, []string{name}, values, attrs...)
}

// madeFormats writes a description in each format.
var madeFormats = map[string]func(t *testing.T, m madeFile, dir string) string{
	"NetCDF": func(t *testing.T, m madeFile, dir string) string {
		path := filepath.Join(dir, "x.nc")
		call := decode.Call{Kind: encode.KindNetCDF, Args: m.NetCDF, InputBytes: len(m.payload), WriteInput: func(dst []byte) { copy(dst, m.payload) },
			ReadFile: func(r io.Reader) error {
				return atomicfile.Write(path, func(w io.Writer) error {
					_, err := io.Copy(w, r)
					return err
				})
			}}
		if err := children(t).Do(context.Background(), call); err != nil {
			t.Fatal(err)
		}
		return path
	},
	"Zarr 2": func(t *testing.T, m madeFile, dir string) string { return writeStore(t, m, dir, 2) },
	"Zarr 3": func(t *testing.T, m madeFile, dir string) string { return writeStore(t, m, dir, 3) },
}

func writeStore(t *testing.T, m madeFile, dir string, version int) string {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("x%d.zarr", version))
	if err := zarr.Write(path, &m.NetCDF, m.payload, version); err != nil {
		t.Fatal(err)
	}
	return path
}

func textAttribute(name, value string) encode.Attribute {
	return encode.Attribute{Name: name, Text: value}
}

func doubles(name string, x ...float64) encode.Attribute {
	return encode.Attribute{Name: name, Doubles: x}
}

// The same data as packed and plain numbers of each type, with ranges and missing
// values in the unit of stored numbers or of values, with coordinates of each type
// and unit, have the same values and keys in each format.
func TestGeneratedFiles(t *testing.T) {
	x := []float64{280, 281.5, 150, 283, 284, -40, 286, 400, 288, 289, 290, 291}
	want := slices.Clone(x)
	want[2], want[5], want[7] = math.NaN(), math.NaN(), math.NaN() // below and above 200 to 350, and missing
	rad := math.Pi / 180
	for _, data := range []struct {
		name          string
		kind          encode.Type
		scale, offset float64
		attrs         []encode.Attribute
	}{
		{"float, range of its type", encode.Float, 1, 0, []encode.Attribute{{Name: "valid_range", Floats: []float32{200, 350}}, {Name: "missing_value", Floats: []float32{-40}}}},
		{"float, range of doubles", encode.Float, 1, 0, []encode.Attribute{doubles("valid_min", 200), doubles("valid_max", 350), doubles("missing_value", -40)}},
		{"double", encode.Double, 1, 0, []encode.Attribute{doubles("valid_range", 200, 350.5)}},
		{"int, packed, range of doubles", encode.Int, 0.5, 250, []encode.Attribute{doubles("valid_range", 200, 350.5), doubles("scale_factor", 0.5), doubles("add_offset", 250)}},
		{"short, packed, range of doubles", encode.Short, 0.5, 250, []encode.Attribute{doubles("valid_range", 200.5, 350.5), doubles("scale_factor", 0.5), doubles("add_offset", 250)}},
		{"short, packed, range of stored numbers", encode.Short, 0.01, 250, []encode.Attribute{{Name: "valid_range", Shorts: []int16{-5000, 10000}}, doubles("scale_factor", 0.01), doubles("add_offset", 250)}},
		{"short, negative scale", encode.Short, -0.5, 250, []encode.Attribute{doubles("valid_range", 200.5, 350.5), doubles("scale_factor", -0.5), doubles("add_offset", 250)}},
	} {
		for _, at := range []struct {
			name                 string
			kind                 encode.Type
			latUnit              string
			latFactor            float64
			levelUnit            string
			level                float64
			timeUnit             string
			time                 float64
			leadUnit             string
			lead                 float64
			refused, refusedName string // the unit and the coordinate that a refusal names
		}{
			{"doubles", encode.Double, "degrees_north", 1, "hPa", 500, "hours since 2024-03-01 00:00:00 UTC", 12, "hours", 6, "", ""},
			{"floats", encode.Float, "degree_N", 1, "Pa", 50000, "days since 2024-03-01", 0.5, "days", 0.25, "", ""},
			{"integers", encode.Int, "degrees", 1, "millibars", 500, "seconds since 1970-01-01T00:00:00Z", 1709294400, "minutes", 360, "", ""},
			{"radian", encode.Double, "radian", rad, "kPa", 50, "minutes since 2024-03-01 GMT", 720, "6 hours", 1, "", ""},
			{"latitude in gon", encode.Double, "gon", 1, "hPa", 500, "hours since 2024-03-01", 12, "hours", 6, "gon", "lat"},
			{"level in psi", encode.Double, "degrees_north", 1, "psi", 7, "hours since 2024-03-01", 12, "hours", 6, "psi", "lev"},
			{"leads in years", encode.Double, "degrees_north", 1, "hPa", 500, "hours since 2024-03-01", 12, "years", 6, "years", "lead_time"},
			{"leads in parts of months", encode.Double, "degrees_north", 1, "hPa", 500, "hours since 2024-03-01", 12, "months", 5.5, "lead 5.5", "calendar months"},
			{"time in months", encode.Double, "degrees_north", 1, "hPa", 500, "months since 2024-03-01", 12, "hours", 6, "months", "months since"},
		} {
			var m madeFile
			m.axis("init_time", at.kind, []float64{at.time}, textAttribute("units", at.timeUnit), textAttribute("standard_name", "forecast_reference_time"))
			m.axis("lead_time", at.kind, []float64{at.lead}, textAttribute("units", at.leadUnit), textAttribute("standard_name", "forecast_period"))
			m.axis("lev", at.kind, []float64{at.level}, textAttribute("units", at.levelUnit), textAttribute("standard_name", "air_pressure"))
			m.axis("number", at.kind, []float64{3}, textAttribute("standard_name", "realization"))
			m.axis("lat", at.kind, []float64{60 * at.latFactor, 50 * at.latFactor, 40 * at.latFactor}, textAttribute("units", at.latUnit), textAttribute("standard_name", "latitude"))
			m.axis("lon", at.kind, []float64{0, 10, 20, 30}, textAttribute("units", "degrees_east"), textAttribute("standard_name", "longitude"))
			stored := make([]float64, len(x))
			for i := range x {
				stored[i] = math.Round((x[i]-data.offset)/data.scale*1e6) / 1e6
			}
			m.add("ta", data.kind, []string{"init_time", "lead_time", "lev", "number", "lat", "lon"}, stored, append([]encode.Attribute{textAttribute("units", "K"), textAttribute("standard_name", "air_temperature")}, data.attrs...)...)
			for format, write := range madeFormats {
				t.Run(strings.Join([]string{format, data.name, at.name}, "/"), func(t *testing.T) {
					in := open(t, Options{}, write(t, m, t.TempDir()))
					cat := in.Catalogue()
					if at.refused != "" {
						if len(cat.Entries) > 0 || len(cat.Unused) != 1 || !strings.Contains(cat.Unused[0].Reason, at.refused) || !strings.Contains(cat.Unused[0].Reason, at.refusedName) {
							t.Errorf("%d fields, unused %v", len(cat.Entries), cat.Unused)
						}
						return
					}
					if len(cat.Entries) != 1 || len(cat.Warnings) > 0 {
						t.Fatalf("%d fields, unused %v, warnings %q", len(cat.Entries), cat.Unused, cat.Warnings)
					}
					if k := cat.Entries[0].Key.String(); k != "t 500hPa, member 3, init 2024-03-01T12:00Z, lead 6h" {
						t.Errorf("key %s", k)
					}
					f, err := in.ReadOne(context.Background(), cat.Entries[0])
					if err != nil {
						t.Fatal(exit.CodeOf(err), err)
					}
					if math.Abs(f.Grid.Lat[0]-60) > 1e-5 || f.Grid.Kind != ensemble.RegularLatLon {
						t.Errorf("grid %s", f.Grid)
					}
					if !slices.EqualFunc(f.Values, want, func(a float32, b float64) bool { return a == float32(b) || a != a && b != b }) {
						t.Errorf("values %v\nwant   %v", f.Values, want)
					}
				})
			}
		}
	}
}
