package cpu

import (
	"fmt"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/tune"
)

// winoKey is the format of keys of Winograd convolutions in the timing table: pass
// (forward, data or filter); samples; input channels of up to two operands; output
// channels; levels, latitudes and longitudes; the filter's levels and side; whether
// longitudes are periodic.
const winoKey = "wino %s n%d %d+%d-%d in%v k%dx%d wrap %v"

// ConvPass identifies a pass of a convolution in ConvRates.
type ConvPass struct {
	Pass   string // "forward", "data" (gradient of the input) or "filter" (gradient of the filter)
	In     int    // input channels
	Out    int    // output channels
	Filter [3]int // size: levels, latitudes, longitudes
}

// ConvRates returns the rates of float32 convolutions in a timing table, each measured
// on the largest field that was timed.
//
//	rate = 2·N·In·Out·k²·taps·H·W / wall-clock time
//
// taps counts the pairs of an output level and a filter level that do not fall into the
// zero padding in depth, as FLOPs of the operation does.
//
// Unit: FLOP/s.
func ConvRates(t *tune.Table) map[ConvPass]float64 {
	rates, points := map[ConvPass]float64{}, map[ConvPass]int{}
	for key, e := range t.All() {
		var p ConvPass
		var n, second, depth, lats, lons, levels, side int
		var wrap bool
		_, err := fmt.Sscanf(key, strings.Replace(winoKey, "in%v", "in[%d %d %d]", 1), &p.Pass, &n, &p.In, &second, &p.Out,
			&depth, &lats, &lons, &levels, &side, &wrap)
		if err != nil || !strings.HasSuffix(key, fmt.Sprintf("wrap %v", wrap)) {
			continue // another kind of entry, or one with a suffix
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
