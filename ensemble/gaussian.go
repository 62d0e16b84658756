package ensemble

import (
	"math"
	"sync"
)

// gaussian caches the latitudes: number of latitudes → []float64.
var gaussian sync.Map

// GaussianLatitudes returns the n Gaussian latitudes, north to south: the arcsines of the roots
// of the Legendre polynomial of degree n, by Newton's method. The slice is shared and must
// not be changed.
//
// Unit: degrees.
func GaussianLatitudes(n int) []float64 {
	if v, ok := gaussian.Load(n); ok {
		return v.([]float64)
	}
	lat := make([]float64, n)
	for k := range (n + 1) / 2 {
		// The usual first guess of the k-th root.
		x := math.Cos(math.Pi * (float64(k) + 0.75) / (float64(n) + 0.5))
		for range 20 {
			// Bonnet's recursion: l P_l = (2l−1) x P_{l−1} − (l−1) P_{l−2}.
			p0, p1 := 1.0, x
			for l := 2; l <= n; l++ {
				p0, p1 = p1, (float64(2*l-1)*x*p1-float64(l-1)*p0)/float64(l)
			}
			// P_n' = n (x P_n − P_{n−1}) / (x²−1).
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
