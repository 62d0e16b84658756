package tune

import (
	"math"
	"slices"
	"testing"
)

// TestFeatures: what a variant does, by hand.
func TestFeatures(t *testing.T) {
	w := Work{Kind: "forward", Items: 100, Block: 28, Shared: 3000, Item: 50}
	// Three blocks of 28 and one of 16: with 14 rows 3·2 + 2 loads, with 6 rows 3·5 + 3.
	for isa, loads := range map[string]float64{"avx512": 8, "amx": 8, "avx2": 18, "base": 18} {
		got := w.Features(isa, 2000)
		want := [WorkFeatures]float64{products: 300_000, groups: loads * 3000, transforms: 5000, nearShared: 4 * 2000, farShared: 4 * 1000,
			farHalf: 5000 * (1 - 2000/2800.), farQuarter: 5000 * (1 - 2000/5600.), blocks: 4}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-9 {
				t.Errorf("%s: %v, want %v", isa, got, want)
				break
			}
		}
	}
	if got := w.Features("avx2", 5600); got[farHalf] != 0 || got[farQuarter] != 0 {
		t.Errorf("a block of a quarter of the cache: %v", got)
	}
	w.Block = 1000 // more than there are
	if got := w.Features("avx512", 2000); got[blocks] != 1 || got[groups] != 8*3000 || got[nearShared] != 2000 {
		t.Errorf("one block: %v", got)
	}
}

// TestExpectedTime: the sum over the features; 0 for what has no coefficients. The fitted ones give each kind a time that grows with the work.
func TestExpectedTime(t *testing.T) {
	e := &Expectations{Kinds: map[string]map[string][WorkFeatures]float64{"avx512": {"forward": {products: 2, blocks: 5}}}}
	w := Work{Kind: "forward", Items: 100, Block: 50, Shared: 10, Item: 1}
	if got := e.Time("avx512bf16", 1000, w); got != 2*1000+5*2 {
		t.Errorf("%g, want 2010", got)
	}
	if got := e.Time("avx2", 1000, w); got != 0 {
		t.Errorf("another instruction set: %g, want 0", got)
	}
	w.Kind = "other"
	if got := e.Time("avx512", 1000, w); got != 0 {
		t.Errorf("another kind: %g, want 0", got)
	}
	if f := Fitted(); !(f.Error > 0 && f.Error < 1) {
		t.Errorf("error %g", f.Error)
	}
	for _, isa := range []string{"avx512", "avx2", "base"} {
		for _, kind := range []string{"forward", "data", "filter", "forward whole", "data whole", "filter whole"} {
			var times []float64
			for n := 1; n <= 4; n++ {
				times = append(times, Fitted().Time(isa, 1<<20, Work{Kind: kind, Items: 64 * n, Block: 64 * n, Shared: 1e6, Item: 1e4}))
			}
			if times[0] <= 0 || !slices.IsSorted(times) {
				t.Errorf("%s %s: %v for 1 to 4 times the items", isa, kind, times)
			}
		}
	}
}

// TestOptions: a table that times all skips nothing and has time for it.
func TestOptions(t *testing.T) {
	table := Open(t.TempDir(), machine, nil)
	o := BenchmarkOptions{MinRounds: 2, Budget: 5}
	if got := table.Options(o); got.Error != Fitted().Error || got.Budget != 5 || got.MinRounds != 2 {
		t.Errorf("%+v", got)
	}
	if table.TimeAll(7); table.Options(o).Error != 0 || table.Options(o).Budget != 0 || table.Options(o).MinRounds != 7 {
		t.Errorf("with TimeAll: %+v", table.Options(o))
	}
}
