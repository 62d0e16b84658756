package simplepack_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/grib/simplepack"
)

// Decodes four integers of 12 bits: Y = (R + X·2^E)·10^−D.
func ExampleUnpack() {
	p := grib.SimplePacking{Data: []byte{0x00, 0x00, 0x0a, 0x01, 0x40, 0x1e}, Count: 4, Bits: 12, Reference: 2700, BinaryScale: 1, DecimalScale: 1}
	values := make([]float32, p.Count)
	if err := simplepack.Unpack(values, &p, simplepack.AllValues(&p)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(values, "K")
	// Output: [270 272 274 276] K
}
