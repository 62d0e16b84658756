//go:build cgo && linux

package kern

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// kept draws blocks of a filter, of which about that share is kept.
func kept(seed uint64, s WinoSpec, share float64) BlockMask {
	rng := rand.New(rand.NewPCG(seed, 2))
	var b strings.Builder
	for range blocks(s.K) * (blocks(s.Parts[0]) + blocks(s.Parts[1])) {
		b.WriteByte("01"[min(1, int(rng.Float64()+share))])
	}
	return BlockMask(b.String())
}

// drop makes the values of a filter zero where a block is not kept.
func (k *winoCase) drop(w []float64) {
	if !SupportsSparseWino(k.spec) {
		return
	}
	taps := k.spec.KD * k.spec.Side * k.spec.Side
	for o := range k.spec.K {
		for c := range k.c {
			if k.spec.Mask[o/Block*blocks(k.c)+c/Block] == '0' {
				at := (o*k.filterIn + k.spec.FilterLo + c) * taps
				clear(w[at : at+taps])
			}
		}
	}
}

// transposed are the blocks of the adjoint.
func (k *winoCase) transposed() BlockMask {
	if k.spec.Mask == "" {
		return ""
	}
	var b strings.Builder
	for c := range blocks(k.c) {
		for o := range blocks(k.spec.K) {
			b.WriteByte(k.spec.Mask[o*blocks(k.c)+c])
		}
	}
	return BlockMask(b.String())
}

// Products of kept blocks agree with plain sums over the filter with its zeros, and have
// the bits of the products of all blocks, in all passes and on any number of threads.
func TestSparseWinogradAgreesWithPlainSums(t *testing.T) { sparseWinogradAgrees(t, inTurn) }

func sparseWinogradAgrees(t *testing.T, take func(i, set int) bool) {
	pool, err := NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	set := 0
	everyISA(t, func(t *testing.T) {
		set++
		served := 0
		for i, s := range winoSpecs {
			for _, share := range []float64{0, 0.3, 1} {
				if s.Parts[1] > 0 && s.Parts[0] > 9 { // parts that begin with whole blocks
					s.Parts[0] = 16
				}
				s.FilterIn, s.FilterLo, s.Mask = s.Parts[0]+s.Parts[1]+3, 2, ""
				s.Mask = kept(uint64(i), s, share)
				if !SupportsSparseWino(s) || i > 2 && share != 0.3 {
					continue
				}
				served++
				if !take(i, set) {
					continue
				}
				k := newWinoCase(uint64(i), s)
				for _, b16 := range []bool{false, true} {
					t.Run(fmt.Sprintf("%v bf16 %v", s, b16), func(t *testing.T) { k.agrees(t, pool, b16) })
				}
			}
		}
		if served < 10 {
			t.Errorf("%d convolutions are served, want most of those of dense kernels", served)
		}
	})
}

// What follows the products, also where no block reaches a result.
func TestSparseWinogradEpilogues(t *testing.T) {
	s := WinoSpec{N: 1, Parts: [2]int{18, 0}, K: 37, Size: [3]int{2, 6, 9}, KD: 3, Side: 3, FilterIn: 18, ReLU: true, Mask: "010010"}
	k := newWinoCase(3, s)
	other := newWinoCase(4, s) // for numbers
	bias, plus, gate := floats(other.w[:s.K]), other.y, other.dy
	for i := range plus {
		plus[i] = float64(float32(plus[i]))
	}
	everyISA(t, func(t *testing.T) {
		for _, b16 := range []bool{false, true} {
			var first []float32
			for _, way := range []WinoVariant{{Tiles: 5}, {Tiles: 5, Sparse: true}} {
				j, err := NewWino(nil, s, way)
				if err != nil {
					t.Fatal(err)
				}
				x0, _ := k.parts(t, b16)
				y := k.field(t, plus, s.K, s.Size, b16)
				j.Run(WinoValues{Y: y.stored(), X0: x0, Filter: floats(k.w), Bias: bias, Gate: k.field(t, gate, s.K, s.Size, b16).stored(), Plus: y.stored(), Scratch: make([]float32, j.ScratchLen())})
				k.logical(t, y)
				if first == nil {
					first = y.plain()
				}
				for i, v := range y.plain() {
					if v != first[i] {
						t.Fatalf("bf16 %v: value %d is %v, by all blocks %v", b16, i, v, first[i])
					}
				}
			}
		}
	})
}

func TestSparseWinogradRefusesWhatItDoesNotServe(t *testing.T) {
	s := WinoSpec{N: 1, Parts: [2]int{17, 3}, K: 4, Size: [3]int{2, 6, 6}, KD: 3, Side: 3, FilterIn: 20, Mask: "010"}
	for name, change := range map[string]func(s *WinoSpec){
		"parts that share a block": func(*WinoSpec) {},
		"no blocks":                func(s *WinoSpec) { s.Parts, s.Mask = [2]int{20, 0}, "" },
		"a filter of five":         func(s *WinoSpec) { s.Parts, s.Side, s.Mask = [2]int{20, 0}, 5, "01" },
	} {
		c := s
		change(&c)
		if _, err := NewWino(nil, c, WinoSparseVariants[0]); err != ErrUnsupported {
			t.Errorf("%s: %v, want ErrNotServed", name, err)
		}
	}
}
