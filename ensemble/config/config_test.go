package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// minimal is what must be given.
const minimal = "version: 1\ndata: {forecasts: [f], analyses: [a], leads: [0h, 48h], target_lead: 48h, levels: [850hPa], variables: [t], targets: [{variable: t, levels: [850hPa]}]}\n"

const good = `version: 1
data:
  forecasts: [fc/*.grib2]
  analyses: [an/*.nc]
  leads: [0h, PT24H, 2d]
  target_lead: 48h
  levels: [850hPa, 500hPa]
  variables: [t, gh]
  targets:
    - {variable: t, levels: [850hPa]}
    - variable: gh
      levels: [500hPa]
  standardise: las
  split:
    train: {from: 1982-01-01, to: 1983-09-30}
    validation: {from: 1983-10-05T00:00Z, to: 1983-12-31}
train:
  learning_rate: 1e-3
`

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadTrain(t *testing.T) {
	path := write(t, "train.yaml", good)
	c, err := LoadTrain(Sources{Files: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(c.Data.Forecasts[0]), filepath.Join(filepath.Dir(path), "fc/*.grib2"); got != want {
		t.Errorf("path is %s, want it relative to the file: %s", got, want)
	}
	if c.Data.Leads[1] != ensemble.Lead(24*time.Hour) || c.Data.Leads[2] != c.Data.TargetLead {
		t.Errorf("leads are %v", c.Data.Leads)
	}
	if c.Data.Levels[0] != ensemble.PressureLevel(850) || c.Data.Targets[1].Levels[0] != ensemble.PressureLevel(500) {
		t.Errorf("levels are %v, targets %v", c.Data.Levels, c.Data.Targets)
	}
	if c.Data.Standardise != ensemble.LAS {
		t.Errorf("standardise is %q", c.Data.Standardise)
	}
	if got, want := c.Data.Split.Train.Period().To, time.Date(1983, 9, 30, 23, 59, 59, 0, time.UTC); !got.Equal(want) {
		t.Errorf("the training period ends %s, want the end of its last day %s", got, want)
	}
	if c.Train.Train.LearningRate != 0.001 || c.Train.Train.Epochs != 60 || c.Data.Members.Use.N() != 5 {
		t.Errorf("learning rate %g, epochs %d, members %v", c.Train.Train.LearningRate, c.Train.Train.Epochs, c.Data.Members.Use)
	}
	if o := c.Origin("train.learning_rate"); o.Where != path+":18:3" {
		t.Errorf("origin of the learning rate is %+v, want line 18, column 3", o)
	}
}

// TestOrder gives one key in all layers and takes them away one by one.
func TestOrder(t *testing.T) {
	a := write(t, "a.yaml", good+"  epochs: 11\n  seed: 3\n")
	b := write(t, "b.yaml", "train: {epochs: 12}\n")
	load := func(src Sources) *TrainConfig {
		t.Helper()
		c, err := LoadTrain(src)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := load(Sources{Files: []string{a, b}}); c.Train.Train.Epochs != 12 || c.Train.Train.Seed != 3 {
		t.Errorf("two files: epochs %d, seed %d, want 12 from the later and 3 from the first", c.Train.Train.Epochs, c.Train.Train.Seed)
	}
	t.Setenv("ENSEMBLE_TRAIN_EPOCHS", "13")
	t.Setenv("ENSEMBLE_DATA_MEMBERS_USE", "[1, 2, 3]")
	c := load(Sources{Files: []string{a, b}})
	if c.Train.Train.Epochs != 13 || c.Data.Members.Use.N() != 3 || c.Origin("train.epochs").Layer != "environment" {
		t.Errorf("environment: epochs %d, members %v", c.Train.Train.Epochs, c.Data.Members.Use)
	}
	c = load(Sources{Files: []string{a, b}, Set: []string{"train.epochs=14", "data.leads=[0h, 48h]"}})
	if c.Train.Train.Epochs != 14 || len(c.Data.Leads) != 2 || c.Origin("train.epochs").String() != "--set train.epochs=14" {
		t.Errorf("--set: epochs %d, leads %v, origin %s", c.Train.Train.Epochs, c.Data.Leads, c.Origin("train.epochs"))
	}
}

// TestFaults: each file has the faults listed, all of them reported, nothing else.
func TestFaults(t *testing.T) {
	base := minimal
	for _, c := range []struct {
		name, text string
		want       []string // "place|what|fix" or "place|what|fix|why", each part of one fault
	}{
		{"typing error", base + "train:\n  batchsize: 4\n", []string{"4:3|unknown key \"batchsize\"|did you mean `batch_size`?"}},
		{"right key, wrong place", base + "model:\n  epochs: 4\n", []string{"4:3|unknown key \"epochs\"|did you mean `train.epochs`?"}},
		{"deep inside a list", strings.Replace(base, "{variable: t,", "{variabel: t,", 1),
			[]string{"|unknown key \"variabel\"|did you mean `variable`?", "|an item of data.targets has no \"variable\"|add `variable: t`"}},
		{"several at once", base + "train:\n  epochs: many\n  seed: -1\n  loss: {kind: crsp}\nmodel: {base: 010}\n", []string{
			"4:11|train.epochs is \"many\", want a whole number|", "5:9|train.seed is -1, want 0 or more|",
			"6:16|train.loss.kind is crsp, want one of|did you mean `crps`?", "7:15|model.base: 010 is not a plain decimal number|"}},
		{"twice", base + "train:\n  seed: 1\n  seed: 2\n", []string{`5:3|duplicate key "seed"|remove one`}},
		{"no unit", base + "train: {}\nmodel:\n" + "  kind: unet3d\n", nil},
		{"bare duration", strings.Replace(base, "target_lead: 48h", "target_lead: 48", 1), []string{"2:|data.target_lead: missing unit: write 48h for hours|"}},
		{"bare level", strings.Replace(base, "levels: [850hPa], v", "levels: [850], v", 1), []string{"2:|data.levels: missing unit: write 850hPa for pressure|"}},
		{"scalar for list", strings.Replace(base, "variables: [t]", "variables: t", 1), []string{"2:|data.variables is \"t\", want a list|write a list: `variables: [t]`"}},
		{"of predict", base + "run_dir: a\n", []string{"3:1|unknown key \"run_dir\"|leave out the file|of `ensemble predict"}},
		{"no zone", base + "data2: 1\n", []string{"3:1|unknown key \"data2\"|did you mean `data`?"}},
		{"empty", base + "train:\n  epochs:\n", []string{"4:3|key \"epochs\" has no value|"}},
		{"not YAML", "version: 1\n  data: [\n", []string{"|not valid YAML|"}},
		{"bomb", "version: &a 1\ndata: *a\n", []string{"1:10|anchors and aliases|", "2:7|anchors and aliases|"}},
		{"two documents", base + "---\nversion: 1\n", []string{"|the file has more than one YAML document|"}},
		{"nothing", "", []string{"|key \"version\" is required|", "|\"data.forecasts\" is required|", "|\"data.leads\"|", "|\"data.levels\"|", "|\"data.variables\"|", "|\"data.targets\"|"}},
		{"home", strings.Replace(base, "[f]", "[~/f]", 1), []string{"|~ is not expanded|"}},
		{"variable", strings.Replace(base, "[f]", "[\"${SECRET}/f\"]", 1), []string{"|data.forecasts: variable ${SECRET} is not allowed in a path, want one of ENSEMBLE_DATA, HOME, RUNS, SCRATCH, TMPDIR, WORK|"}},
		{"target not among levels", strings.Replace(base, "levels: [850hPa]}", "levels: [500hPa]}", 1), []string{"2:|target t at 500hPa is not on one of data.levels|"}},
		{"lead not there", strings.Replace(base, "target_lead: 48h", "target_lead: 24h", 1), []string{"2:|data.target_lead 24h is not one of data.leads|"}},
		{"two lists of leads", strings.Replace(base, "target_lead: 48h", "target_lead: 48h, target_leads: [0h, 48h]", 1), []string{"2:|data.target_lead 48h contradicts data.target_leads|give one of the two"}},
		{"no target", strings.Replace(base, "target_lead: 48h, ", "", 1), []string{"|\"data.target_leads\" is required|under `data:` add `target_lead: 48h`"}},
		{"leads that fall", strings.Replace(base, "target_lead: 48h", "target_leads: [48h, 0h]", 1), []string{"2:|data.target_leads must ascend: 0h after 48h|sort them"}},
		{"a distribution after all that is read", strings.Replace(base, "target_lead: 48h", "target_leads: [48h, 96h]", 1), []string{"2:|data.target_leads 96h is not one of data.leads|add it to data.leads"}},
		{"a spread between what is read", strings.Replace(base, "target_lead: 48h", "target_lead: 24h", 1) + "model: {head: spread}\ntrain: {loss: {kind: l1}}\n", []string{"2:|data.target_lead 24h is not one of data.leads|"}},
		{"two leads of one field", strings.Replace(base, "target_lead: 48h", "target_leads: [0h, 48h]", 1) + "model: {head: spread, kind: resnet2d_simple}\ntrain: {loss: {kind: l1}}\n", []string{"2:|resnet2d_simple predicts one spread field, got 2 target leads|"}},
		{"conditions without rows", base + "model: {conditions: [lead]}\n", []string{"3:9|model.conditions with leads as channels|set model.lead_axis: batch"}},
		{"rows of a network without", base + "model: {kind: drn, lead_axis: batch}\n", []string{"3:20|drn supports leads as channels only|"}},
		{"rows of a correction", base + "model: {reference: emos_point, lead_axis: batch}\n", []string{"3:32|leads in rows are not supported with stages, a reference, a member encoder or embeddings|"}},
		{"trajectories as channels", base + "model: {kind: trajectory, head: members, lead_axis: channels, encoder: {input: [field]}}\n", []string{"3:42|trajectory does not support leads as channels|"}},
		{"a trajectory of one lead", strings.Replace(base, "leads: [0h, 48h]", "leads: [48h]", 1) + "model: {kind: trajectory, head: members, encoder: {input: [field]}}\n", []string{"2:|trajectory needs several leads, got 1|add leads"}},
		{"a distribution of trajectories", base + "model: {kind: trajectory}\n", []string{"|trajectory predicts members|set model.head: members"}},
		{"cells of a network without", base + "model: {recurrent: {stages: 2}}\n", []string{"3:21|model.recurrent.stages is not used by unet3d|"}},
		{"cells in too many stages", base + "model: {kind: conv_gru, stages: 2, recurrent: {stages: 3}}\n", []string{"3:48|model.recurrent.stages is 3, model.stages 2|at most model.stages"}},
		{"conditions of leads for depth", base + "model: {kind: unet_time, conditions: [hour]}\n", []string{"3:26|unet_time does not support model.conditions|"}},
		{"windows of a recurrent network", base + "model: {kind: conv_gru, axial: {window: 4}}\n", []string{"|model.axial.window is not used by conv_gru|set model.kind: axial_transformer"}},
		{"blocks of a U-Net", base + "model: {axial: {blocks: 4}}\n", []string{"3:17|model.axial.blocks is not used by unet3d|set model.kind: axial_transformer"}},
		{"a climate that is read and made", base + "climate: {source: members, file: climate.safetensors}\n", []string{"3:28|two sources of the climate: climate.file and climate.source|remove climate.file"}},
		{"a climate of fifty steps", base + "climate: {source: members, steps: 50}\n", []string{"3:35|climate.steps is 50, want one of 20, 100|did you mean `20`?"}},
		{"heads that do not divide", base + "model: {kind: axial_transformer, base: 18}\n", []string{"3:34|model.base is 18, want a multiple of 4|"}},
		{"maps of a distribution", base + "model: {maps: true}\n", []string{"3:9|model.maps is not used by head distribution|set model.head: members"}},
		{"weights of other leads", base + "train: {loss: {lead_weights: [1, 2]}}\n", []string{"3:16|train.loss.lead_weights has 2 weights, want 1|"}},
		{"too many members", strings.Replace(base, "targets:", "members: {use: 11, full: 10}, targets:", 1), []string{"2:|data.members.use is 11, want at most data.members.full, 10|write `use: 10`"}},
		{"head and loss", base + "train: {loss: {kind: l1}}\n", []string{"3:16|head distribution needs a loss of distributions|"}},
		{"loss and head", base + "model: {head: spread, kind: resnet2d_simple}\n", []string{"3:9|head spread does not support loss crps|"}},
		{"no analyses", strings.Replace(base, "analyses: [a], ", "", 1) + "model: {head: distribution}\n", []string{"3:9|head distribution needs data.analyses|"}},
		{"inception of another width", base + "model: {method: three_stage, kind: inception, base: 24}\n", []string{"3:47|model.base is 24, want a multiple of 16|"}},
		{"levels of one level", base + "model: {head: spread, kind: resnet2d_simple, level_filters: full}\ntrain: {loss: {kind: l1}}\n", []string{"3:46|model.level_filters is not supported by resnet2d_simple|"}},
		{"resnet of two levels", strings.Replace(base, "[850hPa], v", "[850hPa, 500hPa], v", 1) + "model: {head: spread, kind: resnet2d_simple}\ntrain: {loss: {kind: l1}}\n", []string{"3:23|resnet2d_simple predicts one spread field|"}},
		{"no grid", strings.Replace(base, "data: {", "data: {grid: {to: grid.nc}, ", 1), []string{`|"grid.nc" is not a grid|set forecasts, analyses, or a grid such as 1.5deg`}},
		{"steps that divide no globe", strings.Replace(base, "data: {", "data: {grid: {to: 0.7deg}, ", 1), []string{"|grid \"0.7deg\": 360 degrees are not a multiple of 0.7 degrees|"}},
		{"missing analyses", strings.Replace(strings.Replace(base, "data: {", "data: {grid: {to: analyses}, ", 1), ", analyses: [a]", "", 1), []string{"|data.grid.to is analyses without data.analyses|", "|head distribution needs data.analyses|"}},
		{"kfac of another", base + "train: {optimizer: lamb, kfac: {refresh: 5, adaptive: true}}\n", []string{"|train.kfac.refresh is not used by lamb|remove it", "|train.kfac.adaptive is not used by lamb|remove it"}},
		{"kfac with what it cannot have", base + "train: {optimizer: kfac, device: cuda, shard_optimizer: true}\nprune: {method: magnitude, target: 0.5}\n", []string{
			"|train.optimizer: kfac needs device cpu|set train.device: cpu", "|train.shard_optimizer with kfac|set train.shard_optimizer: false", "|pruning with train.optimizer: kfac|set prune.method: none"}},
		{"kfac with a delay beyond the next factors", base + "train: {optimizer: kfac, kfac: {refresh: 5, delay: 6}}\n", []string{"|train.kfac.delay: 6 with train.kfac.refresh: 5|set train.kfac.delay: 5"}},
		{"kfac values", base + "train: {optimizer: kfac, kfac: {rule: adam, refresh: 0, damping: 0, decay: 1, max_side: 0}}\n", []string{
			"|train.kfac.rule is adam, want one of adamw, sgd, lars|", "|train.kfac.refresh is 0, want 1 to|", "|train.kfac.damping is 0, want more than 0|", "|train.kfac.decay is 1, want|", "|train.kfac.max_side is 0, want 1 to|"}},
		{"trust of another", base + "train: {optimizer: lamb, trust_coefficient: 0.01}\n", []string{"3:26|train.trust_coefficient is not used by lamb|remove it"}},
		{"base without scale", base + "train: {base_batch_size: 8}\n", []string{"3:9|train.base_batch_size without scaling of the learning rate|linear or sqrt"}},
		{"optimiser values", base + "train: {optimizer: lard, accumulate: 0, ema: 1, learning_rate_scaling: cubic, trust_coefficient: 0, base_batch_size: 0}\n", []string{
			"3:20|train.optimizer is lard, want one of|did you mean `lars`?", "|train.accumulate is 0, want 1 to 65536|", "|train.ema: 1 is no decay, which is less than 1; for a time write 1 epochs or 1 steps|give a decay such as 0.999",
			"|train.learning_rate_scaling is cubic, want one of linear, sqrt, none|", "|train.trust_coefficient is 0, want more than 0|", "|train.base_batch_size is 0, want 1 to|"}},
		{"stages of a joint training", base + "train: {stages: {sigma: {epochs: 5}}}\n", []string{"3:26|train.stages.sigma.epochs without method three_stage|set model.method: three_stage"}},
		{"bias of a joint training", base + "model: {bias: {folds: 5, base: 8}}\n", []string{"3:26|model.bias.base without method three_stage|set model.method: three_stage"}},
		{"spread beside stages", base + "model: {method: three_stage}\ntrain: {loss: {spread: 1}}\n", []string{"4:16|train.loss.spread is not used by method three_stage|"}},
		{"stages of a spread", base + "model: {method: three_stage, head: spread}\ntrain: {loss: {kind: l1}}\n", []string{"3:30|method three_stage does not support head spread|"}},
		{"an encoder's key without it", base + "model: {pool: mean, encoder: {channels: 8}}\n", []string{"3:9|model.pool without a member encoder|set model.members: encoder", "|model.encoder.channels without a member encoder|"}},
		{"an encoder of another network", base + "model: {members: encoder, kind: resnet2d_simple, head: spread}\ntrain: {loss: {kind: l1}}\n", []string{"|resnet2d_simple does not support a member encoder|set model.kind: unet3d"}},
		{"a draw of noise without noise", base + "model: {head: members, encoder: {input: [field], noise: anew}}\ntrain: {loss: {kind: crps_members}}\n", []string{"|model.encoder.noise without noise|remove it, or set model.encoder.input: [field, noise]"}},
		{"noise of members that are pooled", base + "model: {members: encoder, encoder: {input: [field, noise]}}\n", []string{"|noise with pooled members|set model.head: members"}},
		{"cross pairs of an odd number", base + "model: {head: members, encoder: {input: [field]}}\ntrain: {loss: {kind: crps_members, fairness: cross_pair}}\n", []string{"|cross_pair needs an even, fixed number of members, got 5|use an even number"}},
		{"members without their loss", base + "model: {head: members}\ntrain: {loss: {kind: l1, spread: 1}}\n", []string{"|head members does not support loss l1|", "|train.loss.spread is not used by head members|"}},
		{"the loss of members without them", base + "train: {loss: {kind: crps, fairness: fair}}\n", []string{"|train.loss.fairness needs loss crps_members|set train.loss.kind: crps_members"}},
		{"members of a network that gives none", base + "model: {head: members, kind: drn}\n", []string{"|drn does not predict members|set model.kind: unet3d"}},
		{"an encoder in stages", base + "model: {members: encoder, method: three_stage}\n", []string{"|a member encoder with method three_stage|set model.method: joint"}},
		{"one block of years", base + "model: {method: three_stage, bias: {folds: 1, local: 2}}\n", []string{"|model.bias.folds is 1, want 2 to 100|", "|model.bias.local is 2, want one of 0, 1, 3|"}},
		{"half a split", strings.Replace(base, "targets:", "split: {train: {from: 1982-01-01}}, targets:", 1), []string{"2:|data.split.train needs from and to|", "|data.split.validation needs from and to|"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, "x.yaml", c.text)
			_, err := LoadTrain(Sources{Files: []string{path}})
			if len(c.want) == 0 {
				if err != nil && !strings.Contains(err.Error(), "has no value") {
					t.Fatalf("unexpected: %v", err)
				}
				return
			}
			var e *exit.Error
			if !errors.As(err, &e) || e.Code != exit.Usage {
				t.Fatalf("got %v, want exit 64", err)
			}
			all := append([]*exit.Error{e}, e.More...)
			if len(all) != len(c.want) {
				t.Errorf("got %d faults, want %d:\n%v", len(all), len(c.want), err)
			}
			for i := range min(len(all), len(c.want)) {
				part := strings.Split(c.want[i], "|")
				if !strings.Contains(all[i].At, part[0]) || !strings.Contains(all[i].What, part[1]) || !strings.Contains(all[i].Fix, part[2]) || len(part) > 3 && !strings.Contains(all[i].Why, part[3]) {
					t.Errorf("fault %d is\n%v\nwant %s", i, all[i], c.want[i])
				}
				if part[0] != "" && !strings.HasPrefix(all[i].At, path+":") {
					t.Errorf("fault %d is at %s, want a place in the file", i, all[i].At)
				}
			}
		})
	}
}

// TestFaultsOfAllSources: file, environment and --set are reported together.
func TestFaultsOfAllSources(t *testing.T) {
	path := write(t, "x.yaml", good+"  sede: 1\n")
	t.Setenv("ENSEMBLE_TRAIN_BATCH_SIZE", "four")
	_, err := LoadTrain(Sources{Files: []string{path}, Set: []string{"train.epocs=4", "train.seed"}})
	var e *exit.Error
	if !errors.As(err, &e) || len(e.More) != 3 {
		t.Fatalf("want four faults, got %v", err)
	}
	for _, want := range []string{"did you mean `seed`?", "environment variable ENSEMBLE_TRAIN_BATCH_SIZE", "did you mean `train.epochs`?", "write --set key=value"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

func TestUnknownEnvironment(t *testing.T) {
	t.Setenv("ENSEMBLE_TRAIN_EPOCH", "3")
	t.Setenv("ENSEMBLE_TEST_DATA", "/nowhere")
	c, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}})
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0], "did you mean ENSEMBLE_TRAIN_EPOCHS?") {
		t.Errorf("warnings are %q", w)
	}
}

// TestRoundTrip: the effective configuration, read again from elsewhere, is the
// same, and every key that has a value is in it.
func TestRoundTrip(t *testing.T) {
	c, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: []string{
		"data.members.use=[0, 2, 4]", "data.levels=[850hPa, 500hPa, 2m, surface]", `data.forecasts=["a, b.grib2", "#c"]`, "train.weight_decay=1.25e-7"}})
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadTrain(Sources{Files: []string{write(t, "effective.yaml", string(c.YAML()))}})
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, c.YAML())
	}
	if !bytes.Equal(c.YAML(), again.YAML()) || c.Hash() != again.Hash() {
		t.Errorf("once:\n%s\ntwice:\n%s", c.YAML(), again.YAML())
	}
	if _, err := again.CheckResume(c.YAML()); err != nil {
		t.Errorf("a run does not resume itself: %v", err)
	}
}

// TestIdentity: threads and the keeping of checkpoints are no part of what a run is.
func TestIdentity(t *testing.T) {
	path := write(t, "x.yaml", good)
	load := func(set ...string) *TrainConfig {
		c, err := LoadTrain(Sources{Files: []string{path}, Set: set})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	base := load()
	if other := load("train.threads=3", "train.checkpoint.every=5 steps", "train.checkpoint.keep=4"); other.Identity() != base.Identity() || other.Hash() == base.Hash() {
		t.Error("neutral keys: want the same identity, and another hash")
	}
	for _, set := range []string{"train.seed=7", "train.epochs=99", "data.spread_ddof=0"} {
		if load(set).Identity() == base.Identity() {
			t.Errorf("%s changes no identity", set)
		}
	}
}

func TestCheckResume(t *testing.T) {
	path := write(t, "x.yaml", good)
	began, err := LoadTrain(Sources{Files: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	now, err := LoadTrain(Sources{Files: []string{path}, Set: []string{"train.epochs=99", "train.seed=7", "data.split.test.from=1984-01-01", "data.split.test.to=1984-12-31"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = now.CheckResume(began.YAML())
	var e *exit.Error
	if !errors.As(err, &e) || len(e.More) != 2 {
		t.Fatalf("want three faults (seed and both ends of the test), got %v", err)
	}
	if text := err.Error(); strings.Contains(text, "epochs") || !strings.Contains(text, "train.seed") || !strings.Contains(text, "it was 1 and is 7") {
		t.Errorf("epochs may change, the seed not:\n%s", text)
	}
}

// TestResumeOlderRun: a run that began before a key existed had its default.
func TestResumeOlderRun(t *testing.T) {
	path := write(t, "x.yaml", good)
	load := func(set ...string) *TrainConfig {
		c, err := LoadTrain(Sources{Files: []string{path}, Set: set})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var began []byte
	for line := range strings.Lines(string(load().YAML())) {
		if !strings.Contains(line, "  accumulate:") && !strings.Contains(line, "  ema:") && !strings.Contains(line, "  scale:") {
			began = append(began, line...)
		}
	}
	if _, err := load().CheckResume(began); err != nil {
		t.Errorf("the same configuration: %v", err)
	}
	for _, set := range []string{"train.accumulate=2", "train.ema=0.9", "train.learning_rate_scaling=sqrt"} {
		if _, err := load(set).CheckResume(began); err == nil || !strings.Contains(err.Error(), "changed since the run began") {
			t.Errorf("%s: %v", set, err)
		}
	}
}

func TestShowOrigin(t *testing.T) {
	path := write(t, "x.yaml", good)
	c, err := LoadTrain(Sources{Files: []string{path}, Set: []string{"train.seed=9"}})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := c.Show(&b, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"seed: 9 ", "# --set train.seed=9", "# default", "# " + path + ":5:3"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// What a stage does not have of its own it has from train.
func TestStageOfTraining(t *testing.T) {
	path := write(t, "x.yaml", good)
	c, err := LoadTrain(Sources{Files: []string{path}, Set: []string{"model.method=three_stage", "train.stages.bias.epochs=40", "train.stages.bias.patience=6", "train.stages.sigma.learning_rate=0.0005"}})
	if err != nil {
		t.Fatal(err)
	}
	all := c.Train.Train
	for _, s := range []struct {
		name             string
		stage            Stage
		epochs, patience int
		rate             float64
	}{{"bias", all.Stages.Bias, 40, 6, 0.001}, {"spread", all.Stages.Spread.Stage, 60, 10, 0.001}, {"sigma", all.Stages.Sigma, 60, 10, 0.0005}} {
		got := all.ForStage(s.stage)
		if got.Epochs != s.epochs || got.EarlyStop.Patience != s.patience || got.LearningRate != s.rate || got.BatchSize != all.BatchSize {
			t.Errorf("%s: %d epochs, patience %d, rate %g, want %d, %d, %g", s.name, got.Epochs, got.EarlyStop.Patience, got.LearningRate, s.epochs, s.patience, s.rate)
		}
	}
}

// Weights of unusual forecasts need a climate, and a loss of points.
func TestExtremeNeedsAClimate(t *testing.T) {
	path := write(t, "x.yaml", good)
	for _, c := range []struct {
		set []string
		at  string
	}{
		{[]string{"train.loss.extreme=2", "climate.source=members"}, ""},
		{[]string{"train.loss.extreme=2"}, "train.loss.extreme"},
		{[]string{"train.loss.extreme=2", "climate.source=members", "train.loss.kind=ssim", "model.head=spread"}, "train.loss.extreme"},
	} {
		_, err := LoadTrain(Sources{Files: []string{path}, Set: c.set})
		if c.at == "" && err != nil || c.at != "" && (err == nil || !strings.Contains(err.Error(), c.at)) {
			t.Errorf("%q: %v", c.set, err)
		}
	}
}

// TestTable holds what every row must have, and that no two share a variable.
func TestTable(t *testing.T) {
	variables := map[string]string{}
	for _, k := range TrainSchema.Keys {
		if k.Help == "" || k.Example == "" || k.Required && k.Default != "" {
			t.Errorf("%s: help %q, example %q, required %v with default %q", k.Path, k.Help, k.Example, k.Required, k.Default)
		}
		name := EnvironmentName(k.Path)
		if other, ok := variables[name]; ok {
			t.Errorf("%s and %s share %s", k.Path, other, name)
		}
		variables[name] = k.Path
		if strings.Contains(k.Path, "[]") {
			continue
		}
		if _, faults := TrainSchema.ReadValue(k.Path, k.Path, k.Example); len(faults) > 0 {
			t.Errorf("the example of %s is not valid: %v", k.Path, faults[0])
		}
	}
}

func TestExplain(t *testing.T) {
	var b strings.Builder
	if err := TrainSchema.Explain(&b, "data.members"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"data.members.use", "a number of members", "ENSEMBLE_DATA_MEMBERS_USE", "one of include, exclude"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > 81 {
			t.Errorf("longer than 80 columns: %s", line)
		}
	}
	if err := TrainSchema.Explain(&b, "train.halo"); exit.CodeOf(err) != exit.Usage {
		t.Errorf("a key that does not exist: %v", err)
	}
}

func TestJSONSchema(t *testing.T) {
	text, err := TrainSchema.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"additionalProperties": false`, `"batch_size"`, `"enum": [`, `"exclusiveMinimum": 0`, `"variable"`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %s in the schema", want)
		}
	}
}

// FuzzLoad: whatever the text, reading ends, either with a configuration whose
// effective form reads back to itself, or with an exit 64 that names a place.
func FuzzLoad(f *testing.F) {
	f.Add(good)
	f.Add("version: 1\ndata: {leads: [0h, 24]}\n")
	f.Add("a: &x [*x]\n")
	f.Add("? [a]\n: b\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "x.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := LoadTrain(Sources{Files: []string{path}})
		if err != nil {
			if exit.CodeOf(err) != exit.Usage {
				t.Fatalf("exit %d: %v", exit.CodeOf(err), err)
			}
			return
		}
		if err := os.WriteFile(path, c.YAML(), 0o644); err != nil {
			t.Fatal(err)
		}
		again, err := LoadTrain(Sources{Files: []string{path}})
		if err != nil || !bytes.Equal(again.YAML(), c.YAML()) {
			t.Fatalf("%v\n%s", err, c.YAML())
		}
	})
}

// A stage has its own epochs, learning rate and patience where they are given, else those of the training.
func TestStagesOfTheirOwn(t *testing.T) {
	path := write(t, "train.yaml", minimal+"model: {method: three_stage}\ntrain: {epochs: 9, learning_rate: 0.5, early_stop: {patience: 8}}\n")
	c, err := LoadTrain(Sources{Files: []string{path}, Set: []string{
		"train.stages.bias.epochs=1", "train.stages.bias.learning_rate=0.1", "train.stages.bias.patience=11",
		"train.stages.spread.epochs=2", "train.stages.spread.learning_rate=0.2", "train.stages.spread.patience=12",
		"train.stages.sigma.epochs=3", "train.stages.sigma.learning_rate=0.3", "train.stages.sigma.patience=13"}})
	if err != nil {
		t.Fatal(err)
	}
	of := c.Train.Train.Stages
	for want, s := range map[Stage]Stage{{1, 0.1, 11}: of.Bias, {2, 0.2, 12}: of.Spread.Stage, {3, 0.3, 13}: of.Sigma, {9, 0.5, 8}: {}} {
		if got := c.Train.Train.ForStage(s); (Stage{got.Epochs, got.LearningRate, got.EarlyStop.Patience}) != want {
			t.Errorf("%+v is trained with %+v, want %+v", s, got, want)
		}
	}
}

// TestPeriodsHaveTheirLastDay: a date without a time of day ends a period with that day, one with a time at that time.
func TestPeriodsHaveTheirLastDay(t *testing.T) {
	path := write(t, "x.yaml", good)
	for to, want := range map[string]string{"1984-12-31": "1984-12-31T23:59:59Z", "1984-12-31T12:00Z": "1984-12-31T12:00:00Z"} {
		c, err := LoadTrain(Sources{Files: []string{path}, Set: []string{"data.split.test.from=1984-01-01", "data.split.test.to=" + to}})
		if err != nil {
			t.Fatal(err)
		}
		p := c.Data.Split.Test.Period()
		if got := p.To.Format(time.RFC3339); got != want || p.From.Format(time.RFC3339) != "1984-01-01T00:00:00Z" {
			t.Errorf("to %s: the period is %v to %s, want %s", to, p.From, got, want)
		}
	}
}
