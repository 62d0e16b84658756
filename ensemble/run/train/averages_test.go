package train

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// The averaged network that is validated is the one that is saved: the weights of the model folder have the best
// validation loss of the log, to the last bit. Their running statistics are those of the averaged weights: over the
// batches from which they were computed, a further update does not change them on average.
func TestValidatedIsSaved(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f, runtest.FirstInits(f, 8), "model.kind=resnet2d_simple", "model.head=spread", "train.loss.kind=l1", "train.epochs=1", "train.networks=1", "train.batch_size=2",
		"data.levels=[850hPa]", "data.features=[spread, first]", "data.variables=[t]", "data.grid.to=20deg", "data.grid.method=bilinear", "train.ema=2 steps", "train.early_stop.patience=0")
	dir := filepath.Join(t.TempDir(), "run")
	_, err := Run(context.Background(), Options{Config: c, RunDir: dir, Version: "test"})
	runtest.Must(t, err)
	var best float64 = math.MaxFloat64
	epochs, err := rundir.ReadEvents(dir)
	runtest.Must(t, err)
	for _, e := range epochs {
		if v, ok := e.Number("validation_loss"); ok {
			best = min(best, v)
		}
	}
	saved, err := model.Load(filepath.Join(dir, "model"), false)
	runtest.Must(t, err)

	forecasts, analyses, err := samples.TrainingFiles(c)
	runtest.Must(t, err)
	d, err := samples.ReadData(context.Background(), c, forecasts, analyses, nil)
	runtest.Must(t, err)
	defer d.Close()
	tr, err := prepare(context.Background(), Options{Config: c, Version: "test", Stop: func() error { return nil }}, &trainingRun{dir: rundir.View(t.TempDir())}, d)
	runtest.Must(t, err)
	runtest.Must(t, tr.begin())
	defer tr.end()
	n := tr.current
	runtest.Must(t, model.Fill(n.evalStore, saved.Networks[0]))
	loss, err := tr.validationLoss(context.Background())
	runtest.Must(t, err)
	if loss.mean != best {
		t.Errorf("the saved weights have the validation loss %v, the log states %v", loss.mean, best)
	}

	// Statistics that are recomputed for the saved weights.
	ctx := context.Background()
	tr.pos.Epoch = 1
	copy(n.store.Params(), n.evalStore.Params())
	runtest.Must(t, tr.recomputeStatistics(ctx))
	want := slices.Clone(n.evalStore.States())
	mean := make([]float64, len(want))
	schedule, reader := tr.schedule()
	reads, size := schedule.Epoch(reader, 0), n.train.Rows.Len()
	batches := len(reads) / size
	stream := d.Train.Stream(ctx, reads)
	defer stream.Close()
	fd := &feeder{job: &tr.job, from: &tr.inputs, seed: schedule.Seed, stream: stream, batches: batches, samples: len(d.Train.Inits), size: size}
	b := tr.newBatch(size)
	for i := range batches {
		at := reads[i*size : (i+1)*size]
		runtest.Must(t, fd.build(ctx, &b, at))
		fd.batch++
		copy(n.store.States(), want)
		net := n.loadBatch(&readyBatch{batch: &b, starts: at})
		runtest.Must(t, net.Plan.Run(ctx, evalStep))
		for k, v := range n.store.States() {
			mean[k] += float64(v) / float64(batches)
		}
	}
	var largest float64
	for k, v := range want {
		largest = max(largest, math.Abs(float64(v)))
		if d := math.Abs(mean[k] - float64(v)); d > 1e-5*(1+math.Abs(float64(v))) {
			t.Fatalf("statistic %d of the average is %v, an update makes it %v", k, v, mean[k])
		}
	}
	if largest == 0 || batches < 2 {
		t.Errorf("%d batches, largest statistic %g", batches, largest)
	}
}

// The decay of an average is a factor or a time; one that a training is too short for is stated with numbers, and the
// time that the message suggests is long enough.
func TestSlowAverage(t *testing.T) {
	for _, c := range []struct {
		ema           string
		epochs, steps int // of an epoch
		want          string
	}{
		{"0", 12, 5, ""},
		{"0.9", 12, 5, ""},
		{"0.999", 12, 5, "train.ema: 0.999 averages over 1000 steps, but the training has 60 (5 in an epoch): its decay is at most 0.8714, an average over the last 8; give a time, such as train.ema: 1.2 epochs"},
		{"0.999", 60, 500, ""},
		{"1.2 epochs", 12, 5, ""},
		{"30 epochs", 60, 500, "train.ema: 30 epochs averages over 15000 steps"},
		{"500 steps", 3, 5, "give a time, such as train.ema: 0.3 epochs"},
		{"0.3 epochs", 3, 5, ""},
		{"6 epochs", 60, 500, ""},
	} {
		a, err := config.ParseAveraging(c.ema)
		runtest.Must(t, err)
		got := slowAverage(setup.NetworkTraining{Config: config.Training{EMA: a, Epochs: c.epochs}}, c.steps)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s, %d epochs of %d steps: %q, want %q", c.ema, c.epochs, c.steps, got, c.want)
		}
	}
}

// A validation sample is named if it alone determines the mean loss.
func TestDominantDate(t *testing.T) {
	of := func(losses ...float64) validationLosses {
		v := validationLosses{worst: ensemble.Init{Time: time.Date(2001, 6, 4, 0, 0, 0, 0, time.UTC)}, largest: slices.Max(losses)}
		slices.Sort(losses)
		v.median = losses[len(losses)/2]
		for _, x := range losses {
			v.mean += x / float64(len(losses))
		}
		return v
	}
	for _, c := range []struct {
		losses []float64
		want   string
	}{
		{[]float64{0.4, 0.5, 0.6, 0.5}, ""},
		{[]float64{0.4, 0.5, 0.6, 1e6}, "initialisation 2001-06-04T00:00Z has 100 % of the validation loss, 1.67e+06 times the median"},
		{[]float64{0.5, 0.5, 0.5, 4}, ""},
		{[]float64{0.5, 1e6}, ""},        // of two either may be wrong
		{[]float64{-1, -2, -0.5, 3}, ""}, // logarithmic scores
		{slices.Repeat([]float64{0}, 5), ""},
	} {
		if got := of(c.losses...).dominant(len(c.losses)); (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %q, want %q", c.losses, got, c.want)
		}
	}
}
