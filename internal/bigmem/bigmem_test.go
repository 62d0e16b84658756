package bigmem

import (
	"testing"
	"unsafe"
)

func TestMake(t *testing.T) {
	for _, n := range []int{0, 1, 15, 1000, 1<<20 + 3, 3 << 20} {
		x := Make[float32](n)
		if len(x) != n || cap(x) != n {
			t.Fatalf("%d elements, room for %d, want %d", len(x), cap(x), n)
		}
		if p := uintptr(unsafe.Pointer(unsafe.SliceData(x))); n > 0 && p%Align != 0 || 4*n >= 2*HugePage && p%HugePage != 0 {
			t.Errorf("%d elements lie at %#x", n, p)
		}
		for i, v := range x {
			if v != 0 {
				t.Fatalf("element %d is %v", i, v)
			}
			x[i] = 1
		}
		y := Make[float64](n)
		if p := uintptr(unsafe.Pointer(unsafe.SliceData(y))); n > 0 && p%Align != 0 {
			t.Errorf("%d float64 lie at %#x", n, p)
		}
	}
}

func TestBytes(t *testing.T) {
	x := []uint16{0x0102, 0x0304}
	if b := Bytes(x); len(b) != 4 || b[0] != 2 || b[3] != 3 { // little end first
		t.Errorf("bytes %v", b)
	}
	if b := Bytes([]float64(nil)); len(b) != 0 {
		t.Errorf("%d bytes of nothing", len(b))
	}
}

func TestFloat32s(t *testing.T) {
	x := []float32{1, -2.5}
	y := Float32s(Bytes(x))
	if len(y) != 2 || y[1] != -2.5 || &y[0] != &x[0] {
		t.Errorf("%v is not %v in place", y, x)
	}
}
