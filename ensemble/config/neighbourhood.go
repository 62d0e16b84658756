package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
)

// Distance is a distance on the globe in metres.
type Distance float64

// ParseDistance parses 25km, 2.5 km and 500m.
//
// Errors: a number without unit; any other text.
func ParseDistance(s string) (Distance, error) {
	m := distanceText.FindStringSubmatch(s)
	if m == nil {
		return 0, schema.ErrKind
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, schema.ErrKind
	}
	if m[2] == "" {
		return 0, fmt.Errorf("missing unit: write %skm for kilometres", s)
	}
	if m[2] == "km" {
		v *= 1000
	}
	return Distance(v), nil
}

// distanceText matches a number and its unit, which ParseDistance requires.
var distanceText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(km|m|)$`)

// String formats d for ParseDistance.
func (d Distance) String() string {
	if d >= 1000 {
		return strconv.FormatFloat(float64(d)/1000, 'f', -1, 64) + "km"
	}
	return strconv.FormatFloat(float64(d), 'f', -1, 64) + "m"
}

// Neighbourhood is the section neighbourhood: radii for neighbourhood probabilities.
type Neighbourhood struct {
	Radius []Distance `key:"radius"`
}

// neighbourhoodKeys are the rows of Neighbourhood.
var neighbourhoodKeys = []schema.Key{
	{Path: "neighbourhood.radius", Check: schema.Check{Text: "more than 0 and at most 5000km", Allows: func(v any) bool { d := float64(v.(Distance)); return d > 0 && d <= 5e6 && !math.IsNaN(d) }}, Example: "[25km, 50km]",
		Help: "Radii of the neighbourhoods, discs around each grid point, for the products neighbourhood (mean probability in the disc) and neighbourhood_any (probability of the event anywhere in the disc, from calibrated members) of each event in probabilities."},
}

// checkNeighbourhood checks that neighbourhood products have radii, events and a format.
func (c *PredictConfig) checkNeighbourhood(add func(path, what, why, fix string)) {
	wanted := c.wantsNeighbourhoods()
	switch radii := len(c.Neighbourhood.Radius); {
	case wanted && radii == 0:
		add("products", "neighbourhood products without a radius", "", "set neighbourhood.radius, such as [50km]")
	case wanted && len(c.Probabilities) == 0:
		add("products", "neighbourhood products without an event", "", "set probabilities")
	case !wanted && radii > 0 && c.Products != nil:
		add("neighbourhood.radius", "neighbourhood.radius without neighbourhood products", "", "add neighbourhood or neighbourhood_any to products, or remove it")
	case !wanted && radii > 0 && len(c.Probabilities) == 0:
		add("neighbourhood.radius", "neighbourhood.radius without an event", "", "set probabilities")
	}
	if (wanted || len(c.Neighbourhood.Radius) > 0) && slices.Contains(c.Output.Formats, "grib2") {
		add("output.formats", "neighbourhood probabilities cannot be written as GRIB2", "no product definition template has a neighbourhood radius", "write them as netcdf or zarr, without grib2")
	}
}

// wantsNeighbourhoods reports whether a neighbourhood product is requested.
func (c *PredictConfig) wantsNeighbourhoods() bool {
	return slices.Contains(c.Products, NeighbourhoodProduct) || slices.Contains(c.Products, NeighbourhoodAnyProduct)
}
