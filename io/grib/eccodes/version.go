// Package eccodes is the cgo side of GRIB: ecCodes, linked by ensemble-decode
// only.
package eccodes

// #cgo LDFLAGS: -leccodes
// #include <eccodes.h>
import "C"

import "fmt"

// Version is the version of the linked library.
func Version() string {
	v := int(C.codes_get_api_version())
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}
