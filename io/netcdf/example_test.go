package netcdf_test

import (
	"bytes"
	"fmt"

	"github.com/ensemble-weather/ensemble/io/netcdf"
)

// A classic file without variables, and the same file truncated.
func ExampleScan() {
	// Magic, numrecs, and absent lists of dimensions, attributes and variables.
	file := append([]byte("CDF\x01"), make([]byte, 4+3*8)...)
	fmt.Println(netcdf.Scan(bytes.NewReader(file), int64(len(file))))
	fmt.Println(netcdf.Scan(bytes.NewReader(file[:20]), 20))
	// Output:
	// <nil>
	// byte 20: file ends inside the header: 4 bytes wanted, 0 left
}
