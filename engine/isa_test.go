//go:build cgo && linux && amd64

package engine_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
)

// TestFault35: a processor without AVX-512 or AVX2 is imitated by masking these features in a process of its own. It selects the
// kernels that are left, and loss and gradient of a step are those of the reference within rounding.
func TestFault35(t *testing.T) {
	const masked = "ENSEMBLE_TEST_MASKED"
	type result struct {
		ISA   string
		Loss  float64
		Grads []float32
	}
	step := func(backend string) result {
		p := compile(t, unet(t, 2, 1), engine.Options{Device: engine.Device{Backend: backend, Threads: 2}, Numerics: engine.Numerics{UseHeuristics: true, Winograd: true}})
		fill(p.Input("x"), 1)
		fill(p.Input("y"), 2)
		if err := p.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		return result{kern.ISA(), p.Loss(), slices.Clone(p.Store().Grads())}
	}
	if os.Getenv(masked) != "" {
		if err := json.NewEncoder(os.Stdout).Encode(step("cpu")); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, selected := step("ref"), []string{}
	for _, features := range []string{"SSE41", "AVX2", "AVX512_CORE", "ALL"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFault35$")
		cmd.Env = append(os.Environ(), masked+"=1", "ONEDNN_MAX_CPU_ISA="+features)
		out, err := cmd.Output()
		line, _, _ := strings.Cut(string(out), "\n")
		var got result
		if err != nil || json.Unmarshal([]byte(line), &got) != nil {
			t.Fatalf("%s: %v: %s", features, err, out)
		}
		selected = append(selected, got.ISA)
		if !(math.Abs(got.Loss-want.Loss) <= 1e-5*math.Abs(want.Loss)) {
			t.Errorf("%s: loss %v, of the reference %v", features, got.Loss, want.Loss)
		}
		for i, v := range want.Grads {
			if !(math.Abs(float64(got.Grads[i]-v)) <= 1e-4*(0.01+math.Abs(float64(v)))) {
				t.Fatalf("%s: gradient %d is %v, of the reference %v", features, i, got.Grads[i], v)
			}
		}
	}
	if selected[0] != "base" || selected[3] != kern.ISA() {
		t.Errorf("kernels %q, want base for SSE 4.1 and %s for all features", selected, kern.ISA())
	}
}
