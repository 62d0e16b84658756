//go:build cgo && linux

package cpu

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// TestVariantWork: a key gives the variants of its kernel. Filter and tiles of a block are all scratch of a blocked variant on one thread, and
// expected times grow with the samples.
func TestVariantWork(t *testing.T) {
	for _, pass := range []string{"forward", "data", "filter"} {
		for _, side := range []int{3, 5} {
			p := winoPass{name: pass, WinoSpec: kern.WinoSpec{N: 2, Parts: [2]int{32, 20}, K: 48, Size: [3]int{2, 32, 64}, KD: 3, Side: side, FilterIn: 52}}
			works, err := VariantWork(p.key())
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for i, w := range p.variants() {
				names = append(names, works[i].Name)
				if want := p.variantName(w); works[i].Name != want {
					t.Errorf("%s: variant %d is %q, want %q", p.key(), i, works[i].Name, want)
				}
				prepare := kern.NewWino
				if p.filter() {
					prepare = kern.NewWinoFilter
				}
				j, err := prepare(nil, p.WinoSpec, w)
				if err != nil {
					t.Fatal(err)
				}
				got := works[i].Shared + float64(works[i].Block)*works[i].Item
				if scratch := 4 * float64(j.ScratchLen()); !w.Whole && math.Abs(got/scratch-1) > 1e-9 || !(works[i].Shared > 0 && works[i].Item > 0) {
					t.Errorf("%s, %s: filter and tiles have %g bytes, scratch %g", p.key(), works[i].Name, got, scratch)
				}
			}
			if len(names) < 4 || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(works) {
				t.Errorf("%s: variants %v", p.key(), names)
			}
			fitted := slices.DeleteFunc(p.variants(), func(w kern.WinoVariant) bool { return w.Whole || w.Rows > 0 })
			few, more := make([]tune.Candidate, len(fitted)), make([]tune.Candidate, len(fitted))
			if err := p.expect(few, fitted); err != nil {
				t.Fatal(err)
			}
			p.N = 8
			if err := p.expect(more, fitted); err != nil || len(more) < 4 {
				t.Fatal(more, err)
			}
			for i, w := range fitted {
				if _, measured := tune.Fitted().Kinds[tune.VectorISA(kern.ISA())][more[i].Kind]; !measured {
					if few[i].Expected != 0 || more[i].Expected != 0 {
						t.Errorf("%s, %s: expected times %g and %g of a kind without a fit", p.key(), p.variantName(w), few[i].Expected, more[i].Expected)
					}
					continue
				}
				if !(few[i].Expected > 0 && more[i].Expected > few[i].Expected) {
					t.Errorf("%s, %s: expected times %g, and %g for four times the samples", p.key(), p.variantName(w), few[i].Expected, more[i].Expected)
				}
			}
		}
	}
	for _, key := range []string{"", "rate of add to blocked", "wino forward n1 128+0-128 in[2 32 128] k3x3 wrap false bf16"} {
		if works, err := VariantWork(key); len(works) > 0 || err != nil {
			t.Errorf("%q: %v, error %v", key, works, err)
		}
	}
}

// TestUnexpected: masks, int8 and AMX have no expected times; variants that transform all tiles first are another kind.
func TestUnexpected(t *testing.T) {
	p := winoPass{name: "forward", WinoSpec: kern.WinoSpec{N: 2, Parts: [2]int{32, 0}, K: 48, Size: [3]int{2, 32, 64}, KD: 3, Side: 3, FilterIn: 32}}
	variants := []kern.WinoVariant{{Tiles: 14}, {Tiles: 28}, {Whole: true}, {Tiles: 14, Sparse: true}, {Direct: true}}
	c := make([]tune.Candidate, len(variants))
	if err := p.expect(c, variants); err != nil || !(c[0].Expected > 0) || c[3].Expected != 0 || c[4].Expected != 0 || c[0].Kind != c[1].Kind || c[0].Kind == c[2].Kind {
		t.Errorf("%+v, error %v", c, err)
	}
	if got := tune.Fitted().Time("sve", 1<<20, tune.Work{Kind: "forward", Items: 1, Block: 1, Shared: 1, Item: 1}); got != 0 {
		t.Errorf("unknown instruction set: %g", got)
	}
}

// TestBusyThreads: blocks of tiles, the last of which may be smaller, on threads that take one at a time.
func TestBusyThreads(t *testing.T) {
	for _, c := range []struct {
		work, block, threads int
		want                 float64 // work over that of the thread with the most
	}{
		{64, 56, 1, 1}, {64, 56, 2, 64. / 56}, {64, 28, 2, 64. / 36}, {256, 56, 2, 256. / 144}, {56, 28, 2, 2}, {84, 28, 2, 1.5},
		{20, 28, 2, 1}, {6, 3, 2, 2}, {6, 3, 4, 2}, {100, 10, 4, 100. / 30}, {85, 10, 4, 85. / 25},
	} {
		if got := busyThreads(c.work, c.block, c.threads); got != c.want {
			t.Errorf("%d in blocks of %d on %d threads: %g busy, want %g", c.work, c.block, c.threads, got, c.want)
		}
	}
}

// TestSkippedVariants: a variant that was not timed never precedes the best timed one, though more threads would share it.
func TestSkippedVariants(t *testing.T) {
	p := winoPass{name: "forward", WinoSpec: kern.WinoSpec{N: 1, Parts: [2]int{32, 0}, K: 64, Size: [3]int{2, 32, 32}, KD: 3, Side: 3, FilterIn: 32}, threads: 2}
	variants := []kern.WinoVariant{{Tiles: 56}, {Tiles: 28}, {Tiles: 14}, {Tiles: 6}}
	list := make([]backend.Variant, len(variants))
	for i, w := range variants {
		list[i].Name = p.variantName(w)
	}
	p.setTimes(list, variants, tune.Entry{Choice: "wino 56", Candidates: []tune.Timing{{Name: "wino 56", CPU: 640, Runs: 1}},
		Skipped: []tune.Expectation{{Name: "wino 28", CPU: 700}, {Name: "wino 14", CPU: 3600}}}, 10)
	const best = 10 * 560
	for i, want := range []time.Duration{best, time.Duration(best * (1 + tune.Fitted().Error)), 20250, 6400 + 7000 + 36000} {
		if list[i].Time != want {
			t.Errorf("%s: %d, want %d", list[i].Name, list[i].Time, want)
		}
	}
}

// TestWideKinds: variants of filters that are sums of parts have coefficients of their own; a filter of 5×5 on one level is none, by tiles of
// eight points, but for products of bfloat16 and over levels.
func TestWideKinds(t *testing.T) {
	for _, c := range []struct {
		levels, depth, side int
		want                string
	}{{1, 1, 3, "forward"}, {1, 1, 5, "forward"}, {1, 1, 7, "forward wide"}, {1, 1, 9, "forward wide"}, {2, 3, 3, "forward"}, {2, 3, 5, "forward wide"}, {2, 1, 5, "forward"}} {
		p := winoPass{name: "forward", WinoSpec: kern.WinoSpec{N: 1, Parts: [2]int{16, 0}, K: 16, Size: [3]int{c.levels, 20, 20}, KD: c.depth, Side: c.side, FilterIn: 16}}
		got, err := p.work(kern.WinoVariant{Tiles: 14})
		if err != nil || got.Kind != c.want {
			t.Errorf("%d levels, %d×%d×%d: kind %q, want %q; error %v", c.levels, c.depth, c.side, c.side, got.Kind, c.want, err)
		}
	}
}

// TestTilesOfTheCostModel: on single levels the transformed values that package op counts are those of the kernel's tiles, in float32 and with
// products of bfloat16 where the processor has them.
func TestTilesOfTheCostModel(t *testing.T) {
	for _, side := range []int{3, 5, 7, 9} {
		for _, bf16 := range []bool{false, true} {
			if bf16 && !kern.HasBF16() {
				continue
			}
			const channels, rows, lons = 16, 22, 37
			s := kern.WinoSpec{N: 2, Parts: [2]int{channels, 0}, K: channels, Size: [3]int{1, rows, lons}, KD: 1, Side: side, FilterIn: channels, BF16: bf16}
			x := graph.Shape{2, channels, 1, rows, lons}
			one := [3]int{1, 1, 1}
			c, ok := op.ConvWorkOf(op.Find("conv3d"), []graph.Shape{x, {channels, channels, 1, side, side}}, x, op.Conv{Stride: one, Dilation: one, Pad: op.Same(1, side, side)}, bf16)
			if got, want := c.Tiles*c.Rounding, float64(channels*s.Tiles()*s.Points()*s.Points()); !ok || math.Abs(got/want-1) > 1e-9 {
				t.Errorf("%d×%d, bfloat16 %v: %g transformed values, the kernel has %g", side, side, bf16, got, want)
			}
		}
	}
}
