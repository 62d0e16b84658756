package run

import (
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Types of other packages that the options of jobs are made of, so that a caller
// needs this package only.
type (
	Format        = product.Format      // netcdf, grib2, zarr or zarr3
	Overwrite     = product.Overwrite   // never, same or always
	Writer        = product.Options     // how files are written
	Profile       = product.Profile     // the readers that NetCDF files are made for
	Longitudes    = product.Longitudes  // the range of longitudes
	Bootstrap     = score.Bootstrap     // how intervals are made
	DemoFormat    = demo.Format         // of generated ensembles
	Interpolation = model.Interpolation // how fields come to one grid
)

// The formats of generated ensembles; together they are a set.
const (
	DemoGRIB2  = demo.GRIB2
	DemoNetCDF = demo.NetCDF
)
