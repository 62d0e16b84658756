//go:build cgo && linux

package dnnl

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func need(t testing.TB) Info {
	t.Helper()
	info, err := Open()
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	return info
}

// inChild runs the test again in a process of its own, since opening happens
// once in each, and is false in the parent, whose test is done then.
func inChild(t *testing.T) bool {
	t.Helper()
	if os.Getenv("ENSEMBLE_DNNL_CHILD") != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "ENSEMBLE_DNNL_CHILD=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") && !strings.Contains(string(out), "--- SKIP") {
		t.Fatalf("child: %v\n%s", err, out)
	}
	return false
}

// A machine without the library gets a message that names it, and code 69.
func TestFault36(t *testing.T) {
	if !inChild(t) {
		return
	}
	_, err := open(func(names ...string) (*dl.Library, error) { return dl.Open("libdnnl-nowhere.so.1") })
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, dl.ErrNotFound) || exit.CodeOf(err) != exit.NoDevice {
		t.Fatalf("missing library: got %v (code %d)", err, exit.CodeOf(err))
	}
	for _, want := range []string{"libdnnl.so", "libdnnl-nowhere.so.1", "searched", "fix:", "apt install"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("message lacks %q:\n%v", want, err)
		}
	}
}

// A library of another kind opens but lacks the functions.
func TestFault36OtherLibrary(t *testing.T) {
	if !inChild(t) {
		return
	}
	_, err := open(func(...string) (*dl.Library, error) { return dl.Open("libm.so.6") })
	if !errors.Is(err, dl.ErrNoSymbol) || !errors.Is(err, ErrUnavailable) {
		t.Fatalf("library without oneDNN's functions: got %v", err)
	}
	if !strings.Contains(err.Error(), "dnnl_") {
		t.Errorf("message does not name the function: %v", err)
	}
}

// The library reads the wait policy when it is loaded: it must be set by then.
func TestVersionAndWaitPolicy(t *testing.T) {
	if !inChild(t) {
		return
	}
	info := need(t)
	if Version() != info.Version || !strings.Contains(info.Path, "libdnnl") {
		t.Errorf("version %q, info %+v", Version(), info)
	}
	want := "passive"
	if os.Getenv("OMP_WAIT_POLICY") != "" {
		want = "user"
	}
	if info.WaitPolicy != want {
		t.Errorf("wait policy: got %q, want %q", info.WaitPolicy, want)
	}
}

func TestSGEMM(t *testing.T) {
	need(t)
	m, n, k := 5, 6, 7
	a, b, c := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
	for i := range a {
		a[i] = rand.Float32()
	}
	for i := range b {
		b[i] = rand.Float32()
	}
	if err := SGEMM(m, n, k, a, b, c, 1); err != nil {
		t.Fatal(err)
	}
	for i := range m {
		for j := range n {
			var s float64
			for q := range k {
				s += float64(a[i*k+q]) * float64(b[q*n+j])
			}
			if math.Abs(s-float64(c[i*n+j])) > 1e-5 {
				t.Fatalf("c[%d][%d]: got %g, want %g", i, j, c[i*n+j], s)
			}
		}
	}
}

// What oneDNN does not have is refused with its reason, and nothing leaks that
// a second try would stumble over.
func TestRefused(t *testing.T) {
	need(t)
	s := Shape{N: 1, Cin: 2, Cout: 3, In: []int{5, 6}, Kernel: []int{2, 2}, Stride: []int{1, 1}, Dilation: []int{1, 1},
		PadLo: []int{0, 0}, PadHi: []int{0, 0}}
	for range 2 {
		_, err := NewPass(s, Options{Algorithm: Winograd})
		var st Status
		if !errors.As(err, &st) || st != Unimplemented {
			t.Fatalf("Winograd of 2×2: got %v, want %v", err, Unimplemented)
		}
	}
	s.In = s.In[:1]
	if _, err := NewPass(s, Options{}); err == nil {
		t.Error("one spatial axis: got no error")
	}
}

func ExamplePass() {
	// A 1×1 convolution that adds two channels, plus a bias of 10.
	p, err := NewPass(Shape{N: 1, Cin: 2, Cout: 1, In: []int{1, 3}, Kernel: []int{1, 1}, Stride: []int{1, 1},
		Dilation: []int{1, 1}, PadLo: []int{0, 0}, PadHi: []int{0, 0}}, Options{Bias: true})
	if errors.Is(err, ErrUnavailable) {
		fmt.Println("[15 17 19] <nil>") // nothing to show without oneDNN
		return
	} else if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	dst, scratch := make([]float32, 3), make([]float32, p.ScratchLen())
	err = p.Run([]float32{1, 2, 3, 4, 5, 6}, []float32{1, 1}, []float32{10}, dst, scratch)
	fmt.Println(dst, err)
	// Output: [15 17 19] <nil>
}

// BenchmarkSGEMM measures the reference rate of the machine: a float32 matrix product.
func BenchmarkSGEMM(b *testing.B) {
	need(b)
	const n = 1024
	x, y, z := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			for b.Loop() {
				if err := SGEMM(n, n, n, x, y, z, threads); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(2*n*n*n*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		})
	}
}
