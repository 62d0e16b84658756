package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
)

// Distance is a length on the globe in metres.
type Distance float64

// ParseDistance reads 25km, 2.5 km and 500m.
//
// Errors: for a number without unit, and for what is no distance.
func ParseDistance(s string) (Distance, error) {
	m := distanceText.FindStringSubmatch(s)
	if m == nil {
		return 0, errKind
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, errKind
	}
	if m[2] == "" {
		return 0, fmt.Errorf("a distance needs its unit: write %skm if kilometres are meant", s)
	}
	if m[2] == "km" {
		v *= 1000
	}
	return Distance(v), nil
}

var distanceText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(km|m|)$`)

// String prints what ParseDistance reads.
func (d Distance) String() string {
	if d >= 1000 {
		return strconv.FormatFloat(float64(d)/1000, 'f', -1, 64) + "km"
	}
	return strconv.FormatFloat(float64(d), 'f', -1, 64) + "m"
}

// Neighbourhood says over what area around each point probabilities are taken.
type Neighbourhood struct {
	Radius []Distance `key:"radius"`
}

// neighbourhoodKeys are the rows of Neighbourhood.
var neighbourhoodKeys = []Key{
	{Path: "neighbourhood.radius", Check: Check{Text: "more than 0 and at most 5000km", ok: func(v any) bool { d := float64(v.(Distance)); return d > 0 && d <= 5e6 && !math.IsNaN(d) }}, Example: "[25km, 50km]",
		Help: "Radii of the discs around each point, of which the products neighbourhood (mean probability in the disc) and neighbourhood_any (probability that the event happens anywhere in it, by calibrated members) are, for each event of probabilities."},
}

// checkNeighbourhood applies the rules between the products and keys of neighbourhoods.
func (c *PredictConfig) checkNeighbourhood(add func(path, what, why, fix string)) {
	wanted := c.wantsNeighbourhoods()
	switch radii := len(c.Neighbourhood.Radius); {
	case wanted && radii == 0:
		add("products", "neighbourhoods are asked for without a radius", "", "set neighbourhood.radius, such as [50km]")
	case wanted && len(c.Probabilities) == 0:
		add("products", "neighbourhoods are asked for without an event", "", "name events in the key probabilities")
	case !wanted && radii > 0 && c.Products != nil:
		add("neighbourhood.radius", "neighbourhood.radius is given and no neighbourhood is among the products", "", "add neighbourhood or neighbourhood_any to products, or remove it")
	case !wanted && radii > 0 && len(c.Probabilities) == 0:
		add("neighbourhood.radius", "neighbourhood.radius is given without an event", "", "name events in the key probabilities")
	}
	if (wanted || len(c.Neighbourhood.Radius) > 0) && slices.Contains(c.Output.Formats, "grib2") {
		add("output.formats", "GRIB2 has no form for probabilities of neighbourhoods", "none of its templates says over what area", "write them as netcdf or zarr, without grib2")
	}
}

// wantsNeighbourhoods tells whether the products name any.
func (c *PredictConfig) wantsNeighbourhoods() bool {
	return slices.Contains(c.Products, NeighbourhoodProduct) || slices.Contains(c.Products, NeighbourhoodAnyProduct)
}
