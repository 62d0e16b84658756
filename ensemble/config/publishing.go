package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Publishing selects the products of a forecast and their output.
type Publishing struct {
	Products      []string                 `key:"products"`
	Quantiles     []float64                `key:"quantiles"`
	Probabilities []ensemble.VariableEvent `key:"probabilities"`
	Output        Output                   `key:"output"`
	Coupling      Coupling                 `key:"coupling"`
	Neighbourhood Neighbourhood            `key:"neighbourhood"`
}

// Output is the section output: file formats, and the subset of the products that is written.
type Output struct {
	Formats     []string         `key:"formats"`
	Longitude   string           `key:"longitude"`
	Profile     string           `key:"nc_profile"`
	Packing     string           `key:"packing"` // of GRIB2: "simple" or "ccsds"
	PackingBits int              `key:"packing_bits"`
	Area        ensemble.Area    `key:"area"` // zero value: the whole grid
	Variables   []string         `key:"variables"`
	Levels      []ensemble.Level `key:"levels"`
	Leads       []ensemble.Lead  `key:"leads"`

	Stations      Path   `key:"stations"`
	Interpolation string `key:"interpolation"`
	Orography     Path   `key:"orography"`
}

// Products, as named in the key products.
const (
	MeanProduct           = "mean"
	SpreadProduct         = "spread"
	EnsembleSpreadProduct = "ensemble_spread"
	QuantilesProduct      = "quantiles"
	ProbabilitiesProduct  = "probabilities"
	MembersProduct        = "members"

	ParametersProduct       = "parameters"        // parameters of the distribution
	NeighbourhoodProduct    = "neighbourhood"     // mean probability within a radius
	NeighbourhoodAnyProduct = "neighbourhood_any" // probability of the event anywhere within a radius
)

// ProductNames lists all products.
var ProductNames = []string{MeanProduct, SpreadProduct, EnsembleSpreadProduct, QuantilesProduct, ProbabilitiesProduct, MembersProduct, NeighbourhoodProduct, NeighbourhoodAnyProduct, ParametersProduct}

// defaultQuantiles are published if products lists quantiles and the key quantiles is not set.
var defaultQuantiles = []float64{0.1, 0.25, 0.5, 0.75, 0.9}

// publishingKeys are the rows of Publishing.
var publishingKeys = []schema.Key{
	{Path: "products", Check: OneOf(ProductNames...), Example: "[mean, spread, quantiles]",
		Help: "Products to publish. Default: mean, spread and ensemble_spread (predicted spread of the full ensemble) as far as the model has them, and the products configured by quantiles, probabilities and neighbourhood.radius."},
	{Path: "quantiles", Check: BetweenExclusive(0, 1), Example: "[0.1, 0.5, 0.9]",
		Help: "Quantile levels of the calibrated distribution. Default, if products lists quantiles: 0.1, 0.25, 0.5, 0.75, 0.9."},
	{Path: "probabilities", Example: "[t2m>273.15, \"tp>5 mm\", 0degC<t2m<5degC, t850>280]",
		Help: "Events whose probabilities are published: a variable, or a variable at a level, above or below a threshold, or between two. Thresholds without a unit are in SI units."},
	{Path: "output.formats", Default: "[netcdf]", Check: OneOf("netcdf", "grib2", "zarr", "zarr3"), Example: "[netcdf, grib2]",
		Help: "File formats of the products; zarr is Zarr version 2, which all Zarr libraries read, zarr3 is version 3."},
	{Path: "output.longitude", Default: "keep", Check: OneOf("keep", "0_360", "180_180"), Example: "180_180",
		Help: "Range of longitudes in degrees; keep: as in the input."},
	{Path: "output.nc_profile", Default: "xarray", Check: OneOf("xarray", "cdo"), Example: "cdo",
		Help: "Form of quantiles, events and members in NetCDF files. xarray: dimensions; cdo: a separate variable each, as CDO and GDAL want them. All else is the same, and opens in both without a warning."},
	{Path: "output.packing", Default: "simple", Check: OneOf("simple", "ccsds"), Example: "ccsds",
		Help: "Packing of GRIB2. simple: all readers open it; ccsds: lossless compression, smaller files, not for GDAL before 3.7, NCL and other readers without libaec."},
	{Path: "output.packing_bits", Default: "0", Check: schema.Check{Text: "0, or 2 to 16", Allows: func(v any) bool { n := v.(int); return n == 0 || n >= 2 && n <= 16 }}, Example: "12",
		Help: "Number of bits of packed values. 0: NetCDF is not packed, GRIB2 has 16 bits."},
	{Path: "output.area", Example: "70/-20/30/40",
		Help: "Area to write, north/west/south/east in degrees. Default: the whole grid."},
	{Path: "output.variables", Example: "[t]",
		Help: "Variables to write. Default: all that the model predicts."},
	{Path: "output.levels", Example: "[850hPa]",
		Help: "Levels to write. Default: all."},
	{Path: "output.leads", Check: AtLeast(0), Example: "[48h]",
		Help: "Leads to write. Default: all."},
	{Path: "output.stations", Example: "stations.csv",
		Help: "List of stations (CSV or GeoJSON) at which the products are also written, as NetCDF time series and as CSV."},
	{Path: "output.interpolation", Default: "bilinear", Check: OneOf("bilinear", "nearest"), Example: "nearest",
		Help: "Interpolation from the grid to stations: bilinear in the grid cell, or nearest grid point."},
	{Path: "output.orography", Example: "orography.grib2",
		Help: "File with the model orography (surface geopotential, or height in m), for height correction of 2 m temperature at stations by 6.5 K/km."},
}

// checkPublishing checks the keys of products and output, and sets the default quantiles.
func (c *PredictConfig) checkPublishing() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	once := func(path string, words []string) {
		for i, w := range words {
			if slices.Contains(words[:i], w) {
				add(path, w+" is listed twice in "+path, "", "list it once")
			}
		}
	}
	once("products", c.Products)
	once("quantiles", formatAll(c.Quantiles, number))
	once("probabilities", formatAll(c.Probabilities, ensemble.VariableEvent.String))
	once("output.formats", c.Output.Formats)
	once("output.variables", c.Output.Variables)
	once("output.levels", formatAll(c.Output.Levels, ensemble.Level.String))
	once("output.leads", formatAll(c.Output.Leads, ensemble.Lead.String))
	if c.Output.Orography != "" && c.Output.Stations == "" {
		add("output.orography", "output.orography without output.stations", "heights are corrected at stations only", "set output.stations, or remove it")
	}
	once("neighbourhood.radius", formatAll(c.Neighbourhood.Radius, Distance.String))
	c.checkCoupling(add)
	c.checkNeighbourhood(add)
	if slices.Contains(c.Products, ParametersProduct) && slices.Contains(c.Output.Formats, "grib2") {
		add("products", "product parameters cannot be written as GRIB2", "GRIB2 has no template for them", "remove parameters from products, or grib2 from output.formats")
	}
	if c.Products == nil {
		return faults
	}
	for _, part := range []struct {
		path string
		n    int
	}{{QuantilesProduct, len(c.Quantiles)}, {ProbabilitiesProduct, len(c.Probabilities)}} {
		if wanted := slices.Contains(c.Products, part.path); part.n > 0 && !wanted && !(part.path == ProbabilitiesProduct && c.wantsNeighbourhoods()) {
			add(part.path, fmt.Sprintf("%s is set but not listed in products", part.path), "products are "+strings.Join(c.Products, ", "),
				"add "+part.path+" to products, or remove products")
		}
	}
	if c.Quantiles == nil && slices.Contains(c.Products, QuantilesProduct) {
		c.Quantiles = defaultQuantiles
	}
	if slices.Contains(c.Products, ProbabilitiesProduct) && len(c.Probabilities) == 0 {
		add("products", "product probabilities without an event", "", "give --probability \"t2m>273.15\", or set probabilities")
	}
	return faults
}

// formatAll formats items with word.
func formatAll[T any](items []T, word func(T) string) []string {
	out := make([]string, len(items))
	for i, x := range items {
		out[i] = word(x)
	}
	return out
}
