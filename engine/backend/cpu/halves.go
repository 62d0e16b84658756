//go:build cgo && linux

package cpu

import (
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// halvesKey names the choice between products of bfloat16 and of float32 where fields
// are stored as bfloat16.
const halvesKey = "products of bfloat16 fields"

// halves tells whether a convolution of these fields multiplies bfloat16: that is
// wanted, all are stored so, and it is faster here, or was chosen before.
func (b *Backend) halves(fields []backend.Tensor) bool {
	if !b.o.Halves {
		return false
	}
	for _, t := range fields {
		if t.U16 == nil && t.DType != graph.BFloat16 {
			return false
		}
	}
	if b.choices[halvesKey] == "" {
		b.choices[halvesKey] = "float32"
		if b.o.Choices[halvesKey] == "bfloat16" || b.o.Choices[halvesKey] == "" && halvesWin() {
			b.choices[halvesKey] = "bfloat16"
		}
	}
	return b.choices[halvesKey] == "bfloat16"
}

// halvesGain is how much faster products of bfloat16 must be: what they gain in time
// they lose in accuracy.
const halvesGain = 1.15

// halvesWin measures it once, on a convolution that fits a cache: some
// processors have the instruction and are no faster with it.
var halvesWin = sync.OnceValue(func() bool {
	s := kern.WinoSpec{N: 1, Parts: [2]int{64, 0}, K: 64, Size: [3]int{2, 16, 16}, KD: 3, Side: 3, FilterIn: 64}
	n := kern.Blocked{N: 1, C: 64, S: s.Size}.Len()
	x, y, w := kern.BFloat16(make([]uint16, n)), kern.BFloat16(make([]uint16, n)), make([]float32, 64*64*27)
	var least [2]time.Duration
	for range 7 { // in turn, so that a busy moment hits both
		for i, half := range []bool{false, true} {
			s.Half = half
			j, err := kern.NewWino(nil, s, kern.GuessWino(s))
			if err != nil {
				return false
			}
			scratch := make([]float32, j.ScratchLen())
			clear(scratch) // its pages are there
			begin := time.Now()
			j.Run(y, x, kern.Stored{}, w, nil, kern.Stored{}, kern.Stored{}, scratch)
			if d := time.Since(begin); least[i] == 0 || d < least[i] {
				least[i] = d
			}
		}
	}
	return float64(least[0]) > halvesGain*float64(least[1])
})
