package run

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/exchange"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/io/store"
)

// inStages is a quick training in stages on the small demonstration, of whose years the
// second has few starts.
func inStages(t *testing.T, f *demo.Files, set ...string) *config.TrainConfig {
	t.Helper()
	return quick(t, f, slices.Concat([]string{"model.method=three_stage", "model.bias.base=2", "model.bias.stages=1", "model.bias.local=3", "model.bias.folds=2",
		"data.split.fractions.train=0.8", "data.split.fractions.validation=0.05", "train.loss.spread=0",
		"train.networks=1", "train.epochs=2", "train.stages.bias.epochs=1"}, set)...)
}

// A training in stages, here on two parts of the fields, ends with the same bits after it was
// stopped within the last one. Its products score what training scored, and its report shows
// each stage.
func TestStagesWholeJob(t *testing.T) {
	f := smallData(t)
	// Steps of an epoch: 1, 4, 4, 4 and 4, of the last network after 16 corrections.
	runDir := resumesToTheSameBits(t, inStages(t, f, "data.members.least=2", "train.mesh=lat:2"), 35)
	out := t.TempDir()
	predicted, err := Predict(context.Background(), PredictOptions{RunDir: runDir, Input: f.GRIB2[17:], Out: out, Formats: []product.Format{product.NetCDF}, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	verified, err := Verify(context.Background(), VerifyOptions{Forecast: predicted.Outputs, Analysis: f.Analyses, Members: f.GRIB2[17:]})
	if err != nil {
		t.Fatal(err)
	}
	trained, err := ReadScores(runDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"crps_gauss", "spread_rmse"} {
		a, b := trained.Find(name, "network", "t", "850hPa", "48h"), verified.Scores.Find(name, "network", "t", "850hPa", "48h")
		if a == nil || b == nil || math.Abs(float64(a.Value-b.Value)) > 1e-5*float64(a.Value) {
			t.Errorf("%s: %+v from training, %+v from the products", name, a, b)
		}
	}
	exported, err := exchange.Export(context.Background(), exchange.ExportOptions{RunDir: runDir, Out: t.TempDir(), Threads: 1, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, path := range exported.Outputs {
		files = append(files, filepath.Base(path))
	}
	if want := []string{"network-00.safetensors", "maps-00.safetensors", "spread-network-00.safetensors", "spread-maps-00.safetensors", model.BiasFile, model.ArraysFile, exchange.ExportFile}; !slices.Equal(files, want) {
		t.Errorf("exported %q, want %q", files, want)
	}
	drawn, err := LossCharts(runDir)
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	for _, c := range drawn {
		titles = append(titles, c.Title)
	}
	if want := []string{"Loss: bias without 2001", "Loss: bias without 2002", "Loss: bias", "Loss: spread", "Loss: sigma"}; !slices.Equal(titles, want) {
		t.Errorf("charts %q, want %q", titles, want)
	}
}

// A model of one network is written as older programs do and read as theirs; a format that is
// not known, and one that does not go with the method, are refused.
func TestModelFormats(t *testing.T) {
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
		{"joint", `"format": 1`, `"format": 5`, false},
		{"joint", `"format": 1`, `"format": 2`, false},
		{"three_stage", `"format": 2`, `"format": 1`, false},
		{"three_stage", `"method": "three_stage",`, "", false},
	} {
		cfg := quick(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, "model.method="+c.method, "train.loss.spread=0")
		task := unfitted(taskOf(cfg))
		task.Features.Fields = []*ensemble.Normaliser{{Kind: ensemble.GlobalStandard}}
		dir := t.TempDir()
		if err := (&model.Model{Spec: specOf(cfg), Task: task, Grid: grid}).SaveReference(dir); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, model.File)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if of := bytes.Contains(text, []byte(`"method"`)) && bytes.Contains(text, []byte(`"bias"`)); of != (c.method == "three_stage") {
			t.Errorf("%s: a method and a bias network are told: %v", c.method, of)
		}
		if !bytes.Contains(text, []byte(c.old)) {
			t.Fatalf("no %s in %s", c.old, text)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		m, _, err := model.LoadReference(dir)
		if c.ok != (err == nil) || err != nil && exit.CodeOf(err) != exit.BadData {
			t.Errorf("%s with %q: %v", c.method, c.new, err)
		} else if err == nil && !reflect.DeepEqual(m.Spec, specOf(cfg)) {
			t.Errorf("%s: read %+v, want %+v", c.method, m.Spec, specOf(cfg))
		}
	}
}

// The inception ResNets are given the spreads and the first member's fields of all leads; one
// that is not trained gives what the spread of the target says, and nothing of other channels.
func TestInceptionReadsItsChannels(t *testing.T) {
	grid, err := ensemble.NamedGrid("12x8")
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range [][]string{{"model.head=spread", "train.loss.kind=mse"}, {"model.method=three_stage", "train.loss.spread=0"}} {
		c := quick(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, append(set, "model.kind=inception", "model.base=16", "data.levels=[850hPa]", "data.features=[spread, offset, first]")...)
		k := unfitted(taskOf(c))
		o := model.Options(1, "")
		o.Store = engine.NewStore()
		spec := specOf(c).Of(model.SpreadStage)
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
					if y := net.Output(model.OutSpread)[points/2]; (math.Abs(float64(y)) > 1e-2) != (name == "spread(t) at 48h") {
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

// noisy is weather whose analysis is the members' mean with noise that nothing foretells,
// of a standard deviation of 1 K: all that stage B learns is how these starts came out.
func noisy(t *testing.T, axes ensemble.Axes, starts []ensemble.Init, members []ensemble.Member, grid *ensemble.Grid, lead ensemble.Lead) []*store.Sample {
	t.Helper()
	r := rand.New(rand.NewPCG(4, 7))
	var out []*store.Sample
	for _, init := range starts {
		fc := ensemble.NewForecast(init, axes, members, grid)
		an := ensemble.NewAnalysis(init.Valid(lead), axes.Variables, axes.Levels, grid)
		truth := an.Field(0, 0)
		for p := range truth {
			mean := 280 + r.NormFloat64()
			truth[p] = float32(mean + r.NormFloat64())
			for m := range members {
				fc.Field(0, m, 0, 0)[p] = float32(mean + 0.3*r.NormFloat64())
			}
		}
		out = append(out, &store.Sample{Forecast: fc, Analyses: []*ensemble.Analysis{an}})
	}
	return out
}

// Sigma is fitted to residuals out of sample: on starts that nobody has seen the predicted
// spread is the error. Fitted to residuals of the starts that stage B was trained on, it is
// much too small.
func TestSigmaIsCrossFitted(t *testing.T) {
	lead := ensemble.Lead(48 * time.Hour)
	grid, err := ensemble.NamedGrid("12x8")
	if err != nil {
		t.Fatal(err)
	}
	level, err := config.ParseLevel("850hPa")
	if err != nil {
		t.Fatal(err)
	}
	var starts []ensemble.Init
	for i := range 32 {
		starts = append(starts, ensemble.InitAt(time.Date(2001+i/6, time.Month(1+2*(i%6)), 10, 0, 0, 0, 0, time.UTC)))
	}
	path := filepath.Join(t.TempDir(), "train.yaml")
	text := `version: 1
data:
  forecasts: [fc.nc]
  analyses: [an.nc]
  members: {use: 3, full: 4}
  leads: [48h]
  target_lead: 48h
  levels: [850hPa]
  variables: [t]
  targets: [{variable: t, levels: [850hPa]}]
model: {base: 2, stages: 1, season: false, method: three_stage, bias: {base: 8, stages: 1, local: 1, smooth: 0, folds: 4}}
train:
  {epochs: 16, batch_size: 6, learning_rate: 0.01, schedule: constant, loss: {kind: crps, spread: 0}, threads: 1, networks: 1,
  stages: {bias: {epochs: 20}}}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadTrain(config.Sources{Files: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	members := []ensemble.Member{0, 1, 2, 3}
	axes := axesOf(c)
	axes.Levels = []ensemble.Level{level}
	samples := noisy(t, axes, starts, members, grid, lead)
	spreadOverError := func(t *testing.T, inSample bool) float64 {
		d := &data{axes: axes, used: members[:3], all: members, grid: grid, split: ensemble.Split{Train: starts[:24], Test: starts[24:]}}
		d.divided(loader.Held(samples, bytesOf(samples)), true)
		tr, err := newTrainer(context.Background(), TrainOptions{Config: c, Version: "test", Stop: func() error { return nil }}, d, rundir.View(t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		tr.report = func(int, string) {}
		if inSample { // the network of all years in place of those that left some out
			for i := range tr.foldOf {
				tr.foldOf[i] = c.Model.Bias.Folds
			}
		}
		if err := tr.run(context.Background()); err != nil {
			t.Fatal(err)
		}
		defer tr.model.Close()
		var spread, skill float64
		for _, s := range samples[24:] {
			f, err := tr.model.Predict(context.Background(), model.Options(1, ""), s.Forecast, members[:3])
			if err != nil {
				t.Fatal(err)
			}
			for p, obs := range s.Analyses[0].Field(0, 0) {
				spread += float64(f.Sigma[p]) * float64(f.Sigma[p])
				skill += math.Pow(float64(f.Mean[p]-obs), 2)
			}
		}
		return math.Sqrt(spread / skill)
	}
	for _, k := range []struct {
		name     string
		inSample bool
		lo, hi   float64
	}{{"out of sample", false, 0.9, 1.1}, {"in sample", true, 0, 0.75}} {
		if r := spreadOverError(t, k.inSample); !(r > k.lo && r < k.hi) {
			t.Errorf("%s: spread over error %.3f, want %g to %g", k.name, r, k.lo, k.hi)
		} else {
			t.Logf("%s: spread over error %.3f", k.name, r)
		}
	}
}

// The second stage lowers the loss that it was given: of a network that says an affine function
// of the spread, each loss has a value of its own.
func TestSpreadStageHasItsLoss(t *testing.T) {
	grid, err := ensemble.NamedGrid("16x16")
	if err != nil {
		t.Fatal(err)
	}
	got := map[float64]string{}
	for _, loss := range []string{"mse", "l1", "ssim"} {
		c := quick(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, "model.method=three_stage", "train.loss.spread=0", "train.stages.spread.loss="+loss)
		k := unfitted(taskOf(c))
		k.SpreadRange = 4
		o := model.Options(1, "")
		o.Store = engine.NewStore()
		net, err := specOf(c).Of(model.SpreadStage).Compile(&k, grid, 1, 1, true, o, nil)
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
