package zarr_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/io/cf"
	"github.com/ensemble-weather/ensemble/io/product/encode"
	"github.com/ensemble-weather/ensemble/io/zarr"
)

// Writes a store of version 3 with one array, and reads a part of it.
func Example() {
	dir, err := os.MkdirTemp("", "zarr-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "t.zarr")
	var payload []byte
	for _, v := range []float32{270, 271, 272, 273, 274, float32(math.NaN())} {
		payload = binary.LittleEndian.AppendUint32(payload, math.Float32bits(v))
	}
	description := &encode.NetCDF{
		Dimensions: []encode.Dimension{{Name: "lat", Size: 2}, {Name: "lon", Size: 3}},
		Variables: []encode.Variable{{Name: "t", Type: encode.Float, Dimensions: []string{"lat", "lon"}, Chunks: []int{1, 3}, Deflate: 4,
			Attributes: []encode.Attribute{{Name: "units", Text: "K"}}, Values: encode.Block{Length: len(payload)}}},
	}
	if err := zarr.Write(path, description, payload, 3); err != nil {
		fmt.Println(err)
		return
	}
	s, err := zarr.Open(path, zarr.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	a := s.Arrays[0]
	fmt.Println(a.Path, a.Dims, a.Shape, a.Attrs["units"].Text)
	column := &zarr.Request{Slab: cf.Slab{Var: 0, Start: []int64{0, 2}, Count: []int64{2, 1}}}
	if err := s.Read(context.Background(), []*zarr.Request{column}, func(n int) []float32 { return make([]float32, n) }); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(column.Values)
	// Output:
	// t [lat lon] [2 3] K
	// [272 NaN]
}
