package train

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/loader"
)

// noisyMembers are overrides for a network that draws members from noise.
func noisyMembers(set ...string) []string {
	return runtest.MemberOutput(append([]string{"model.encoder.input=[field, noise]", "train.loss.kind=crps_members"}, set...)...)
}

// Training batches have the noise of predictions, or that of the draw that has the number of their epoch, from 1, whatever batches were
// built before.
func TestEpochsDrawNoise(t *testing.T) {
	for noise, draw := range map[string]func(epoch int) int{"fixed": func(int) int { return 0 }, "anew": func(epoch int) int { return epoch + 1 }} {
		tr := preparedTrainer(t, demotest.Config(t, demotest.Files(t), noisyMembers("model.encoder.noise="+noise)...), 0)
		k, n := tr.local, len(tr.data.Train.Inits)
		next := func(epoch int, f *feeder) (b task.Batch) {
			b = tr.model.Spec.NewBatch(k, tr.model.Grid, 1, len(k.UsedMembers), true)
			f.stream = tr.data.Train.Stream(context.Background(), []int{2})
			defer f.stream.Close()
			if f.job != nil {
				runtest.Must(t, f.build(context.Background(), &b, []int{2}))
				return b
			}
			fc, _, err := f.stream.NextForecast()
			runtest.Must(t, err)
			used, err := tr.members(fc, 0, tr.seed(), uint64(epoch), 2)
			runtest.Must(t, err)
			b.Noise.Draw = draw(epoch)
			runtest.Must(t, k.FillInput(&b, 0, fc, used))
			return b
		}
		for _, epoch := range []int{1, 0, 4} {
			built := next(epoch, &feeder{job: &tr.job, from: &tr.inputs, seed: tr.seed(), batches: n, samples: n, size: 1, batch: epoch * n})
			if want := next(epoch, &feeder{}); !slices.Equal(built.Members, want.Members) {
				t.Errorf("%s: epoch %d has other noise than draw %d", noise, epoch, draw(epoch))
			}
		}
	}
}

// Analyses that differ from the members by unknown noise: more members than are read, drawn by a network with noise, have
// a spread over error nearer to 1 than that of raw ones, and near 1 with noise drawn anew.
func TestDrawnMembersAreCalibrated(t *testing.T) {
	for noise, tolerance := range map[string]float64{"fixed": 0.3, "anew": 0.15} {
		raw, drawn := drawnOverRaw(t, "model.encoder.noise="+noise)
		if raw > 0.5 {
			t.Fatalf("spread over error of the raw members is %.2f, which leaves nothing to learn", raw)
		}
		if t.Logf("%s: spread over error of drawn members %.3f, of raw ones %.3f", noise, drawn, raw); math.Abs(drawn-1) > tolerance {
			t.Errorf("%s: spread over error of the drawn members is %.2f, of the raw ones %.2f", noise, drawn, raw)
		}
	}
}

// drawnOverRaw trains on synthetic data, and returns spread over error of the raw members and of four times as many drawn ones.
func drawnOverRaw(t *testing.T, set string) (rawRatio, drawnRatio float64) {
	t.Helper()
	grid, err := ensemble.NamedGrid("12x8")
	runtest.Must(t, err)
	c := demotest.Config(t, runtest.NoFiles, noisyMembers("data.leads=[48h]", "data.variables=[t]", "data.levels=[850hPa]", "baselines=[emos]", "train.epochs=30", "train.learning_rate=0.01", "model.dropout=0", "model.stages=1", set)...)
	members, axes := []ensemble.Member{0, 1, 2, 3}, setup.AxesOf(c)
	var starts []ensemble.Init
	for i := range 48 {
		starts = append(starts, ensemble.InitAt(time.Date(2001, 1, 10+15*i, 0, 0, 0, 0, time.UTC)))
	}
	cases := runtest.NoisySamples(t, axes, starts, members, grid, c.Data.TargetLead)
	d := &samples.Data{Axes: axes, Used: members, All: members, Grid: grid, Split: ensemble.Split{Train: starts[:36], Validation: starts[36:40], Test: starts[40:]}}
	d.AssignSamples(loader.NewInMemory(cases, samples.SampleBytes(cases), loader.Count{}), true)
	tr, err := prepare(context.Background(), Options{Config: c, Version: "test", Stop: func() error { return nil }}, &trainingRun{dir: rundir.View(t.TempDir())}, d)
	runtest.Must(t, err)
	runtest.Must(t, tr.loop(context.Background()))
	m := tr.model
	defer m.Close()
	runtest.Must(t, m.DrawMembers(4*len(members)))
	var raw, drawn spreadOverError
	for _, s := range cases[40:] {
		out, err := m.Predict(context.Background(), network.Options(1, ""), s.Forecast, members)
		runtest.Must(t, err)
		own := out.TargetMembers(0, 1, grid.Size())
		if len(own) != 4*len(members) {
			t.Fatalf("%d members", len(own))
		}
		drawn.add(own, s.Analyses[0].Field(0, 0))
		var input [][]float32
		for i := range members {
			input = append(input, s.Forecast.Field(0, i, 0, 0))
		}
		raw.add(input, s.Analyses[0].Field(0, 0))
	}
	return raw.ratio(), drawn.ratio()
}

// spreadOverError sums variances of members and squared errors of their mean.
type spreadOverError struct {
	variance, square float64
	members          int
}

// add adds fields.
func (s *spreadOverError) add(members [][]float32, analysis []float32) {
	mean, std := make([]float32, len(analysis)), make([]float32, len(analysis))
	ensemble.MeanStd(mean, std, members, 1)
	s.members = len(members)
	for p, y := range analysis {
		s.variance += float64(std[p]) * float64(std[p])
		s.square += float64(mean[p]-y) * float64(mean[p]-y)
	}
}

// ratio is 1 if members and analysis are draws of one distribution (Fortin et al. 2014, doi:10.1175/JHM-D-14-0008.1).
func (s *spreadOverError) ratio() float64 {
	return math.Sqrt((1 + 1/float64(s.members)) * s.variance / s.square)
}
