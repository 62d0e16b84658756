package nclib

// #cgo pkg-config: hdf5
// #include <hdf5.h>
import "C"

import "fmt"

// HDF5Version returns the version of the HDF5 library that netCDF-C uses. The result is
// empty if the library does not report it. The library is the one linked with this
// program, not the one that wrote a file.
func HDF5Version() string {
	var major, minor, release C.uint
	if C.H5get_libversion(&major, &minor, &release) < 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", major, minor, release)
}
