// Package devicetest has helpers to test libraries on a GPU: memory between guard
// values, filled with numbers and read back.
//
// Sums of some thousand products of numbers from Numbers are exact in float32, in any
// order. So a correct library returns the sum rounded once to the storage type.
package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/gpu"
	"github.com/ensemble-weather/ensemble/internal/float16"
)

// Kind is a storage type of numbers.
type Kind int

// The kinds, numbered as in the packages of the libraries.
const (
	Float32 Kind = iota
	BFloat16
	Float16
)

// bytes returns the size of a number.
func (k Kind) bytes() int64 { return [...]int64{4, 2, 2}[k] }

// Rounding returns the largest relative error of rounding to the type, with 24, 8 and
// 11 bits of mantissa.
func (k Kind) Rounding() float64 { return [...]float64{0x1p-24, 0x1p-8, 0x1p-11}[k] }

// GPU opens the first GPU, on a thread of the test's own. It skips the test on a
// machine without one.
func GPU(t *testing.T) device.Device {
	t.Helper()
	runtime.LockOSThread() // until the goroutine ends, and the thread with it
	d, err := gpu.Open(0)
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close the device: %v", err)
		}
	})
	return d
}

// Numbers draws n of the numbers −1, −7/8 … 1.
func Numbers(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.IntN(17)-8) / 8
	}
	return x
}

// Memory allocates memory on the device for a test.
type Memory struct {
	t         testing.TB
	d         device.Device
	all       []piece
	host      device.Pointer // page-locked buffer, as large as the largest allocation
	hostBytes int64
}

// piece is an allocation.
type piece struct {
	start device.Pointer // of the guard before it
	bytes int64          // between the guards
}

const (
	guardBytes = 512 // a multiple of the alignment that Alloc gives
	guard      = 0xa5
)

// New returns a Memory whose allocations are freed at the end of the test.
func New(t testing.TB, d device.Device) *Memory {
	m := &Memory{t: t, d: d}
	t.Cleanup(func() {
		for _, p := range m.all {
			m.must(d.Free(p.start))
		}
		m.must(d.FreeHost(m.host))
	})
	return m
}

func (m *Memory) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// hostBuffer returns n bytes of page-locked memory.
func (m *Memory) hostBuffer(n int64) []byte {
	m.t.Helper()
	if n > m.hostBytes {
		m.must(m.d.FreeHost(m.host))
		var err error
		m.host, err = m.d.AllocHost(n)
		m.must(err)
		m.hostBytes = n
	}
	return unsafe.Slice((*byte)(m.host), n)
}

// Alloc allocates memory between guards, filled with NaN in every type.
func (m *Memory) Alloc(bytes int64) device.Pointer {
	m.t.Helper()
	start, err := m.d.Alloc(bytes + 2*guardBytes)
	m.must(err)
	m.all = append(m.all, piece{start, bytes})
	h := m.hostBuffer(bytes + 2*guardBytes)
	for i := range h {
		h[i] = 0xff
		if i < guardBytes || i >= len(h)-guardBytes {
			h[i] = guard
		}
	}
	m.must(m.d.Copy(start, m.host, int64(len(h))))
	m.must(m.d.Wait())
	return unsafe.Add(start, guardBytes)
}

// Put allocates memory with the given numbers.
func (m *Memory) Put(x []float32, k Kind) device.Pointer {
	m.t.Helper()
	p := m.Alloc(int64(len(x)) * k.bytes())
	m.Set(p, x, k)
	return p
}

// Set writes numbers to memory.
func (m *Memory) Set(p device.Pointer, x []float32, k Kind) {
	m.t.Helper()
	h := m.hostBuffer(int64(len(x)) * k.bytes())
	for i, v := range x {
		switch k {
		case Float32:
			*(*float32)(unsafe.Pointer(&h[4*i])) = v
		case BFloat16:
			*(*uint16)(unsafe.Pointer(&h[2*i])) = toBFloat16(v)
		case Float16:
			*(*uint16)(unsafe.Pointer(&h[2*i])) = float16.ToBits(float64(v))
		}
	}
	m.must(m.d.Copy(p, m.host, int64(len(h))))
	m.must(m.d.Wait())
}

// Get reads n numbers after all work is done.
func (m *Memory) Get(p device.Pointer, n int, k Kind) []float32 {
	m.t.Helper()
	h := m.hostBuffer(int64(n) * k.bytes())
	m.must(m.d.Copy(m.host, p, int64(len(h))))
	m.must(m.d.Wait())
	x := make([]float32, n)
	for i := range x {
		switch k {
		case Float32:
			x[i] = *(*float32)(unsafe.Pointer(&h[4*i]))
		case BFloat16:
			x[i] = math.Float32frombits(uint32(*(*uint16)(unsafe.Pointer(&h[2*i]))) << 16)
		case Float16:
			x[i] = float32(float16.FromBits(*(*uint16)(unsafe.Pointer(&h[2*i]))))
		}
	}
	return x
}

// CheckGuards returns an error if bytes before or after an allocation were written.
func (m *Memory) CheckGuards() error {
	for i, p := range m.all {
		h := m.hostBuffer(p.bytes + 2*guardBytes)
		m.must(m.d.Copy(m.host, p.start, int64(len(h))))
		m.must(m.d.Wait())
		for j := range h {
			if (j < guardBytes || j >= len(h)-guardBytes) && h[j] != guard {
				return fmt.Errorf("memory %d of %d bytes: guard byte %d was written", i, p.bytes, j-guardBytes)
			}
		}
	}
	return nil
}

// toBFloat16 rounds to nearest, ties to even.
func toBFloat16(x float32) uint16 {
	if x != x {
		return 0x7fc0
	}
	b := math.Float32bits(x)
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
