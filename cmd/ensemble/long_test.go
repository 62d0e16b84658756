//go:build long

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestLongGlobeInMemory: a process that predicts a whole globe of 352×704 points on
// two levels from 42 channels with base 32, and does nothing else, stays below 4 GiB.
func TestLongGlobeInMemory(t *testing.T) {
	const most = 4 << 10 // MiB
	of := run.BenchCase{Model: run.BenchUNet3D, Base: 32, Crop: run.Crop{Height: 352, Width: 704}, Batch: 1, Depth: 2, Threads: 2, Precision: "float32"}
	in, err := json.Marshal(run.BenchRequest{Case: of, Phase: run.BenchPredict, Steps: 1})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "bench", "--one", "--json")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, runErr := cmd.Output()
	var got struct {
		answer.Frame
		Measurement run.BenchMeasurement `json:"measurement"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("no answer: %v, %v", runErr, err)
	}
	if got.ExitCode == int(exit.NoDevice) {
		t.Skip("skipped: no device: ", got.Error.What)
	}
	m := got.Measurement
	if runErr != nil || m.MS.N != 1 {
		t.Fatalf("error %v, measurement %+v", runErr, m)
	}
	t.Logf("%v: peak resident memory %.0f MiB, arena %.0f MiB, %d parameters, %.0f ms", of, m.PeakMiB, m.ArenaMiB, m.Parameters, m.MS.Median)
	if !(m.PeakMiB > m.ArenaMiB && m.PeakMiB < most) {
		t.Errorf("peak of %.0f MiB, want more than the arena and less than %d", m.PeakMiB, most)
	}
}

// TestLongFlippedBits: TestFault03 with every bit of the headers.
func TestLongFlippedBits(t *testing.T) { flipBits(t, 1, 10_000) }

// TestLongFarMessages: TestFault05 behind 4 GiB.
func TestLongFarMessages(t *testing.T) { farMessages(t, 1<<32+3) }

// TestLongRandomCuts: TestFault01 at five hundred places.
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
		if n%size < 4 { // between messages, or less than the word GRIB
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
