package train

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/io/store"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// rainConfig is a training of precipitation that takes a second.
func rainConfig(t *testing.T, set ...string) *config.TrainConfig {
	t.Helper()
	return demotest.Config(t, runtest.NoFiles, append(slices.Clone(runtest.PrecipitationKeys), set...)...)
}

// trainRain trains on synthetic precipitation in kg m-2, of which members predict half, with too little
// spread and a bias. alter may change the samples.
func trainRain(t *testing.T, c *config.TrainConfig, alter func([]*store.Sample)) (*trainer, []*store.Sample, error) {
	t.Helper()
	grid, err := ensemble.NamedGrid("12x8")
	if err != nil {
		t.Fatal(err)
	}
	members, axes := []ensemble.Member{0, 1, 2, 3}, setup.AxesOf(c)
	r := rand.New(rand.NewPCG(5, 3))
	var starts []ensemble.Init
	var cases []*store.Sample
	for i := range 28 {
		starts = append(starts, ensemble.InitAt(time.Date(2001, 1, 10+15*i, 0, 0, 0, 0, time.UTC)))
		fc := ensemble.NewForecast(starts[i], axes, members, grid)
		an := ensemble.NewAnalysis(starts[i].Valid(c.Data.TargetLead), axes.Variables, axes.Levels, grid)
		for p := range an.Field(0, 0) {
			known := 2 + 4*r.NormFloat64()
			an.Field(0, 0)[p] = float32(max(0, known+3*r.ExpFloat64()))
			for m := range members {
				fc.Field(0, m, 0, 0)[p] = float32(max(0, known+r.NormFloat64()))
			}
		}
		cases = append(cases, &store.Sample{Forecast: fc, Analyses: []*ensemble.Analysis{an}})
	}
	if alter != nil {
		alter(cases)
	}
	d := &samples.Data{Axes: axes, Used: members[:3], All: members, Grid: grid, Split: ensemble.Split{Train: starts[:20], Validation: starts[20:24], Test: starts[24:]}}
	d.AssignSamples(loader.NewInMemory(cases, samples.SampleBytes(cases), loader.Count{}), true)
	tr, err := prepare(context.Background(), Options{Config: c, Version: "test", Stop: func() error { return nil }}, &trainingRun{dir: rundir.View(t.TempDir())}, d)
	if err != nil {
		return nil, nil, err
	}
	return tr, cases, nil
}

// predicted returns a model's forecasts of some samples and their mean CRPS.
func predicted(t *testing.T, m *model.Model, samples []*store.Sample) (all []*model.Forecast, crps float64) {
	t.Helper()
	n := 0
	for _, s := range samples {
		out, err := m.Predict(context.Background(), network.Options(1, ""), s.Forecast, m.Task.UsedMembers)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, out)
		f := m.VariableFamily(m.Task.Targets[0].Variable)
		par := make([]float64, len(f.Parameters))
		fields := out.ParametersAt(0, m.Grid.Size(), model.FullField)
		for p, y := range s.Analyses[0].Field(0, 0) {
			crps += f.CRPS(nil, fields.At(par, p), float64(y))
			n++
		}
	}
	return all, crps / float64(n)
}

// untrained returns a model with the initial network of a training.
func untrained(t *testing.T, tr *trainer) *model.Model {
	t.Helper()
	o := network.Options(1, "")
	o.Mode, o.Store = engine.Infer, engine.NewStore()
	net, err := tr.model.Spec.Compile(&tr.model.Task, tr.model.Grid, 1, 1, true, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := *tr.model
	m.Networks = []model.Weights{model.CopyWeights(o.Store)}
	m.Family = m.Spec.PredictedFamily(1)
	if err := net.Plan.Close(); err != nil {
		t.Fatal(err)
	}
	return &m
}

// Heads of families with different link functions start from a distribution around the ensemble mean, improve
// in training, and give the same results after the model was saved and loaded.
func TestHeads(t *testing.T) {
	for _, id := range []string{dist.TruncatedLogistic.ID, dist.ZeroNormal.ID, dist.LogNormal.ID, dist.CSGamma.ID, dist.BernsteinID, dist.HistogramID} {
		t.Run(id, func(t *testing.T) {
			set := []string{"model.family=" + id, runtest.DefaultLoss(id), "train.networks=1", "train.epochs=3"}
			switch id {
			case dist.TruncatedLogistic.ID, dist.LogNormal.ID: // not for variables that are often 0
				set = append(set, "data.variables=[10si]", "data.targets=[{variable: 10si, levels: [single]}]")
			case dist.BernsteinID:
				set = append(set, "model.degree=6", "train.loss.kind=pinball")
			case dist.HistogramID: // of two networks, whose quantiles are averaged
				set = append(set, "model.bins=8", "train.networks=2")
			}
			tr, samples, err := trainRain(t, rainConfig(t, set...), nil)
			if err != nil {
				t.Fatal(err)
			}
			first := untrained(t, tr)
			defer first.Close()
			start, before := predicted(t, first, samples[24:])
			fc := samples[24].Forecast
			mean, _ := scoring.MeanStd([][]float32{fc.Field(0, 0, 0, 0), fc.Field(0, 1, 0, 0), fc.Field(0, 2, 0, 0)}, 1)
			for p, m := range mean {
				e := tr.model.Task.ErrorScale[0] // of 0, where most of a distribution is cut off, its mean may differ by that
				if got := start[0]; math.Abs(float64(got.Mean[p]-m)) > 1.0*e || !(got.Sigma[p] > 0) || float64(got.Sigma[p]) > 5*e {
					t.Fatalf("point %d: an untrained network has mean %g and sigma %g, the members %g; error scale %g", p, got.Mean[p], got.Sigma[p], m, e)
				}
			}
			if err := tr.loop(context.Background()); err != nil {
				t.Fatal(err)
			}
			defer tr.model.Close()
			now, after := predicted(t, tr.model, samples[24:])
			t.Logf("CRPS %.3f, untrained %.3f", after, before)
			if !(after < 0.98*before) {
				t.Errorf("CRPS %g after training, %g before", after, before)
			}
			dir := t.TempDir()
			if err := tr.model.Save(dir); err != nil {
				t.Fatal(err)
			}
			loaded, err := model.Load(dir, false)
			if err != nil {
				t.Fatal(err)
			}
			defer loaded.Close()
			again, _ := predicted(t, loaded, samples[24:])
			for i := range now {
				if !slices.Equal(now[i].Mean, again[i].Mean) || !slices.EqualFunc(now[i].Parameters, again[i].Parameters, slices.Equal[[]float32]) {
					t.Errorf("sample %d differs after the model was saved and loaded", i)
				}
			}
		})
	}
}

// Families of non-negative values are refused for negative training analyses, but accept zeros with packing
// errors.
func TestNegativeTargetsAreRefused(t *testing.T) {
	put := func(y float32) func([]*store.Sample) {
		return func(s []*store.Sample) { s[7].Analyses[0].Field(0, 0)[3] = y }
	}
	c := rainConfig(t, "model.family=censored_shifted_gamma")
	if _, _, err := trainRain(t, c, put(-1e-6)); err != nil {
		t.Errorf("-1e-6: %v", err)
	}
	_, samples, err := trainRain(t, c, put(-10))
	if err == nil {
		t.Fatalf("-10 was taken, %d samples", len(samples))
	}
	var e *exit.Error
	if !errors.As(err, &e) || e.Code != exit.BadData || !strings.Contains(e.At, "2001-04-27T00:00Z") || !strings.Contains(e.Why, "-10") || e.Fix == "" {
		t.Errorf("error %#v", err)
	}
	if _, _, err := trainRain(t, rainConfig(t, "model.family=logistic"), put(-10)); err != nil {
		t.Errorf("logistic: %v", err)
	}
}

// The loss is the CRPS plus weighted integrals over the thresholds of events, by Simpson's rule.
func TestThresholdsOfTheLoss(t *testing.T) {
	for _, id := range []string{dist.Normal.ID, dist.CSGamma.ID, dist.BernsteinID} {
		c := rainConfig(t, "model.family="+id, "train.loss.threshold=[\"tp>6mm\", \"tp<2\", \"1<tp<4mm\"]", "train.loss.threshold_weight=3")
		tr, samples, err := trainRain(t, c, nil)
		if err != nil {
			t.Fatal(err)
		}
		k, s, grid := &tr.model.Task, samples[2], tr.model.Grid
		o := network.Options(1, "")
		o.Mode, o.Store = engine.Infer, engine.NewStore()
		net, err := tr.model.Spec.Compile(k, grid, 1, 1, true, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		used, err := task.MemberPositions(s.Forecast, k.UsedMembers)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(k.FillInput(&net.Batch, 0, s.Forecast, used), k.FillTarget(&net.Batch, 0, s.Forecast, used, s.Analyses)); err != nil {
			t.Fatal(err)
		}
		net.Load(&net.Batch)
		if err := net.Plan.Run(context.Background(), evalStep); err != nil {
			t.Fatal(err)
		}
		tr.model.Networks = []model.Weights{model.CopyWeights(o.Store)}
		out, err := tr.model.Predict(context.Background(), network.Options(1, ""), s.Forecast, k.UsedMembers)
		if err != nil {
			t.Fatal(err)
		}
		f := tr.model.VariableFamily("tp")
		if id == dist.Normal.ID {
			f = dist.Normal // as it is trained
		}
		fields, par := out.ParametersAt(0, grid.Size(), model.FullField), make([]float64, len(f.Parameters))
		var sum, weight float64
		for p, y := range s.Analyses[0].Field(0, 0) {
			fields.At(par, p)
			square := func(x float64) float64 {
				v := f.CDF(par, x)
				if x >= float64(y) {
					v--
				}
				return v * v
			}
			over := func(from, to float64) (area float64) { // y or 0 may lie between: pieces that end there
				ends := []float64{from, min(max(0, from), to), min(max(float64(y), from), to), to}
				slices.Sort(ends)
				for i := range ends[1:] {
					const n = 100
					h := (ends[i+1] - ends[i]) / n
					for j := range n { // midpoints: the error is of order h²
						area += h * square(ends[i]+(float64(j)+0.5)*h)
					}
				}
				return area
			}
			low := -20.0
			w := grid.Weights()[p]
			sum += w * (f.CRPS(nil, par, float64(y)) + 3*(over(6, 80)+over(low, 2)+over(1, 4)))
			weight += w
		}
		want := sum / weight / k.ErrorScale[0]
		if got := net.Plan.Loss(); math.Abs(got-want) > 2e-3*want {
			t.Errorf("%s: loss %.5f, by integrals %.5f", id, got, want)
		}
		if err := errors.Join(net.Plan.Close(), tr.model.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestDivergenceNamesThePlace: the message of a training that diverges names operation, layer, initialisation and point.
func TestDivergenceNamesThePlace(t *testing.T) {
	tr, _, err := trainRain(t, rainConfig(t, "train.learning_rate=1e30", "train.clip=0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.model.Close()
	err = tr.loop(context.Background())
	var e *exit.Error
	if !errors.As(err, &e) || e.Code != exit.No {
		t.Fatalf("got %v, want a divergence", err)
	}
	for _, part := range []string{"initialisations [", "; first ", " of ", "latitude "} {
		if !strings.Contains(e.At, part) {
			t.Errorf("%q lacks %q", e.At, part)
		}
	}
	t.Log(e)
}
