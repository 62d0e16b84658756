package cpu

import (
	"math"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/tune"
)

// Rates are read back from the keys of a table: the largest field of each convolution, and
// no entry of another kind.
func TestConvRates(t *testing.T) {
	table := tune.Open(t.TempDir(), tune.Machine{}, nil)
	entry := func(wall time.Duration) tune.Entry {
		return tune.Entry{Candidates: []tune.Timing{{Name: "a", Wall: 2 * wall, Runs: 1}, {Name: "b", Wall: wall, Runs: 1}}}
	}
	table.Record("wino forward n1 32+16-64 in[2 16 32] k3x3 wrap false", entry(time.Millisecond))
	table.Record("wino forward n1 32+16-64 in[11 16 64] k3x3 wrap true", entry(10*time.Millisecond))
	table.Record("wino forward n1 32+16-64 in[11 64 64] k3x3 wrap true bf16", entry(time.Millisecond))
	table.Record("wino data n2 64+0-32 in[1 64 64] k1x5 wrap false", entry(time.Millisecond))
	table.Record("conv winograd true something", entry(time.Millisecond))
	rates := ConvRates(table)
	want := map[ConvPass]float64{
		{"forward", 48, 64, [3]int{3, 3, 3}}: 2.0 * 48 * 64 * 9 * 31 * 16 * 64 / 10e-3, // 11 levels meet 31 of 33 taps
		{"data", 64, 32, [3]int{1, 5, 5}}:    2.0 * 2 * 64 * 32 * 25 * 64 * 64 / 1e-3,
	}
	if len(rates) != len(want) {
		t.Errorf("%v, want %v", rates, want)
	}
	for p, r := range want {
		if math.Abs(rates[p]/r-1) > 1e-12 {
			t.Errorf("%+v: %g FLOP/s, want %g", p, rates[p], r)
		}
	}
	if got := ConvRates(nil); len(got) > 0 {
		t.Errorf("without a table %v", got)
	}
}
