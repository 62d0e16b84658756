package plan

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
)

// docs/scaling.md has the conditions of the code, each with the key that selects the system.
func TestConditionsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "scaling.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Conditions() {
		row := fmt.Sprintf("| %s | %s |", c.When, c.System)
		_, rest, found := strings.Cut(string(page), row)
		use, _, _ := strings.Cut(rest, "\n")
		if !found || !strings.Contains(use, c.Key) {
			t.Errorf("docs/scaling.md has no row %q with %s", row, c.Key)
		}
	}
}

// planOn plans the demo's network on ranks of a machine, with settings.
func planOn(t *testing.T, ranks int, network, more string, set ...string) *Result {
	t.Helper()
	r, err := runOn(t, ranks, network, more, set...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// runOn is planOn with its error.
func runOn(t *testing.T, ranks int, network, more string, set ...string) (*Result, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "machine.yaml")
	text := fmt.Sprintf("version: 1\nrank: {gflops: 500, gb_s: 50%s}\nnetwork: {latency_us: 20, gb_s: %s}\n", more, network)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := config.LoadMachine(path)
	if err != nil {
		t.Fatal(err)
	}
	c := demotest.Config(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, append([]string{"train.batch_size=4", "model.base=8"}, set...)...)
	return Run(t.Context(), Options{Config: c, Machine: m, Ranks: ranks, Crop: setup.Crop{Height: 32, Width: 64}})
}

// bySystem returns the strategies of a result by the begin of their system.
func bySystem(t *testing.T, r *Result, system string) Strategy {
	t.Helper()
	for _, s := range r.Strategies {
		if strings.HasPrefix(s.System, system) {
			return s
		}
	}
	t.Fatalf("no strategy %q in %+v", system, r.Strategies)
	return Strategy{}
}

// Systems are proposed where their condition holds: sparse sums on a slow network, late sums with an imbalance that is another rank in
// each step, and synchronous steps otherwise.
func TestProposedStrategies(t *testing.T) {
	const imbalance = "}\nimbalance: {ranks: 4, slowest: %s, persistent: %s"
	for _, c := range []struct {
		name, network, more string
		want, not           []string
	}{
		{"fast network", "12.5", "", []string{synchronousSystem}, []string{sparseSystem, soloSystem, majoritySystem, wagmaSystem, localSystem, kfacSystem, pipelineSystem, pipeFisherSystem, shardedSystem, largeBatchSystem}},
		{"slow network", "0.125", "", []string{synchronousSystem, sparseSystem}, []string{soloSystem, wagmaSystem, kfacSystem, pipelineSystem}},
		{"network between sites", "0.002", "", []string{synchronousSystem, sparseSystem, localSystem}, []string{soloSystem, wagmaSystem}},
		{"uneven ranks", "12.5", fmt.Sprintf(imbalance, "1.6", "1.05"), []string{synchronousSystem, soloSystem, majoritySystem, wagmaSystem, skipping + soloSystem}, []string{sparseSystem, localSystem}},
		{"a slow rank", "12.5", fmt.Sprintf(imbalance, "1.6", "1.55"), []string{synchronousSystem}, []string{soloSystem, majoritySystem, wagmaSystem, skipping + soloSystem, skipping + wagmaSystem}},
		{"nearly even ranks", "12.5", fmt.Sprintf(imbalance, "1.14", "1"), []string{synchronousSystem}, []string{soloSystem, majoritySystem, wagmaSystem}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := planOn(t, 4, c.network, c.more)
			for _, system := range c.want {
				if s := bySystem(t, r, system); !s.Proposed {
					t.Errorf("not proposed: %+v", s)
				}
			}
			for _, system := range c.not {
				if s := bySystem(t, r, system); s.Proposed {
					t.Errorf("proposed: %+v", s)
				}
			}
			checkStrategies(t, r)
		})
	}
}

// checkStrategies checks the order of strategies, and their numbers against each other.
func checkStrategies(t *testing.T, r *Result) {
	t.Helper()
	synchronous := bySystem(t, r, synchronousSystem)
	if want := r.Plan; synchronous.EvenStepS != want.StepS || synchronous.MemoryBytes != want.MemoryBytes || synchronous.Mesh != want.Mesh ||
		synchronous.SentBytes != want.HaloBytes+want.ShuffleBytes+want.SumBytes+want.GradientBytes {
		t.Errorf("synchronous %+v, the plan is %+v", synchronous, want)
	}
	for i, s := range r.Strategies {
		if !(s.StepS > 0 && s.EvenStepS > 0 && s.Idle >= 0 && s.Idle < 1) || s.Results == exactResults && s.StepS < s.EvenStepS || s.SentBytes <= 0 || s.MemoryBytes <= 0 || s.Why == "" || !strings.HasPrefix(s.Setting, "train.") {
			t.Errorf("%+v", s)
		}
		if s.Proposed && s.Results != exactResults && s.Results != optimiserResults && s.StepS >= synchronous.StepS {
			t.Errorf("proposed, but slower than synchronous steps of %g s: %+v", synchronous.StepS, s)
		}
		if i > 0 {
			if b := r.Strategies[i-1]; b.Proposed == s.Proposed && b.Fits == s.Fits && b.StepS > s.StepS || s.Proposed && !b.Proposed {
				t.Errorf("strategy %d %+v comes after %+v", i+1, s, b)
			}
		}
	}
	if r.Imbalance == nil {
		return
	}
	// A synchronous step waits for the slowest rank with its computation.
	compute := r.Plan.ComputeS + r.Plan.OptimiserS
	if want := synchronous.EvenStepS + (r.Imbalance.Planned-1)*compute; synchronous.StepS < want*(1-1e-9) || synchronous.StepS > want*(1+1e-9) {
		t.Errorf("a synchronous step of %g s, want %g", synchronous.StepS, want)
	}
}

// The optimiser is sharded where memory needs it, and K-FAC's memory is part of the plan of a training that uses it.
func TestMemoryOfStrategies(t *testing.T) {
	r := planOn(t, 2, "12.5", "", "train.mesh=data:2")
	whole, sharded := bySystem(t, r, synchronousSystem), bySystem(t, r, shardedSystem)
	if sharded.MemoryBytes >= whole.MemoryBytes || sharded.Proposed || sharded.Idle < whole.Idle { // parameters are gathered while ranks wait
		t.Fatalf("sharded %+v, whole %+v", sharded, whole)
	}
	limit := (whole.MemoryBytes + sharded.MemoryBytes) / 2 >> 10
	r = planOn(t, 2, "12.5", fmt.Sprintf(", memory: %dKiB", limit), "train.mesh=data:2")
	if s := r.Strategies[0]; s.System != shardedSystem || !s.Proposed || bySystem(t, r, synchronousSystem).Proposed {
		t.Errorf("with %d KiB: %+v", limit, r.Strategies)
	}
	k := planOn(t, 2, "12.5", "", "train.mesh=data:2", "train.optimizer=kfac")
	if more := k.Plan.MemoryBytes - whole.MemoryBytes; more <= 0 || bySystem(t, k, kfacSystem).MemoryBytes < k.Plan.MemoryBytes || bySystem(t, k, synchronousSystem).MemoryBytes != whole.MemoryBytes {
		t.Errorf("K-FAC takes %d bytes more: %+v", more, k.Strategies)
	}
}

// Where no mesh fits without a sharded optimiser, and one does with it, the error says so.
func TestMemoryNeedsSharding(t *testing.T) {
	least := int64(1 << 62)
	for _, m := range planOn(t, 2, "12.5", "").Meshes {
		least = min(least, m.MemoryBytes)
	}
	_, err := runOn(t, 2, "12.5", fmt.Sprintf(", memory: %dKiB", least>>10-1))
	var e *exit.Error
	if !errors.As(err, &e) || e.Code != exit.No || !strings.Contains(e.Fix, "train.shard_optimizer: true") {
		t.Errorf("%+v", err)
	}
	_, err = runOn(t, 2, "12.5", ", memory: 1MiB")
	if !errors.As(err, &e) || e.Code != exit.No || strings.Contains(e.Fix, "train.shard_optimizer") {
		t.Errorf("%+v", err)
	}
}

// What the configuration selects is marked, with its numbers.
func TestConfiguredStrategies(t *testing.T) {
	for _, c := range []struct {
		set     []string
		system  string
		setting string
	}{
		{nil, synchronousSystem, "train.mesh"},
		{[]string{"train.exchange.system=eager", "train.exchange.period=7"}, majoritySystem, "train.exchange: {system: eager, initiator: majority, period: 7}"},
		{[]string{"train.exchange.system=wagma", "train.exchange.period=5", "train.exchange.group=2"}, wagmaSystem, "train.exchange: {system: wagma, group: 2, period: 5}"},
		{[]string{"train.exchange.system=wagma", "train.exchange.period=5", "train.exchange.group=2", "train.exchange.skip=true"}, skipping + wagmaSystem,
			"train.exchange: {system: wagma, group: 2, period: 5, skip: true}"},
		{[]string{"train.exchange.system=local", "train.exchange.period=20"}, localSystem, "train.exchange: {system: local, period: 20}"},
		{[]string{"train.compression.density=0.05"}, sparseSystem + ", 5 %", "train.compression.density: 0.05"},
		{[]string{"train.pipeline.stages=2"}, pipelineSystem, "train.pipeline: {stages: 2, schedule: 1f1b}"},
		{[]string{"train.shard_optimizer=true"}, shardedSystem, "train.shard_optimizer: true"},
		{[]string{"train.optimizer=kfac", "train.kfac.refresh=20"}, kfacSystem, "train.optimizer: kfac, train.kfac.refresh: 20"},
	} {
		for _, s := range planOn(t, 2, "12.5", "", c.set...).Strategies {
			if s.Configured != (s.System == c.system) || s.Configured && !strings.HasPrefix(s.Setting, c.setting) {
				t.Errorf("%q: %+v", c.set, s)
			}
		}
	}
}

// Late units that leave steps out take shorter steps of fewer samples. Without imbalance they leave none out.
func TestSkippingStrategies(t *testing.T) {
	uneven := planOn(t, 4, "12.5", "}\nimbalance: {ranks: 4, slowest: 1.6, persistent: 1.0", "train.mesh=data:4")
	even := planOn(t, 4, "12.5", "", "train.mesh=data:4")
	for _, system := range []string{soloSystem, majoritySystem, wagmaSystem} {
		whole, skips := bySystem(t, uneven, system), bySystem(t, uneven, skipping+system)
		if whole.LeftOut != 0 || !(skips.LeftOut > 0 && skips.LeftOut < 0.5) || skips.StepS >= whole.StepS || skips.EvenStepS != whole.EvenStepS || skips.SentBytes != whole.SentBytes {
			t.Errorf("%+v, with all steps %+v", skips, whole)
		}
		ratio := (1 - skips.LeftOut) * whole.StepS / skips.StepS
		if skips.Proposed != (ratio > 1) || !strings.Contains(skips.Why, fmt.Sprintf("%.3g times", ratio)) || !strings.Contains(skips.Why, "% of the samples are left out") {
			t.Errorf("%.3f times the samples: %+v", ratio, skips)
		}
		if s := bySystem(t, even, skipping+system); s.LeftOut != 0 || s.StepS != bySystem(t, even, system).StepS || s.Proposed {
			t.Errorf("without imbalance %+v", s)
		}
	}
}

// On one rank there is nothing to exchange.
func TestStrategiesOfOneRank(t *testing.T) {
	for _, s := range planOn(t, 1, "12.5", "").Strategies {
		if s.System != synchronousSystem && s.System != largeBatchSystem && s.System != kfacSystem {
			t.Errorf("%+v", s)
		}
	}
}

// The pipeline of the plan is the fastest of stages, data ranks and meshes of fields that are as many as the ranks; its parts make the
// step, and the configured one is the same.
func TestFastestPipeline(t *testing.T) {
	meshes := map[string]bool{}
	for _, c := range []struct {
		ranks int
		batch string
	}{{2, "4"}, {4, "4"}, {8, "8"}} {
		path := []string{"train.batch_size=" + c.batch}
		r := planOn(t, c.ranks, "12.5", "", path...)
		p := r.Pipeline
		mesh, err := spatial.ParseMesh(p.Mesh)
		if err != nil {
			t.Fatal(err)
		}
		if p.Configured || p.Stages*mesh.Size() != c.ranks || p.MicroBatches*mesh.DataRanks() != r.Batch || !p.Fits || p.KFAC != nil {
			t.Errorf("%d ranks: %+v", c.ranks, p)
		}
		meshes[p.Mesh] = true
		if sum := p.PassesS + p.GradientsS + p.OptimiserS + p.ParametersS; math.Abs(sum/p.StepS-1) > 1e-9 {
			t.Errorf("%d ranks: parts of %g s make %g s", c.ranks, p.StepS, sum)
		}
		// The same pipeline as that of the configuration has the same price, and a smaller mesh with more stages is not faster.
		set := append(path, fmt.Sprintf("train.pipeline.stages=%d", p.Stages), "train.pipeline.schedule="+p.Schedule)
		if p.Mesh != "" {
			set = append(set, "train.mesh="+p.Mesh)
		}
		q := planOn(t, c.ranks, "12.5", "", set...).Pipeline
		if q.StepS != p.StepS || q.MemoryBytes != p.MemoryBytes || !q.Configured {
			t.Errorf("%d ranks: configured %+v, found %+v", c.ranks, q, p)
		}
		if q := planOn(t, c.ranks, "12.5", "", append(path, fmt.Sprintf("train.pipeline.stages=%d", c.ranks))...).Pipeline; q.StepS < p.StepS {
			t.Errorf("%d ranks: %d stages take %g s, the fastest pipeline %g s", c.ranks, c.ranks, q.StepS, p.StepS)
		}
		x := bySystem(t, r, pipelineSystem)
		if x.EvenStepS != p.StepS || x.Mesh != p.Mesh || x.MemoryBytes != p.MemoryBytes || !strings.Contains(x.Setting, fmt.Sprintf("stages: %d", p.Stages)) || p.Mesh != "" && !strings.Contains(x.Setting, fmt.Sprintf("train.mesh: %q", p.Mesh)) {
			t.Errorf("%d ranks: %+v of %+v", c.ranks, x, p)
		}
	}
	if len(meshes) < 2 {
		t.Errorf("all pipelines have meshes %v", meshes)
	}
}

// Where data ranks are the only axis that a batch and its network leave, they are proposed, and the sum of gradients is in the step.
func TestDataRanksAroundPipelines(t *testing.T) {
	fast := planOn(t, 4, "12.5", "", "train.pipeline.stages=2", "train.mesh=data:2").Pipeline
	slow := planOn(t, 4, "0.125", "", "train.pipeline.stages=2", "train.mesh=data:2").Pipeline
	if fast.GradientsS <= 0 || fast.ParametersS <= 0 || slow.GradientsS < 10*fast.GradientsS || slow.StepS-slow.PassesS < slow.GradientsS+slow.ParametersS {
		t.Errorf("12.5 GB/s: %+v, 0.125 GB/s: %+v", fast, slow)
	}
	if one := planOn(t, 2, "12.5", "", "train.pipeline.stages=2").Pipeline; one.GradientsS > fast.GradientsS/2 || one.ParametersS != 0 || fast.PassesS > 0.75*one.PassesS {
		t.Errorf("one data rank: %+v, two: %+v", one, fast)
	}
}

// With K-FAC the step of a pipeline has its work, of which idle times hide inversions as far as the delay reaches; strategies state both.
func TestKFACInPipelines(t *testing.T) {
	pipeline := []string{"train.pipeline.stages=2", "train.pipeline.micro_batches=4", "train.batch_size=16"}
	kfac := []string{"train.optimizer=kfac", "train.kfac.refresh=20", "train.kfac.max_side=500"} // pieces that fit into idle times
	plain := planOn(t, 2, "12.5", "", pipeline...)
	var exposed []float64
	for _, delay := range []string{"0", "10"} {
		r := planOn(t, 2, "12.5", "", slices.Concat(pipeline, kfac, []string{"train.kfac.delay=" + delay})...)
		p, k := r.Pipeline, r.Pipeline.KFAC
		mean := k.ProductsS + (k.FactorsS+k.ExposedS)/20
		if sum := p.PassesS + p.GradientsS + p.OptimiserS + p.ParametersS + mean; math.Abs(sum/p.StepS-1) > 1e-9 || p.StepS <= plain.Pipeline.StepS || (k.FilledS > 0) != (delay != "0") || k.HidingDelay == 0 {
			t.Errorf("delay %s: %+v with %+v, plain %+v", delay, p, k, plain.Pipeline)
		}
		x := bySystem(t, r, pipeFisherSystem)
		if !x.Configured || bySystem(t, r, pipelineSystem).Configured || bySystem(t, r, kfacSystem).Configured || x.EvenStepS != p.StepS || x.MemoryBytes != p.MemoryBytes ||
			!strings.Contains(x.Why, fmt.Sprintf("idle times of %s steps save %.3f ms, and %.3f ms are exposed", delay, 1e3*k.FilledS, 1e3*k.ExposedS)) {
			t.Errorf("delay %s: %+v", delay, x)
		}
		if y := bySystem(t, r, pipelineSystem); y.StepS >= x.StepS || y.MemoryBytes >= x.MemoryBytes || y.StepS != bySystem(t, plain, pipelineSystem).StepS {
			t.Errorf("delay %s: without K-FAC %+v, with it %+v", delay, y, x)
		}
		exposed = append(exposed, k.ExposedS)
	}
	if exposed[1] >= 0.9*exposed[0] {
		t.Errorf("%g s are exposed without a delay, %g s with one", exposed[0], exposed[1])
	}
	// Another optimiser has a row with the delay that hides most.
	x := bySystem(t, plain, pipeFisherSystem)
	if plain.Pipeline.KFAC != nil || x.Configured || x.Proposed || strings.Contains(x.Setting, "delay: 0") || !strings.Contains(x.Setting, "train.pipeline: {stages: 2") {
		t.Errorf("%+v", x)
	}
}
