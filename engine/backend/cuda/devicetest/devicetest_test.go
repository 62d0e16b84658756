//go:build cgo && linux

package devicetest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
)

// Float16 numbers, each by its definition, survive both ways; what lies between two goes to
// the nearer, halfway to the even one.
func TestFloat16(t *testing.T) {
	last := math.Inf(-1)
	for h := range 0x7c00 {
		got := float64(fromFloat16(uint16(h)))
		want := float64(h&0x3ff) * 0x1p-24
		if e := h >> 10; e > 0 {
			want = math.Ldexp(1+float64(h&0x3ff)/1024, e-15)
		}
		if got != want || got <= last {
			t.Fatalf("%#x: got %g, want %g", h, got, want)
		}
		last = got
		if h < 0x400 || h >= 0x7bff {
			continue
		}
		if back := toFloat16(float32(-want)); back != uint16(h)|0x8000 {
			t.Fatalf("%g: got %#x, want %#x", -want, back, h|0x8000)
		}
		next := float64(fromFloat16(uint16(h + 1)))
		even := uint16(h + h&1)
		if half := toFloat16(float32((want + next) / 2)); half != even {
			t.Fatalf("between %g and %g: got %#x, want %#x", want, next, half, even)
		}
		if below := toFloat16(float32(0.51*want + 0.49*next)); below != uint16(h) {
			t.Fatalf("above %g: got %#x, want %#x", want, below, h)
		}
	}
	if !math.IsInf(float64(fromFloat16(0xfc00)), -1) || !math.IsNaN(float64(fromFloat16(0xffff))) {
		t.Error("infinity and NaN are not read")
	}
}

// Numbers survive the memory in all kinds, rooms are NaN at first, and what is written
// beside them is noticed.
func TestMemory(t *testing.T) {
	d, err := emulate.Open(1 << 20)
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	t.Run("memory", func(t *testing.T) {
		m := New(t, d)
		x := Numbers(rand.New(rand.NewPCG(1, 2)), 37)
		for k := Float32; k <= Float16; k++ {
			if got := m.Get(m.Put(x, k), len(x), k); !slices.Equal(got, x) {
				t.Errorf("kind %d: got %v, want %v", k, got, x)
			}
			for _, v := range m.Get(m.Room(8), int(8/k.bytes()), k) {
				if !math.IsNaN(float64(v)) {
					t.Errorf("kind %d: a room has %g at first, want NaN", k, v)
				}
			}
		}
		if err := m.Guards(); err != nil {
			t.Error(err)
		}
		for _, at := range []int{-1, 10} {
			p := m.Room(10)
			b := m.stage(1)
			b[0] = 0
			m.must(d.Copy(unsafe.Add(p, at), m.host, 1))
			if err := m.Guards(); err == nil {
				t.Errorf("byte %d of 10 was written and nobody noticed", at)
			}
			b[0] = guard
			m.must(d.Copy(unsafe.Add(p, at), m.host, 1))
		}
	})
}
