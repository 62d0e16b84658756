//go:build cgo && linux

package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/allocs"
)

// everywhere runs a test for every instruction set of this machine, on
// one thread and on three; at the end the best set is in use again.
func everywhere(t *testing.T, f func(t *testing.T, p *Pool)) {
	t.Helper()
	best := ISA()
	defer useISA(best)
	for _, isa := range []string{"base", "avx2", "avx512", "avx512bf16"} {
		if !useISA(isa) {
			continue
		}
		for _, threads := range []int{1, 3} {
			p, err := NewPool(threads)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprintf("%s/%d threads", isa, threads), func(t *testing.T) { f(t, p) })
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

const guard = float32(-98765.5)

// guarded is a slice of n values between guard values, and the check that
// they are still there.
func guarded(t *testing.T, n int) ([]float32, func()) {
	t.Helper()
	const g = 17
	buf := make([]float32, n+2*g)
	for i := range buf {
		buf[i] = guard
	}
	return buf[g : g+n : g+n], func() {
		t.Helper()
		for i := range g {
			if buf[i] != guard || buf[n+g+i] != guard {
				t.Fatal("a value was written outside the slice")
			}
		}
	}
}

func random(seed uint64, n int, lo, hi float64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 3))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(lo + (hi-lo)*rng.Float64())
	}
	return x
}

// ulp4 is four units in the last place of float32: kernels work in double or
// do one or two float32 operations, the reference rounds once.
const ulp4 = 4 * 1.2e-7

// near fails unless got is want within tol, relative, or both are the same
// infinity or NaN.
func near(t *testing.T, what string, i int, got float32, want, tol float64) {
	t.Helper()
	w := float64(float32(want))
	if math.IsNaN(w) && math.IsNaN(float64(got)) || float64(got) == w {
		return
	}
	if !(math.Abs(float64(got)-want) <= tol*math.Abs(want)+1e-44) {
		t.Fatalf("%s[%d]: got %g, want %g", what, i, got, want)
	}
}

// Lengths that leave every kind of tail, and one that is cut into pieces.
var lengths = []int{1, 5, 16, 31, 210, 40001}

func TestPoolRunsAllOnce(t *testing.T) {
	// Many short jobs one after the other: a late worker must not touch the next.
	for threads := 1; threads <= 4; threads++ {
		p, err := NewPool(threads)
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float32, 5*16384+3)
		for round := range 3000 {
			p.Affine(x, x, 1, 1)
			if round%500 == 0 {
				runtime.Gosched()
			}
		}
		for i, v := range x {
			if v != 3000 {
				t.Fatalf("%d threads: x[%d] got %g, want 3000", threads, i, v)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewPool(0); err == nil {
		t.Error("NewPool(0): got no error")
	}
}

// Several pools at once, each on its goroutine, as data parallelism uses them.
func TestPoolsSideBySide(t *testing.T) {
	var bad atomic.Int32
	done := make(chan struct{})
	for g := range 3 {
		go func() {
			defer func() { done <- struct{}{} }()
			p, err := NewPool(2)
			if err != nil {
				bad.Add(1)
				return
			}
			x := random(uint64(g), 70000, -1, 1)
			want := p.Sum(x)
			for range 300 {
				if p.Sum(x) != want {
					bad.Add(1)
				}
			}
			bad.Add(int32(boolInt(p.Close() != nil)))
		}()
	}
	for range 3 {
		<-done
	}
	if bad.Load() != 0 {
		t.Errorf("%d sums differ", bad.Load())
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A kernel call allocates nothing in Go.
func TestNoAllocation(t *testing.T) {
	p, err := NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	x, y := random(1, 40000, -1, 1), make([]float32, 40000)
	small := make([]float32, 10000)
	arg := make([]uint8, 10000)
	got := allocs.PerRun(20, func() {
		p.Unary(Exp, y, x)
		p.Binary(Add, y, x, y)
		p.Sum(x)
		p.Broadcast(Mul, y, x, small, Dims{4, 100, 100}, 0, 1, 0)
		p.MaxPool(small, arg, x, 1, [3]int{1, 200, 200}, [3]int{1, 2, 2})
		p.Upsample(y, small, 1, [3]int{1, 100, 100}, [3]int{1, 2, 2}, true)
		p.CopyRows(y, 200, x, 200, 200, 100)
		p.Pad(y, small, 1, [3]int{1, 100, 100}, [3]Padding{{}, {Lo: 50, Hi: 50}, {Lo: 50, Hi: 50, Mode: Periodic}})
		p.GaussianCRPS(y, nil, nil, nil, x, x, x)
	})
	if got != 0 {
		t.Errorf("allocations per run: got %v, want 0", got)
	}
}

// Threads look longer for the next kernel only if each had a core to itself.
func TestSpins(t *testing.T) {
	short, long := spins(2, 1), spins(2, 2)
	if short >= long {
		t.Fatalf("%d looks beside another process, %d without: want fewer", short, long)
	}
	for _, c := range []struct {
		active  int
		running float64
		want    int
	}{{2, 1.95, long}, {2, 1.85, short}, {16, 15.95, long}, {16, 15.4, short}, {16, 0, short}} {
		if got := spins(c.active, c.running); got != c.want {
			t.Errorf("%d threads, %v of them running: got %d looks, want %d", c.active, c.running, got, c.want)
		}
	}
}

// The number of active threads is reduced only if the remaining ones have cores of
// their own and do more work than all together.
func TestActiveThreads(t *testing.T) {
	for _, c := range []struct {
		active            int
		running, together float64
		want              int
	}{
		{2, 2, 1.9, 2},     // both run
		{2, 2, 1.0, 2},     // one has nothing to do
		{2, 1.5, 0.9, 1},   // one shares its core, and the other waits for it
		{2, 1.5, 1.4, 2},   // it helps nevertheless
		{16, 15.4, 9, 15},  // one of sixteen
		{16, 12, 9, 12},    // eight of sixteen, first of several times
		{16, 15.9, 15, 16}, // noise
		{4, 0.3, 0.2, 1},   // everyone is late
	} {
		if got := activeThreads(c.active, c.running, c.together); got != c.want {
			t.Errorf("%d threads, %v of them running, %v together: got %d active, want %d", c.active, c.running, c.together, got, c.want)
		}
	}
}
