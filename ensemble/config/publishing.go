package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Publishing says what is published of a forecast, and how.
type Publishing struct {
	Products      []string                 `key:"products"`
	Quantiles     []float64                `key:"quantiles"`
	Probabilities []ensemble.VariableEvent `key:"probabilities"`
	Output        Output                   `key:"output"`
	Coupling      Coupling                 `key:"coupling"`
	Neighbourhood Neighbourhood            `key:"neighbourhood"`
}

// Output says how products are written, and which part of them.
type Output struct {
	Formats     []string         `key:"formats"`
	Longitude   string           `key:"longitude"`
	Profile     string           `key:"nc_profile"`
	PackingBits int              `key:"quantise"`
	Area        ensemble.Area    `key:"area"` // the zero value: all of the grid
	Variables   []string         `key:"variables"`
	Levels      []ensemble.Level `key:"levels"`
	Leads       []ensemble.Lead  `key:"leads"`

	Stations      Path   `key:"stations"`
	Interpolation string `key:"interpolation"`
	Orography     Path   `key:"orography"`
}

// The words of products.
const (
	MeanProduct           = "mean"
	SpreadProduct         = "spread"
	EnsembleSpreadProduct = "ensemble_spread"
	QuantilesProduct      = "quantiles"
	ProbabilitiesProduct  = "probabilities"
	MembersProduct        = "members"

	ParametersProduct       = "parameters"        // of the distribution
	NeighbourhoodProduct    = "neighbourhood"     // mean probability around a point
	NeighbourhoodAnyProduct = "neighbourhood_any" // that it happens anywhere around
)

// ProductNames lists them.
var ProductNames = []string{MeanProduct, SpreadProduct, EnsembleSpreadProduct, QuantilesProduct, ProbabilitiesProduct, MembersProduct, NeighbourhoodProduct, NeighbourhoodAnyProduct, ParametersProduct}

// defaultQuantiles are published where quantiles are asked for and none are named.
var defaultQuantiles = []float64{0.1, 0.25, 0.5, 0.75, 0.9}

// publishingKeys are the rows of Publishing.
var publishingKeys = []Key{
	{Path: "products", Check: OneOf(ProductNames...), Example: "[mean, spread, quantiles]",
		Help: "What is published. Without it mean, spread and ensemble_spread (the estimate of the full ensemble's), as far as the model has them, and what quantiles, probabilities and neighbourhood.radius name."},
	{Path: "quantiles", Check: BetweenExclusive(0, 1), Example: "[0.1, 0.5, 0.9]",
		Help: "Quantiles of the calibrated distribution; if only products names them, 0.1, 0.25, 0.5, 0.75 and 0.9."},
	{Path: "probabilities", Example: "[t2m>273.15, \"tp>5 mm\", 0degC<t2m<5degC]",
		Help: "Events whose probabilities are published: a variable above or below a limit, or between two. Limits without a unit are SI."},
	{Path: "output.formats", Default: "[netcdf]", Check: OneOf("netcdf", "grib2", "zarr", "zarr3"), Example: "[netcdf, grib2]",
		Help: "File formats of the products; zarr is version 2, which all readers of Zarr know, zarr3 version 3."},
	{Path: "output.longitude", Default: "keep", Check: OneOf("keep", "0_360", "180_180"), Example: "180_180",
		Help: "Range of the longitudes; keep has that of the input."},
	{Path: "output.nc_profile", Default: "xarray", Check: OneOf("xarray", "cdo"), Example: "cdo",
		Help: "Readers that NetCDF is made for: xarray follows CF to the letter; cdo leaves out what CDO warns of, and has an array for each quantile, event and member."},
	{Path: "output.quantise", Default: "0", Check: Check{Text: "0, or 2 to 16", ok: func(v any) bool { n := v.(int); return n == 0 || n >= 2 && n <= 16 }}, Example: "12",
		Help: "Bits of packed values. 0 packs no NetCDF, and GRIB2 into 16 bits."},
	{Path: "output.area", Example: "70/-20/30/40",
		Help: "Only this area, north/west/south/east in degrees."},
	{Path: "output.variables", Example: "[t]",
		Help: "Only these of the variables that the model predicts."},
	{Path: "output.levels", Example: "[850hPa]",
		Help: "Only these of the levels."},
	{Path: "output.leads", Check: AtLeast(0), Example: "[48h]",
		Help: "Only these of the leads."},
	{Path: "output.stations", Example: "stations.csv",
		Help: "List of stations, CSV or GeoJSON, at which the products are made too, as NetCDF time series and as CSV."},
	{Path: "output.interpolation", Default: "bilinear", Check: OneOf("bilinear", "nearest"), Example: "nearest",
		Help: "How stations get values of the grid: from the corners of the cell around them, or from the nearest point."},
	{Path: "output.orography", Example: "orography.grib2",
		Help: "File with the height of the model's ground (surface geopotential or height in m): 2 metre temperatures are brought to the altitude of each station, by 6.5 K a km."},
}

// checkPublishing applies the rules between keys, and names the quantiles that products only
// asks for.
func (c *PredictConfig) checkPublishing() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
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
		add("output.orography", "output.orography is given without output.stations", "heights are corrected at stations only", "give output.stations too, or remove it")
	}
	once("neighbourhood.radius", formatAll(c.Neighbourhood.Radius, Distance.String))
	c.checkCoupling(add)
	c.checkNeighbourhood(add)
	if slices.Contains(c.Products, ParametersProduct) && slices.Contains(c.Output.Formats, "grib2") {
		add("products", "parameters are asked for in GRIB2", "GRIB2 has no template for them", "remove parameters from products, or grib2 from output.formats")
	}
	if c.Products == nil {
		return faults
	}
	for _, part := range []struct {
		path string
		n    int
	}{{QuantilesProduct, len(c.Quantiles)}, {ProbabilitiesProduct, len(c.Probabilities)}} {
		if wanted := slices.Contains(c.Products, part.path); part.n > 0 && !wanted && !(part.path == ProbabilitiesProduct && c.wantsNeighbourhoods()) {
			add(part.path, fmt.Sprintf("%s are named and not among the products", part.path), "products are "+strings.Join(c.Products, ", "),
				"add "+part.path+" to products, or leave products out")
		}
	}
	if c.Quantiles == nil && slices.Contains(c.Products, QuantilesProduct) {
		c.Quantiles = defaultQuantiles
	}
	if slices.Contains(c.Products, ProbabilitiesProduct) && len(c.Probabilities) == 0 {
		add("products", "probabilities are asked for without an event", "", "name events: --probability \"t2m>273.15\", or the key probabilities")
	}
	return faults
}

// formatAll are the words of some items.
func formatAll[T any](items []T, word func(T) string) []string {
	out := make([]string, len(items))
	for i, x := range items {
		out[i] = word(x)
	}
	return out
}
