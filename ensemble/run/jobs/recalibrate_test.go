package jobs

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// A training adjusts the spread of its distribution, and its tails, to the errors on the validation samples.
// Predictions publish the adjusted distribution with a description, and scores refer to it. Ranks that
// predict together fit the same.
func TestTrainRecalibrates(t *testing.T) {
	f := demotest.Files(t)
	set := []string{"train.networks=1", "train.epochs=1", "calibrate.distribution=student", "calibrate.probabilities=isotonic", "calibrate.events=[t>275]"}
	dir := filepath.Join(t.TempDir(), "run")
	trained, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, set...), RunDir: dir, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if trained.Scores.Find("crps_family", scoring.SystemNetwork, "t", "850hPa", "48h") == nil || trained.Scores.Find("crps_gauss", scoring.SystemNetwork, "t", "850hPa", "48h") != nil {
		t.Error("test samples are not scored with the calibrated distribution")
	}
	m, err := model.Load(filepath.Join(dir, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if len(m.Recalibrations) != 2 || m.Recalibrations[1].Factor != 1 || m.Family != dist.Student || m.Recalibrations[0].Cases != 3*m.Grid.Size() {
		t.Fatalf("%+v", m.Recalibrations)
	}
	is := m.Recalibrations[0]

	shared := filepath.Join(t.TempDir(), "shared")
	if err := traintest.TrainOnRanks(2, func(int) train.Options {
		return train.Options{Config: demotest.Config(t, f, append(set, "train.mesh=lat:2")...), RunDir: shared, Version: "test"}
	}); err != nil {
		t.Fatal(err)
	}
	two, err := model.Load(filepath.Join(shared, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	if other := two.Recalibrations[0]; math.Abs(other.Factor/is.Factor-1) > 0.02 || math.Abs(1/other.Nu-1/is.Nu) > 0.02 || other.Cases != is.Cases {
		t.Errorf("two ranks: %+v, one: %+v", other, is)
	}

	r, err := predict.Run(context.Background(), predict.Options{RunDir: dir, Input: f.GRIB2, Out: t.TempDir(), Version: "test", Command: "test", Threads: 1,
		Publish: runtest.Publishing(t, "products=[mean, spread, quantiles, probabilities]", "quantiles=[0.9]", "probabilities=[t>275]")})
	if err != nil {
		t.Fatal(err)
	}
	analyses := runtest.FieldsOf(t, filepath.Join(filepath.Dir(f.Analyses[0]), "demo_an_*.nc"))
	weights := m.Grid.Weights()
	var errors, spreads float64
	for _, path := range r.Outputs {
		var mean, spread, quantile []float32
		var at ensemble.Key
		for k, v := range runtest.FieldsOf(t, path) {
			switch at = k; k.Product {
			case ensemble.EnsembleMean:
				mean = v.Values
			case ensemble.Spread:
				spread = v.Values
			case ensemble.Quantile:
				quantile = v.Values
			}
		}
		for p := range mean {
			want := float64(mean[p]) + float64(spread[p])/dist.StudentStd(is.Nu)*dist.StudentQuantile(is.Nu, 0.9)
			if math.Abs(float64(quantile[p])-want) > 1e-4 {
				t.Fatalf("%s point %d: quantile %g, want %g", path, p, quantile[p], want)
			}
		}
		if !is.Period.Contains(at.Init.Time) {
			continue
		}
		for k, v := range analyses {
			if k.Variable != "t" || k.Level != ensemble.PressureLevel(850) || k.Valid() != at.Init.Valid(at.Lead) {
				continue
			}
			for p, y := range v.Values {
				errors += weights[p] * math.Pow(float64(y-mean[p]), 2)
				spreads += weights[p] * math.Pow(float64(spread[p]), 2)
			}
		}
	}
	if ratio := spreads / errors; math.Abs(ratio-1) > 1e-4 {
		t.Errorf("published spread² over error² on validation samples is %g, want 1", ratio)
	}
	if w := m.DescribeRecalibration(m.Task.Targets[0], ensemble.PressureLevel(850)); !strings.Contains(w, "degrees of freedom, fitted on 3 initialisations from") {
		t.Errorf("files say %q", w)
	}

	path := filepath.Join(shared, "model", model.File)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for old, other := range map[string]string{`"recalibrations"`: `"unknown"`, `"spread_factor": `: `"spread_factor": -`, `"degrees_of_freedom": `: `"degrees_of_freedom": -`} {
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, other, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := model.Load(filepath.Join(shared, "model"), false); exit.CodeOf(err) != exit.BadData {
			t.Errorf("with %s a model is read: %v", other, err)
		}
	}
}
