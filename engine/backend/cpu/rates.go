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
		k, ok := parseWinoKey(key)
		if !ok {
			continue // another kind of entry, or one with a suffix
		}
		p := ConvPass{k.pass, k.in[0] + k.in[1], k.out, [3]int{k.levels, k.side, k.side}}
		least := time.Duration(0)
		for _, c := range e.Candidates {
			if least == 0 || c.Wall < least {
				least = c.Wall
			}
		}
		depth, cells := k.size[0], k.size[1]*k.size[2]
		size := k.samples * depth * cells
		if size <= points[p] || least <= 0 {
			continue
		}
		points[p] = size
		taps := k.levels*depth - k.levels/2*(k.levels/2+1)
		rates[p] = 2 * float64(k.samples*p.In*p.Out*k.side*k.side) * float64(taps*cells) / least.Seconds()
	}
	return rates
}

// winoKernel are the values in a winoKey.
type winoKernel struct {
	pass         string
	samples      int
	in           [2]int
	out          int
	size         [3]int
	levels, side int
	wrap         bool
}

// parseWinoKey reads a key without suffixes; ok is false for other keys.
func parseWinoKey(key string) (k winoKernel, ok bool) {
	_, err := fmt.Sscanf(key, strings.Replace(winoKey, "in%v", "in[%d %d %d]", 1), &k.pass, &k.samples, &k.in[0], &k.in[1], &k.out,
		&k.size[0], &k.size[1], &k.size[2], &k.levels, &k.side, &k.wrap)
	return k, err == nil && strings.HasSuffix(key, fmt.Sprintf("wrap %v", k.wrap))
}
