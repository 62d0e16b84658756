//go:build cgo && linux

package kern

import (
	"fmt"
	"slices"
	"testing"
)

// The cases are those of Winograd's test; the reference is the same float64 loop.
func TestNarrowAgreesWithPlainSums(t *testing.T) {
	keep := map[string][]float32{} // for equal bits over threads
	everyStorage(t, func(t *testing.T, p *Pool, b16 bool, _ func(string, *tensor)) {
		for i, s := range []WinoSpec{
			{N: 1, Parts: [2]int{16, 0}, K: 1, Size: [3]int{2, 9, 21}, KD: 3, Side: 3},
			{N: 2, Parts: [2]int{21, 0}, K: 1, Size: [3]int{3, 5, 19}, KD: 3, Side: 3, Wrap: true},
			{N: 2, Parts: [2]int{7, 0}, K: 4, Size: [3]int{1, 6, 3}, KD: 1, Side: 3},
			{N: 1, Parts: [2]int{40, 0}, K: 2, Size: [3]int{2, 7, 12}, KD: 1, Side: 1},
			{N: 1, Parts: [2]int{5, 0}, K: 2, Size: [3]int{2, 4, 11}, KD: 3, Side: 5, Wrap: true},
			{N: 1, Parts: [2]int{3, 0}, K: 1, Size: [3]int{1, 2, 2}, KD: 3, Side: 9},
			{N: 2, Parts: [2]int{17, 0}, K: 1, Size: [3]int{2, 6, 19}, KD: 3, Side: 3, Before: [3]int{0, 1, 1}, After: [3]int{0, 1, 1}},
			{N: 1, Parts: [2]int{9, 0}, K: 2, Size: [3]int{1, 7, 21}, KD: 1, Side: 3, Wrap: true, Before: [3]int{0, 1, 0}, After: [3]int{0, 1, 0}},
			{N: 1, Parts: [2]int{5, 0}, K: 2, Size: [3]int{2, 8, 20}, KD: 3, Side: 5, Before: [3]int{0, -1, 1}, After: [3]int{0, -1, 1}},
		} {
			s.FilterIn = s.Parts[0]
			k := newWinoCase(uint64(i), s)
			x0, _ := k.parts(t, b16)
			shape := Blocked{N: s.N, C: k.c, S: s.Source()}
			pad := [2]int{s.Side/2 - s.Before[1], s.Side/2 - s.Before[2]}
			j, err := NewNarrow(p, NarrowSpec{X: shape, Pad: pad, K: s.K, KD: s.KD, Side: s.Side, Wrap: s.Wrap})
			if err != nil {
				t.Fatal(err)
			}
			scratch := make([]float32, j.ScratchLen())
			bias, gate := random(uint64(i), s.K, -1, 1), random(uint64(i)+9, len(k.dx), -1, 1)
			y, endY := guarded(t, len(k.y))
			dw, endW := guarded(t, len(k.w))
			dx := k.field(t, nil, k.c, s.Source(), b16)
			j.Forward(y, x0, floats(k.w), bias, scratch)
			j.Filter(dw, x0, floats(k.dy), scratch)
			j.Data(dx.stored(), floats(k.dy), floats(k.w), tensorOf(t, shape, b16, gate).stored(), scratch)
			endY()
			endW()
			wantY, wantX := slices.Clone(k.y), slices.Clone(k.dx)
			for i := range wantY {
				wantY[i] += float64(bias[i/k.s%s.K])
			}
			for i := range wantX {
				if gate[i] <= 0 {
					wantX[i] = 0
				}
			}
			const tolerance = 1e-6 // sums of some hundred float32
			inStorage := tolerance
			if b16 {
				inStorage = winoTolerance16
			}
			for _, c := range []struct {
				name      string
				bits      []float32
				want      []float64
				tolerance float64
			}{
				{"forward", y, wantY, tolerance}, {"filter", dw, k.dw, tolerance}, {"data", floats(k.logical(t, dx)), wantX, inStorage},
			} {
				if e := relative(float64s(c.bits), c.want); !(e <= c.tolerance) {
					t.Errorf("%+v, bf16 %v, %s: error %.2e", s, b16, c.name, e)
				}
				key := fmt.Sprint(ISA(), b16, i, c.name)
				if keep[key] == nil {
					keep[key] = slices.Clone(c.bits)
				} else if !slices.Equal(keep[key], c.bits) {
					t.Errorf("%+v %s: other bits with other threads", s, c.name)
				}
			}
		}
	})
}

func float64s(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func TestNarrowRefusesWhatItDoesNotServe(t *testing.T) {
	for _, s := range []NarrowSpec{{K: 5, KD: 1, Side: 1}, {K: 3, KD: 1, Side: 5, Pad: [2]int{2, 2}}, {K: 1, KD: 1, Side: 2}, {K: 1, KD: 2, Side: 1},
		{K: 1, KD: 1, Side: 3, Pad: [2]int{3, 1}}, {K: 1, KD: 1, Side: 3, Wrap: true}, {K: 1, KD: 1, Side: 11}} {
		s.X = Blocked{N: 1, C: 1, S: [3]int{2, 9, 9}}
		if _, err := NewNarrow(nil, s); err != ErrUnsupported {
			t.Errorf("%+v: %v, want ErrNotServed", s, err)
		}
	}
}
