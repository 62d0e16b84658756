//go:build cgo && linux

package kern

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/tune"
)

// mask marks the kept blocks of the filter, and makes its other blocks zero.
func (k *int8Case) mask(m BlockMask) {
	k.spec.Mask = m
	s := k.spec
	taps, sources := s.KD*9, blocks(s.Parts[0])+blocks(s.Parts[1])
	for o := range s.K {
		for c := range s.FilterIn {
			if m[o/Block*sources+c/Block] == '0' {
				at := (o*s.FilterIn + c) * taps
				clear(k.w[at : at+taps])
			}
		}
	}
}

// Skipping blocks of zeros never changes a bit of int8 convolutions: on every instruction set,
// with ragged channels, two inputs, blocks of results that nothing reaches and of sources that
// nothing reads, float results and codes.
func TestSparseInt8HasTheBitsOfAllBlocks(t *testing.T) {
	pool, err := NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	specs := append([]WinoSpec{ // also whole first parts with ragged second ones, and one level
		{N: 1, Parts: [2]int{48, 5}, K: 49, Size: [3]int{2, 9, 13}, KD: 3, Side: 3, Wrap: true},
		{N: 2, Parts: [2]int{40, 0}, K: 64, Size: [3]int{1, 7, 18}, KD: 3, Side: 3, ReLU: true},
	}, int8Specs...)
	served := 0
	everyISA(t, func(t *testing.T) {
		for i, s := range specs {
			for _, share := range []float64{0, 0.25, 0.6, 1} {
				k := newInt8Case(uint64(i), s, [2]int{128 * (i % 2), 128}, s.ReLU && i%3 > 0)
				k.mask(kept(uint64(i)+7, s, share))
				if !SupportsSparseWino(k.spec.WinoSpec) {
					continue
				}
				served++
				want := k.run(t, pool, DefaultWinoInt8)
				for _, v := range []WinoVariant{{Tiles: 14, Sparse: true}, {Tiles: 28, Sparse: true}, {Tiles: 3, Sparse: true}} {
					if got := k.run(t, pool, v); !slices.Equal(got, want) {
						t.Fatalf("%+v, variant %+v: other bits than those of all blocks", k.spec.WinoSpec, v)
					}
				}
			}
		}
	})
	if served < 4*len(specs)/2 {
		t.Errorf("%d cases are served, want at least those of one instruction set", served)
	}
}

// The bits are those of the filter that is given, not only of its mask: a mask that drops a block
// that is not zero gives other values.
func TestSparseInt8SkipsWhatItsMaskDrops(t *testing.T) {
	k := newInt8Case(1, WinoSpec{N: 1, Parts: [2]int{32, 0}, K: 32, Size: [3]int{2, 8, 8}, KD: 3, Side: 3}, [2]int{}, false)
	k.spec.Mask = "0110"
	sparse := k.run(t, nil, WinoSparseInt8Variants[0])
	if slices.Equal(sparse, k.run(t, nil, DefaultWinoInt8)) {
		t.Fatal("blocks that the mask drops are multiplied")
	}
	k.mask("0110")
	if !slices.Equal(sparse, k.run(t, nil, DefaultWinoInt8)) {
		t.Error("the result is not that of a filter with zeros in the dropped blocks")
	}
}

func TestSparseInt8RefusesWhatItDoesNotServe(t *testing.T) {
	k := newInt8Case(1, WinoSpec{N: 1, Parts: [2]int{17, 3}, K: 4, Size: [3]int{2, 6, 6}, KD: 3, Side: 3}, [2]int{}, false)
	for _, m := range []BlockMask{"", "010"} {
		k.spec.Mask = m
		if _, err := NewWinoInt8(nil, k.spec, WinoSparseInt8Variants[0]); err != ErrUnsupported {
			t.Errorf("mask %q: %v, want ErrUnsupported", m, err)
		}
	}
}

// shareMask keeps about one of n blocks in every row and column of blocks.
func shareMask(s WinoSpec, n int) BlockMask {
	var b strings.Builder
	for o := range blocks(s.K) {
		for c := range blocks(s.Parts[0]) + blocks(s.Parts[1]) {
			b.WriteByte("01"[min(1, max(0, 1-(o+c)%n))])
		}
	}
	return BlockMask(b.String())
}

// BenchmarkSparseInt8 is an int8 convolution of a large field by all blocks, and by the kept ones of filters
// of which 3 of 4 or 9 of 10 blocks are zero, in turn on one thread: medians of the ratios of processor times.
func BenchmarkSparseInt8(b *testing.B) {
	p, err := NewPool(1)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for _, c := range [][3]int{{64, 0, 64}, {128, 128, 128}, {256, 0, 256}, {512, 0, 512}} {
		b.Run(fmt.Sprint(c), func(b *testing.B) {
			side := 176 * 64 / max(64, c[2]/2)
			s := WinoSpec{N: 1, Parts: [2]int{c[0], c[1]}, K: c[2], Size: [3]int{2, side, 176}, KD: 3, Side: 3, ReLU: true}
			k := newInt8Case(1, s, [2]int{}, true)
			var runs []func()
			x := [2][]uint8{blockInt8(k.x[0], Blocked{1, c[0], s.Size}), blockInt8(k.x[1], Blocked{1, c[1], s.Size})}
			y := make([]uint8, Blocked{1, s.K, s.Size}.Len())
			names := []string{"dense"}
			variants := []WinoVariant{DefaultWinoInt8}
			masks := []BlockMask{""}
			for _, n := range []int{4, 10} {
				for _, v := range WinoSparseInt8Variants {
					names, variants, masks = append(names, fmt.Sprintf("x-1/%d-tiles%d", n, v.Tiles)), append(variants, v), append(masks, shareMask(s, n))
				}
			}
			for i, v := range variants {
				k.spec.Mask = masks[i]
				j, err := NewWinoInt8(p, k.spec, v)
				if err != nil {
					b.Fatal(err)
				}
				defer j.Close()
				scratch := make([]float32, j.ScratchLen())
				runs = append(runs, func() { j.Run(y, Stored{}, x[0], x[1], k.w, k.bias, scratch) })
			}
			ratios := make([][]float64, len(runs))
			for b.Loop() {
				var dense time.Duration
				for i, run := range runs {
					start := tune.ProcessTime()
					run()
					used := tune.ProcessTime() - start
					if i == 0 {
						dense = used
					}
					ratios[i] = append(ratios[i], float64(dense)/float64(used))
				}
			}
			b.ReportMetric(0, "ns/op")
			for i, name := range names[1:] {
				slices.Sort(ratios[i+1])
				b.ReportMetric(ratios[i+1][len(ratios[i+1])/2], name)
			}
		})
	}
}
