package bench

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// tinyCases are cases that take milliseconds.
var tinyCases = map[string]Case{
	BenchUNet3D:   {Model: BenchUNet3D, Base: 2, Crop: setup.Crop{Height: 32, Width: 64}, Batch: 2, Threads: 1},
	BenchResNet2D: {Model: BenchResNet2D, Base: 4, Crop: setup.Crop{Height: 12, Width: 20}, Batch: 1, Threads: 2},
}

// measured returns a measurement, and skips the test without the device.
func measured(t *testing.T, r Request) *Measurement {
	t.Helper()
	m, err := Measure(context.Background(), r)
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestBenchFLOPs compares with closed forms: the published spread network on its whole field, and
// resnet2d_simple from its filters.
func TestBenchFLOPs(t *testing.T) {
	resnet := func(cropH, cropW int) float64 { // the taps of every layer at width 1/32 of base
		taps := 42*64*9. + 64*96*9
		in := 97.
		for _, out := range []float64{128, 160, 224, 224, 160, 128} {
			taps += in * out / 4 * (9 + 25 + 49 + 1)
			in = out
		}
		return 2 * (taps + 129) * float64(cropH*cropW)
	}
	for _, c := range []struct {
		of   Case
		want float64
	}{
		// Of 54 taps in depth and rows, 18 fall on padding: 1639 GFLOP with them, 1092 without.
		{Case{Model: BenchUNet3D, Base: 32, Crop: setup.Crop{Height: 352, Width: 704}, Batch: 1, Depth: 2}, 1092e9},
		{Case{Model: BenchResNet2D, Base: 32, Crop: setup.Crop{Height: 8, Width: 12}, Batch: 1, Depth: 1}, resnet(8, 12)},
	} {
		got, err := c.of.FLOPs()
		if err != nil || math.Abs(float64(got)-c.want) > 1e-3*c.want {
			t.Errorf("%v: %d FLOPs, want %g; error %v", c.of, got, c.want, err)
		}
	}
}

// TestBenchTrains checks that a training step lowers the loss, and that every value of the result is set.
func TestBenchTrains(t *testing.T) {
	for name, c := range tinyCases {
		t.Run(name, func(t *testing.T) {
			first := measured(t, Request{Case: c, Phase: BenchTrain, Steps: 1})
			last := measured(t, Request{Case: c, Phase: BenchTrain, Steps: 60})
			if !(last.Loss < first.Loss) || last.Loss <= 0 {
				t.Errorf("loss %g after 1 step, %g after 60", first.Loss, last.Loss)
			}
			if last.MS.N != 60 || first.MS.N != 1 || last.MS.Min > last.MS.Median || last.MS.Median > last.MS.Max || last.MS.Min <= 0 {
				t.Errorf("times %+v and %+v", first.MS, last.MS)
			}
			if last.ArenaMiB <= 0 || last.PeakMiB < last.ArenaMiB || last.Parameters < 1000 || last.Step != nil {
				t.Errorf("measurement %+v", last)
			}
		})
	}
}

// TestBenchGradient checks that the error relative to float64 is that of float32 sums, or of a value that
// rounding moved across the kink of a ReLU (one of some thousand in networks so small); a gradient that is
// wrong by 1e-3 is found.
func TestBenchGradient(t *testing.T) {
	for name, c := range tinyCases {
		if e := measured(t, Request{Case: c, Phase: BenchGradient}).GradientError; !(e > 1e-9 && e < 0.02) {
			t.Errorf("%s: gradient error %g, want that of float32", name, e)
		}
	}
}

// TestGradientCase checks that small cases are not reduced, and large ones are reduced to valid cases that
// the reference can compute.
func TestGradientCase(t *testing.T) {
	small := Case{Model: BenchUNet3D, Base: 8, Crop: setup.Crop{Height: 64, Width: 64}, Batch: 1, Depth: 2}
	if got := small.gradientCase(); got != small {
		t.Errorf("%v is judged as %v", small, got)
	}
	for _, c := range []Case{
		{Model: BenchUNet3D, Base: 32, Crop: setup.Crop{Height: 352, Width: 704}, Batch: 2, Depth: 2},
		{Model: BenchUNet3D, Base: 32, Crop: setup.Crop{Height: 96, Width: 96}, Batch: 1, Depth: 16},
		{Model: BenchResNet2D, Base: 32, Crop: setup.Crop{Height: 361, Width: 720}, Batch: 4, Depth: 1},
	} {
		got := c.gradientCase()
		n, err := got.FLOPs()
		if err != nil || n > gradientFLOPs || got.Model != c.Model || got.Base < 4 || got.Crop.Height < 32 {
			t.Errorf("%v is judged as %v of %d FLOPs; error %v", c, got, n, err)
		}
	}
}

// TestBenchRefuses checks that invalid cases are refused before anything is timed.
func TestBenchRefuses(t *testing.T) {
	good := Case{Base: 2, Crop: setup.Crop{Height: 32, Width: 32}, Batch: 1}
	for _, c := range []struct {
		name string
		edit func(*Case)
		code exit.Code
		want string
	}{
		{"crop", func(c *Case) { c.Crop.Width = 100 }, exit.Usage, "divide by 32"},
		{"model", func(c *Case) { c.Model = "unet3" }, exit.Usage, "did you mean `unet3d`?"},
		{"base", func(c *Case) { c.Base = 0 }, exit.Usage, "must be at least 1"},
		{"base of the ResNet", func(c *Case) { c.Model, c.Base = BenchResNet2D, 6 }, exit.Usage, "divides by 4"},
		{"depth of the ResNet", func(c *Case) { c.Model, c.Base, c.Depth = BenchResNet2D, 4, 2 }, exit.Usage, "depth 1"},
		{"precision", func(c *Case) { c.Precision = "float8" }, exit.NoDevice, "float8 is not available"},
		{"memory", func(c *Case) { c.MemoryBytes = 4096 }, exit.NoDevice, "memory"},
	} {
		bad := good
		c.edit(&bad)
		// The program does not exist: nothing may be started before the last case
		// was compiled.
		_, err := Run(context.Background(), Options{Cases: []Case{good, bad}, Program: []string{"/nonexistent"}})
		if c.name == "memory" && exit.CodeOf(err) == c.code && strings.Contains(err.Error(), "backend cpu is not part of this program") {
			continue // without a device there is no plan to bound
		}
		if exit.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want code %d and %q", c.name, err, c.code, c.want)
		}
	}
}

// TestBenchAnswers checks that a measuring process that dies or fails gives one clear error.
func TestBenchAnswers(t *testing.T) {
	for _, c := range []struct {
		name, script string
		code         exit.Code
		want         string
	}{
		{"killed", "kill -9 $$", exit.Bug, "returned no result"},
		{"refused", `echo '{"exit_code":69,"error":{"code":"E069","what":"no such device","fix":"buy one"}}'; exit 69`, exit.NoDevice, "buy one"},
	} {
		b := bencher{Options: Options{Program: []string{"sh", "-c", c.script}}}
		_, err := b.process(context.Background(), Request{Case: tinyCases[BenchUNet3D], Phase: BenchTrain})
		if exit.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want code %d and %q", c.name, err, c.code, c.want)
		}
	}
}

// TestMeasurePeak checks that peaks are positive, finite and plausible for a processor.
func TestMeasurePeak(t *testing.T) {
	defer func(d time.Duration) { PeakTime = d }(PeakTime)
	PeakTime = 50 * time.Millisecond
	p, err := MeasurePeak(context.Background(), 1)
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device: ", err)
	}
	if err != nil || p.Threads != 1 || p.By == "" || !(p.GFLOPs > 0.1 && p.GFLOPs < 1e4) || !(p.Bandwidth > 0.1 && p.Bandwidth < 1e4) {
		t.Errorf("peak %+v, error %v", p, err)
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	if _, err := best(stopped, func() error { return nil }, time.Millisecond); err == nil {
		t.Error("a stopped measurement gave a time")
	}
}

// TestTrace checks the trace event format; on each thread events are ordered by start and nested.
func TestTrace(t *testing.T) {
	var tr trace
	for _, c := range tinyCases {
		var steps []*StepRecord
		for _, phase := range []Phase{BenchTrain, BenchPredict} {
			m := measured(t, Request{Case: c, Phase: phase, Steps: 1, Kernels: true, Peak: Peak{GFLOPs: 100, Bandwidth: 10}})
			steps = append(steps, m.Step)
		}
		tr.add(c, steps...)
	}
	path := filepath.Join(t.TempDir(), "trace.json")
	if err := tr.save(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Events []struct {
			Name, Ph string
			TS, Dur  float64
			PID, TID int
			Args     map[string]any
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	type span struct{ from, to float64 }
	open := map[[2]int][]span{}
	last := map[[2]int]float64{}
	names := map[string]int{}
	for i, e := range got.Events {
		at := [2]int{e.PID, e.TID}
		if e.Ph == "M" {
			names[e.Name]++
			continue
		}
		if e.Ph != "X" || e.Dur < 0 || e.TS < last[at] {
			t.Fatalf("event %d, %s, is %q from %g for %g µs, after one from %g", i, e.Name, e.Ph, e.TS, e.Dur, last[at])
		}
		last[at] = e.TS
		for len(open[at]) > 0 && e.TS >= open[at][len(open[at])-1].to {
			open[at] = open[at][:len(open[at])-1]
		}
		if n := len(open[at]); n > 0 && e.TS+e.Dur > open[at][n-1].to+1e-3 {
			t.Errorf("event %d, %s, ends at %g µs, after the one around it at %g", i, e.Name, e.TS+e.Dur, open[at][n-1].to)
		}
		open[at] = append(open[at], span{e.TS, e.TS + e.Dur})
		names[strings.Fields(e.Name)[0]]++
		if strings.Contains(e.Name, "grad_filter") {
			names["filter"]++
		}
		if strings.HasPrefix(e.Name, "conv3d") {
			for _, key := range []string{"op", "kernel", "shape", "gflops", "bytes"} {
				if e.Args[key] == nil {
					t.Errorf("%s has no %q: %v", e.Name, key, e.Args)
				}
			}
		}
	}
	for name, want := range map[string]int{"process_name": 2, "thread_name": 4, "train": 2, "predict": 2, "graph": 4, "optimiser": 2} {
		if names[name] != want {
			t.Errorf("%d events %q, want %d", names[name], name, want)
		}
	}
	if names["filter"] < 17 {
		t.Errorf("only %d gradients of filters among %v", names["filter"], names)
	}
}

// TestAdamMovement checks the traffic of Adam: seven of eight values per parameter are moved in the update
// pass.
func TestAdamMovement(t *testing.T) {
	r := StepRecord{Whole: 5 * time.Millisecond, Optimizer: 2 * time.Millisecond}
	got := r.adam(1000, engine.Peaks{FLOPs: 1e9, Bytes: 1e9})
	if got.Bytes != 32000 || got.Bound != engine.ByMemory || math.Abs(got.MUE-1.6) > 1e-9 || got.Start != 3*time.Millisecond {
		t.Errorf("%+v", got)
	}
}

// TestRepeat checks the numbers of warm-up and measured steps by duration; the first step takes 10 s longer.
func TestRepeat(t *testing.T) {
	for _, c := range []struct {
		name          string
		took          time.Duration
		steps         int
		seconds       float64
		warmup, count int
	}{
		{"as many as fit", 250 * time.Millisecond, 0, 3, 2, 12},
		{"the least", 3 * time.Second, 0, 3, 2, 5},
		{"exactly", 250 * time.Millisecond, 7, 3, 2, 7},
		{"as long as slow is", 4 * time.Second, 0, 3, 2, 5},
		{"slow", 5 * time.Second, 0, 3, 1, 3},
		{"slow, with time", 5 * time.Second, 0, 22, 1, 5},
		{"slow, exactly", 5 * time.Second, 2, 3, 1, 2},
	} {
		now, taken, warmed := time.Unix(0, 0), 0, 0
		step := func() error {
			if now = now.Add(c.took); taken == 0 {
				now = now.Add(10 * time.Second)
			}
			taken++
			return nil
		}
		all, warmup, err := Repeat(step, func() { warmed++ }, c.steps, c.seconds, func() time.Time { return now })
		if err != nil || warmup != c.warmup || len(all) != c.count || taken != c.warmup+c.count || warmed != 1 {
			t.Errorf("%s: %d warm-up, %d measured of %d, error %v; want %d and %d", c.name, warmup, len(all), taken, err, c.warmup, c.count)
		}
		for _, d := range all {
			if d != c.took {
				t.Errorf("%s: a step took %v, want %v", c.name, d, c.took)
			}
		}
	}
	if _, _, err := Repeat(func() error { return context.Canceled }, func() {}, 0, 1, time.Now); !errors.Is(err, context.Canceled) {
		t.Errorf("a step that fails: %v", err)
	}
}

// Losses and parameters that differ in one bit, even the sign of a zero, have different hashes.
func TestBitsOfTrainings(t *testing.T) {
	a := trained{losses: []float64{1, 2}, parameters: []float32{0, 1}}
	for _, b := range []trained{
		{losses: []float64{1, math.Nextafter(2, 3)}, parameters: []float32{0, 1}},
		{losses: []float64{1, 2}, parameters: []float32{float32(math.Copysign(0, -1)), 1}},
	} {
		if a.bits() == b.bits() {
			t.Errorf("%v and %v have the same bits", a, b)
		}
	}
}
