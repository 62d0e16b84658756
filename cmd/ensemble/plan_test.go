package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
)

// machineFile writes a description of a machine.
func machineFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "machine.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const smallMachine = "version: 1\nnode: {ranks: 2}\nrank: {gflops: 10, gb_s: 10}\nnetwork: {topology: \"crossbar:8\", latency_us: 1, gb_s: 1}\n"

// planArgs plans a small network with the demo's configuration, without data.
func planArgs(machine string, more ...string) []string {
	return append([]string{"plan", "-c", "../../ensemble/run/demo/demo.yaml", "--set", "model.base=2", "--crop", "32x64", "--machine", machine}, more...)
}

// TestPlan: the answer is marked as predicted, names a mesh with all ranks, and has all requested parts.
func TestPlan(t *testing.T) {
	machine := machineFile(t, smallMachine)
	code, stdout, stderr := call(t, planArgs(machine, "--ranks", "8", "--simulate", "--json")...)
	type step struct {
		Mesh       string
		StepS      float64 `json:"step_s"`
		ForwardS   float64 `json:"forward_s"`
		BackwardS  float64 `json:"backward_s"`
		OptimiserS float64 `json:"optimiser_s"`
		GradientsS float64 `json:"gradients_s"`
		Efficiency float64
		Memory     int64 `json:"memory_bytes"`
		Layers     []struct{ Name, Distribution string }
		Simulated  struct {
			StepS float64 `json:"step_s"`
		}
	}
	var answer struct {
		Schema    string
		Predicted bool
		Plan      step
		Meshes    []step
		Network   string `json:"simulated_network"`
		Pipeline  struct {
			Stages    int
			Mesh      string
			Simulated struct {
				StepS float64 `json:"step_s"`
			}
			Batches      int     `json:"micro_batches"`
			StepS        float64 `json:"step_s"`
			Idle         float64 `json:"idle"`
			LargestStage float64 `json:"largest_stage"`
			Layer        string  `json:"largest_layer"`
			Bytes        int64   `json:"message_bytes"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || code != exit.OK {
		t.Fatalf("exit %d, %v, %s", code, err, stderr)
	}
	l := answer.Pipeline
	mesh, err := spatial.ParseMesh(l.Mesh)
	if err != nil {
		t.Fatal(err)
	}
	alone := answer.Plan.Efficiency * 8 * answer.Plan.StepS
	if l.Stages*mesh.Size() != 8 || l.Batches < 1 || l.LargestStage < 1/float64(l.Stages) || l.Simulated.StepS < 0.9*l.StepS || l.Simulated.StepS > 1.1*l.StepS || l.Layer != "dec_conv1a" || l.Bytes <= 0 || l.Idle <= 0 || l.Idle >= 1 ||
		l.StepS < alone/8 || l.StepS*8*(1-l.Idle) > 1.5*alone {
		t.Errorf("%+v, one rank takes %g s", l, alone)
	}
	p := answer.Plan
	if answer.Schema != "ensemble.plan/1" || !answer.Predicted || p.Memory <= 0 || p.Efficiency <= 0 || p.Efficiency > 1 {
		t.Errorf("%+v", answer)
	}
	if sum := p.ForwardS + p.BackwardS + p.OptimiserS + p.GradientsS; sum < 0.999999*p.StepS || sum > 1.000001*p.StepS {
		t.Errorf("the parts of a step of %g s make %g s", p.StepS, sum)
	}
	if answer.Meshes[0].Simulated.StepS < p.Simulated.StepS || p.Mesh == "" || len(p.Layers) < 10 || p.Layers[0].Name != "enc_conv0" {
		t.Errorf("%g s of the meshes, chosen %g s; layers %+v", answer.Meshes[0].Simulated.StepS, p.Simulated.StepS, p.Layers)
	}
	if answer.Network != "crossbar:8" || p.Simulated.StepS < 0.8*p.StepS || p.Simulated.StepS > 1.2*p.StepS {
		t.Errorf("simulated on %s: %g s, predicted %g s", answer.Network, p.Simulated.StepS, p.StepS)
	}
	code, stdout, stderr = call(t, planArgs(machine, "--ranks", "4", "--scaling")...)
	for _, want := range []string{"PREDICTED", "best plan: mesh ", "train:\n  mesh: \"", "enc_conv0", "one distribution for all layers", "simulated on a virtual cluster (crossbar:8)", "a pipeline of ", "the stage of dec_conv1a has", "sums of gradients ", "strategies, predicted, for ranks of equal speed", "*1  synchronous", "train.optimizer: kfac, train.kfac.refresh: 50", "strong: mesh", "\n 4096  "} {
		if code != exit.OK || !strings.Contains(stdout, want) {
			t.Errorf("exit %d, %q is not in %s%s", code, want, stdout, stderr)
		}
	}
}

// TestPlanOfPipeline: train.pipeline is priced beside the mesh, and its stages must be the ranks.
func TestPlanOfPipeline(t *testing.T) {
	machine := machineFile(t, smallMachine)
	pipeline := []string{"--set", "train.batch_size=8", "--set", "train.pipeline.stages=4", "--set", "train.pipeline.schedule=chimera", "--set", "train.pipeline.micro_batches=4"}
	code, stdout, stderr := call(t, planArgs(machine, append(pipeline, "--ranks", "4")...)...)
	for _, want := range []string{"best plan: mesh ", "the pipeline of train.pipeline, of 4 stages (chimera, 2 samples as micro-batches) would take ", "a training on the mesh of the plan is faster"} {
		if code != exit.OK || !strings.Contains(stdout, want) {
			t.Errorf("exit %d, %q is not in %s%s", code, want, stdout, stderr)
		}
	}
	code, stdout, stderr = call(t, planArgs(machine, append(pipeline, "--ranks", "8", "--set", "train.mesh=lat:2")...)...)
	if want := "of 4 stages (chimera, 2 samples as micro-batches, mesh lat:2) would take "; code != exit.OK || !strings.Contains(stdout, want) {
		t.Errorf("exit %d, %q is not in %s%s", code, want, stdout, stderr)
	}
	if code, _, stderr = call(t, planArgs(machine, append(pipeline, "--ranks", "8")...)...); code != exit.Usage || !strings.Contains(stderr, "give --ranks 4, or another number of stages") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// TestPlanWithoutMachine: without --machine the machine of the configuration is used. Without both, the rates of
// this machine are measured.
func TestPlanWithoutMachine(t *testing.T) {
	args := planArgs("")
	args = args[:len(args)-2]
	for _, c := range []struct{ set, want string }{
		{"train.machine=" + machineFile(t, smallMachine), "machine.yaml: 10 GFLOP/s and 10 GB/s a rank"},
		{"train.seed=1", "machine: nodes like this one, one rank each (measured); network assumed"},
	} {
		code, stdout, stderr := call(t, append(args, "--ranks", "2", "--set", c.set)...)
		if code == exit.NoDevice {
			t.Skip("skipped: no device: ", stderr)
		}
		if code != exit.OK || !strings.Contains(stdout, c.want) {
			t.Errorf("%s: exit %d, %s; want %q", c.set, code, stdout+stderr, c.want)
		}
	}
}

// TestPlanHere: without --machine and --ranks the answer is the training on this machine, and with --ranks it comes first.
func TestPlanHere(t *testing.T) {
	args := planArgs("")
	args = args[:len(args)-2]
	code, stdout, stderr := call(t, append(args, "--json")...)
	if code == exit.NoDevice {
		t.Skip("skipped: no device: ", stderr)
	}
	var answer struct {
		Local struct {
			StepS  float64 `json:"step_s"`
			Memory int64   `json:"memory_bytes"`
			Fits   bool
		} `json:"this_machine"`
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || code != exit.OK || answer.Local.StepS <= 0 || answer.Local.Memory <= processBytes || !answer.Local.Fits {
		t.Errorf("exit %d, %v, %+v: %s", code, err, answer, stderr)
	}
	for _, more := range [][]string{nil, {"--ranks", "2"}} {
		code, stdout, stderr := call(t, append(args, more...)...)
		if code != exit.OK || !strings.HasPrefix(stdout, "On this machine (") || !strings.Contains(stdout, "for 1000 steps") || strings.Contains(stdout, "best plan") != (more != nil) {
			t.Errorf("%q: exit %d, %s", more, code, stdout+stderr)
		}
	}
}

// processBytes is less than any process needs.
const processBytes = 1 << 20

func TestPlanErrors(t *testing.T) {
	machine := machineFile(t, smallMachine)
	wrong := func(old, text string) string { return machineFile(t, strings.Replace(smallMachine, old, text, 1)) }
	for _, c := range []struct {
		args []string
		code exit.Code
		want string
	}{
		{[]string{"plan"}, exit.Usage, "missing --config"},
		{planArgs(machine), exit.Usage, "missing --ranks"},
		{[]string{"plan", "-c", "x", "--scaling"}, exit.Usage, "missing --ranks"},
		{planArgs(machine, "--ranks", "0"), exit.Usage, "invalid number of ranks: 0"},
		{planArgs(wrong("topology: \"crossbar:8\", ", ""), "--ranks", "37"), exit.Usage, "no mesh of 37 ranks"},
		{planArgs(machine, "--ranks", "32"), exit.Usage, "32 ranks need 16 nodes"},
		{planArgs("none.yaml", "--ranks", "2"), exit.Usage, "with --machine"},
		{planArgs(wrong("gflops", "gflop"), "--ranks", "2"), exit.Usage, "did you mean `gflops`?"},
		{planArgs(wrong("crossbar:8", "crossbar"), "--ranks", "2"), exit.Usage, "machine.yaml:4"},
		{planArgs(wrong("gb_s: 10}", "gb_s: 10, memory: 1MiB}"), "--ranks", "2"), exit.No, "no plan of 2 ranks fits into memory"},
		{planArgs(machine, "--ranks", "2", "--crop", "0x5"), exit.Usage, "--crop"},
		{planArgs(machine, "extra"), exit.Usage, "unexpected argument"},
		{planArgs(machine, "--ranks", "4", "--set", "train.mesh=lat:2"), exit.Usage, "give --ranks 2, or --set train.mesh=auto"},
		{planArgs(machine, "--ranks", "16", "--set", "train.mesh=data:16"), exit.Usage, "16 ranks along data, but a batch has"},
		{planArgs(machine, "--ranks", "4", "--set", "train.mesh=lat:4@2x5x5=none"), exit.Usage, "2x5x5, which the network does not have"},
	} {
		code, _, stderr := call(t, c.args...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d, %s; want %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
}

// A plan of many ranks ends at SIGTERM without an answer: in the search, and in the simulation.
func TestPlanStops(t *testing.T) {
	machine := machineFile(t, strings.Replace(smallMachine, "crossbar:8", "torus:64,64", 1))
	for _, stage := range []struct{ task, flag, ranks string }{{"plan ranks", "--scaling", "16"}, {"simulate plans", "--simulate", "256"}} {
		cmd := exec.Command(os.Args[0], planArgs(machine, "--ranks", stage.ranks, "--crop", "352x704", "--set", "train.batch_size=16", "--progress=plain", "--log-interval=50ms", stage.flag)...)
		var out strings.Builder
		cmd.Stdout = &out
		errs, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var began time.Time
		var log strings.Builder
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			fmt.Fprintln(&log, lines.Text())
			if began.IsZero() && strings.Contains(lines.Text(), stage.task) {
				began = time.Now()
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
		t.Logf("%s: ended after %v", stage.flag, time.Since(began))
		if code := exit.Code(cmd.ProcessState.ExitCode()); code != exit.SaveAndStop || out.Len() > 0 {
			t.Errorf("%s: exit %d, answer %q: %s", stage.flag, code, out.String(), log.String())
		}
	}
}
