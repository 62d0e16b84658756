//go:build cgo && linux

package cublaslt

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries/librariestest"
	"github.com/ensemble-weather/ensemble/internal/allocs"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func TestMain(m *testing.M) { librariestest.Main(m) }

// loaded is a device as its handles tell it.
const loaded = librariestest.Loaded(0x50000)

// at is an address of no memory of this program.
var at = librariestest.At

// fake opens the library that stands in for cuBLASLt. log gives what it was asked since.
func fake(t *testing.T) (l *Library, h *Handle, log func() []string) {
	t.Helper()
	find, log := librariestest.Fake(t, "FAKE_FAIL", "FAKE_NONE")
	l, err := Open(find)
	if err != nil {
		t.Fatal(err)
	}
	if h, err = l.New(loaded); err != nil {
		t.Fatal(err)
	}
	return l, h, log
}

// Rows become columns: cuBLASLt is asked for the transpose of D, whose first factor is B.
func TestAttributes(t *testing.T) {
	for _, test := range []struct {
		name string
		p    Product
		want []string
	}{
		{"plain", Product{M: 3, N: 5, K: 7}, []string{
			"product compute 68 scale 0", "product attribute 3 of 4 bytes: 0", "product attribute 4 of 4 bytes: 0", "product attribute 7 of 4 bytes: 1",
			"layout type 0: 5 rows, 7 columns, 5 apart", "layout attribute 5 of 4 bytes: 1", "layout attribute 6 of 8 bytes: 0",
			"layout type 0: 7 rows, 3 columns, 7 apart", "layout attribute 5 of 4 bytes: 1", "layout attribute 6 of 8 bytes: 0",
			"layout type 0: 5 rows, 3 columns, 5 apart", "layout attribute 5 of 4 bytes: 1", "layout attribute 6 of 8 bytes: 0",
			"algorithm compute 68 scale 0 of 0 0 0 0"}},
		{"all", Product{M: 3, N: 5, K: 7, TransA: true, TransB: true, RowA: 11, RowB: 13, RowD: 17, Batch: 2, NextA: 19, NextB: 23, NextD: 64,
			Type: BFloat16, Result: BFloat16, Bias: true, ReLU: true}, []string{
			"product compute 68 scale 0", "product attribute 3 of 4 bytes: 1", "product attribute 4 of 4 bytes: 1", "product attribute 7 of 4 bytes: 6", "product attribute 8 of 8 bytes: 16",
			"layout type 14: 7 rows, 5 columns, 13 apart", "layout attribute 5 of 4 bytes: 2", "layout attribute 6 of 8 bytes: 23",
			"layout type 14: 3 rows, 7 columns, 11 apart", "layout attribute 5 of 4 bytes: 2", "layout attribute 6 of 8 bytes: 19",
			"layout type 14: 5 rows, 3 columns, 17 apart", "layout attribute 5 of 4 bytes: 2", "layout attribute 6 of 8 bytes: 64",
			"algorithm compute 68 scale 0 of 14 14 14 14"}},
		{"TF32, bias of rows", Product{M: 3, N: 5, K: 7, TransB: true, TF32: true, Bias: true}, []string{
			"product compute 77 scale 0", "product attribute 3 of 4 bytes: 1", "product attribute 4 of 4 bytes: 0", "product attribute 7 of 4 bytes: 4", "product attribute 8 of 8 bytes: 16",
			"layout type 0: 7 rows, 5 columns, 7 apart", "layout attribute 5 of 4 bytes: 1", "layout attribute 6 of 8 bytes: 0",
			"layout type 0: 7 rows, 3 columns, 7 apart", "layout attribute 5 of 4 bytes: 1", "layout attribute 6 of 8 bytes: 0",
			"layout type 0: 5 rows, 3 columns, 5 apart", "layout attribute 5 of 4 bytes: 1", "layout attribute 6 of 8 bytes: 0",
			"algorithm compute 77 scale 0 of 0 0 0 0"}},
		{"float16 to float32, ReLU", Product{M: 1, N: 1, K: 1, Type: Float16, ReLU: true}, []string{
			"product compute 68 scale 0", "product attribute 3 of 4 bytes: 0", "product attribute 4 of 4 bytes: 0", "product attribute 7 of 4 bytes: 2",
			"layout type 2: 1 rows, 1 columns, 1 apart", "layout attribute 5 of 4 bytes: 1", "layout attribute 6 of 8 bytes: 0",
			"layout type 2: 1 rows, 1 columns, 1 apart", "layout attribute 5 of 4 bytes: 1", "layout attribute 6 of 8 bytes: 0",
			"layout type 0: 1 rows, 1 columns, 1 apart", "layout attribute 5 of 4 bytes: 1", "layout attribute 6 of 8 bytes: 0",
			"algorithm compute 68 scale 0 of 2 2 0 0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, h, log := fake(t)
			p, err := h.Plan(test.p, "algorithm 66, split 1")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range log() {
				w := strings.Fields(l)
				got = append(got, strings.Join(append(w[:1], w[2:]...), " ")) // without the number of the descriptor
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			if err := errors.Join(p.Close(), p.Close(), h.Close(), h.Close()); err != nil {
				t.Error(err)
			}
			if got := log(); got[len(got)-1] != "live 0" {
				t.Errorf("descriptors that are left: %v", got)
			}
		})
	}
}

func names(plans []*Plan) []string {
	var s []string
	for _, p := range plans {
		s = append(s, p.Name())
	}
	return s
}

// Algorithms that want too much memory or were there before are left out; the wishes are
// told. Each has a name that gives it again.
func TestPlans(t *testing.T) {
	p := Product{M: 3, N: 5, K: 7}
	const split = "algorithm 21, tile 5, split 3, reduction 2, swizzle 1, stages 7, cluster 2"
	for _, test := range []struct {
		name   string
		limits Limits
		want   []string
	}{
		{"all", Limits{Workspace: 1 << 20}, []string{split, "algorithm 9", "algorithm 66, split 1", "algorithm 70"}},
		{"little memory", Limits{Workspace: 4096}, []string{split, "algorithm 9", "algorithm 66, split 1"}},
		{"no memory", Limits{}, []string{"algorithm 9", "algorithm 66, split 1"}},
		{"first", Limits{Workspace: 4096, Most: 1}, []string{split}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, h, log := fake(t)
			plans, err := h.Plans(p, test.limits)
			if err != nil {
				t.Fatal(err)
			}
			if got := names(plans); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			for _, plan := range plans {
				again, err := h.Plan(p, plan.Name())
				if err != nil {
					t.Fatal(err)
				}
				if again.Name() != plan.Name() || again.Workspace() != plan.Workspace() || again.c.algo != plan.c.algo {
					t.Errorf("%s again: %s with %d bytes, settings %v, want %v", plan.Name(), again.Name(), again.Workspace(), again.c.algo, plan.c.algo)
				}
				if err := errors.Join(again.Close(), plan.Close()); err != nil {
					t.Error(err)
				}
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			lines := log()
			if got := lines[len(lines)-1]; got != "live 0" {
				t.Errorf("descriptors that are left: %s", got)
			}
			text := strings.Join(lines, "\n")
			for _, want := range []string{fmt.Sprintf(" attribute 1 of 8 bytes: %d\n", test.limits.Workspace), " attribute 3 of 4 bytes: 2\n",
				" attribute 5 of 4 bytes: 16\n", " attribute 6 of 4 bytes: 16\n", " attribute 7 of 4 bytes: 16\n", " attribute 8 of 4 bytes: 16\n"} {
				if !strings.Contains(text, want) {
					t.Errorf("cuBLASLt was not told %q", want)
				}
			}
		})
	}
	_, h, _ := fake(t)
	if _, err := h.Plan(p, "algorithm 8"); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "cublasLtMatmulAlgoCheck") {
		t.Errorf("an algorithm that is refused: got %v", err)
	}
	if _, err := h.Plans(p, Limits{Workspace: -1}); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "4096 bytes") {
		t.Errorf("no memory at all: got %v", err)
	}
	t.Setenv("FAKE_NONE", "1")
	if _, err := h.Plans(p, Limits{}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("no algorithm: got %v", err)
	}
}

// A run gives the operands in cuBLASLt's order and allocates nothing.
func TestRun(t *testing.T) {
	_, h, log := fake(t)
	p, err := h.Plan(Product{M: 8, N: 8, K: 8, Bias: true, Scale: 0.5, Beta: 2}, "algorithm 21, cluster 2")
	if err != nil {
		t.Fatal(err)
	}
	log()
	o := Operands{A: at(0x10000), B: at(0x20000), D: at(0x30000), Bias: at(0x40000), Workspace: at(0x60000)}
	if err := p.Run(o); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(log(), "\n"), "attribute 8 of 8 bytes: 262144\nrun algorithm 21 cluster 2: 0x30000 = 0.5 0x20000 0x10000 + 2 0x30000, 4096 bytes at 0x60000, stream 0x50000"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	o.C = at(0x70000)
	if err := p.Run(o); err != nil {
		t.Fatal(err)
	}
	if got := log(); len(got) != 1 || !strings.Contains(got[0], "+ 2 0x70000") {
		t.Errorf("with another C and the same bias: got %q", got)
	}
	t.Setenv("FAKE_LOG", "")
	if n := allocs.PerRun(100, func() {
		if err := p.Run(o); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%g allocations a run", n)
	}
	for name, change := range map[string]func(*Operands){
		"A missing":         func(o *Operands) { o.A = nil },
		"B not aligned":     func(o *Operands) { o.B = at(0x20008) },
		"bias missing":      func(o *Operands) { o.Bias = nil },
		"workspace missing": func(o *Operands) { o.Workspace = nil },
	} {
		wrong := o
		change(&wrong)
		if err := p.Run(wrong); err == nil || !strings.Contains(err.Error(), "aligned to 16") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	t.Setenv("FAKE_FAIL", "cublasLtMatmul 1")
	var e *CallError
	if err := p.Run(o); !errors.As(err, &e) || e.Call != "cublasLtMatmul" || e.Name != "CUBLAS_STATUS_INTERNAL_ERROR" || e.Detail != "an internal operation failed" {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(p.Close(), h.Close()); err != nil {
		t.Error(err)
	}
	if err := p.Run(o); err == nil {
		t.Error("a closed plan runs")
	}
}

// Whichever call fails, the error names it, or another algorithm is taken, and no
// descriptor is left.
func TestFailures(t *testing.T) {
	for _, call := range []string{"cublasLtMatmulDescCreate", "cublasLtMatmulDescDestroy", "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate",
		"cublasLtMatrixLayoutDestroy", "cublasLtMatrixLayoutSetAttribute", "cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceDestroy",
		"cublasLtMatmulPreferenceSetAttribute", "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmulAlgoConfigGetAttribute", "cublasLtMatmulAlgoInit",
		"cublasLtMatmulAlgoConfigSetAttribute", "cublasLtMatmulAlgoCheck"} {
		t.Run(call, func(t *testing.T) {
			_, h, log := fake(t)
			path := os.Getenv("FAKE_LOG")
			failed := 0
			for k := 1; k < 60; k++ {
				t.Setenv("FAKE_LOG", "")
				t.Setenv("FAKE_FAIL", fmt.Sprintf("%s %d", call, k))
				plan, err := h.Plan(Product{M: 3, N: 5, K: 7, Bias: true}, "algorithm 80, tile 1")
				if err == nil {
					err = plan.Close()
				}
				plans, err2 := h.Plans(Product{M: 3, N: 5, K: 7}, Limits{Workspace: 4096})
				for _, p := range plans {
					err2 = errors.Join(err2, p.Close())
				}
				for _, err := range []error{err, err2} {
					if err != nil {
						failed++
						if !strings.Contains(err.Error(), call+" for ") || !strings.Contains(err.Error(), "CUBLAS_STATUS_INTERNAL_ERROR (14): an internal operation failed") {
							t.Fatalf("call %d: got %v", k, err)
						}
					}
				}
			}
			if failed == 0 {
				t.Error("no call that fails gives an error")
			}
			t.Setenv("FAKE_FAIL", "")
			t.Setenv("FAKE_LOG", path)
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			if got := log(); got[len(got)-1] != "live 0" {
				t.Errorf("descriptors that are left: %s", got[len(got)-1])
			}
		})
	}
}

// A machine without the library, a library of another kind and a handle that cannot be made
// give code 69 and say what is missing: all of it.
func TestMissing(t *testing.T) {
	_, err := Open(func(libraries.Library) (*dl.Library, error) {
		return nil, &exit.Error{Code: exit.NoDevice, What: "cannot open cuBLASLt", Err: dl.ErrNotFound}
	})
	if exit.CodeOf(err) != exit.NoDevice || !errors.Is(err, ErrUnavailable) || !errors.Is(err, dl.ErrNotFound) {
		t.Errorf("no library: got %v", err)
	}
	_, err = Open(librariestest.File("libm.so.6"))
	if exit.CodeOf(err) != exit.NoDevice || !errors.Is(err, dl.ErrNoSymbol) {
		t.Errorf("another library: got %v", err)
	}
	for _, want := range []string{"cublasLtGetVersion", "cublasLtMatmul:", "cublasLtMatmulAlgoCheck", "libm.so.6"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	l, h, _ := fake(t)
	t.Setenv("FAKE_FAIL", "cublasLtDestroy 1")
	if err := h.Close(); err == nil || !strings.Contains(err.Error(), "cublasLtDestroy") {
		t.Errorf("got %v", err)
	}
	t.Setenv("FAKE_FAIL", "cublasLtCreate 1")
	if _, err := l.New(loaded); exit.CodeOf(err) != exit.NoDevice || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "cublasLtCreate") {
		t.Errorf("got %v", err)
	}
}
