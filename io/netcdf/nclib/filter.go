package nclib

// #include <netcdf.h>
// #include <netcdf_filter.h>
import "C"

import "fmt"

// FilterError reports a variable that is compressed by a filter for which HDF5 has no
// plugin. The decoding child reports it, and the parent adds how to repack the file
// without the filter.
type FilterError struct {
	Variable string
	// ID is that of the registry of the HDF Group, Name its usual name.
	ID   int
	Name string
}

// Error names variable and filter.
func (e *FilterError) Error() string {
	return fmt.Sprintf("%s is compressed by the filter %s (number %d), for which HDF5 has no plugin", e.Variable, e.Name, e.ID)
}

// filterNames gives the names of filters by their numbers.
//
// Source: HDF Group, registered filters.
var filterNames = map[int]string{4: "szip", 307: "bzip2", 32000: "LZF", 32001: "Blosc", 32004: "LZ4", 32008: "bitshuffle", 32013: "ZFP", 32015: "Zstandard", 32017: "SZ",
	32018: "FCIDECOMP", 32019: "JPEG", 32024: "SZ3", 32026: "Blosc2"}

// missingFilter returns the first filter of a variable that HDF5 cannot apply; nil if
// all are available. netCDF-C reports a missing filter as a general HDF5 error, so the
// pipeline is searched after a read has failed, not before each one.
//
// Source: netCDF-C, netcdf_filter.h; NUG, appendix "Filter Support".
func (f *File) missingFilter(variable int) *FilterError {
	at := f.vars[variable]
	var n C.size_t
	if C.nc_inq_var_filter_ids(at.group, at.id, &n, nil) != C.NC_NOERR || n == 0 {
		return nil
	}
	ids := make([]C.uint, n)
	if C.nc_inq_var_filter_ids(at.group, at.id, &n, &ids[0]) != C.NC_NOERR {
		return nil
	}
	for _, id := range ids {
		if C.nc_inq_filter_avail(at.group, id) == C.NC_NOERR {
			continue
		}
		name := filterNames[int(id)]
		if name == "" {
			name = "of this number"
		}
		return &FilterError{f.header.Vars[variable].Path(), int(id), name}
	}
	return nil
}
