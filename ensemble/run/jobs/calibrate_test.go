package jobs

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/calibration"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// A training fits calibrations on its validation samples and stores them in the model; predictions publish
// calibrated probabilities.
func TestTrainCalibrates(t *testing.T) {
	f := demotest.Files(t)
	dir := filepath.Join(t.TempDir(), "run")
	c := demotest.Config(t, f, "train.networks=1", "train.epochs=1", "calibrate.probabilities=isotonic", "calibrate.events=[t>270, \"t<5 degC\", t>280]")
	if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: dir, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(filepath.Join(dir, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if len(m.Calibrations) != 3 {
		t.Fatalf("%d calibrations: %+v", len(m.Calibrations), m.Calibrations)
	}
	for i, limit := range []float64{270, 278.15, 280} {
		c := m.Calibrations[i]
		if c.Variable != "t" || c.Level != "850hPa" || c.Event != (ensemble.Event{Relation: ensemble.Above, Lower: limit}) || c.Method != config.IsotonicCalibration ||
			c.Inits != 3 || c.Cases != 3*m.Grid.Size() || len(c.Mapping.X) < 2 {
			t.Errorf("calibration %d: %+v", i, c)
		}
	}
	// Ranks that predict together fit the same.
	shared := filepath.Join(t.TempDir(), "shared")
	if err := traintest.TrainOnRanks(2, func(int) train.Options {
		c := demotest.Config(t, f, "train.networks=1", "train.epochs=1", "train.mesh=lat:2", "calibrate.probabilities=isotonic", "calibrate.events=[t>270]")
		return train.Options{Config: c, RunDir: shared, Version: "test"}
	}); err != nil {
		t.Fatal(err)
	}
	other, err := model.Load(filepath.Join(shared, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if len(other.Calibrations) != 1 || other.Calibrations[0].Cases != m.Calibrations[0].Cases {
		t.Fatalf("two ranks: %+v", other.Calibrations)
	}
	for p := 0.005; p < 1; p += 0.01 {
		if a, b := other.Calibrations[0].Mapping.At(p), m.Calibrations[0].Mapping.At(p); math.Abs(a-b) > 0.05 {
			t.Errorf("%g becomes %g, on two ranks %g", p, b, a)
		}
	}

	// Fitted again from published distributions of the validation samples, a calibration is the
	// same up to rounding in files.
	o := predict.Options{RunDir: dir, Input: f.GRIB2, Out: t.TempDir(), Version: "test", Command: "test", Threads: 1,
		Publish: runtest.Publishing(t, "products=[mean, spread, probabilities]", "probabilities=[t>270, t>275, t<278.15, 270<t<280]")}
	o.Input = f.GRIB2
	r, err := predict.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	analyses := runtest.FieldsOf(t, filepath.Join(filepath.Dir(f.Analyses[0]), "demo_an_*.nc"))
	var table calibration.Table
	weights := m.Grid.Weights()
	for _, path := range r.Outputs {
		fields := runtest.FieldsOf(t, path)
		var mean, sigma []float32
		events := map[ensemble.Event][]float32{}
		var at ensemble.Key
		for k, v := range fields {
			at = k
			switch k.Product {
			case ensemble.EnsembleMean:
				mean = v.Values
			case ensemble.Spread:
				if sigma == nil || v.Values[0] != 0 {
					sigma = v.Values
				}
			case ensemble.Probability:
				events[k.Event] = v.Values
			}
		}
		if inside := m.Calibrations[0].Period; inside.Contains(at.Init.Time) {
			var obs []float32
			for k, v := range analyses {
				if k.Variable == "t" && k.Level == ensemble.PressureLevel(850) && k.Valid() == at.Init.Valid(at.Lead) {
					obs = v.Values
				}
			}
			for p, y := range obs {
				event := 0.0
				if y > 270 {
					event = 1
				}
				table.Add(dist.Normal.Above([]float64{float64(mean[p]), float64(sigma[p])}, 270), event, weights[p])
			}
		}
		above := func(p int, limit float64) float64 {
			return dist.Normal.Above([]float64{float64(mean[p]), float64(sigma[p])}, limit)
		}
		for p := range mean {
			known := []float64{m.Calibrations[0].Mapping.At(above(p, 270)), m.Calibrations[1].Mapping.At(above(p, 278.15)), m.Calibrations[2].Mapping.At(above(p, 280))}
			slices.Sort(known)
			slices.Reverse(known)
			for e, want := range map[ensemble.Event]float64{
				{Relation: ensemble.Above, Lower: 270}:               known[0],
				{Relation: ensemble.Above, Lower: 275}:               min(known[0], max(known[1], above(p, 275))),
				{Relation: ensemble.Below, Upper: 278.15}:            1 - known[1],
				{Relation: ensemble.Between, Lower: 270, Upper: 280}: known[0] - known[2],
			} {
				if got := float64(events[e][p]); math.Abs(got-want) > 1e-5 {
					t.Fatalf("%s at point %d: %g, want %g", e, p, got, want)
				}
			}
		}
	}
	again := table.Isotonic()
	if table.Cases() != m.Calibrations[0].Cases {
		t.Fatalf("%d cases, want %d", table.Cases(), m.Calibrations[0].Cases)
	}
	for p := 0.005; p < 1; p += 0.01 {
		if a, b := again.At(p), m.Calibrations[0].Mapping.At(p); math.Abs(a-b) > 0.02 {
			t.Errorf("%g becomes %g, fitted again %g", p, b, a)
		}
	}
	if w := m.DescribeCalibration(m.Task.Targets[0], ensemble.PressureLevel(850)); !strings.Contains(w, "exceedance of 270, 278.15, 280 calibrated by isotonic regression on 3 initialisations") {
		t.Errorf("files say %q", w)
	}
}

func TestCalibrateRefuses(t *testing.T) {
	f := demotest.Files(t)
	path := filepath.Join(t.TempDir(), "train.yaml")
	if err := os.WriteFile(path, demotest.Config(t, f).YAML(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set  []string
		text string
	}{
		{[]string{"calibrate.probabilities=isotonic"}, "without events"},
		{[]string{"calibrate.distribution=student", "model.head=spread", "train.loss.kind=mse"}, "no distribution to calibrate"},
		{[]string{"calibrate.distribution=student", "model.family=logistic"}, "family logistic cannot be calibrated"},
		{[]string{"calibrate.distribution=student", "data.targets=[{variable: tp, levels: [surface]}]"}, "distribution of tp cannot be calibrated"},
		{[]string{"calibrate.distribution=normal"}, "calibrate.distribution"},
		{[]string{"calibrate.events=[t>270]"}, "calibrate.events without calibration of probabilities"},
		{[]string{"calibrate.probabilities=isotonic", "calibrate.events=[gh>5000]"}, "is not about a target"},
		{[]string{"calibrate.probabilities=isotonic", "calibrate.events=[t700>270]"}, "event t@700hPa>270 is not about a target"},
		{[]string{"calibrate.probabilities=isotonic", "calibrate.events=[270<t<280]"}, "two thresholds"},
	} {
		if _, err := config.LoadTrain(config.Sources{Files: []string{path}, Set: c.set}); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v: %v", c.set, err)
		}
	}
	for _, c := range []struct {
		set  []string
		text string
	}{
		{[]string{"calibrate.events=[t>270]", "data.split.fractions.validation=0"}, "without validation samples"},
		{[]string{"calibrate.events=[t>270hPa]"}, "does not apply to t"},
	} {
		cfg := demotest.Config(t, f, append(c.set, "calibrate.probabilities=isotonic")...)
		if _, err := train.Run(context.Background(), train.Options{Config: cfg, RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"}); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v: %v", c.set, err)
		}
	}
}
