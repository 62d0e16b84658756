package product

import (
	"fmt"
	"path"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// MediaType returns the media type of a published file or store, by its name.
func MediaType(name string) string {
	switch path.Ext(name) {
	case ".nc":
		return "application/x-netcdf"
	case ".grib2":
		return "application/wmo-GRIB2"
	case ".zarr":
		return "application/vnd+zarr"
	case ".json":
		return "application/json"
	case ".csv":
		return "text/csv; charset=utf-8"
	}
	if path.Base(name) == manifest.SumsName {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// InitName formats an initialisation for names: 2026010100, or 202601010030 with
// minutes.
//
// Unit: UTC. Seconds are not in names.
func InitName(init ensemble.Init) string {
	t := init.UTC()
	if t.Minute() != 0 {
		return t.Format("200601021504")
	}
	return t.Format("2006010215")
}

// LeadName formats a lead for names: 048h, or 0090m if it is not a whole number of
// hours. Names of leads below 1000 h sort by lead.
func LeadName(lead ensemble.Lead) string {
	d := time.Duration(lead)
	if d%time.Hour != 0 {
		return fmt.Sprintf("%04dm", d/time.Minute)
	}
	return fmt.Sprintf("%03dh", d/time.Hour)
}

// NetCDFName returns the file name of all products of an initialisation and lead.
func NetCDFName(init ensemble.Init, lead ensemble.Lead) string {
	return InitName(init) + "_" + LeadName(lead) + ".nc"
}

// ZarrName returns the name of the store with all products of an initialisation and
// lead.
func ZarrName(init ensemble.Init, lead ensemble.Lead, format Format) string {
	name := InitName(init) + "_" + LeadName(lead)
	if format == Zarr3 {
		name += "_v3"
	}
	return name + ".zarr"
}

// stationsName returns the file name of all products at stations of an
// initialisation and lead.
func stationsName(init ensemble.Init, lead ensemble.Lead, ending string) string {
	return InitName(init) + "_" + LeadName(lead) + "_stations" + ending
}

// GRIB2Name returns the file name of a field's statistic, for its variable and
// lead. CDO 2.1 would read mean and spread in one file as two time steps of one
// variable, and cfgrib as duplicates; the same holds for two quantiles. Members
// share a file.
func GRIB2Name(init ensemble.Init, f Field) string {
	return InitName(init) + "_" + LeadName(f.Lead) + "_" + f.Variable + "_" + f.fileName() + ".grib2"
}
