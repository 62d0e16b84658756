package cost

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// testMachine is a machine whose rates with t threads are t times those with one.
func testMachine(isa string, factor float64, threads ...int) *Machine {
	m := &Machine{Format: MachineFormat, CPU: "test", Arch: "amd64", ISA: isa, Cores: 8, L2: 1 << 20, L3: 32 << 20, Memory: 8 << 30}
	for _, n := range threads {
		t := factor * float64(n)
		m.Rates = append(m.Rates, Rates{Threads: n, Products: 50e9 * t, Minimal: 40e9 * t, BF16Products: 90e9 * t, BF16Minimal: 80e9 * t, Elementwise: 10e9 * t,
			L2: 100e9 * t, L3: 30e9 * t, DRAM: 10e9 * t, Start: 1e-6 / factor})
	}
	return m
}

// TestMachineRoundTrip: what Write writes, ReadMachine reads.
func TestMachineRoundTrip(t *testing.T) {
	want := testMachine("avx2", 1, 1, 4)
	path := filepath.Join(t.TempDir(), "machine.json")
	var b bytes.Buffer
	if err := want.Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadMachine(path)
	if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("%+v, want %+v; error %v", got, want, err)
	}
}

// TestMachineRefused: each fault of a file is one error with exit code 65 that names it; every truncation is refused.
func TestMachineRefused(t *testing.T) {
	var b bytes.Buffer
	if err := testMachine("avx2", 1, 1, 2).Write(&b); err != nil {
		t.Fatal(err)
	}
	good := strings.TrimSpace(b.String())
	path := filepath.Join(t.TempDir(), "machine.json")
	refused := func(text, why string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := ReadMachine(path)
		if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), path) {
			t.Errorf("want exit 65 with %q, got %v", why, err)
		}
	}
	for _, c := range []struct{ from, to, why string }{
		{`"format": 1`, `"format": 2`, "format 2, this program reads 1"},
		{`"format": 1`, `"form": 1`, `no "format"`},
		{`"isa": "avx2"`, `"isa": ""`, "missing"},
		{`"cores": 8`, `"cores": 0`, `"cores" is 0`},
		{`"cores": 8`, `"cores": "eight"`, "cores"},
		{`"l2_bytes": 1048576`, `"l2_bytes": -1`, `"l2_bytes" is -1`},
		{`"threads": 2`, `"threads": 1`, "1 threads after 1"},
		{`"products": 50000000000`, `"products": 0`, `"products" is 0`},
		{`"dram": 10000000000`, `"dram": -5`, `"dram" is -5`},
		{`"l2": 100000000000`, `"l2": 1e300`, `"l2" is 1e+300`},
		{`"start_s": 0.000001`, `"start_s": 100`, `"start_s" is 100`},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		if text == good {
			t.Fatalf("%s is not in the file:\n%s", c.from, good)
		}
		refused(text, c.why)
	}
	for n := range len(good) {
		refused(good[:n], "")
	}
	refused(good[:len(good)/2], "truncated")
	refused("[]", "not a JSON object")
	refused(strings.Repeat(" ", mostMachineBytes+1), "larger than")
	if _, err := ReadMachine(filepath.Join(t.TempDir(), "none")); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("missing file: %v", err)
	}
}

// TestSetup: rates of measured numbers of threads are those of the file; between them they are interpolated, which is exact for rates in
// proportion to the threads; more are refused.
func TestSetup(t *testing.T) {
	m := testMachine("avx2", 1, 1, 2, 8)
	for _, c := range []struct{ threads, want int }{{1, 1}, {2, 2}, {4, 4}, {5, 5}, {8, 8}, {0, 8}} {
		s, err := m.Setup(c.threads, "f32")
		if err != nil || s.Rates.Threads != c.want || math.Abs(s.Rates.Products/(50e9*float64(c.want))-1) > 1e-12 || math.Abs(s.Rates.Start/1e-6-1) > 1e-12 {
			t.Errorf("%d threads: %+v, error %v", c.threads, s.Rates, err)
		}
	}
	for _, n := range []int{-1, 9} {
		if _, err := m.Setup(n, "f32"); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%d threads: %v", n, err)
		}
	}
}

// TestFar: the rate of far bytes is that of the copy of the same size, and geometric between.
func TestFar(t *testing.T) {
	r := Rates{L3: 40, DRAM: 10}
	for _, c := range []struct {
		bytes int64
		want  float64
	}{{0, 40}, {L3Bytes, 40}, {4 * L3Bytes, 20}, {DRAMBytes, 10}, {8 * DRAMBytes, 10}} {
		if got := r.far(c.bytes); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d bytes: %g, want %g", c.bytes, got, c.want)
		}
	}
}
