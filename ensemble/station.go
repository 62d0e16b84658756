package ensemble

import (
	"math"
	"strconv"
)

// Station is a single place for which forecasts are made.
//
// Unit: degrees; Altitude in m above mean sea level, NaN where it is not known.
type Station struct {
	ID       string  `json:"id"`
	Name     string  `json:"name,omitempty"`
	Lat      float64 `json:"latitude"`
	Lon      float64 `json:"longitude"`
	Altitude float64 `json:"-"`
}

// StationGrid is the grid of some stations.
func StationGrid(stations []Station) *Grid {
	g := &Grid{Kind: Points, NX: len(stations), NY: 1, Source: SourceOrder{ScanningMode: -1}}
	for _, s := range stations {
		g.Lat, g.Lon = append(g.Lat, s.Lat), append(g.Lon, math.Mod(s.Lon+360, 360))
	}
	return g
}

// GridStations are the places of a grid of single places, by their numbers from 1 in its order.
func GridStations(g *Grid) []Station {
	out := make([]Station, g.NX)
	for i := range out {
		out[i] = Station{ID: strconv.Itoa(i + 1), Lat: g.Lat[i], Lon: g.Lon[i], Altitude: math.NaN()}
	}
	return out
}

// LapseRate is how fast temperature falls with height where nothing else is known.
//
// Unit: K m-1. Source: ISO 2533:1975, standard atmosphere.
const LapseRate = 0.0065
