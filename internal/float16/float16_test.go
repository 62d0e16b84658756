package float16

import (
	"math"
	"testing"
)

// All binary16 numbers round to themselves, numbers between two to the nearer one,
// and midpoints to even; ToBits is the inverse of FromBits.
func TestAllNumbers(t *testing.T) {
	for _, c := range []struct {
		bits uint16
		want float64
	}{{0, 0}, {1, 0x1p-24}, {0x03ff, 0x1p-14 - 0x1p-24}, {0x0400, 0x1p-14}, {0x3c00, 1}, {0xc000, -2}, {0x7bff, Max}, {0x7c00, math.Inf(1)}, {0xfc00, math.Inf(-1)}} {
		if got := FromBits(c.bits); got != c.want || ToBits(c.want) != c.bits {
			t.Errorf("%#x is %v, want %v, whose bits are %#x", c.bits, got, c.want, ToBits(c.want))
		}
	}
	for b := range uint16(0x7c00) {
		x, want := FromBits(b), float64(b&1023)*SmallestNonzero
		if e := int(b >> 10); e > 0 {
			want = math.Ldexp(1+float64(b&1023)/1024, e-15)
		}
		if x != want {
			t.Fatalf("%#x is %v, want %v", b, x, want)
		}
		if Round(x) != x || Round(-x) != -x || ToBits(x) != b || ToBits(-x) != b|0x8000 {
			t.Fatalf("%v becomes %v and %#x, want %#x", x, Round(x), ToBits(x), b)
		}
		if b == 0x7bff {
			break
		}
		next := FromBits(b + 1)
		even := x
		if b&1 == 1 {
			even = next
		}
		if y := x + (next-x)/4; Round(y) != x || Round(x+(next-x)/2) != even || Round(x+(next-x)*0.75) != next {
			t.Fatalf("between %v and %v: %v, %v, %v", x, next, Round(y), Round(x+(next-x)/2), Round(x+(next-x)*0.75))
		}
	}
	if Round(65519) != Max || Round(65520) != math.Inf(1) || Round(-1e6) != math.Inf(-1) || ToBits(math.NaN()) != 0x7e00 || !math.IsNaN(FromBits(0x7e00)) || !math.IsNaN(Round(math.NaN())) {
		t.Error("what is too large, or no number")
	}
}
