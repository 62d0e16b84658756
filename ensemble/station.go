package ensemble

import (
	"math"
	"strconv"
)

// Station is a location for point forecasts.
//
// Unit: degrees; Altitude in m above mean sea level, NaN if unknown.
type Station struct {
	ID       string  `json:"id"`
	Name     string  `json:"name,omitempty"`
	Lat      float64 `json:"latitude"`
	Lon      float64 `json:"longitude"`
	Altitude float64 `json:"-"`
}

// StationGrid is the grid of a list of stations, in its order. Longitudes are converted to 0 to below
// 360.
func StationGrid(stations []Station) *Grid {
	g := &Grid{Kind: Points, NX: len(stations), NY: 1, Source: SourceOrder{ScanningMode: -1}}
	for _, s := range stations {
		g.Lat, g.Lon = append(g.Lat, s.Lat), append(g.Lon, math.Mod(s.Lon+360, 360))
	}
	return g
}

// GridStations lists the points of a Points grid as stations with the ids 1, 2, ….
func GridStations(g *Grid) []Station {
	out := make([]Station, g.NX)
	for i := range out {
		out[i] = Station{ID: strconv.Itoa(i + 1), Lat: g.Lat[i], Lon: g.Lon[i], Altitude: math.NaN()}
	}
	return out
}

// LapseRate is the decrease of temperature with height in the standard atmosphere, for
// corrections without other information.
//
// Unit: K m-1. Source: ISO 2533:1975.
const LapseRate = 0.0065
