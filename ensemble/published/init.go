package published

import (
	"errors"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Init is an initialisation with finished products.
type Init struct {
	Name     string // of its directory, such as 2026010100
	Time     time.Time
	Manifest *product.Manifest
	Revision string // another one after the products were replaced
}

// Errors of initialisations.
var (
	ErrNoProducts = errors.New("no finished products")
	ErrNoFields   = errors.New("its manifest lists no NetCDF, Zarr or GRIB file of fields (output.formats)")
)

// fieldFormats are the suffixes of the outputs that have fields on a grid, the preferred first.
var fieldFormats = []string{".nc", ".zarr", ".grib2"}

// FieldOutputs lists the files and stores of a manifest with the fields of a product, each field once: NetCDF, without it
// Zarr, without both GRIB. Values at stations are not among them.
func FieldOutputs(m *product.Manifest) []string {
	tops := m.TopLevelOutputs()
	for _, suffix := range fieldFormats {
		var out []string
		for _, top := range tops {
			if strings.HasSuffix(top, suffix) && !strings.HasSuffix(top, "_stations.nc") {
				out = append(out, top)
			}
		}
		if out != nil {
			return out
		}
	}
	return nil
}

// FieldFiles lists the files of a manifest that FieldOutputs consist of.
func FieldFiles(m *product.Manifest) (out []manifest.File) {
	for _, top := range FieldOutputs(m) {
		for _, o := range m.Outputs {
			if o.Path == top || strings.HasPrefix(o.Path, top+"/") {
				out = append(out, o)
			}
		}
	}
	return out
}
