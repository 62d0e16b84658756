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

// Numbers of all kinds can be written and read, new memory is NaN, and writes outside
// of an allocation are detected.
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
			for _, v := range m.Get(m.Alloc(8), int(8/k.bytes()), k) {
				if !math.IsNaN(float64(v)) {
					t.Errorf("kind %d: a room has %g at first, want NaN", k, v)
				}
			}
		}
		if err := m.CheckGuards(); err != nil {
			t.Error(err)
		}
		for _, at := range []int{-1, 10} {
			p := m.Alloc(10)
			b := m.hostBuffer(1)
			b[0] = 0
			m.must(d.Copy(unsafe.Add(p, at), m.host, 1))
			if err := m.CheckGuards(); err == nil {
				t.Errorf("write to byte %d of 10 was not detected", at)
			}
			b[0] = guard
			m.must(d.Copy(unsafe.Add(p, at), m.host, 1))
		}
	})
}
