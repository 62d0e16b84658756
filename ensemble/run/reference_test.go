package run

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/io/store"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Every baseline that gives a normal distribution can be the reference.
func TestReferencesAreTheNormalBaselines(t *testing.T) {
	var ids []string
	for _, m := range baseline.Methods {
		if m.Family == dist.Normal {
			ids = append(ids, m.ID)
		}
	}
	if !slices.Equal(ids, config.References) {
		t.Errorf("the schema has %q, the methods are %q", config.References, ids)
	}
}

// corrected is a training on invented weather of two years, 2001 and 2002, that corrects a
// reference; alter may change its samples. The last four starts are the test.
func corrected(t *testing.T, method string, alter func([]*store.Sample)) (*trainer, []*store.Sample) {
	t.Helper()
	grid, err := ensemble.NamedGrid("12x8")
	if err != nil {
		t.Fatal(err)
	}
	c := quick(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, "model.reference="+method, "model.cross_fit.folds=4", "data.leads=[48h]", "data.variables=[t]", "data.levels=[850hPa]")
	var starts []ensemble.Init
	for i := range 44 {
		starts = append(starts, ensemble.InitAt(time.Date(2001, 1, 10+15*i, 0, 0, 0, 0, time.UTC)))
	}
	members := []ensemble.Member{0, 1, 2, 3}
	samples := noisy(t, axesOf(c), starts, members, grid, c.Data.TargetLead)
	if alter != nil {
		alter(samples)
	}
	d := &data{axes: axesOf(c), used: members[:3], all: members, grid: grid, split: ensemble.Split{Train: starts[:40], Test: starts[40:]}}
	d.divided(loader.Held(samples, bytesOf(samples)), true)
	tr, err := newTrainer(context.Background(), TrainOptions{Config: c, Version: "test", Stop: func() error { return nil }}, d, rundir.View(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	tr.report = func(int, string) {}
	return tr, samples
}

// What became of a training start does not reach its own reference: with folds that has the
// same bits after a wrong outcome, and so have those of its block. Without folds it is another.
func TestReferenceIsCrossFitted(t *testing.T) {
	const start = 17
	for _, method := range []string{"emos_grid", "samos"} {
		honest, samples := corrected(t, method, nil)
		spoilt, _ := corrected(t, method, func(s []*store.Sample) {
			for p := range s[start].Analyses[0].Field(0, 0) {
				s[start].Analyses[0].Field(0, 0)[p] += 30
			}
		})
		fc := samples[start].Forecast
		of := func(tr *trainer, k *Task) []float32 {
			b := newBatch(k, fc.Grid, 1)
			used, err := positions(fc, k.Used)
			if err != nil {
				t.Fatal(err)
			}
			if err := k.Input(&b, 0, fc, used); err != nil {
				t.Fatal(err)
			}
			e := float32(k.ErrorScale[0]) // which knows the outcome, and is no forecast
			for i := range b.ReferenceShift {
				b.ReferenceShift[i] *= e
				b.ReferenceSigma[i] *= e
			}
			return append(b.ReferenceShift, b.ReferenceSigma...)
		}
		differ := func(a, b []float32) (most float64) {
			for i := range a {
				most = max(most, math.Abs(float64(a[i]-b[i])))
			}
			return most
		}
		// Twice a rounding of values of order one by the error scale.
		if d := differ(of(honest, honest.references.task(honest.local, start)), of(spoilt, spoilt.references.task(spoilt.local, start))); d > 1e-5 {
			t.Errorf("%s: the reference of a start moves by %g K with its own outcome", method, d)
		}
		if d := differ(of(honest, honest.local), of(spoilt, spoilt.local)); d < 0.05 {
			t.Errorf("%s: without folds the reference moves by %g K only: nothing is tested", method, d)
		}
	}
}

// A network that has not been trained is its reference, in mean and sigma.
func TestUntrainedNetworkIsItsReference(t *testing.T) {
	tr, samples := corrected(t, "emos_grid", nil)
	tr.cfg.LearningRate = 0
	for i := range tr.turns {
		tr.turns[i].cfg.Epochs, tr.turns[i].cfg.LearningRate = 1, 0
	}
	if err := tr.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	defer tr.model.Close()
	dir := t.TempDir()
	if err := tr.model.Save(dir); err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	fc := samples[41].Forecast
	mean, std := meanStd([][]float32{fc.Field(0, 0, 0, 0), fc.Field(0, 1, 0, 0), fc.Field(0, 2, 0, 0)}, 1)
	want := tr.references.final.fits[0].Forecast(baseline.Raw{Valid: fc.Init.Valid(tr.model.Task.TargetLead).Time, Mean: mean, Std: std})
	for name, m := range map[string]*Model{"trained": tr.model, "loaded": loaded} {
		f, err := m.Predict(context.Background(), engineOptions(1), fc, m.Task.Used)
		if err != nil {
			t.Fatal(err)
		}
		for p := range f.Mean {
			// 280 K have 24 bits.
			if math.Abs(float64(f.Mean[p]-want[0][p])) > 1e-4 || math.Abs(float64(f.Sigma[p]-want[1][p])) > 1e-5 {
				t.Fatalf("%s, point %d: N(%g, %g), the reference says N(%g, %g)", name, p, f.Mean[p], f.Sigma[p], want[0][p], want[1][p])
			}
		}
	}
}

// A training with a reference, on two parts of the fields, is resumed to the same bits, and its
// products score what training scored.
func TestReferenceWholeJob(t *testing.T) {
	f := smallData(t)
	runDir := resumesToTheSameBits(t, quick(t, f, "model.reference=emos_grid", "model.cross_fit.folds=4", "model.cross_fit.gap=0h", "data.split.fractions.train=0.8", "data.split.fractions.validation=0.05", "train.networks=1", "train.epochs=2", "train.mesh=lat:2"), 5)
	m, err := LoadModel(filepath.Join(runDir, "model"))
	if err != nil {
		t.Fatal(err)
	}
	// The model's reference is the baseline that it is compared with, bit for bit.
	k, size := &m.Task, m.Grid.Size()
	raw := baseline.Raw{Valid: m.Trained.To.AddDate(0, 1, 0), Mean: k.Centre[0], Std: k.Width[0]}
	at := slices.IndexFunc(m.Baselines[0].Fits, func(b Baseline) bool { return b.Method.ID == "emos_grid" })
	got, want := k.reference.fits[0].Forecast(raw), m.Baselines[0].Fits[at].Fit.Forecast(raw)
	if len(got[0]) != size || !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
		t.Errorf("the model corrects N(%g, %g) at its first point, the baseline is N(%g, %g)", got[0][0], got[1][0], want[0][0], want[1][0])
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	predicted, err := Predict(context.Background(), PredictOptions{RunDir: runDir, Input: f.GRIB2[17:], Out: t.TempDir(), Formats: []product.Format{product.NetCDF}, Version: "test"})
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
	a, b := trained.Find("crps_gauss", "network", "t", "850hPa", "48h"), verified.Scores.Find("crps_gauss", "network", "t", "850hPa", "48h")
	if a == nil || b == nil || math.Abs(float64(a.Value-b.Value)) > 1e-5*float64(a.Value) {
		t.Errorf("CRPS %+v from training, %+v from the products", a, b)
	}
	if err := os.Remove(filepath.Join(runDir, "model", correctedFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadModel(filepath.Join(runDir, "model")); exit.CodeOf(err) != exit.BadData {
		t.Errorf("a model without its reference: %v, want exit 65", err)
	}
}
