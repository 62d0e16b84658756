package product

import (
	"fmt"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// InitName names an init in files and folders: 2026010100, with minutes only
// where there are some: 202601010030.
func InitName(init ensemble.Init) string {
	t := init.UTC()
	if t.Minute() != 0 {
		return t.Format("200601021504")
	}
	return t.Format("2006010215")
}

// LeadName names a lead in files: 048h, or 0090m where it is no whole hour.
func LeadName(lead ensemble.Lead) string {
	d := time.Duration(lead)
	if d%time.Hour != 0 {
		return fmt.Sprintf("%04dm", d/time.Minute)
	}
	return fmt.Sprintf("%03dh", d/time.Hour)
}

// NetCDFName is the file of all products of an init and lead.
func NetCDFName(init ensemble.Init, lead ensemble.Lead) string {
	return InitName(init) + "_" + LeadName(lead) + ".nc"
}

// ZarrName is the store of all products of an init and lead.
func ZarrName(init ensemble.Init, lead ensemble.Lead, format Format) string {
	name := InitName(init) + "_" + LeadName(lead)
	if format == Zarr3 {
		name += "_v3"
	}
	return name + ".zarr"
}

// stationsName is the file of all products of an init and lead at stations.
func stationsName(init ensemble.Init, lead ensemble.Lead, ending string) string {
	return InitName(init) + "_" + LeadName(lead) + "_stations" + ending
}

// GRIB2Name is the file of the statistic that a field is of, for its variable and lead.
// Mean and spread in one file would be taken for two time steps of one variable by CDO
// 2.1, and for duplicates by cfgrib; so would two quantiles. Members are one product.
func GRIB2Name(init ensemble.Init, f Field) string {
	return InitName(init) + "_" + LeadName(f.Lead) + "_" + f.Variable + "_" + f.fileName() + ".grib2"
}
