package train

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/io/store"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
)

// trainCorrected trains on synthetic data of two years, 2001 and 2002, and corrects a reference; alter may
// change the samples. The last four samples are the test.
func trainCorrected(t *testing.T, method string, alter func([]*store.Sample)) (*trainer, []*store.Sample) {
	t.Helper()
	grid, err := ensemble.NamedGrid("12x8")
	if err != nil {
		t.Fatal(err)
	}
	c := demotest.Config(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, "model.reference="+method, "model.cross_fit.folds=4", "data.leads=[48h]", "data.variables=[t]", "data.levels=[850hPa]")
	var starts []ensemble.Init
	for i := range 44 {
		starts = append(starts, ensemble.InitAt(time.Date(2001, 1, 10+15*i, 0, 0, 0, 0, time.UTC)))
	}
	members := []ensemble.Member{0, 1, 2, 3}
	cases := runtest.NoisySamples(t, setup.AxesOf(c), starts, members, grid, c.Data.TargetLead)
	if alter != nil {
		alter(cases)
	}
	d := &samples.Data{Axes: setup.AxesOf(c), Used: members[:3], All: members, Grid: grid, Split: ensemble.Split{Train: starts[:40], Test: starts[40:]}}
	d.AssignSamples(loader.NewInMemory(cases, samples.SampleBytes(cases), loader.Count{}), true)
	tr, err := prepare(context.Background(), Options{Config: c, Version: "test", Stop: func() error { return nil }}, &trainingRun{dir: rundir.View(t.TempDir())}, d)
	if err != nil {
		t.Fatal(err)
	}
	return tr, cases
}

// The outcome of a training sample does not affect its own reference: with folds the reference keeps its bits
// if the outcome is changed, as do those of the same block. Without folds it changes.
func TestReferenceIsCrossFitted(t *testing.T) {
	const start = 17
	for _, method := range []string{"emos_grid", "samos"} {
		honest, samples := trainCorrected(t, method, nil)
		spoilt, _ := trainCorrected(t, method, func(s []*store.Sample) {
			for p := range s[start].Analyses[0].Field(0, 0) {
				s[start].Analyses[0].Field(0, 0)[p] += 30
			}
		})
		fc := samples[start].Forecast
		of := func(tr *trainer, k *task.Task) []float32 {
			b := task.NewBatch(k, fc.Grid, 1)
			used, err := task.MemberPositions(fc, k.UsedMembers)
			if err != nil {
				t.Fatal(err)
			}
			if err := k.FillInput(&b, 0, fc, used); err != nil {
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
		if d := differ(of(honest, honest.inputs.references.taskFor(honest.local, start)), of(spoilt, spoilt.inputs.references.taskFor(spoilt.local, start))); d > 1e-5 {
			t.Errorf("%s: the reference of a sample changes by %g K with its own outcome", method, d)
		}
		if d := differ(of(honest, honest.local), of(spoilt, spoilt.local)); d < 0.05 {
			t.Errorf("%s: without folds the reference moves by %g K only: nothing is tested", method, d)
		}
	}
}

// An untrained network equals its reference, in mean and sigma.
func TestUntrainedNetworkIsItsReference(t *testing.T) {
	tr, samples := trainCorrected(t, "emos_grid", nil)
	for i := range tr.trainings {
		tr.trainings[i].Config.Epochs, tr.trainings[i].Config.LearningRate = 1, 0
	}
	if err := tr.loop(context.Background()); err != nil {
		t.Fatal(err)
	}
	defer tr.model.Close()
	dir := t.TempDir()
	if err := tr.model.Save(dir); err != nil {
		t.Fatal(err)
	}
	loaded, err := model.Load(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	fc := samples[41].Forecast
	mean, std := scoring.MeanStd([][]float32{fc.Field(0, 0, 0, 0), fc.Field(0, 1, 0, 0), fc.Field(0, 2, 0, 0)}, 1)
	want := tr.inputs.references.final.Fits[0].Forecast(baseline.Raw{Valid: fc.Init.Valid(tr.model.Task.Targets[0].Lead).Time, Mean: mean, Std: std})
	for name, m := range map[string]*model.Model{"trained": tr.model, "loaded": loaded} {
		f, err := m.Predict(context.Background(), network.Options(1, ""), fc, m.Task.UsedMembers)
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
