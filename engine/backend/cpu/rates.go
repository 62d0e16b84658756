package cpu

import (
	"fmt"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/tune"
)

// winoKey describes a pass of a convolution in the table of timings: forward, data or
// filter, samples, channels that it reads of up to two operands and makes, levels,
// latitudes and longitudes, the filter's levels and side, and whether longitudes wrap.
const winoKey = "wino %s n%d %d+%d-%d in%v k%dx%d wrap %v"

// ConvPass is a pass of a convolution.
type ConvPass struct {
	Pass   string // "forward", "data" or "filter"
	In     int    // channels that it reads
	Out    int    // channels that it makes
	Filter [3]int // levels, latitudes, longitudes
}

// ConvRates is the FLOP/s that convolutions in float32 have reached, from a table of
// timings: each at the largest field that was timed. Products with the padding in depth do
// not count, as for the operation.
func ConvRates(t *tune.Table) map[ConvPass]float64 {
	rates, points := map[ConvPass]float64{}, map[ConvPass]int{}
	for key, e := range t.All() {
		var p ConvPass
		var n, second, depth, lats, lons, levels, side int
		var wrap bool
		_, err := fmt.Sscanf(key, strings.Replace(winoKey, "in%v", "in[%d %d %d]", 1), &p.Pass, &n, &p.In, &second, &p.Out,
			&depth, &lats, &lons, &levels, &side, &wrap)
		if err != nil || !strings.HasSuffix(key, fmt.Sprintf("wrap %v", wrap)) {
			continue // another kind of entry, or with more behind the description
		}
		p.In += second
		p.Filter = [3]int{levels, side, side}
		least := time.Duration(0)
		for _, c := range e.Candidates {
			if least == 0 || c.Wall < least {
				least = c.Wall
			}
		}
		size := n * depth * lats * lons
		if size <= points[p] || least <= 0 {
			continue
		}
		points[p] = size
		taps := levels*depth - levels/2*(levels/2+1)
		rates[p] = 2 * float64(n*p.In*p.Out*side*side) * float64(taps*lats*lons) / least.Seconds()
	}
	return rates
}
