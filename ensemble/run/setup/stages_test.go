package setup

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A model survives a round trip; other formats, and a method that does not match its networks, are refused.
func TestModelIsReadAsWritten(t *testing.T) {
	grid, err := ensemble.NamedGrid("12x8")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, old, new string
		ok               bool
	}{
		{"joint", "", "", true},
		{"three_stage", "", "", true},
		{"joint", `"ensemble.model/3"`, `"ensemble.model/2"`, false},
		{"joint", `"schema"`, `"format"`, false},
		{"three_stage", `"method": "three_stage",`, "", false},
	} {
		cfg := demotest.Config(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, "model.method="+c.method, "train.loss.spread=0")
		task := PlaceholderTask(TaskOf(cfg))
		task.Features.Fields = []*ensemble.Normaliser{{Kind: ensemble.GlobalStandard}}
		dir := t.TempDir()
		if err := (&model.Model{Spec: SpecOf(cfg), Task: task, Metadata: model.Metadata{Grid: grid}}).SaveDescription(dir); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, model.File)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if of := bytes.Contains(text, []byte(`"method"`)) && bytes.Contains(text, []byte(`"bias"`)); of != (c.method == "three_stage") {
			t.Errorf("%s: a method and a bias network are written: %v", c.method, of)
		}
		if !bytes.Contains(text, []byte(c.old)) {
			t.Fatalf("no %s in %s", c.old, text)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		m, _, err := model.LoadDescription(dir)
		if c.ok != (err == nil) || err != nil && exit.CodeOf(err) != exit.BadData {
			t.Errorf("%s with %q: %v", c.method, c.new, err)
		} else if err == nil && !reflect.DeepEqual(m.Spec, SpecOf(cfg)) {
			t.Errorf("%s: read %+v, want %+v", c.method, m.Spec, SpecOf(cfg))
		}
	}
}

// Axes and targets of a task, and the lists of its network, are words in model.json and survive a round trip.
func TestListsAreReadAsWritten(t *testing.T) {
	grid, err := ensemble.NamedGrid("12x8")
	if err != nil {
		t.Fatal(err)
	}
	for of, set := range map[string][]string{
		"thresholds": {"train.loss.threshold=[\"tp>6mm\", \"tp<2\", \"1<tp<4mm\"]", "train.loss.threshold_weight=3", "model.family=censored_shifted_gamma",
			"data.leads=[48h]", "data.levels=[single]", "data.variables=[tp]", "data.targets=[{variable: tp, levels: [single]}]", "data.members.sampling=fixed", "train.loss.spread=0"},
		"conditions": {"data.leads=[0h, 90m, 24h, 48h]", "data.target_leads=[90m, 48h]", "model.lead_axis=batch", "model.conditions=[lead, hour]"},
		"scales":     {"model.head=members", "model.encoder.input=[field]", "train.loss.spread=0", "data.members.sampling=fixed", "baselines=[mbm]", "model.kind=poet", "train.loss.kind=crps_members", "train.loss.scales=[4, 2.5]"},
	} {
		cfg := demotest.Config(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, set...)
		k, spec, dir := PlaceholderTask(TaskOf(cfg)), SpecOf(cfg), t.TempDir()
		k.Features.Fields = []*ensemble.Normaliser{{Kind: ensemble.GlobalStandard}}
		if err := (&model.Model{Spec: spec, Task: k, Metadata: model.Metadata{Grid: grid}}).SaveDescription(dir); err != nil {
			t.Fatal(err)
		}
		m, _, err := model.LoadDescription(dir)
		if err != nil {
			t.Fatal(err)
		}
		lists := func(s network.Spec, of task.Task) []any {
			var head any
			if s.Head.Distribution != nil {
				head = *s.Head.Distribution
			} else if s.Head.Members != nil {
				head = *s.Head.Members
			}
			return []any{head, s.Conditions, of.Features.Axes, of.Targets}
		}
		got, want := lists(m.Spec, m.Task), lists(spec, k)
		if d, m := spec.Head.Distribution, spec.Head.Members; len(spec.Conditions) == 0 && (d == nil || len(d.Thresholds) == 0) && (m == nil || len(m.Scales) == 0) {
			t.Errorf("%s: the network has none", of)
		}
		for i := range want {
			if g, w := fmt.Sprintf("%#v", got[i]), fmt.Sprintf("%#v", want[i]); strings.ReplaceAll(g, "(nil)", "{}") != strings.ReplaceAll(w, "(nil)", "{}") {
				t.Errorf("%s: read %s, want %s", of, g, w)
			}
		}
	}
}

// Inception ResNets read the spreads and the first member's fields of all leads; an untrained one returns the
// spread of the target, independent of other channels.
func TestInceptionReadsItsChannels(t *testing.T) {
	grid, err := ensemble.NamedGrid("12x8")
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range [][]string{{"model.head=spread", "train.loss.kind=mse"}, {"model.method=three_stage", "train.loss.spread=0"}} {
		c := demotest.Config(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, append(set, "model.kind=inception", "model.base=16", "data.levels=[850hPa]", "data.features=[spread, offset, first]")...)
		k := PlaceholderTask(TaskOf(c))
		o := network.Options(1, "")
		o.Store = engine.NewStore()
		spec := SpecOf(c).ForStage(network.SpreadStage)
		for _, mode := range []engine.Mode{engine.Train, engine.Infer} { // the first draws weights
			o.Mode = mode
			net, err := spec.Compile(&k, grid, 1, 1, true, o, nil)
			if err != nil {
				t.Fatal(err)
			}
			if mode == engine.Infer {
				b, points := &net.Batch, grid.Size()
				for channel := range k.Features.Channels() {
					clear(b.Features)
					for i := range points {
						b.Features[channel*points+i] = 1
					}
					net.Load(b)
					if err := net.Plan.Run(context.Background(), 0); err != nil {
						t.Fatal(err)
					}
					name := k.Features.ChannelName(channel)
					if y := net.Output(network.OutSpread)[points/2]; (math.Abs(float64(y)) > 1e-2) != (name == "spread(t) at 48h") {
						t.Errorf("%q: %g of a field of ones", name, y)
					}
				}
			}
			if err := net.Plan.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// The spread stage minimises its configured loss: for a network that is an affine function of the spread,
// each loss has a different value.
func TestSpreadStageHasItsLoss(t *testing.T) {
	grid, err := ensemble.NamedGrid("16x16")
	if err != nil {
		t.Fatal(err)
	}
	got := map[float64]string{}
	for _, loss := range []string{"mse", "l1", "ssim"} {
		c := demotest.Config(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, "model.method=three_stage", "train.loss.spread=0", "train.stages.spread.loss="+loss)
		k := PlaceholderTask(TaskOf(c))
		k.SpreadRange = 4
		o := network.Options(1, "")
		o.Store = engine.NewStore()
		net, err := SpecOf(c).ForStage(network.SpreadStage).Compile(&k, grid, 1, 1, true, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := &net.Batch
		for i := range b.Spread {
			b.Spread[i], b.FullSpread[i], b.Weight[i] = 1+0.1*float32(i%7), 1+0.1*float32(i%5), 1
		}
		net.Load(b)
		if err := net.Plan.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		v := net.Plan.Loss()
		if !(v > 0) || got[v] != "" {
			t.Errorf("%s: loss %g, as %q", loss, v, got[v])
		}
		got[v] = loss
		if err := net.Plan.Close(); err != nil {
			t.Error(err)
		}
	}
}

// With pre-training each network has two trainings, whose epochs count: steps that `ensemble plan` and the training predict are
// sums over all.
func TestPhasesOfTrainings(t *testing.T) {
	c := demotest.Config(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, "train.networks=2", "train.epochs=4", "train.pretrain.epochs=3", "train.pretrain.learning_rate=0.01")
	trainings, foldOf, err := NetworkTrainings(SpecOf(c), c.Train.Train, nil, LastTarget(c))
	if err != nil || foldOf != nil {
		t.Fatal(foldOf, err)
	}
	var got []string
	for i, n := range trainings {
		got = append(got, fmt.Sprint(n.Name(i), " ", n.Phase, " ", n.Config.Epochs, " ", n.Config.LearningRate))
	}
	want := []string{"network 1 (pre-training on members) 1 3 0.01", "network 2 (fine-tuning on analyses) 2 4 0.003", "network 3 (pre-training on members) 1 3 0.01", "network 4 (fine-tuning on analyses) 2 4 0.003"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("trainings %q, want %q", got, want)
	}
}
