package nclib_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/io/cf"
	"github.com/ensemble-weather/ensemble/io/netcdf/nclib"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// Writes a packed variable, and reads a part of it unpacked.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "nclib-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "t.nc")
	var payload []byte
	for _, v := range []uint16{0, 2, 4, 6} {
		payload = binary.LittleEndian.AppendUint16(payload, v)
	}
	err = nclib.Write(path, &encode.NetCDF{Dimensions: []encode.Dimension{{Name: "lon", Size: 4}},
		Variables: []encode.Variable{{Name: "t", Type: encode.Short, Dimensions: []string{"lon"}, Values: encode.Block{Length: len(payload)},
			Attributes: []encode.Attribute{{Name: "scale_factor", Doubles: []float64{0.5}}, {Name: "add_offset", Doubles: []float64{270}}}}}}, payload)
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := nclib.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	values := make([]float64, 3)
	if err := f.Double(values, cf.Slab{Var: 0, Start: []int64{1}, Count: []int64{3}}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Header().Vars[0].Name, values)
	// Output: t [271 272 273]
}
