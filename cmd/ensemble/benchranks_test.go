package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
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

// TestBenchImbalance: times of computing and waiting make a step, hidden shares follow from the times of the sums, and the written
// machine is one that plan reads, with the imbalance of the answer.
func TestBenchImbalance(t *testing.T) {
	dir := t.TempDir()
	machine, trace := filepath.Join(dir, "machine.yaml"), filepath.Join(dir, "trace.json")
	var r bench.RanksReport
	benchJSON(t, &r, "--parallel", "--ranks", "2", "--mesh", "data:2", "--base", "2", "--crop", "32x64", "--batch", "2", "--threads", "1", "--steps", "6", "--write-machine", machine, "--trace", trace)
	least := 1.0
	var compute []float64
	for i, k := range r.ByRank {
		hidden := max(0, 1-k.GradientsWaitMS/k.GradientsMS)
		if mean := k.ComputeMS + k.WaitMS; !(k.ComputeMS > 0) || mean < k.TrainMin || mean > k.TrainMax || !(k.GradientsMS > 0) || math.Abs(hidden-k.GradientsHidden) > 1e-9 {
			t.Errorf("rank %d: %+v", i, k)
		}
		least, compute = min(least, hidden), append(compute, k.ComputeMS)
	}
	b := r.Imbalance
	mean := (compute[0] + compute[1]) / 2
	if b == nil || r.GradientsHidden != least || b.Ranks != 2 || math.Abs(b.Persistent-max(compute[0], compute[1])/mean) > 1e-4 || b.Slowest < b.Persistent-1e-4 || b.Slowest > 2 || len(b.Times) != 12 {
		t.Fatalf("imbalance %+v, hidden %g, want %g; ranks %+v", b, r.GradientsHidden, least, r.ByRank)
	}
	m, err := config.LoadMachine(machine)
	if err != nil {
		t.Fatal(err)
	}
	if i := m.Imbalance; i.Ranks != b.Ranks || i.Slowest != b.Slowest || i.Persistent != b.Persistent || !slices.Equal(i.Times, b.Times) || math.Abs(m.Network.GBs/r.Predicted.LinkGBs-1) > 1e-3 {
		t.Errorf("the file has %+v, measured %+v", m.Machine, r)
	}
	checkRanksTrace(t, trace, r)
}

// checkRanksTrace checks that a trace has the steps of all ranks, with waits and sums of gradients in rows of their own.
func checkRanksTrace(t *testing.T, path string, r bench.RanksReport) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type event struct {
		Name, Cat, Ph string
		Pid, Tid      int
		TS, Dur       float64
		Args          map[string]any
	}
	var file struct{ TraceEvents []event }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	names, count, sent := map[[2]int]string{}, map[string]int{}, make([]float64, r.Ranks)
	step := make([]event, r.Ranks)
	for _, e := range file.TraceEvents {
		switch row := [2]int{e.Pid, e.Tid}; {
		case e.Name == "thread_name":
			names[row] = e.Args["name"].(string)
		case e.Name == "train step":
			step[e.Pid-1] = e
		case e.Ph == "X":
			want := map[string]string{"task": "sums of gradients", "wait": "waits", "send": "messages", "receive": "messages"}[e.Cat]
			if want != "" && names[row] != want {
				t.Errorf("%+v in row %q", e, names[row])
			}
			if end := step[e.Pid-1].TS + step[e.Pid-1].Dur; e.TS < -1 || e.TS+e.Dur > end+1 {
				t.Errorf("%+v is not within the step, which ends at %g µs", e, end)
			}
			count[e.Cat]++
			if e.Cat == "task" {
				sent[e.Pid-1] += e.Args["bytes_sent"].(float64)
			}
		}
	}
	for _, category := range []string{"forward", "backward", "task", "wait"} {
		if count[category] < r.Ranks {
			t.Errorf("%d events of %q in %v", count[category], category, count)
		}
	}
	for rank, bytes := range sent {
		if least := 4 * float64(r.Parameters); bytes < 0.99*least || bytes > float64(r.ByRank[rank].BytesSent) {
			t.Errorf("rank %d: sums of %g bytes, a step sends %d", rank, bytes, r.ByRank[rank].BytesSent)
		}
	}
}

// TestBenchDensity: sparse sums send fewer bytes than dense ones, on a mesh with data ranks, which is chosen without --mesh.
func TestBenchDensity(t *testing.T) {
	args := []string{"--parallel", "--ranks", "2", "--base", "8", "--crop", "32x64", "--batch", "2", "--threads", "1", "--steps", "2"}
	var dense, sparse bench.RanksReport
	benchJSON(t, &dense, append(args, "--mesh", "data:2")...)
	benchJSON(t, &sparse, append(args, "--density", "0.01", "--predict")...)
	if sparse.Mesh != "data:2" || sparse.Density != 0.01 || sparse.BytesSent <= 0 || sparse.BytesSent > dense.BytesSent/5 || dense.Density != 0 {
		t.Errorf("%d bytes with density %g on %s, %d dense", sparse.BytesSent, sparse.Density, sparse.Mesh, dense.BytesSent)
	}
	if sparse.Predicted == nil || !(sparse.Predicted.StepMS > 0) {
		t.Errorf("predicted %+v", sparse.Predicted)
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
		{[]string{"--parallel", "--ranks", "2", "--density", "1.5"}, "--density"},
		{[]string{"--parallel", "--ranks", "2", "--density", "0.1", "--shard-optimizer"}, "leave out one of them"},
		{[]string{"--parallel", "--ranks", "2", "--density", "0.1", "--mesh", "lat:2", "--crop", "32"}, "give --mesh data:2 --batch 2"},
		{[]string{"--parallel", "--ranks", "2", "--density", "0.1", "--batch", "1", "--crop", "32"}, "give --mesh data:2 --batch 2"},
		{[]string{"--density", "0.1"}, "add --parallel"},
		{[]string{"--write-machine", "m.yaml"}, "add --parallel"},
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
