//go:build long

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// measuredProcess returns the measurement of a process that does only this, and skips the test without the device.
func measuredProcess(t *testing.T, r bench.Request) bench.Measurement {
	t.Helper()
	in, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "bench", "--single", "--json")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, runErr := cmd.Output()
	var got struct {
		answer.Envelope
		Measurement bench.Measurement `json:"measurement"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("no answer: %v, %v", runErr, err)
	}
	if got.ExitCode == int(exit.NoDevice) {
		t.Skip("skipped: no device: ", got.Error.What)
	}
	if runErr != nil || r.Steps > 0 && got.Measurement.MS.N != r.Steps {
		t.Fatalf("error %v, measurement %+v", runErr, got.Measurement)
	}
	return got.Measurement
}

// TestLongGlobeInMemory: a process that only predicts a whole globe of 352×704 points on two levels, from 42
// channels with base 32, needs less than 4 GiB.
func TestLongGlobeInMemory(t *testing.T) {
	const most = 4 << 10 // MiB
	of := bench.Case{Model: bench.BenchUNet3D, Base: 32, Crop: setup.Crop{Height: 352, Width: 704}, Batch: 1, Depth: 2, Threads: 2, Precision: "float32"}
	m := measuredProcess(t, bench.Request{Case: of, Phase: bench.BenchPredict, Steps: 1})
	t.Logf("%v: peak resident memory %.0f MiB, arena %.0f MiB, %d parameters, %.0f ms", of, m.PeakMiB, m.ArenaMiB, m.Parameters, m.MS.Median)
	if !(m.PeakMiB > m.ArenaMiB && m.PeakMiB < most) {
		t.Errorf("peak of %.0f MiB, want more than the arena and less than %d", m.PeakMiB, most)
	}
}

// TestLongStepMemory: the memory that `ensemble plan --time` predicts is within 10 % of the peak of a process, for training steps and
// predictions.
func TestLongStepMemory(t *testing.T) {
	for _, base := range []int{8, 16, 32} {
		for _, side := range []int{64, 128, 256} {
			for _, phase := range []bench.Phase{bench.BenchTrain, bench.BenchPredict} {
				of := bench.Case{Model: bench.BenchUNet3D, Base: base, Crop: setup.Crop{Height: side, Width: side}, Batch: 1, Depth: 2, Threads: 2, Precision: "float32"}
				m := measuredProcess(t, bench.Request{Case: of, Phase: phase, Steps: 3})
				off := m.PlannedMiB/m.PeakMiB - 1
				t.Logf("base %d, crop %d, %s: predicted %.0f MiB, peak %.0f MiB (%+.0f %%)", base, side, phase, m.PlannedMiB, m.PeakMiB, 100*off)
				if math.Abs(off) > 0.1 {
					t.Errorf("%v, %s: predicted %.0f MiB, peak %.0f MiB", of, phase, m.PlannedMiB, m.PeakMiB)
				}
			}
		}
	}
}

// TestLongHindcastArchive runs data prepare on an archive in the layout of ENS-10, with one file per calendar day
// for twenty years. Resident memory depends on the requested fields, not on the size of the archive. A store that
// was killed and stopped has the bytes of an uninterrupted one.
func TestLongHindcastArchive(t *testing.T) {
	testdecoder.Path(t)
	root := t.TempDir()
	archive := filepath.Join(root, "archive")
	if code, _, stderr := call(t, "data", "synthesize", "ens10", "--out", archive, "--grid", "9x16", "--dates", "8", "--seed", "1", "--progress", "none"); code != exit.OK {
		t.Fatal(stderr)
	}
	days, err := filepath.Glob(filepath.Join(archive, "output.*.2018*"))
	if err != nil || len(days) != 16 {
		t.Fatal(days, err)
	}
	args := func(days []string) func(out string, more ...string) []string {
		return func(out string, more ...string) []string {
			return append([]string{"data", "prepare", "-c", "../../experiments/ens10/z500.yaml", "--set", "data.forecasts=[" + strings.Join(days, ",") + "]",
				"--set", "data.analyses=[" + archive + "/era5.*]", "--out", out, "--shard-size", "1MiB", "--memory", "16MiB", "--progress", "none"}, more...)
		}
	}
	const (
		inFile = 20 * 30 * (77 + 11) // fields of a calendar day, of both kinds
		asked  = 20 * 10 * 7         // those that the configuration requests
		most   = 150                 // bytes per field of the archive
	)
	peak := func(n int) (kib int64, took time.Duration, out string) {
		out = filepath.Join(root, fmt.Sprint("store-", n))
		var files []string
		for _, d := range days {
			if i := slices.Index([]string{"0101", "0215", "0402", "0517", "0702", "0816", "1001", "1115"}, d[len(d)-4:]); i >= 0 && i < n {
				files = append(files, d)
			}
		}
		cmd := exec.Command(os.Args[0], args(files)(out)...)
		cmd.Stderr = os.Stderr
		begun := time.Now()
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss, time.Since(begun), out
	}
	half, _, _ := peak(4)
	whole, took, out := peak(8)
	each := float64(whole-half) * 1024 / (4 * inFile)
	t.Logf("peak resident memory of data prepare: %d MiB with %d fields in the files, %d of them requested; %d MiB with %d and %d: %.0f bytes more a field",
		half>>10, 4*inFile, 4*asked, whole>>10, 8*inFile, 8*asked, each)
	if each > most {
		t.Errorf("%.0f bytes a field of the archive, want at most %d", each, most)
	}
	prepareInterrupted(t, args(days), sumsOf(t, out), took, 8, 4)
}

// TestLongFlippedBits runs TestFault03 with every bit of the headers.
func TestLongFlippedBits(t *testing.T) { flipBits(t, 1, 10_000) }

// TestLongFarMessages runs TestFault05 beyond 4 GiB.
func TestLongFarMessages(t *testing.T) { farMessages(t, 1<<32+3) }

// TestLongRandomCuts runs TestFault01 with five hundred cuts.
func TestLongRandomCuts(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	whole := join(c[:3]...)
	size := len(c[0].Bytes())
	r := rand.New(rand.NewPCG(5, 6))
	at := map[string]int{}
	var files []string
	for i := range 500 {
		n := 1 + r.IntN(len(whole)-1)
		if n%size < 4 { // between messages, or within the word GRIB
			continue
		}
		path := f.put(fmt.Sprintf("cut%d.grib2", i), whole[:n])
		files, at[path] = append(files, path), n
	}
	for some := range slices.Chunk(files, 250) {
		named := map[string]listed{}
		for _, x := range f.faults(exit.No, append(some, f.put("sound.grib2", whole))...) {
			if x.Kind == "damage" {
				named[x.File] = x
			}
		}
		for _, path := range some {
			if x, n := named[path], at[path]; x.Byte == nil || *x.Byte != int64(n/size*size) || x.Message != n/size+1 {
				t.Errorf("the cut at %d of messages of %d bytes: %+v", n, size, x)
			}
		}
	}
}
