package train_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// The systems of train.exchange, without their periods.
var (
	soloExchange     = []string{"train.exchange.system=eager", "train.exchange.initiator=solo"}
	majorityExchange = []string{"train.exchange.system=eager"}
	wagmaExchange    = []string{"train.exchange.system=wagma"}
	localExchange    = []string{"train.exchange.system=local"}
)

// exchangeOptions are those of a short training, of which epochs end with a batch that has samples of some groups only.
func exchangeOptions(t *testing.T, dir string, set ...[]string) train.Options {
	all := append([]string{"train.networks=1", "train.epochs=2", "model.dropout=0", "train.optimizer=sgd", "train.learning_rate=0.01"}, slices.Concat(set...)...)
	return train.Options{Config: demotest.Config(t, demotest.Files(t), all...), RunDir: dir, Version: "test", Resume: "auto"}
}

// trainExchange trains on four ranks and returns the run directory. o changes the options of a rank; nil changes none.
func trainExchange(t *testing.T, mesh string, o func(rank int, o *train.Options), set ...[]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	err := traintest.TrainOnRanks(4, func(rank int) train.Options {
		of := exchangeOptions(t, dir, append([][]string{{"train.mesh=" + mesh}}, set...)...)
		if o != nil {
			o(rank, &of)
		}
		return of
	})
	if err != nil {
		t.Fatalf("%s %v: %v", mesh, set, err)
	}
	return dir
}

// exchangeTolerance is the difference of weights from those of synchronous steps, which add gradients in another order. The
// gradients of some biases, of convolutions before a norm, are rounding errors only.
const exchangeTolerance = 1e-5

// If all steps wait for all groups, every system takes the steps of synchronous training, also with momentum, accumulated
// batches, clipping of summed gradients and an average of the weights.
func TestExchangeThatWaitsIsSynchronous(t *testing.T) { checkWaitingExchange(t, 1) }

// checkWaitingExchange takes n cases, which the seed selects.
func checkWaitingExchange(t *testing.T, n int) {
	averaging := append(localExchange, "train.exchange.rate=1", "train.exchange.momentum=0")
	type waiting struct {
		mesh    string
		set     []string
		systems [][]string
	}
	for _, c := range testseed.Some(t, []waiting{
		{"data:4", []string{"train.clip=0.05"}, [][]string{soloExchange, majorityExchange}},
		{"data:4", []string{"train.clip=0", "train.accumulate=2", "train.ema=0.5"}, [][]string{soloExchange, append(wagmaExchange, "train.exchange.group=4"), averaging}},
		{"data:2 lat:2", []string{"train.clip=0"}, [][]string{majorityExchange, wagmaExchange, averaging}},
	}, n) {
		synchronous := trainExchange(t, c.mesh, nil, c.set)
		want, losses := runtest.NewestCheckpoint(t, synchronous), epochNumbers(t, synchronous, "loss")
		for _, system := range c.systems {
			dir := trainExchange(t, c.mesh, nil, c.set, system, []string{"train.exchange.period=1"})
			got := runtest.NewestCheckpoint(t, dir)
			for i, x := range epochNumbers(t, dir, "loss") {
				if !(math.Abs(x-losses[i]) < exchangeTolerance) {
					t.Errorf("%s %v %v: the loss of epoch %d is %g, want %g", c.mesh, c.set, system, i, x, losses[i])
				}
			}
			if got.Step != want.Step || got.Step == 0 {
				t.Errorf("%s %v %v: %d steps, want %d", c.mesh, c.set, system, got.Step, want.Step)
			}
			if err := sameTensors(got.Tensors, want.Tensors); err != nil {
				t.Errorf("%s %v %v: %v", c.mesh, c.set, system, err)
			}
		}
	}
}

// sameTensors compares the tensors of a checkpoint with those of synchronous training. There may be more.
func sameTensors(got, want []ckpt.Tensor) error {
	for _, w := range want {
		at := slices.IndexFunc(got, func(x ckpt.Tensor) bool { return x.Name == w.Name })
		if at < 0 {
			return fmt.Errorf("%s is missing", w.Name)
		}
		a := got[at].Data.([]float32)
		for i, v := range w.Data.([]float32) {
			if !(math.Abs(float64(a[i]-v)) < exchangeTolerance*(1+math.Abs(float64(v)))) {
				return fmt.Errorf("value %d of %s is %g, want %g", i, w.Name, a[i], v)
			}
		}
	}
	return nil
}

// delays returns a function that makes each step of a rank last up to most longer.
func delays(rank int, most time.Duration) func(uint64) {
	random := rand.New(rand.NewPCG(uint64(rank), 3))
	return func(uint64) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
}

// epochNumbers returns a number of all epoch events.
func epochNumbers(t *testing.T, dir, name string) (all []float64) {
	t.Helper()
	events, err := rundir.ReadEvents(dir)
	runtest.Must(t, err)
	for _, e := range events {
		if e.Kind == "epoch" {
			x, ok := e.Number(name)
			if !ok {
				t.Fatalf("an epoch event has no %s: %v", name, e.Values)
			}
			all = append(all, x)
		}
	}
	return all
}

// Ranks that are late at random train, with every system, with masks, numbers of members, stages and dropout. After each
// epoch the training itself checks that all ranks have the same weights.
func TestLateRanksTrain(t *testing.T) { checkLateRanksTrain(t, 3) }

// checkLateRanksTrain takes n cases, which the seed selects.
func checkLateRanksTrain(t *testing.T, n int) {
	cases := map[string][]string{
		"solo":           append(soloExchange, "train.epochs=4", "train.optimizer=adamw"),
		"masks":          append(soloExchange, "train.epochs=3", "prune.method=rigl", "prune.target=0.5", "prune.every=2"),
		"skipped blocks": append(soloExchange, "model.base=16", "prune.method=magnitude", "prune.structure=block", "prune.block.out=16", "prune.block.in=16", "prune.target=0.5", "prune.every=1", "prune.from=0%"),
		"member numbers": append(append(majorityExchange, "train.epochs=8"), runtest.MemberInput("data.members.minimum=2", "model.dropout=0.1")...), // with few epochs none may be late
		"stages":         append(append(wagmaExchange, "train.ema=0.5"), runtest.Staged()...),
		"wagma":          append(wagmaExchange, "train.epochs=4", "train.optimizer=adamw"),
		"solo skips":     append(soloExchange, skips, "train.epochs=3", "train.optimizer=adamw"),
		"wagma skips":    append(wagmaExchange, skips, "train.epochs=4", "train.optimizer=adamw", "train.ema=0.5"),
		"local":          append(localExchange, "train.epochs=4", "train.optimizer=adamw"),
	}
	for _, name := range testseed.Some(t, slices.Sorted(maps.Keys(cases)), n) {
		set, mesh := cases[name], "data:4"
		if name == "masks" {
			mesh = "data:2 lat:2"
		}
		dir := trainExchange(t, mesh, func(rank int, o *train.Options) { o.BeforeStep = delays(rank, 50*time.Millisecond) }, set, []string{"train.exchange.period=3"})
		share := 0.0
		for _, x := range epochNumbers(t, dir, "late_share") {
			share += x
		}
		if late := set[0] != localExchange[0]; late != (share > 0) {
			t.Errorf("%s: late contributions in all epochs are %v", name, epochNumbers(t, dir, "late"))
		}
		if slices.Contains(set, skips) {
			checkSkips(t, name, dir)
		}
		if name == "skipped blocks" {
			events, err := rundir.ReadEvents(dir)
			runtest.Must(t, err)
			if !slices.ContainsFunc(events, func(e rundir.Event) bool { return e.Kind == "blocks" }) {
				t.Error("no kernel skips blocks: plans were not compiled anew between two steps")
			}
		}
		if slices.Contains(set, "train.epochs=4") {
			// How many contributions are late depends on the load of the machine; jobs.TestLongLateRanksTable shows that losses fall.
			if l := epochNumbers(t, dir, "validation_loss"); !(l[len(l)-1] < 1.1*l[0]) {
				t.Errorf("%s: validation losses %v rise", name, l)
			}
		}
	}
}

// skips lets late groups leave out steps.
const skips = "train.exchange.skip=true"

// checkSkips checks that epochs with left out samples have losses of the others, and that arrivals list them.
func checkSkips(t *testing.T, name, dir string) {
	t.Helper()
	shares, losses, left := epochNumbers(t, dir, "skipped_share"), epochNumbers(t, dir, "loss"), 0.0
	for i, share := range shares {
		if left += share; !(share < 1) || !(losses[i] > losses[0]/4) {
			t.Errorf("%s: shares %v of the samples are left out, with losses %v", name, shares, losses)
		}
	}
	if !(left > 0) {
		t.Errorf("%s: no sample is left out", name)
	}
	events, err := rundir.ReadEvents(dir)
	runtest.Must(t, err)
	if !slices.ContainsFunc(events, func(e rundir.Event) bool {
		return e.Kind == "arrivals" && strings.Contains(fmt.Sprint(e.Values["skipped"]), "1")
	}) {
		t.Errorf("%s: no arrivals list left out steps", name)
	}
}

// A training that was stopped continues bit for bit, in an epoch too, if what it did does not depend on time: with steps
// that all wait, and for local SGD with any period.
func TestExchangeResumes(t *testing.T) { checkExchangeResumes(t, 1) }

// checkExchangeResumes takes n cases, which the seed selects.
func checkExchangeResumes(t *testing.T, n int) {
	for _, set := range testseed.Some(t, [][]string{
		append(soloExchange, "train.exchange.period=1", "train.optimizer=adamw", "model.dropout=0.1"),
		append(wagmaExchange, "train.exchange.period=1", "train.exchange.group=4", "train.ema=0.5"),
		append(localExchange, "train.exchange.period=3", "train.optimizer=adamw", "train.ema=0.5"),
	}, n) {
		whole := trainExchange(t, "data:4", nil, set)
		dir := filepath.Join(t.TempDir(), "run")
		for leg := range 3 {
			err := traintest.TrainOnRanks(4, func(rank int) train.Options {
				o, asked := exchangeOptions(t, dir, set, []string{"train.mesh=data:4"}), 0
				o.Stop = func() error {
					if asked++; leg < 2 && rank == 1 && asked == 2 {
						return &exit.Error{Code: exit.SaveAndStop, What: "stop requested"}
					}
					return nil
				}
				return o
			})
			if leg < 2 && exit.CodeOf(err) != exit.SaveAndStop || leg == 2 && err != nil {
				t.Fatalf("%v, leg %d: %v", set, leg, err)
			}
		}
		if runtest.Digest(t, dir) != runtest.Digest(t, whole) {
			t.Errorf("%v: the resumed training ends with other bits", set)
		}
	}
}

// A training that replays another one has its bits, with other delays, and if it is stopped and continues.
func TestExchangeReplays(t *testing.T) { checkExchangeReplays(t, 1) }

// checkExchangeReplays takes n cases, which the seed selects.
func checkExchangeReplays(t *testing.T, n int) {
	for _, set := range testseed.Some(t, [][]string{
		append(soloExchange, "train.optimizer=adamw", "model.dropout=0.1"),
		append(wagmaExchange, "train.accumulate=2", "train.ema=0.5"),
		append(soloExchange, skips, "train.optimizer=adamw", "train.accumulate=2", "model.dropout=0.1"),
		append(wagmaExchange, skips, "train.optimizer=adamw", "train.ema=0.5"),
	}, n) {
		set = append(set, "train.exchange.period=3", "train.epochs=3")
		first := trainExchange(t, "data:4", func(rank int, o *train.Options) { o.BeforeStep = delays(rank, 50*time.Millisecond) }, set)
		late := 0.0
		for _, x := range epochNumbers(t, first, "late") {
			late += x
		}
		dir := filepath.Join(t.TempDir(), "run")
		for leg := range 2 {
			err := traintest.TrainOnRanks(4, func(rank int) train.Options {
				o, asked := exchangeOptions(t, dir, set, []string{"train.mesh=data:4", "train.exchange.replay=" + first}), 0
				o.BeforeStep = delays(3-rank, 10*time.Millisecond)
				o.Stop = func() error {
					if asked++; leg == 0 && rank == 1 && asked == 2 {
						return &exit.Error{Code: exit.SaveAndStop, What: "stop requested"}
					}
					return nil
				}
				return o
			})
			if leg == 0 && exit.CodeOf(err) != exit.SaveAndStop || leg == 1 && err != nil {
				t.Fatalf("%v, leg %d: %v", set, leg, err)
			}
		}
		if late == 0 || runtest.Digest(t, dir) != runtest.Digest(t, first) {
			t.Errorf("%v: a replay of a training with %g late contributions ends with other bits", set, late)
		}
	}
}

// A log of other groups or runs is refused.
func TestExchangeReplayOfAnother(t *testing.T) {
	set := append(soloExchange, "train.epochs=3", runtest.FirstInits(demotest.Files(t), 10))
	first := trainExchange(t, "data:4", func(rank int, o *train.Options) { o.BeforeStep = delays(rank, 50*time.Millisecond) }, set, []string{"train.exchange.period=4"})
	for _, c := range []struct{ mesh, period, skip, want string }{
		{"data:2 lat:2", "4", "false", "not those of 2 groups"},
		{"data:4", "1", "false", "the log to replay is not of this run"},
		{"data:4", "4", "true", "the log to replay is not of this run"},
	} {
		err := traintest.TrainOnRanks(4, func(rank int) train.Options {
			return exchangeOptions(t, filepath.Join(filepath.Dir(first), c.period+c.skip), set, []string{"train.mesh=" + c.mesh, "train.exchange.period=" + c.period, "train.exchange.skip=" + c.skip, "train.exchange.replay=" + first})
		})
		if exit.CodeOf(err) != exit.BadData || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s, period %s: error %v, want exit 65 with %q", c.mesh, c.period, err, c.want)
		}
	}
}

// A group that is always slow leaves out most steps, of which the training warns once, and the others do not wait for each of them.
func TestSlowGroupIsReported(t *testing.T) {
	var last time.Time
	var shortest atomic.Int64 // time of a step of group 0
	slow := map[int]func(uint64){0: func(uint64) {
		if d := int64(time.Since(last)); !last.IsZero() && (shortest.Load() == 0 || d < shortest.Load()) {
			shortest.Store(d)
		}
		last = time.Now()
	}, 2: func(uint64) { time.Sleep(max(150*time.Millisecond, 5*time.Duration(shortest.Load()))) }}
	warnings := map[string]int{} // of each group; on a busy machine others may be slow too
	dir := filepath.Join(t.TempDir(), "run")
	err := traintest.TrainOnRanks(4, func(rank int) train.Options {
		o := exchangeOptions(t, dir, soloExchange, []string{skips, "train.mesh=data:4", "train.exchange.period=10"})
		o.BeforeStep = slow[rank]
		return o
	})
	runtest.Must(t, err)
	m, err := rundir.ReadManifest(dir)
	runtest.Must(t, err)
	for _, w := range m.Warnings {
		if group, _, found := strings.Cut(w, " of the axis data, counted from 0, left out "); found {
			warnings[group]++
		}
	}
	for group, times := range warnings {
		if times != 1 {
			t.Errorf("%d warnings of %s", times, group)
		}
	}
	if warnings["group 2"] == 0 {
		t.Errorf("no warning of group 2 in %q", m.Warnings)
	}
}

// An error of one group ends the training of all, also of those that wait in a sum.
func TestExchangeFails(t *testing.T) {
	broken := errors.New("broken")
	for _, set := range [][]string{soloExchange, wagmaExchange, localExchange} {
		err := traintest.TrainOnRanks(4, func(rank int) train.Options {
			o := exchangeOptions(t, filepath.Join(t.TempDir(), "run"), set, []string{"train.mesh=data:2 lat:2", "train.exchange.period=4"})
			o.RunDir = filepath.Join(t.TempDir(), "run")
			o.BeforeStep = func(step uint64) {
				if rank == 3 && step == 2 {
					panic(broken)
				}
			}
			return o
		})
		if err == nil || !strings.Contains(err.Error(), "rank 3") || !strings.Contains(err.Error(), "broken") {
			t.Errorf("%v: %v", set, err)
		}
	}
}

// Meshes on which late steps are impossible are refused before a run directory is made, with the nearest setting that works.
func TestExchangeRefusals(t *testing.T) {
	for _, c := range []struct {
		system []string
		set    string
		fix    string
	}{
		{soloExchange, "train.mesh=lat:2", "train.mesh=data:2"},
		{soloExchange, "train.mesh=lat:1", "train.mesh=data:2"},
		{soloExchange, "train.mesh=auto", "train.mesh=data:2"},
		{localExchange, "train.mesh=data:3", "train.batch_size: 6"},
		{wagmaExchange, "train.mesh=data:3,train.batch_size=6", "use data:2 or data:4"},
		{wagmaExchange, "train.mesh=data:2,train.exchange.group=4", "train.exchange.group: 2"},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		o := exchangeOptions(t, dir, c.system, strings.Split(c.set, ","), []string{"train.exchange.period=4"})
		_, err := train.Run(context.Background(), o)
		if exit.CodeOf(err) != exit.Usage || !strings.Contains(fmt.Sprint(err), c.fix) {
			t.Errorf("%v %s: error %v, want exit 64 with %q", c.system, c.set, err, c.fix)
		}
		if _, err := os.Stat(dir); err == nil && c.set != "train.mesh=auto" {
			t.Errorf("%s: a run directory was made", c.set)
		}
	}
}

// A training that diverges in one group ends with the error of synchronous training.
func TestExchangeDiverges(t *testing.T) {
	for _, system := range [][]string{soloExchange, localExchange} {
		dir := filepath.Join(t.TempDir(), "run")
		err := traintest.TrainOnRanks(2, func(int) train.Options {
			return exchangeOptions(t, dir, system, []string{"train.mesh=data:2", "train.exchange.period=3", "train.learning_rate=1e30", "train.clip=0"})
		})
		if exit.CodeOf(err) != exit.No || !strings.Contains(fmt.Sprint(err), "not finite at step") {
			t.Errorf("%v: error %v, want exit 1", system, err)
		}
	}
}
