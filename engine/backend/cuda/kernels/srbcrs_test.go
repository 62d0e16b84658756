package kernels

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSRBCRSOracle has panels of two rows whose vectors were worked out by hand: columns 1, 4 and 7, then 2 and 5,
// in batches of four slots.
func TestSRBCRSOracle(t *testing.T) {
	a := [4][8]int8{{0, 3, 0, 0, 5, 0, 0, 1}, {0, 2, 0, 0, 0, 0, 0, 7}, {0, 0, 4, 0, 0, 0, 0, 0}, {0, 0, -1, 0, 0, 6, 0, 0}}
	m := SRBCRSForm{Vector: 2, Run: 1, Stride: 4}.NewSRBCRS(2, 8, func(panel, run int) bool { return a[2*panel][run] != 0 || a[2*panel+1][run] != 0 })
	if want := []int32{0, 3, 4, 6}; !slices.Equal(m.Ptr, want) {
		t.Errorf("pointers %v, want %v", m.Ptr, want)
	}
	if want := []int32{1, 4, 7, -1, 2, 5, -1, -1}; !slices.Equal(m.Col, want) {
		t.Errorf("columns %v, want %v", m.Col, want)
	}
}

// TestSRBCRSStructure: of random patterns the kept runs come back; a panel without vectors has equal pointers, and
// the slots of each are the least multiple of the stride.
func TestSRBCRSStructure(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, f := range []SRBCRSForm{{2, 1, 4}, {8, 1, 16}, {8, 16, 32}, Int8Form} {
		for range 50 {
			panels, runs, density := 1+rng.IntN(6), rng.IntN(40), rng.Float64()
			kept := make([][]bool, panels)
			for p := range kept {
				for range runs {
					kept[p] = append(kept[p], p != 1 && rng.Float64() < density)
				}
			}
			m := f.NewSRBCRS(panels, runs, func(panel, run int) bool { return kept[panel][run] })
			slots := 0
			for p := range panels {
				var want []int32
				for r, k := range kept[p] {
					if k {
						want = append(want, int32(r*f.Run))
					}
				}
				first, end := int(m.Ptr[2*p]), int(m.Ptr[2*p+1])
				if first != slots || end-first != len(want)*f.Run {
					t.Fatalf("%v: slots %d to %d of panel %d, want %d from %d on", f, first, end, p, len(want)*f.Run, slots)
				}
				slots += (end - first + f.Stride - 1) / f.Stride * f.Stride
				if got := m.Col[first/f.Run : end/f.Run]; !slices.Equal(got, want) {
					t.Fatalf("%v: panel %d has columns %v, want %v", f, p, got, want)
				}
				for i, c := range m.Col[end/f.Run : slots/f.Run] {
					if c != -1 {
						t.Fatalf("%v: padding %d of panel %d is column %d", f, i, p, c)
					}
				}
			}
			if f.Values(m) != slots*f.Vector || len(m.Col)*f.Run != slots {
				t.Fatalf("%v: %d values and %d columns of %d slots", f, f.Values(m), len(m.Col), slots)
			}
		}
	}
}
