package ensemble

import (
	"math"
	"sync"
)

var gaussian sync.Map // number of latitudes → []float64

// GaussianLatitudes gives the n Gaussian latitudes of the globe in degrees, north
// to south: the arcsines of the roots of the Legendre polynomial of degree n, by
// Newton's method. The slice is shared and must not be changed.
func GaussianLatitudes(n int) []float64 {
	if v, ok := gaussian.Load(n); ok {
		return v.([]float64)
	}
	lat := make([]float64, n)
	for k := range (n + 1) / 2 {
		x := math.Cos(math.Pi * (float64(k) + 0.75) / (float64(n) + 0.5))
		for range 20 {
			p0, p1 := 1.0, x
			for l := 2; l <= n; l++ {
				p0, p1 = p1, (float64(2*l-1)*x*p1-float64(l-1)*p0)/float64(l)
			}
			dx := p1 * (x*x - 1) / (float64(n) * (x*p1 - p0))
			x -= dx
			if math.Abs(dx) < 1e-15 {
				break
			}
		}
		lat[k] = math.Asin(x) * 180 / math.Pi
		lat[n-1-k] = -lat[k]
	}
	if n%2 == 1 {
		lat[n/2] = 0
	}
	gaussian.Store(n, lat)
	return lat
}
