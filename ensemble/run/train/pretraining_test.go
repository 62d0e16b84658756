package train

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/loader"
)

// preparedTrainer returns a trainer of a configuration before its first step, with bias added to all analyses. It is freed at the
// end of the test.
func preparedTrainer(t *testing.T, c *config.TrainConfig, bias float32) *trainer {
	t.Helper()
	forecasts, analyses, err := samples.TrainingFiles(c)
	runtest.Must(t, err)
	d, err := samples.ReadData(context.Background(), c, forecasts, analyses, nil)
	runtest.Must(t, err)
	for _, part := range []samples.Examples{d.Train, d.Validation} {
		runtest.Must(t, part.Each(context.Background(), nil, func(_ int, _ *ensemble.Forecast, analyses []*ensemble.Analysis) error {
			for _, a := range analyses {
				for q := range a.Values {
					a.Values[q] += bias
				}
			}
			return nil
		}))
	}
	tr, err := prepare(context.Background(), Options{Config: c, Version: "test", Stop: func() error { return nil }}, &trainingRun{dir: rundir.View(t.TempDir())}, d)
	runtest.Must(t, err)
	t.Cleanup(func() {
		if err := errors.Join(tr.end(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// In pre-training the target of a sample is the field of the member that verifies it, at the target lead and with the scale of
// analyses; the spread of the full ensemble is that of all members.
func TestTargetsAreMembers(t *testing.T) {
	tr := preparedTrainer(t, demotest.Config(t, demotest.Files(t), "train.pretrain.epochs=2", "data.target_leads=[24h, 48h]"), 0)
	k := tr.local
	checked := 0
	runtest.Must(t, tr.data.Train.Each(context.Background(), nil, func(i int, fc *ensemble.Forecast, analyses []*ensemble.Analysis) error {
		f := &feeder{job: &tr.job, phase: tr.training().Phase, from: &tr.inputs, seed: tr.seed()}
		used, from, err := f.verified(fc, analyses, 0, 1, uint64(i))
		if err != nil {
			return err
		}
		b, own := task.NewBatch(k, fc.Grid, 1), task.NewBatch(k, fc.Grid, 1)
		if err := errors.Join(k.FillTarget(&b, 0, fc, used, from), k.FillTarget(&own, 0, fc, used, analyses)); err != nil {
			return err
		}
		if !runtest.EqualBits(b.FullSpread, own.FullSpread) || runtest.EqualBits(b.Residual, own.Residual) {
			t.Errorf("sample %d: the spread of the full ensemble differs, or the residual does not", i)
		}
		verifying, _ := loader.DrawVerifying(tr.seed(), 1, uint64(i), len(fc.Members), len(k.UsedMembers), true)
		stats, err := k.TargetStatistics(fc, used)
		if err != nil {
			return err
		}
		n := fc.Grid.Size()
		for v := range k.Targets {
			lead, x := k.TargetInForecast(fc, v)
			for l := range fc.Axes.Levels {
				at, field := v*len(fc.Axes.Levels)+l, fc.Field(lead, verifying, x, l)
				for q := range n {
					if want := (field[q] - stats[at].Mean[q]) * float32(1/k.ErrorScale[at]); b.Residual[at*n+q] != want {
						t.Fatalf("sample %d, target %d, point %d: residual %g, that of member %s is %g", i, at, q, b.Residual[at*n+q], fc.Members[verifying], want)
					}
					checked++
				}
			}
		}
		return nil
	}))
	if checked == 0 {
		t.Error("no value was compared")
	}
}

// memberLoss is the mean loss of the current network of a trainer on validation initialisations, verified by members that none of
// its inputs are.
func memberLoss(t *testing.T, tr *trainer) float64 {
	t.Helper()
	sum, count := 0.0, 0
	runtest.Must(t, tr.data.Validation.Each(context.Background(), nil, func(i int, fc *ensemble.Forecast, _ []*ensemble.Analysis) error {
		for draw := range uint64(4) {
			verifying, used := loader.DrawVerifying(99, draw, uint64(i), len(fc.Members), len(tr.local.UsedMembers), true)
			net := tr.current.eval
			if err := errors.Join(tr.local.FillInput(&net.Batch, 0, fc, used), tr.local.FillTarget(&net.Batch, 0, fc, used, tr.local.AnalysesOfMember(fc, verifying))); err != nil {
				return err
			}
			net.Load(&net.Batch)
			if err := net.Plan.Run(context.Background(), evalStep); err != nil {
				return err
			}
			sum, count = sum+net.Plan.Loss(), count+1
		}
		return nil
	}))
	return sum / float64(count)
}

// Pre-training alone lowers the CRPS against members of initialisations that it did not see, although analyses are 3 K warmer than
// members, while a training on them learns that bias. The fine-tuning begins with the last weights of the pre-training.
func TestPretrainingLearnsFromMembers(t *testing.T) {
	const bias = 3 // K
	set := []string{"train.loss.spread=0", "model.dropout=0", "train.networks=1", "train.epochs=10", "train.learning_rate=0.01"}
	var untrained, trained [2]float64
	for i, more := range []string{"train.pretrain.epochs=10", "train.pretrain.epochs=0"} {
		tr := preparedTrainer(t, demotest.Config(t, demotest.Files(t), append(set, more)...), bias)
		runtest.Must(t, tr.begin())
		untrained[i] = memberLoss(t, tr)
		if _, err := tr.trainNetwork(context.Background()); err != nil {
			t.Fatal(err)
		}
		tr.pos.Network = min(tr.pos.Network, len(tr.trainings)-1)
		runtest.Must(t, tr.begin())
		if got := model.CopyWeights(tr.current.store); i == 0 && !reflect.DeepEqual(got, tr.finished[0]) {
			t.Error("the fine-tuning does not begin with the weights of the pre-training")
		}
		runtest.Must(t, model.Fill(tr.current.store, tr.finished[0]))
		trained[i] = memberLoss(t, tr)
	}
	t.Logf("CRPS against members: untrained %.3f; trained on members %.3f, on analyses %.3f", untrained[0], trained[0], trained[1])
	if !(trained[0] < 0.9*untrained[0]) {
		t.Errorf("CRPS against members %.3f, that of an untrained network is %.3f", trained[0], untrained[0])
	}
	if !(trained[1] > untrained[1]) {
		t.Errorf("a training on analyses does not learn their bias: CRPS against members %.3f, before it %.3f", trained[1], untrained[1])
	}
}

// Pre-training reads training initialisations only: with other validation and test initialisations it ends with the same bits.
func TestPretrainingReadsTrainingDates(t *testing.T) {
	f := demotest.Files(t)
	all := preparedTrainer(t, demotest.Config(t, f), 0).data.Split
	inits := slices.Concat(all.Train, all.Validation, all.Test)
	split := func(name string, of []ensemble.Init) []string {
		at := func(i ensemble.Init) string { return i.Time.Format("2006-01-02") }
		return []string{"data.split." + name + ".from=" + at(of[0]), "data.split." + name + ".to=" + at(of[len(of)-1])}
	}
	var got []model.Weights
	var losses []float64
	for _, held := range [][2][]ensemble.Init{{inits[12:15], inits[15:]}, {inits[16:18], inits[18:]}} {
		set := slices.Concat(split("train", inits[:10]), split("validation", held[0]), split("test", held[1]), []string{"train.pretrain.epochs=2", "train.networks=1"})
		tr := preparedTrainer(t, demotest.Config(t, f, set...), 0)
		if _, err := tr.trainNetwork(context.Background()); err != nil {
			t.Fatal(err)
		}
		got = append(got, tr.finished[0])
		runtest.Must(t, tr.begin())
		loss, err := tr.validate(context.Background())
		runtest.Must(t, err)
		losses = append(losses, loss.mean)
	}
	if !reflect.DeepEqual(got[0], got[1]) {
		t.Error("the weights depend on validation or test initialisations")
	}
	if losses[0] == losses[1] {
		t.Error("both trainings were validated on the same initialisations")
	}
}

// A run with pre-training keeps weights of its fine-tuning only, reports both phases with the validation loss on analyses, and
// repeats its bits when it is stopped in either phase, or between them.
func TestPretrainingResumes(t *testing.T) {
	f := demotest.Files(t)
	set := []string{"train.pretrain.epochs=3", "train.pretrain.learning_rate=0.01", "train.epochs=2", "train.networks=2", "train.ema=0.5", "train.warmup=2", "train.early_stop.patience=1", "data.members.minimum=2",
		"train.checkpoint.every=1 epochs"}
	c := demotest.Config(t, f, set...)
	run := func(dir string, left int) error {
		_, err := Run(context.Background(), Options{Config: c, RunDir: dir, Version: "test", Resume: "auto", Stop: func() error {
			if left--; left == 0 {
				return errStop
			}
			return nil
		}})
		return err
	}
	whole := filepath.Join(t.TempDir(), "whole")
	runtest.Must(t, run(whole, -1))
	checkPhases(t, whole)
	parts := filepath.Join(t.TempDir(), "parts")
	for _, steps := range []int{6, 7, 3, 13} { // in the first pre-training, at its end, in the first fine-tuning, in the second pre-training
		if err := run(parts, steps); !errors.Is(err, errStop) {
			t.Fatal(err)
		}
	}
	runtest.Must(t, run(parts, -1))
	if runtest.Digest(t, parts) != runtest.Digest(t, whole) {
		t.Error("the resumed run ends with other weights")
	}
	want := runtest.ModelFiles(t, whole)
	for name, text := range runtest.ModelFiles(t, parts) {
		if string(text) != string(want[name]) {
			t.Errorf("%s of the resumed run differs", name)
		}
	}
	m, err := model.Load(filepath.Join(whole, "model"), false)
	runtest.Must(t, err)
	if len(m.Networks) != 2 {
		t.Errorf("the model has %d networks, want 2", len(m.Networks))
	}
}

// errStop is the reason of stops.
var errStop = &exit.Error{Code: exit.SaveAndStop, What: "stopped"}

// checkPhases checks the events of a run with two networks, 3 epochs of pre-training and 2 of fine-tuning: names, losses, and
// learning rates, which begin with a warm-up and end near 0 in each phase.
func checkPhases(t *testing.T, dir string) {
	t.Helper()
	var phases []string
	for _, e := range runtest.Epochs(t, dir) {
		if _, ok := e.Number("validation_loss"); !ok {
			t.Error("an epoch without validation loss")
		}
		network, _ := e.Number("network")
		phases = append(phases, fmt.Sprint(network, " ", e.Values["stage"]))
	}
	var want []string
	for i, name := range []string{"pre-training on members", "fine-tuning on analyses", "pre-training on members", "fine-tuning on analyses"} {
		for range 3 - i%2 {
			want = append(want, fmt.Sprint(i, " ", name))
		}
	}
	if !slices.Equal(phases, want) {
		t.Errorf("epochs of\n%s\nwant\n%s", strings.Join(phases, "\n"), strings.Join(want, "\n"))
	}
	events, err := rundir.ReadEvents(dir)
	runtest.Must(t, err)
	var rates []float64
	for _, e := range events {
		if v, ok := e.Number("rate"); ok && e.Kind == "step" {
			rates = append(rates, v)
		}
	}
	const perEpoch = 4
	if len(rates) != 10*perEpoch {
		t.Fatalf("%d steps, want %d", len(rates), 10*perEpoch)
	}
	for i, x := range []struct {
		first int
		top   float64
	}{{0, 0.01}, {3 * perEpoch, 0.003}} {
		if at := rates[x.first:]; at[0] >= at[1] || at[1] > x.top || at[2] < 0.8*x.top || at[(3-i)*perEpoch-1] > 0.2*x.top {
			t.Errorf("phase %d: rates %v, want a warm-up to %g, then a cosine", i, at[:(3-i)*perEpoch], x.top)
		}
	}
}

// A full ensemble without a member that verifies besides the input members is refused before fields are read.
func TestPretrainingNeedsAMember(t *testing.T) {
	c := demotest.Config(t, demotest.Files(t), "train.pretrain.epochs=1", "data.members.use=3")
	c.Data.Members.Use.Count, c.Data.Members.Full = 4, 0 // all members of the files, as without data.members.full
	_, err := Run(context.Background(), Options{Config: c, RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"})
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "4 input members of a full ensemble of 4") || !strings.Contains(err.Error(), "data.members.use: 3 or less") {
		t.Errorf("%v, want exit code 64", err)
	}
}
