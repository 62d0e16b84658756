package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestMain lets the test binary run as the program, for tests that need a separate process, and keeps timings out
// of the user's cache. Kernels of the emulated GPU, whose names have the digests of their sources, are taken from there. Rates of
// this machine are measured shortly.
func TestMain(m *testing.M) {
	bench.PeakTime = 10 * time.Millisecond
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		runRecorded(os.Args[1:])
	}
	user, err := os.UserCacheDir()
	if err == nil && os.Getenv("GOCACHE") == "" { // keep Go's own cache: tests build the decoder
		err = os.Setenv("GOCACHE", filepath.Join(user, "go-build"))
	}
	var cache string
	if err == nil {
		cache, err = os.MkdirTemp("", "ensemble-cache-")
	}
	if err == nil {
		kernels := filepath.Join("ensemble", "emulated")
		err = errors.Join(os.MkdirAll(filepath.Join(user, kernels), 0o755), os.MkdirAll(filepath.Join(cache, "ensemble"), 0o755),
			os.Symlink(filepath.Join(user, kernels), filepath.Join(cache, kernels)))
	}
	if err == nil {
		err = os.Setenv("XDG_CACHE_HOME", cache)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	demotest.Remove()
	os.RemoveAll(cache)
	os.Exit(code)
}

// TestBench measures tiny cases, and checks that the figures of the answer agree with each other.
func TestBench(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "step.json")
	code, stdout, stderr := call(t, "bench", "--json", "--base", "1,2", "--crop", "32,32x64", "--threads", "1", "--steps", "2", "--trace", trace, "--op-profile", "--progress", "none")
	if code == exit.NoDevice {
		t.Skip("skipped: no device: ", stderr)
	}
	if code != exit.OK || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	var got struct {
		Schema  string
		Outputs []string
		Machine map[string]any
		Results []map[string]any
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	if got.Schema != "ensemble.bench/1" || len(got.Outputs) != 1 || got.Outputs[0] != trace || len(got.Results) != 4 || got.Machine["peaks"] == nil {
		t.Fatalf("schema %q, outputs %v, %d results, machine %v", got.Schema, got.Outputs, len(got.Results), got.Machine)
	}
	for i, r := range got.Results {
		number := func(key string) float64 {
			v, ok := r[key].(float64)
			if !ok || !(v > 0) {
				t.Errorf("result %d: %s is %v, want a positive number", i, key, r[key])
			}
			return v
		}
		for _, key := range []string{"batch", "depth", "channels", "threads", "train_ms_max", "predict_ms_max", "predict_samples_per_s", "bandwidth_gib_s",
			"peak_mib", "planned_mib", "arena_mib", "predict_peak_mib", "predict_planned_mib", "predict_arena_mib", "parameters", "steps", "predict_steps", "warmup", "compile_ms", "loss"} {
			number(key)
		}
		// Rounding may change the sign of a value near zero before a ReLU: about one of a thousand values in networks this
		// small. A wrong gradient differs by its full magnitude.
		if e := number("relative_gradient_error"); e > 0.02 || r["gradient_case"] == nil {
			t.Errorf("result %d: gradient error %g of %v", i, e, r["gradient_case"])
		}
		if r["model"] != "unet3d" || r["precision"] != "float32" || number("base") != float64(1+i/2) || r["crop"] != []any{32., "32x64"}[i%2] {
			t.Errorf("result %d is of %v, base %v, crop %v", i, r["model"], r["base"], r["crop"])
		}
		ms, gflop := number("train_ms_median"), number("forward_gflop")
		for _, c := range []struct {
			key  string
			want float64
		}{
			{"gflops", 3e3 * gflop / ms}, {"predict_gflops", 1e3 * gflop / number("predict_ms_median")}, {"samples_per_s", 1e3 / ms},
			{"peak_fraction", number("gflops") / number("peak_gflops")}, {"predict_peak_fraction", number("predict_gflops") / number("peak_gflops")},
		} {
			if v := number(c.key); math.Abs(v-c.want) > 1e-9*c.want {
				t.Errorf("result %d: %s is %g, its parts give %g", i, c.key, v, c.want)
			}
		}
		if number("train_ms_min") > ms || ms > number("train_ms_max") || number("predict_ms_min") > number("predict_ms_median") || number("peak_mib") < number("arena_mib") {
			t.Errorf("result %d: %v", i, r)
		}
		rows, _ := r["movement"].([]any)
		if len(rows) < 50 || rows[len(rows)-1].(map[string]any)["op"] != "adam" || len(r["predict_movement"].([]any)) >= len(rows) {
			t.Errorf("result %d: %d operations in a training step, %v", i, len(rows), r["predict_movement"])
		}
	}
	text, err := os.ReadFile(trace)
	if err != nil || !json.Valid(text) || strings.Count(string(text), `"process_name"`) != 4 {
		t.Errorf("trace: error %v, %d cases", err, strings.Count(string(text), `"process_name"`))
	}
}

// TestBenchText: the table has the case, its unit and the bytes moved.
func TestBenchText(t *testing.T) {
	code, stdout, stderr := call(t, "bench", "--model", "resnet2d_simple", "--base", "4", "--crop", "8x12", "--threads", "1", "--steps", "1", "--op-profile", "--progress", "none")
	if code == exit.NoDevice {
		t.Skip("skipped: no device: ", stderr)
	}
	if code != exit.OK {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	for _, want := range []string{"peak     1 thread: ", "resnet2d_simple     4  8x12      1      1", "Gradient: relative distance from float64",
		"Movement, prediction of resnet2d_simple base 4", "channel_norm", "contraction", "adam"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

func TestBenchErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		code exit.Code
		want string
	}{
		{[]string{"--crop", "100"}, exit.Usage, "divide by 32"},
		{[]string{"--crop", "3x"}, exit.Usage, `invalid crop "3x"`},
		{[]string{"--model", "unet3"}, exit.Usage, "did you mean `unet3d`?"},
		{[]string{"--base", "8,,32"}, exit.Usage, `invalid value "" for --base`},
		{[]string{"--batch", "0"}, exit.Usage, "1 or more"},
		{[]string{"--threads", "-1"}, exit.Usage, "0 or more"},
		{[]string{"--threads", "two"}, exit.Usage, `invalid value "two" for --threads`},
		{[]string{"--depth", "x"}, exit.Usage, "want a whole number"},
		{[]string{"--memory", "2"}, exit.Usage, "2GiB"},
		{[]string{"--memory", "-2GiB"}, exit.Usage, "2GiB"},
		{[]string{"--memory", "NaNGiB"}, exit.Usage, "2GiB"},
		{[]string{"--memory", "64KiB", "--base", "2", "--crop", "32"}, exit.NoDevice, "give --memory "},
		{[]string{"--workspace", "1"}, exit.Usage, `invalid value "1" for --workspace`},
		{[]string{"--workspace", "1B", "--base", "2", "--crop", "32"}, exit.Usage, "give --workspace "},
		{[]string{"--offload-folder", "."}, exit.Usage, "add --memory"},
		{[]string{"--offload-folder", "absent", "--memory", "170KiB", "--base", "2", "--crop", "32"}, exit.CannotWrite, "absent"},
		{[]string{"--precision", "f8"}, exit.NoDevice, "f8"},
		{[]string{"--seconds", "-1"}, exit.Usage, "--seconds"},
		{[]string{"--gradient", "ful"}, exit.Usage, "did you mean `full`?"},
		{[]string{"unet3d"}, exit.Usage, "unknown command"},
		{[]string{"stor"}, exit.Usage, "did you mean `ensemble bench store`?"},
		{[]string{"store", "/nonexistent/store"}, exit.NotYet, "/nonexistent/store"},
		{[]string{"read"}, exit.Usage, "missing argument"},
		{[]string{"--base", "2", "--crop", "32", "--trace", "/nonexistent/t.json", "--steps", "1", "--gradient", "off"}, exit.CannotWrite, "/nonexistent/t.json"},
	} {
		code, stdout, stderr := call(t, append([]string{"bench", "--progress", "none"}, c.args...)...)
		if strings.Contains(stderr, "backend cpu is not part of this program") {
			continue // what is found after compiling needs a device
		}
		if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%q: exit %d, %q, output %q; want exit %d and %q", c.args, code, stderr, stdout, c.code, c.want)
		}
	}
}
