package fio

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/io/cf"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/netcdf"
	"github.com/ensemble-weather/ensemble/io/projection"
)

// made is the expected result of a file: the number of readable fields, and parts
// of the reasons why others are not used. refused is part of the error of reading
// inconsistent fields: ieee64.grib2 states 64-bit numbers and holds 32-bit ones
// (272.56 K read in pairs is 2e17).
type made struct {
	fields  int
	unused  []string
	refused string
}

const (
	noYear    = "has no year"
	spectral  = "spectral coefficients, not grid-point values; transform them to a grid first"
	healpix   = "its grid is HEALPix, which has no rows and columns"
	cells     = "its grid is unstructured (triangles or other cells), and its coordinates are in another file"
	noStep    = "its interval ends before it begins"
	noTime    = "it has no time"
	noPlace   = "it has no latitude and longitude"
	noNumbers = " is not numeric"
)

// zoo holds the expected result of every file of the collection. A file that is
// missing here or in expected.json fails the test.
var zoo = map[string]made{
	"grib1/all_missing.grib1":                             {fields: 1},
	"grib1/bulletin_header.grib1":                         {fields: 1},
	"grib1/ensemble_mean_em.grib1":                        {unused: []string{noYear}},
	"grib1/hindcast_member.grib1":                         {fields: 1},
	"grib1/lagged_ensemble_monthly_ukmo.grib1":            {fields: 168},
	"grib1/lambert_2bit.grib1":                            {fields: 1},
	"grib1/many_params_levels_times.grib1":                {fields: 48},
	"grib1/members_with_mean_and_spread.grib1":            {fields: 53},
	"grib1/missing_values_bitmap.grib1":                   {fields: 2},
	"grib1/mixed_editions_and_levels.grib":                {fields: 2},
	"grib1/polar_stereographic_9bit.grib1":                {fields: 1},
	"grib1/reduced_gg_n48_4msg.grib1":                     {fields: 4},
	"grib1/reduced_ll.grib1":                              {fields: 1},
	"grib1/regular_gg.grib1":                              {fields: 1},
	"grib1/regular_ll_simple_8bit.grib1":                  {fields: 1},
	"grib1/rotated_ll_24bit.grib1":                        {fields: 1},
	"grib1/scanning_mode_64.grib1":                        {fields: 1},
	"grib1/second_order.grib1":                            {fields: 3},
	"grib1/single_gridpoint.grib1":                        {fields: 6},
	"grib1/spectral_small.grib1":                          {unused: []string{spectral}},
	"grib1/spherical_harmonics.grib1":                     {unused: []string{spectral}},
	"grib2/alternate_rows_scanning_16.grib2":              {fields: 1},
	"grib2/ccsds_2t.grib2":                                {fields: 1},
	"grib2/ccsds_cams.grib2":                              {fields: 3},
	"grib2/complex_lambert.grib2":                         {fields: 1},
	"grib2/complex_sd_bitmap_height.grib2":                {fields: 1},
	"grib2/complex_sd_constant.grib2":                     {fields: 1},
	"grib2/complex_sd_mercator.grib2":                     {fields: 4},
	"grib2/earth_shape_1.grib2":                           {fields: 1},
	"grib2/earth_shape_6.grib2":                           {fields: 1},
	"grib2/ens_z500_51_members_ccsds.grib2":               {fields: 51},
	"grib2/ensemble_products_pdt9_10_12.grib2":            {fields: 10},
	"grib2/healpix.grib2":                                 {unused: []string{healpix}},
	"grib2/hpa_and_pa_levels.grib2":                       {fields: 3},
	"grib2/ieee32.grib2":                                  {fields: 2},
	"grib2/ieee64.grib2":                                  {fields: 6, refused: "84 values of 8 bytes, section 7 holds 336"},
	"grib2/jpeg2000_15bit.grib2":                          {unused: []string{noStep}},
	"grib2/jpeg2000_polar_stereographic.grib2":            {fields: 1},
	"grib2/jpeg2000_regular_gg_4msg.grib2":                {fields: 4},
	"grib2/lambert_eta.grib2":                             {fields: 4},
	"grib2/multi_field_uv.grib2":                          {fields: 6},
	"grib2/octahedral_o32.grib2":                          {fields: 1},
	"grib2/png_8bit_lambert.grib2":                        {fields: 1},
	"grib2/polar_stereographic_5msg.grib2":                {fields: 5},
	"grib2/projections_lambert_azimuthal.grib2":           {fields: 4},
	"grib2/reduced_gg.grib2":                              {fields: 1},
	"grib2/regular_gg_hybrid.grib2":                       {fields: 1},
	"grib2/rotated_ll_24bit.grib2":                        {fields: 1},
	"grib2/run_length_jma.grib2":                          {fields: 7},
	"grib2/same_field_ccsds.grib2":                        {fields: 1},
	"grib2/same_field_complex.grib2":                      {fields: 1},
	"grib2/same_field_complex_spatial_differencing.grib2": {fields: 1},
	"grib2/same_field_jpeg.grib2":                         {fields: 1},
	"grib2/same_field_png.grib2":                          {fields: 1},
	"grib2/same_field_simple.grib2":                       {fields: 1},
	"grib2/same_field_simple_log_preprocessing.grib2":     {fields: 1},
	"grib2/scan_ineg_jneg.grib2":                          {fields: 1},
	"grib2/scan_ipos_jneg.grib2":                          {fields: 1},
	"grib2/scan_ipos_jpos.grib2":                          {fields: 1},
	"grib2/scanning_column_major_96.grib2":                {fields: 1},
	"grib2/simple_gefs_member19.grib2":                    {fields: 1},
	"grib2/step_units_days.grib2":                         {fields: 1},
	"grib2/step_units_hours.grib2":                        {fields: 1},
	"grib2/step_units_minutes.grib2":                      {fields: 1},
	"grib2/unstructured_icon.grib2":                       {unused: []string{cells}},
	"grib2/zero_bits_per_value.grib2":                     {fields: 1},
	"netcdf/calendar_360_day.nc":                          {},
	"netcdf/calendar_365_day.nc":                          {},
	"netcdf/classic_lambert_conformal.nc":                 {fields: 12},
	"netcdf/classic_null_padding.nc":                      {unused: []string{noPlace}},
	"netcdf/nc4_groups_packed_strings.nc":                 {unused: []string{noTime, noNumbers}},
	"netcdf/nc4_groups_provenance.nc":                     {unused: []string{noPlace}},
	"netcdf/nc4_hdf5_compat.nc":                           {unused: []string{noPlace}},
	"netcdf/nc4_lambert_azimuthal.nc":                     {fields: 1},
	"netcdf/nc4_string_variable_int64_time.nc":            {unused: []string{noPlace}},
	"netcdf/nc4_szip.h5":                                  {unused: []string{noPlace}},
	"netcdf/nc4_user_types_compound.nc":                   {unused: []string{noNumbers}},
	"netcdf/offset64_packed_era5_2t_1.nc":                 {fields: 1},
	"netcdf/offset64_packed_era5_2t_2.nc":                 {fields: 1},
	"netcdf/offset64_rotated_pole.nc":                     {unused: []string{noTime}},
	"netcdf/ref_classic_types.nc":                         {unused: []string{noPlace, noNumbers}},
	"netcdf/same_data_cdf5.nc":                            {fields: 18},
	"netcdf/same_data_classic.nc":                         {fields: 18},
	"netcdf/same_data_nc4_chunked.nc":                     {fields: 18},
	"per_member/z500_m00.grib1":                           {fields: 1},
	"per_member/z500_m01.grib1":                           {fields: 1},
	"per_member/z500_m02.grib1":                           {fields: 1},
	"per_member/z500_m03.grib1":                           {fields: 1},
	"per_member/z500_m04.grib1":                           {fields: 1},
	"per_member/z500_m05.grib1":                           {fields: 1},
	"per_step/t_2020-09-22T12_step00.grib1":               {fields: 6},
	"per_step/t_2020-09-22T12_step06.grib1":               {fields: 6},
	"per_step/t_2020-09-22T12_step12.grib1":               {fields: 6},
}

// TestFormats reads every file of the collection: each field has the metadata and
// values that independent decoders found, or is listed with a reason.
func TestFormats(t *testing.T) {
	dir, files := expected(t, "formats")
	for name := range zoo {
		if _, there := files[name]; !there {
			t.Errorf("%s is in the table and not in the collection", name)
		}
	}
	for name, want := range files {
		t.Run(name, func(t *testing.T) {
			m, stated := zoo[name]
			if !stated {
				t.Errorf("the table says nothing of this file (%s)", want.Covers)
			}
			in := open(t, Options{}, filepath.Join(dir, name))
			cat := in.Catalogue()
			if len(cat.Entries) != m.fields {
				t.Errorf("%d fields, want %d", len(cat.Entries), m.fields)
			}
			met := map[string]bool{}
			for _, u := range cat.Unused {
				k := slices.IndexFunc(m.unused, func(r string) bool { return strings.Contains(u.Reason, r) })
				if k < 0 {
					t.Errorf("message %d %s is not used for a reason that the table does not state: %s", u.Message, u.Name, u.Reason)
					continue
				}
				met[m.unused[k]] = true
			}
			for _, r := range m.unused {
				if !met[r] {
					t.Errorf("nothing is unused because %q", r)
				}
			}
			if want.Format == "GRIB" {
				checkGRIB(t, in, want, m)
			} else {
				checkNetCDF(t, in, want)
			}
		})
	}
}

// checkGRIB compares all fields of a GRIB file with the output of ecCodes.
func checkGRIB(t *testing.T, in *Input, want expectedFile, m made) {
	t.Helper()
	cat := in.Catalogue()
	if cat.Messages != want.Messages {
		t.Errorf("%d messages, want %d", cat.Messages, want.Messages)
	}
	if total, n := len(cat.Entries)+len(cat.Unused), max(want.Count, len(want.Fields)); total != n {
		t.Errorf("%d fields accounted for, want %d", total, n)
	}
	// Position of an entry among all fields of its file.
	base := map[int]int{}
	at := 0
	for _, fd := range indexOf(t, in.files[0]).Fields {
		if fd.Sub == 1 {
			base[fd.Message] = at
		}
		at++
	}
	for _, e := range cat.Entries {
		w := want.field(t, base[e.Message]+e.Sub-1)
		checkEntry(t, e, w)
		if m.refused != "" {
			if _, err := in.ReadOne(context.Background(), e); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), m.refused) {
				t.Errorf("%s: got %v, want an error that says %q", e.Key, err, m.refused)
			}
			continue
		}
		checkStats(t, e.Key.String(), fieldStats(t, in, e), w)
	}
}

// checkNetCDF compares the fields of every variable, reassembled, with the output
// of the NetCDF library. Variables without fields are listed or are metadata.
func checkNetCDF(t *testing.T, in *Input, want expectedFile) {
	t.Helper()
	f := in.files[0]
	var h cf.Header
	if err := in.pool.Do(context.Background(), decode.Call{Kind: netcdf.HeaderKind, File: f.path, Args: netcdf.HeaderRequest{Path: f.path}, Result: &h}); err != nil {
		t.Fatal(err)
	}
	fields := map[string][]ensemble.Entry{}
	for _, i := range f.entryIndex {
		fd, err := in.find(in.cat.Entries[i])
		if err != nil {
			t.Fatal(err)
		}
		name := h.Vars[fd.slab.Var].Path()
		fields[name] = append(fields[name], fd.entry)
	}
	unused := map[string]bool{}
	for _, u := range f.unused {
		unused[u.Name] = true
	}
	for name, raw := range want.Variables {
		var w expectedField
		k := slices.IndexFunc(h.Vars, func(v cf.Var) bool { return v.Path() == name })
		if k < 0 {
			t.Errorf("no variable %s", name)
			continue
		}
		if h.Vars[k].Numeric() {
			if err := json.Unmarshal(raw, &w); err != nil {
				t.Fatal(err)
			}
			checkNumbers(t, in, &h, k, w)
		}
		switch {
		case fields[name] != nil:
			checkWhole(t, in, name, fields[name], w)
			delete(fields, name)
		case !unused[name] && !describes(h, name):
			t.Errorf("variable %s is neither a field nor listed", name)
		}
	}
	for name := range fields {
		t.Errorf("fields of %s, which the file does not have", name)
	}
}

// describes reports whether a variable is a coordinate, bounds, or a grid mapping.
func describes(h cf.Header, name string) bool {
	for _, v := range h.Vars {
		if v.Path() == name && (len(v.Dims) == 1 && h.Dims[v.Dims[0]].Name == v.Name || v.Text("grid_mapping_name") != "" || strings.Contains(v.Text("units"), " since ")) {
			return true
		}
		for _, list := range []string{"coordinates", "bounds"} {
			if slices.Contains(strings.Fields(v.Text(list)), name) {
				return true
			}
		}
	}
	return false
}

// checkNumbers compares the values of any variable.
func checkNumbers(t *testing.T, in *Input, h *cf.Header, k int, w expectedField) {
	t.Helper()
	if h.Vars[k].Text("grid_mapping_name") != "" || w.Type == "int8" && h.Vars[k].Attrs["_FillValue"].Numbers == nil {
		return // bytes have no default fill value (netcdf.h)
	}
	got, err := in.coordinates(context.Background(), in.files[0], h, []cf.Slab{h.Whole(k)})
	if err != nil {
		t.Errorf("%s: %v", h.Vars[k].Path(), err)
		return
	}
	checkStats(t, h.Vars[k].Path(), statsOf(got[0]), w)
}

// checkWhole compares all fields of a variable.
func checkWhole(t *testing.T, in *Input, name string, entries []ensemble.Entry, w expectedField) {
	t.Helper()
	values := 1
	for _, d := range w.Shape {
		values *= d
	}
	if n := len(entries) * entries[0].Grid.Size(); n != values {
		t.Errorf("%s: %d values, want %d", name, n, values)
	}
	all := stats{min: math.Inf(1), max: math.Inf(-1)}
	n := 0
	for _, e := range entries {
		if e.NativeUnit != w.Units {
			t.Errorf("%s: unit %q, want %q", name, e.NativeUnit, w.Units)
		}
		s := fieldStats(t, in, e)
		all.min, all.max = min(all.min, s.min), max(all.max, s.max)
		all.missing += s.missing
		if k := e.Grid.Size() - s.missing; k > 0 {
			all.mean += s.mean * float64(k)
			n += k
		}
		if all.first == nil {
			all.first = s.first
		}
	}
	all.mean /= float64(n)
	checkStats(t, name, all, w)
}

// Coordinates computed from a rotated pole equal those in the file, which its
// program computed in 32 bits.
func TestRotatedPoleOfAFile(t *testing.T) {
	in := open(t, Options{}, filepath.Join(testdata.Dir(t, "formats"), "netcdf", "offset64_rotated_pole.nc"))
	f := in.files[0]
	var h cf.Header
	if err := in.pool.Do(context.Background(), decode.Call{Kind: netcdf.HeaderKind, File: f.path, Args: netcdf.HeaderRequest{Path: f.path}, Result: &h}); err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for k, v := range h.Vars {
		at[v.Name] = k
	}
	values := map[string][]float64{}
	for _, name := range []string{"rlon", "rlat", "lon", "lat"} {
		got, err := in.coordinates(context.Background(), f, &h, []cf.Slab{h.Whole(at[name])})
		if err != nil {
			t.Fatal(err)
		}
		values[name] = got[0]
	}
	mapping := map[string]any{}
	for name, a := range h.Vars[at["rotated_pole"]].Attrs {
		mapping[name] = a.Value()
	}
	p, err := projection.FromCF(mapping)
	if err != nil {
		t.Fatal(err)
	}
	lat, lon := projection.Coordinates(p, values["rlon"], values["rlat"])
	for k := range lat {
		if wlat, wlon := values["lat"][k], values["lon"][k]; math.Abs(lat[k]-wlat) > 3e-4 || math.Abs(math.Remainder(lon[k]-wlon, 360)) > 3e-4 {
			t.Fatalf("point %d: %g N %g E, want %g %g", k, lat[k], lon[k], wlat, wlon)
		}
	}
}
