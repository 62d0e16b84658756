// Package edr answers queries for values of finished products at a place, in an area or in a box, as OGC API -
// Environmental Data Retrieval 1.1 (OGC 19-086r6) defines them.
//
// A collection has the products of one kind, such as quantiles; its instances are initialisations. A parameter is one
// field over leads and levels, named as the variable with this field only in NetCDF files of the profile cdo
// (docs/formats/products.md).
//
// [Service.Get] answers one request: paths and documents (documents.go), parsing of a query (query.go, wkt.go), choice of
// grid points (place.go), reading (read.go) from products that stay open for later queries (forecast.go), and the
// answer as CoverageJSON (coverage.go) or NetCDF (netcdf.go).
package edr
