package published

import (
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
)

// TestFieldOutputs: of several formats one is read, NetCDF first; files of stations are not.
func TestFieldOutputs(t *testing.T) {
	for _, c := range []struct{ outputs, want string }{
		{"a_024h.nc a_024h_stations.nc a_024h.zarr/.zattrs a_024h.zarr/t/0 a_024h_t_mean.grib2 a_024h_stations.csv", "a_024h.nc"},
		{"a_024h_stations.nc a_024h.zarr/.zattrs a_024h.zarr/t/0 a_048h_v3.zarr/zarr.json a_024h_t_mean.grib2", "a_024h.zarr a_048h_v3.zarr"},
		{"a_024h_t_mean.grib2 a_024h_t_spread.grib2", "a_024h_t_mean.grib2 a_024h_t_spread.grib2"},
		{"a_024h_stations.nc", ""},
	} {
		m := &product.Manifest{}
		for _, path := range strings.Fields(c.outputs) {
			m.Outputs = append(m.Outputs, manifest.File{Path: path})
		}
		if got := strings.Join(FieldOutputs(m), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.outputs, got, c.want)
		}
	}
}
