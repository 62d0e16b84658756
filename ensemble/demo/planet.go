package demo

import "math"

// Constants of the planet.
const (
	earthRadius = 6.371e6  // m
	omega       = 7.292e-5 // s-1
	gravity     = 9.80665  // m s-2
	gasConstant = 287.0    // J kg-1 K-1, dry air
	day         = 86400.0  // s
	year        = 365.25   // days
)

// planet is the synthetic Earth-like lower boundary of the nature run and the forecast model. The
// two models can have different heights and smoothness of the orography.
//
// Shape: [nlat*nlon], rows north to south.
type planet struct {
	land     []float64 // land fraction, 0 to 1, smooth coasts
	height   []float64 // m, before spectral smoothing
	observed []float64 // density of observations, 0 to 1
}

// blob is a rotated two-dimensional Gaussian function.
type blob struct {
	lat, lon   float64 // centre, degrees
	dlat, dlon float64 // half widths, degrees of latitude and longitude
	tilt       float64 // degrees, anticlockwise
	top        float64 // value at the centre
}

// continents define the land-sea mask: land where the sum exceeds 0.5.
var continents = []blob{
	{62, 95, 14, 60, 0, 1.5}, {45, 85, 18, 45, 0, 1.4}, {25, 105, 12, 18, -20, 1.2}, // Asia
	{50, 20, 10, 22, 0, 1.0}, {64, 20, 7, 12, 0, 0.8}, {24, 45, 10, 12, 0, 1.0}, {19, 78, 10, 7, 0, 1.2}, // Europe, Arabia, India
	{18, 12, 16, 28, 0, 1.6}, {-8, 25, 22, 13, 0, 1.6}, // Africa
	{58, 255, 14, 32, 0, 1.5}, {40, 262, 12, 20, 0, 1.4}, {22, 259, 8, 7, -30, 1.0}, {66, 210, 6, 12, 0, 1.0}, // North America
	{74, 318, 10, 14, 0, 1.4},                             // Greenland
	{-8, 300, 16, 14, 0, 1.6}, {-35, 293, 18, 6, 10, 1.3}, // South America
	{-25, 134, 10, 17, 0, 1.5}, // Australia
	{-90, 0, 19, 400, 0, 4},    // Antarctica
}

// mountains define the orography as a sum, in m.
var mountains = []blob{
	{34, 88, 8, 16, 0, 4600}, {48, 95, 9, 16, 20, 1500}, {62, 130, 8, 18, 0, 900}, {38, 48, 7, 12, 0, 1500},
	{44, 250, 14, 9, 0, 2300}, {60, 235, 9, 9, 0, 1200}, {26, 258, 8, 5, 0, 1300}, {74, 318, 9, 11, 0, 2600},
	{-22, 291, 20, 5, 0, 3000}, {-5, 33, 16, 8, 0, 1300}, {-28, 26, 7, 8, 0, 1100}, {46, 11, 4, 8, 0, 1100},
	{64, 13, 6, 8, 0, 800}, {-90, 60, 17, 400, 0, 3000}, {36, 280, 8, 5, 0, 500}, {27, 8, 7, 8, 0, 600},
}

// at returns the value of the blob at a point. The difference of longitudes is taken the short way
// around the globe.
func (b blob) at(lat, lon float64) float64 {
	dx := math.Remainder(lon-b.lon, 360) / b.dlon
	dy := (lat - b.lat) / b.dlat
	s, c := math.Sincos(b.tilt * math.Pi / 180)
	x, y := c*dx+s*dy, c*dy-s*dx
	return b.top * math.Exp(-(x*x + y*y))
}

// newPlanet evaluates land, height and observations on the grid. The land fraction is the logistic
// function of the sum of blobs, 1/(1 + exp(−10(x − ½))), whose coasts are smooth.
func newPlanet() *planet {
	p := &planet{land: make([]float64, npoint), height: make([]float64, npoint), observed: make([]float64, npoint)}
	for j := range nlat {
		lat := latitude(j)
		for i := range nlon {
			lon, k := longitude(i), j*nlon+i
			var land, height float64
			for _, b := range continents {
				land += b.at(lat, lon)
			}
			for _, b := range mountains {
				height += b.at(lat, lon)
			}
			p.land[k] = 1 / (1 + math.Exp(-10*(land-0.5)))
			p.height[k] = height * p.land[k]
			// Soundings over land, aircraft and ships over the northern oceans,
			// little but satellites in the south and around the poles.
			north := 1 / (1 + math.Exp(-(lat-5)/12))
			polar := 0.4 + 0.6*math.Exp(-square(math.Max(math.Abs(lat)-60, 0)/14))
			p.observed[k] = polar * ((0.25+0.75*north)*p.land[k] + (0.25+0.35*north)*(1-p.land[k]))
		}
	}
	return p
}

// latitude of row j and longitude of column i, degrees.
func latitude(j int) float64  { return math.Asin(sphere.mu[j]) * 180 / math.Pi }
func longitude(i int) float64 { return float64(i) * 360 / nlon }

func square(x float64) float64 { return x * x }
func sqrt(x float64) float64   { return math.Sqrt(x) }
