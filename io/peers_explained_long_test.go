//go:build long

package fio

import (
	"path"
	"strings"
)

// peerExplanation explains differences between a reader and the program. Empty members match all.
type peerExplanation struct {
	files string // pattern of path.Match over set/name, or a prefix that ends in /
	tool  string
	what  string
	words string // part of the field, of what the reader has, or of its error
	why   string
}

// explained returns the position of the explanation of a difference, -1 without one.
func explained(name string, d peerDifference) int {
	for k, e := range peerExplanations {
		inFiles, _ := path.Match(e.files, name)
		if (e.files == "" || inFiles || strings.HasSuffix(e.files, "/") && strings.HasPrefix(name, e.files)) && (e.tool == "" || e.tool == d.Tool) && (e.what == "" || e.what == d.What) &&
			(strings.Contains(d.Field, e.words) || strings.Contains(d.Theirs, e.words)) {
			return k
		}
	}
	return -1
}

// peerExplanations lists every known difference, with its reason.
var peerExplanations = []peerExplanation{
	{tool: "CDO", what: "not read", words: "dimension", why: "CDO 2.1.1 reads variables of time, one level and two horizontal dimensions in this order"},
	{tool: "CDO", what: "not read", words: "Parameter not defined at timestep 1", why: "CDO 2.1.1 wants the same variables at each time"},
	{tool: "CDO", what: "not read", words: "Found more than one time variable", why: "CDO 2.1.1 wants one time"},
	{tool: "CDO", what: "not read", words: "Decompression for 30 not implemented", why: "CDO 2.1.1 lacks the second order packing of edition 1"},
	{"corpus/grib1_accumulations_*/fc.grib1", "ecCodes", "statistic", "", "ecCodes takes sums of ECMWF for instants, as the time range indicator states; class and stream decide here"},
	{"corpus/grib1_units_of_time/fc.grib1", "", "", "", "a month has 30 days there and is one by the calendar here, as FM 92 says"},
	{"corpus/grib2_month_interval/fc.grib2", "", "", "", "a month has 30 days there and is one by the calendar here, as FM 92 says"},
	{"corpus/grib2_statistic_of_statistic/fc.grib2", "ecCodes", "statistic", "", "ecCodes names one of two time ranges"},
	{"corpus/grid_wrf/wrfout.nc", "", "init", "", "the initialisation is in a global attribute of WRF"},
	{"corpus/member_text/fc.nc", "xarray", "not read", "", "the judge takes members as numbers"},
	{"corpus/packing_missing_*/fc.nc", "netCDF4", "missing", "", "netCDF4 compares missing_value with stored numbers only, and ignores texts"},
	{"corpus/packing_missing_*/fc.nc", "xarray", "missing", "", "xarray ignores texts"},
	{"corpus/packing_range_*/fc.nc", "xarray", "missing", "", "xarray ignores valid ranges"},
	{"corpus/packing_range_*/fc.nc", "netCDF4", "missing", "", "netCDF4 compares ranges of values with stored numbers, against NUG"},
	{"corpus/packing_scale_text/fc.nc", "", "not read", "", "scale_factor is a text, which is read as a number with a warning here"},
	{"corpus/packing_unsigned_byte/fc.nc", "xarray", "missing", "", "xarray ignores valid ranges"},
	{"corpus/packing_unsigned_wide_range/fc.nc", "", "missing", "", "netCDF4 compares the unsigned range with signed numbers, xarray ignores it"},
	{"corpus/time_days_float/fc.nc", "", "", "", "days of float32 are rounded to the hour here"},
	{"corpus/time_reference_words/fc.nc", "CDO", "field", "", "CDO takes the zone of the reference for none"},
	{tool: "CDO", what: "not read", words: "template.5.200.def", why: "CDO 2.1.1 needs ecCodes' own definitions for run lengths"},
	{"formats/grib2/alternate_rows_scanning_16.grib2", "ecCodes", "value", "", "ecCodes gives rows in alternating direction the places of rows in one direction"},
	{"formats/grib2/complex_*.grib2", "ecCodes", "value", "", "the same, of NDFD's files"},
	{"formats/grib2/complex_*.grib2", "ecCodes", "missing", "", "the same, of NDFD's files"},
	{"formats/grib2/*", "ecCodes", "statistic", "", "a missing type of statistical processing, which ecCodes takes for an instant"},
	{"formats/netcdf/nc4_lambert_azimuthal.nc", "CDO", "field", "", "CDO takes the rows for times: it has two roles for one dimension"},
	{"field/input/grib1_half_hours/fc.grib1", "CDO", "field", "", "CDO 2.1.1 reads unit 14 of edition 1 as hours"},
	{"field/input/grib2_height_1p5m/fc.grib2", "ecCodes", "level", "", "temperature at 1.5 m is 2t at 2 m here"},
	{"field/input/grib2_interval_odd_length/*.grib2", "", "", "", "readers take a missing or negative length for a number; the end of the interval is used here"},
	{"field/input/grib2_negative_step/an.grib2", "CDO", "field", "", "CDO takes the negative step"},
	{"field/input/nc_missing_value_text/fc.nc", "", "missing", "", "netCDF4 and xarray ignore texts"},
	{"field/input/nc_valid_min_negative_scale/fc.nc", "xarray", "missing", "", "xarray ignores valid ranges"},
	{"field/input/*valid_range_unpacked/fc.nc", "netCDF4", "missing", "", "netCDF4 compares ranges of values with stored numbers, against NUG"},
	{"field/input/zarr2_fill_value_zero/fc.zarr", "zarr", "missing", "", "xarray takes fill_value of version 2 for _FillValue"},
	{"field/input/zarr2_stale_consolidated/fc.zarr", "zarr", "", "", "xarray reads the stale .zmetadata"},
}
