package store

import (
	"math"
	"slices"
	"testing"
)

// TestBFloat16: ties round to even, NaN stays NaN whatever its bits, and signs are
// kept.
func TestBFloat16(t *testing.T) {
	for _, c := range []struct {
		x    float32
		want uint16
	}{
		{1, 0x3f80}, {1 + 0x1p-8, 0x3f80}, {1 + 3*0x1p-8, 0x3f82}, {1 + 0x1p-8 + 0x1p-20, 0x3f81}, {-1 - 0x1p-8, 0xbf80}, {float32(math.Copysign(0, -1)), 0x8000},
		{math.Float32frombits(0x7f800001), 0x7fc0}, {math.Float32frombits(0xffffffff), 0x7fc0}, {math.Float32frombits(0x7f7f7fff), 0x7f7f}, {math.SmallestNonzeroFloat32, 0},
	} {
		if got, err := roundBF16(c.x); err != nil || got != c.want {
			t.Errorf("%v (%#x) is %#x, %v; want %#x", c.x, math.Float32bits(c.x), got, err, c.want)
		}
	}
	for _, x := range []float32{math.MaxFloat32, -math.MaxFloat32} {
		if _, err := roundBF16(x); err == nil {
			t.Errorf("%v has no place in bfloat16 and was given one", x)
		}
	}
}

// TestInt16: minimum and maximum are restored, and so are constant fields, whose code is 0. No value
// gets the code of a missing one.
func TestInt16(t *testing.T) {
	nan := float32(math.NaN())
	for _, v := range [][]float32{
		{273.15, 301.25, 288}, {5, 5, 5}, {0, nan, 0}, {nan, nan}, {-math.MaxFloat32, math.MaxFloat32, 1}, {1, math.Nextafter32(1, 2)}, {math.SmallestNonzeroFloat32, 0}, {-3, nan, 7, -3}, {0, int16Steps, 7},
	} {
		r, err := fieldStatistics(v)
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 2*len(v))
		if err := Int16.encode(text, v, &r); err != nil {
			t.Fatal(err)
		}
		if r.min == r.max && r.missing == 0 && slices.Max(text) != 0 {
			t.Errorf("%v: codes %v of a constant field", v, text)
		}
		got := make([]float32, len(v))
		Int16.decode(got, text, &r)
		for i, x := range v {
			if x != x != (got[i] != got[i]) {
				t.Errorf("%v: %v came back as %v", v, x, got[i])
			}
			if (x == r.min || x == r.max) && got[i] != x {
				t.Errorf("%v: the end %v came back as %v", v, x, got[i])
			}
		}
	}
}

// TestOtherByteOrder: the values of a file are the same on a machine of the other byte order, which does not copy them as they are.
func TestOtherByteOrder(t *testing.T) {
	v := []float32{1.5, -273.15, float32(math.Inf(1)), 0}
	text := make([]byte, 4*len(v))
	if err := Float32.encode(text, v, &fieldRecord{}); err != nil {
		t.Fatal(err)
	}
	defer func(machine bool) { littleEndian = machine }(littleEndian)
	littleEndian = false
	got := make([]float32, len(v))
	if Float32.decode(got, text, &fieldRecord{}); !slices.Equal(got, v) {
		t.Errorf("got %v, want %v", got, v)
	}
}
