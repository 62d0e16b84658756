package bfloat16

import (
	"math"
	"testing"
)

// Every code is the nearest one of its own value, and the even one of two at equal distance is chosen.
func TestRound(t *testing.T) {
	for h := range uint32(1 << 16) {
		code := uint16(h)
		v := Value(code)
		if v != v {
			if Round(v) != NaN {
				t.Fatalf("%#x is NaN and becomes %#x", code, Round(v))
			}
			continue
		}
		if Round(v) != code {
			t.Fatalf("%#x = %g becomes %#x", code, v, Round(v))
		}
		if IsInf(code) != math.IsInf(float64(v), 0) {
			t.Fatalf("IsInf(%#x) is wrong for %g", code, v)
		}
		if IsInf(code) {
			continue
		}
		even := code + code&1 // of the two codes at equal distance
		if got := Round(math.Float32frombits(h<<16 | 0x8000)); got != even {
			t.Fatalf("half above %#x becomes %#x, want %#x", code, got, even)
		}
		if got := Round(math.Float32frombits(h<<16 | 0x8001)); got != code+1 {
			t.Fatalf("more than half above %#x becomes %#x", code, got)
		}
	}
}
