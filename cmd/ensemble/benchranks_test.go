package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// benchJSON returns the answer of bench with the given flags. It skips the test without a device.
func benchJSON(t *testing.T, answer any, args ...string) {
	t.Helper()
	code, stdout, stderr := call(t, append([]string{"bench", "--json"}, args...)...)
	if code == exit.NoDevice {
		t.Skip("skipped: no device: ", stderr)
	}
	if code != exit.OK {
		t.Fatalf("%q: exit %d, %s", args, code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), answer); err != nil {
		t.Fatalf("%q: %v: %s", args, err, stdout)
	}
}

// TestBenchPredict: the predicted step has the measured rates of the job and is of the order of the measured step.
func TestBenchPredict(t *testing.T) {
	var r bench.RanksReport
	benchJSON(t, &r, "--parallel", "--predict", "--ranks", "2", "--mesh", "lat:2", "--base", "2", "--crop", "32x64", "--batch", "2", "--threads", "1", "--steps", "3")
	p := r.Predicted
	if p == nil || !(p.GFLOPs > 0 && p.GBs > 0 && p.LatencyUS > 0 && p.LinkGBs > 0 && p.Convolutions > 0) || math.Abs(p.StepMS/r.TrainMedian/p.Ratio-1) > 1e-9 {
		t.Fatalf("predicted %+v of %g ms", p, r.TrainMedian)
	}
	if p.Ratio < 0.01 || p.Ratio > 100 {
		t.Errorf("predicted %g ms, measured %g", p.StepMS, r.TrainMedian)
	}
}

// TestBenchParallel: the figures of a step on ranks agree with each other and with the bytes that ranks must send:
// the gradient of every parameter and little more if the batch is distributed, also halos if space is.
func TestBenchParallel(t *testing.T) {
	var sent []int64
	for _, mesh := range []string{"data:2", "lon:2"} {
		var r bench.RanksReport
		benchJSON(t, &r, "--parallel", "--ranks", "2", "--mesh", mesh, "--base", "2", "--crop", "32x64", "--batch", "2", "--threads", "1", "--steps", "3")
		if r.Ranks != 2 || r.Transport != team.InProcess || r.Mesh != mesh || len(r.ByRank) != 2 || r.Steps != 3 || r.Network.Threads != 1 || r.Machine.Cores < 1 {
			t.Fatalf("%s: %+v", mesh, r)
		}
		slowest := r.ByRank[0]
		for i, k := range r.ByRank {
			if k.Rank != i || !(k.TrainMin > 0 && k.TrainMin <= k.TrainMedian && k.TrainMedian <= k.TrainMax) ||
				!(k.WaitMS > 0 && k.WaitMS < k.TrainMax) || k.Messages < 1 || !(k.PeakMiB > k.ArenaMiB && k.ArenaMiB > 0) || !(k.CompileMS > 0) {
				t.Errorf("%s: rank %d: %+v", mesh, i, k)
			}
			if k.TrainMedian > slowest.TrainMedian {
				slowest = k
			}
		}
		if r.TrainMedian != slowest.TrainMedian || r.TrainMin != slowest.TrainMin || r.TrainMax != slowest.TrainMax {
			t.Errorf("%s: %g ms, want those of rank %d", mesh, r.TrainMedian, slowest.Rank)
		}
		if want := 3e3 * r.GFLOP / r.TrainMedian; math.Abs(r.GFLOPs-want) > 1e-9*want || math.Abs(r.SamplesPerS-2e3/r.TrainMedian) > 1e-9*r.SamplesPerS {
			t.Errorf("%s: %g GFLOP/s and %g samples/s in %g ms", mesh, r.GFLOPs, r.SamplesPerS, r.TrainMedian)
		}
		sent = append(sent, r.BytesSent)
		if least := 4 * int64(r.Parameters); r.BytesSent < least || mesh == "data:2" && r.BytesSent > least+least/10 {
			t.Errorf("%s: %d bytes sent, the gradient has %d", mesh, r.BytesSent, least)
		}
	}
	if sent[1] <= sent[0] {
		t.Errorf("%d bytes sent in space, %d along samples", sent[1], sent[0])
	}
	var r bench.RanksReport
	benchJSON(t, &r, "--parallel", "--ranks", "2", "--mesh", "lon:3", "--base", "1", "--crop", "32x64", "--threads", "1", "--steps", "1")
	var hosted []string
	for _, k := range r.ByRank {
		hosted = append(hosted, fmt.Sprint(k.Process, ".", k.Rank))
	}
	if got := strings.Join(hosted, " "); r.Processes != 2 || r.Ranks != 3 || got != "0.0 1.1 1.2" {
		t.Errorf("3 hosted on 2 ranks: %s of %+v", got, r)
	}
	code, stdout, _ := call(t, "bench", "--parallel", "--ranks", "2", "--base", "2", "--crop", "32x64", "--threads", "1", "--steps", "1")
	if code != exit.OK || !strings.Contains(stdout, "2 ranks (in-process), mesh l") || !strings.Contains(stdout, "waited ms") {
		t.Errorf("exit %d, %s", code, stdout)
	}
}

// TestBenchCheckParallel: the totals of the answer are those of the errors of all meshes, and the number of steps
// is the requested one.
func TestBenchCheckParallel(t *testing.T) {
	var r bench.ParallelCheck
	benchJSON(t, &r, "--check-parallel", "--ranks", "2", "--base", "2", "--crop", "32", "--threads", "1", "--steps", "3")
	var names []string
	var most bench.ParallelErrors
	for _, m := range r.Meshes {
		names = append(names, m.Mesh)
		most.Forward, most.Gradient = max(most.Forward, m.Forward), max(most.Gradient, m.Gradient)
		most.Loss, most.Parameters = max(most.Loss, m.Loss), max(most.Parameters, m.Parameters)
		if len(m.Losses) != 3 || len(m.Checksum) != 64 {
			t.Errorf("%s: losses %v, checksum %q", m.Mesh, m.Losses, m.Checksum)
		}
	}
	if got := strings.Join(names, ", "); got != "lon:2, lat:2, level:2, data:2" || !r.Network.Periodic || len(r.Losses) != 3 {
		t.Errorf("meshes %s, losses %v of %v", got, r.Losses, r.Network)
	}
	if r.MaxRelErrors != most || r.MaxRelError != max(most.Forward, most.Gradient, most.Loss) || !(r.MaxRelError > 0 && r.MaxRelError < 1e-4) {
		t.Errorf("largest errors %+v and %g, want %+v", r.MaxRelErrors, r.MaxRelError, most)
	}
	benchJSON(t, &r, "--check-parallel", "--ranks", "2", "--mesh", "lon:3", "--base", "1", "--crop", "32x64", "--threads", "1", "--steps", "1", "--optimizer", "adam")
	if len(r.Meshes) != 1 || r.Meshes[0].Mesh != "lon:3" || r.Processes != 2 || r.Ranks != 3 || !r.SameBits || !r.Meshes[0].SameBits || r.Optimizer != "adam" {
		t.Errorf("one mesh: %+v", r)
	}
}

func TestBenchRanksErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--parallel", "--ranks", "3", "--mesh", "lon:2"}, "a mesh of 2 ranks (lon:2) in a job of 3"},
		{[]string{"--check-parallel", "--optimizer", "lamb"}, "--optimizer"},
		{[]string{"--parallel", "--mesh", "east:2"}, `invalid mesh axis "east:2"`},
		{[]string{"--parallel", "--base", "1,2"}, "--parallel: got 2 cases"},
		{[]string{"--parallel", "--ranks", "37", "--crop", "32"}, "no mesh of 37 ranks"},
		{[]string{"--check-parallel", "--ranks", "2", "--mesh", "lon:x"}, `invalid mesh axis "lon:x"`},
		{[]string{"--check-parallel", "--base", "1,2"}, "--check-parallel: got 2 cases"},
	} {
		code, stdout, stderr := call(t, append([]string{"bench"}, c.args...)...)
		if code != exit.Usage || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%q: exit %d, %q; want exit 64 and %q", c.args, code, stderr, c.want)
		}
	}
}
