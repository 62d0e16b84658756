package train

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/loader"
)

// Sigma is fitted to out-of-sample residuals: on unseen samples the predicted spread equals the error. Fitted
// to residuals of the samples that the bias stage was trained on, it is much too small.
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
	axes := setup.AxesOf(c)
	axes.Levels = []ensemble.Level{level}
	cases := runtest.NoisySamples(t, axes, starts, members, grid, lead)
	spreadOverError := func(t *testing.T, inSample bool) float64 {
		d := &samples.Data{Axes: axes, Used: members[:3], All: members, Grid: grid, Split: ensemble.Split{Train: starts[:24], Test: starts[24:]}}
		d.AssignSamples(loader.NewInMemory(cases, samples.SampleBytes(cases), loader.Count{}), true)
		tr, err := prepare(context.Background(), Options{Config: c, Version: "test", Stop: func() error { return nil }}, &trainingRun{dir: rundir.View(t.TempDir())}, d)
		if err != nil {
			t.Fatal(err)
		}
		if inSample { // the network of all years in place of those that left some out
			for i := range tr.inputs.foldOf {
				tr.inputs.foldOf[i] = c.Model.Bias.Folds
			}
		}
		if err := tr.loop(context.Background()); err != nil {
			t.Fatal(err)
		}
		defer tr.model.Close()
		var spread, skill float64
		for _, s := range cases[24:] {
			f, err := tr.model.Predict(context.Background(), network.Options(1, ""), s.Forecast, members[:3])
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
