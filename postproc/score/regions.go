package score

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Box is a latitude-longitude region: South ≤ latitude ≤ North, and eastwards from West
// to East. Equal West and East are a single meridian; a difference of 360 is the whole
// circle.
//
// Unit: degrees; longitudes may have any multiple of 360 added.
type Box struct {
	Name                     string
	South, North, West, East float64
}

// NamedBoxes are the regions that can be selected by name.
//
// Source: WMO-No. 485, Manual on the GDPFS, appendix 2.2.34 (extratropics and tropics);
// ECMWF scorecards, as in Rasp et al. 2024, doi:10.1029/2023MS004019 (other regions).
var NamedBoxes = []Box{
	{"northern_extratropics", 20, 90, 0, 360},
	{"tropics", -20, 20, 0, 360},
	{"southern_extratropics", -90, -20, 0, 360},
	{"europe", 35, 75, -12.5, 42.5},
	{"north_america", 25, 60, -120, -75},
	{"east_asia", 25, 60, 102.5, 150},
}

// ParseBox reads the name of one of NamedBoxes, or NAME=SOUTH:NORTH:WEST:EAST in degrees.
//
// Errors: an unknown name, a wrong number of bounds, bounds out of range.
func ParseBox(text string) (Box, error) {
	name, bounds, own := strings.Cut(text, "=")
	if !own {
		var names []string
		for _, b := range NamedBoxes {
			if b.Name == name {
				return b, nil
			}
			names = append(names, b.Name)
		}
		return Box{}, fmt.Errorf("score: unknown region %q; use %s, or NAME=SOUTH:NORTH:WEST:EAST", name, strings.Join(names, ", "))
	}
	b := Box{Name: name}
	fields := strings.Split(bounds, ":")
	if len(fields) != 4 || name == "" {
		return b, fmt.Errorf("score: region %q is not NAME=SOUTH:NORTH:WEST:EAST", text)
	}
	for i, to := range []*float64{&b.South, &b.North, &b.West, &b.East} {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return b, fmt.Errorf("score: region %q: %q is not a number of degrees", text, fields[i])
		}
		*to = v
	}
	if b.South > b.North || b.South < -90 || b.North > 90 || b.East < b.West || b.East-b.West > 360 {
		return b, fmt.Errorf("score: region %q: want -90 <= SOUTH <= NORTH <= 90 and WEST <= EAST <= WEST+360", text)
	}
	return b, nil
}

// ParseBoxes reads several regions with ParseBox.
//
// Errors: those of ParseBox; a name that another region or the whole area has, since scores are found by it.
func ParseBoxes(texts []string) ([]Box, error) {
	seen := map[string]bool{Everywhere: true}
	out := make([]Box, len(texts))
	for i, text := range texts {
		b, err := ParseBox(text)
		switch {
		case err != nil:
			return nil, err
		case seen[b.Name]:
			return nil, fmt.Errorf("score: another region, or the whole area, has the name %q, by which scores are found", b.Name)
		}
		seen[b.Name], out[i] = true, b
	}
	return out, nil
}

// Region returns the region of the grid points that lie in the box.
//
// Errors: no grid point lies in it.
func (b Box) Region(g *ensemble.Grid) (Region, error) {
	r := Region{Name: b.Name, Mask: make([]bool, g.Size())}
	any := false
	for j := range g.NY {
		for i := range g.NX {
			lat, lon := g.LatAt(j, i), g.LonAt(j, i)
			east := math.Mod(math.Mod(lon-b.West, 360)+360, 360)
			in := lat >= b.South && lat <= b.North && east <= b.East-b.West
			r.Mask[j*g.NX+i] = in
			any = any || in
		}
	}
	if !any {
		return r, fmt.Errorf("score: no point of the grid %s lies in region %s", g, b.Name)
	}
	return r, nil
}
