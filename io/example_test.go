package fio_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"

	"github.com/ensemble-weather/ensemble/ensemble"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product/encode"
	"github.com/ensemble-weather/ensemble/io/zarr"
)

// writeStore writes a Zarr store with 2 m temperature at 2 x 3 points and two leads.
func writeStore(path string) error {
	f := &encode.NetCDF{}
	var payload []byte
	add := func(name string, dims []string, values []float64, attrs ...string) {
		v := encode.Variable{Name: name, Type: encode.Double, Dimensions: dims, Values: encode.Block{Offset: len(payload), Length: 8 * len(values)}}
		for i := 0; i < len(attrs); i += 2 {
			v.Attributes = append(v.Attributes, encode.Attribute{Name: attrs[i], Text: attrs[i+1]})
		}
		f.Variables = append(f.Variables, v)
		for _, x := range values {
			payload = binary.LittleEndian.AppendUint64(payload, math.Float64bits(x))
		}
	}
	f.Dimensions = []encode.Dimension{{Name: "step", Size: 2}, {Name: "lat", Size: 2}, {Name: "lon", Size: 3}}
	add("step", []string{"step"}, []float64{24, 48}, "standard_name", "forecast_period", "units", "hours")
	add("lat", []string{"lat"}, []float64{50, 40}, "units", "degrees_north")
	add("lon", []string{"lon"}, []float64{0, 10, 20}, "units", "degrees_east")
	add("time", nil, []float64{0}, "standard_name", "forecast_reference_time", "units", "days since 2026-01-01")
	add("t2m", []string{"step", "lat", "lon"}, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, "units", "degC", "coordinates", "time")
	return zarr.Write(path, f, payload, 2)
}

// Lists the fields of a file and reads them in SI units.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "fio-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "fc.zarr")
	if err := writeStore(path); err != nil {
		fmt.Println(err)
		return
	}
	// Zarr needs no child process, so the decoding program is not started.
	in, err := fio.Open(context.Background(), []string{path}, fio.Options{Decode: decode.Options{Program: decode.ProgramName}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer in.Close()
	err = in.Read(context.Background(), in.Catalogue().Entries, func(_ int, f *ensemble.Field) error {
		fmt.Println(f.Key.Variable, f.Key.Init, f.Key.Lead, f.Unit, f.Values)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2t 2026-01-01T00:00Z 24h K [273.15 274.15 275.15 276.15 277.15 278.15]
	// 2t 2026-01-01T00:00Z 48h K [279.15 280.15 281.15 282.15 283.15 284.15]
}

// Expands a directory to the input files in it.
func ExampleList() {
	dir, err := os.MkdirTemp("", "fio-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"fc_00.grib2", "fc_01.grib2", "fc_02.grib2.part"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			fmt.Println(err)
			return
		}
	}
	files, ignored, err := fio.List("--input", []string{dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range files {
		fmt.Println(filepath.Base(f))
	}
	for _, f := range ignored {
		fmt.Println(filepath.Base(f.Path)+":", f.Why)
	}
	// Output:
	// fc_00.grib2
	// fc_01.grib2
	// fc_02.grib2.part: its name marks an incomplete file
}

// Finds the first absent chunk of a store.
func ExampleCheckComplete() {
	dir, err := os.MkdirTemp("", "fio-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "fc.zarr")
	if err := writeStore(path); err != nil {
		fmt.Println(err)
		return
	}
	if err := os.Remove(filepath.Join(path, "t2m", "0.0.0")); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(fio.CheckComplete(path, fio.Options{}))
	// Output: array t2m, chunk t2m/0.0.0 is absent <nil>
}

// Member numbers in file names of GEFS, and by a pattern.
func ExampleMemberFromName() {
	fmt.Println(fio.MemberFromName("gep07.t00z.pgrb2a.0p50.f024", nil))
	fmt.Println(fio.MemberFromName("run/mem12/fc.nc", regexp.MustCompile(`mem(\d+)/`)))
	fmt.Println(fio.MemberFromName("fc.nc", nil))
	// Output:
	// 7 true
	// 12 true
	// 0 false
}

// Reads the index file of a GRIB file, as ECMWF and wgrib2 write it.
func ExampleReadIndex() {
	dir, err := os.MkdirTemp("", "fio-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "fc.index")
	if err := os.WriteFile(path, []byte("{\"param\": \"2t\", \"_offset\": 0, \"_length\": 186}\n3:186:d=2026010100:TMP:2 m above ground:24 hour fcst:\n"), 0o666); err != nil {
		fmt.Println(err)
		return
	}
	err = fio.ReadIndex(path, func(row int, r fio.IndexRow) error {
		fmt.Println(row, r.Offset, r.Length)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 0 186
	// 2 186 0
}
