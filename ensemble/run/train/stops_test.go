package train_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// stopSeed is the seed of all random configurations and stops.
const stopSeed = 33

// stopOption is a key of train.yaml that random configurations set, with its values; nil stands for all words that
// the schema allows.
type stopOption struct {
	key    string
	values []string
}

// stopOptions are drawn independently of each other. A configuration that is refused is drawn anew.
var stopOptions = []stopOption{
	{"train.optimizer", nil},
	{"train.schedule", nil},
	{"train.schedule", []string{"plateau"}}, // has more state than the others
	{"train.warmup", []string{"1", "3", "5"}},
	{"train.learning_rate", []string{"0.001", "0.01"}},
	{"train.learning_rate_scaling", nil},
	{"train.clip", []string{"0", "0.05"}},
	{"train.ema", []string{"0.5", "0.9", "0.999"}},
	{"train.ema", []string{"0.7"}},
	{"train.weight_decay", []string{"0", "0.1"}},
	{"train.batch_size", []string{"1", "2", "3", "5"}},
	{"train.accumulate", []string{"2", "3"}},
	{"train.epochs", []string{"3", "5", "8"}},
	{"train.networks", []string{"1"}},
	{"train.precision", nil},
	{"train.precision", []string{"bf16"}},
	{"train.seed", []string{"2", "3"}},
	{"train.early_stop.patience", []string{"1", "2"}},
	{"train.checkpoint.every", []string{"2 epochs", "3 epochs", "1 step", "5 steps", "0.001s"}},
	{"train.mesh", []string{"data:2", "lat:2", "lon:2"}},
	{"train.shard_optimizer", []string{"true"}},
	{"train.loss.spread", []string{"0", "0.3"}},
	{"model.dropout", []string{"0", "0.4"}},
	{"model.stages", []string{"2"}},
	{"model.level_filters", nil},
	{"model.kind", nil},
	{"model.family", []string{"logistic", "student"}},
	{"model.reference", []string{"emos"}},
	{"model.embedding", []string{"2"}},
	{"model.maps", []string{"true"}},
	{"data.members.sampling", nil},
	{"data.members.minimum", []string{"2"}},
	{"data.standardise", nil},
	{"calibrate.distribution", nil},
}

// pruneOptions are drawn in two of three configurations, which all have a method.
var pruneOptions = []stopOption{
	{"prune.structure", nil},
	{"prune.scope", nil},
	{"prune.initial", []string{"0.2"}},
	{"prune.kernels", nil},
	{"model.base", []string{"16"}},
}

// draw returns random overrides for a case. The pruning method, if it may be pruned, follows from the number of the case, so
// that refused combinations do not make it rare.
func draw(r *rand.Rand, i int, prunable bool) []string {
	drawn := map[string]string{}
	add := func(options []stopOption) {
		for _, o := range options {
			values := o.values
			if values == nil {
				values = config.TrainSchema.Choices(o.key)
			}
			if v := values[r.IntN(len(values))]; r.Float64() < 0.3 {
				drawn[o.key] = v
			}
		}
	}
	add(stopOptions)
	if r.IntN(2) == 0 && drawn["train.schedule"] == "plateau" { // so slow that the rate is lowered
		drawn["train.learning_rate"], drawn["train.epochs"], drawn["train.batch_size"], drawn["train.early_stop.patience"] = "1e-9", "10", "5", "0"
	}
	if i /= len(disturbances); i%3 > 0 && prunable {
		add(pruneOptions)
		drawn["prune.method"], drawn["prune.target"] = config.PruneMethods[i%len(config.PruneMethods)], "0.5"
		switch drawn["prune.structure"] {
		case config.ChannelStructure:
			drawn["train.networks"], drawn["prune.channel_multiple"] = "1", "1"
		case config.BlockStructure:
			drawn["prune.block.out"], drawn["prune.block.in"] = "2", "2"
		}
		if every := fmt.Sprint(1 + r.IntN(4)); drawn["prune.method"] != config.LotteryPruning && drawn["prune.method"] != config.EarlyBirdPruning {
			drawn["prune.every"] = every
		}
		drawn["prune.from"] = []string{"0%", "10%", "30%", "1 epochs"}[r.IntN(4)]
		drawn["prune.to"] = []string{"40%", "60%", "2 epochs"}[r.IntN(3)]
	}
	var set []string
	for _, key := range slices.Sorted(maps.Keys(drawn)) {
		set = append(set, key+"="+drawn[key])
	}
	return set
}

// disturbances are ways in which a training is disturbed.
var disturbances = []string{
	"stop",                       // once
	"two stops",                  // at any two places
	"double stop",                // the resumed run is stopped at once, or one batch later
	"crash",                      // continues from the last checkpoint
	"older",                      // stopped, then continued from an older checkpoint
	"crash in the set-aside run", // the continued run of "older" crashes
}

// stoppedCase is a random training and the way in which it is disturbed.
type stoppedCase struct {
	set  []string
	kind string
	r    *rand.Rand
	c    *config.TrainConfig
	dir  string // of all its runs
	// batches is the number of batches of the undisturbed run, rewound that before its return to earlier weights; -1 without.
	batches, rewound int
}

// settings are kinds of training to which the drawn overrides are added. They change with each round of disturbances and
// pruning methods.
var settings = []struct {
	set      func(t *testing.T) []string
	prunable bool
}{
	{func(*testing.T) []string { return []string{"train.networks=2"} }, true},
	{func(t *testing.T) []string {
		return []string{"train.networks=2", "data.store=" + samplestest.PrepareStore(t, demotest.Config(t, demotest.Files(t)), "f32")}
	}, true},
	{func(*testing.T) []string { return runtest.Staged() }, false},
	{func(t *testing.T) []string {
		set := []string{"train.networks=1", "baselines=[climatology]"}
		return append(set, "teacher.weight=0.7", "teacher.runs=["+traintest.Train(t, demotest.Config(t, demotest.Files(t), append(set, "train.epochs=1")...))+"]")
	}, true},
}

// newStoppedCase draws case i and trains it undisturbed, in the directory "whole". Configurations that the program
// refuses, and those that diverge, are drawn anew.
func newStoppedCase(t *testing.T, i int) *stoppedCase {
	t.Helper()
	c := &stoppedCase{r: rand.New(rand.NewPCG(stopSeed, uint64(i))), kind: disturbances[i%len(disturbances)]}
	path := demotest.Config(t, demotest.Files(t)).Files()[0].Path
	round := i / len(disturbances)
	setting := settings[(round+round/len(settings))%len(settings)] // other ones for each pruning method in turn
	base := append(setting.set(t), "train.threads=2")
	var refused error
	for range 1000 {
		c.set = append(slices.Clone(base), draw(c.r, i, setting.prunable)...)
		var err error
		if c.c, err = config.LoadTrain(config.Sources{Files: []string{path}, Set: c.set, IgnoreEnvironment: true}); err != nil {
			refused = err
			continue
		}
		c.dir, c.rewound = t.TempDir(), -1
		err = c.run("whole", "", func(n int) error {
			c.batches = n + 1
			if c.rewound >= 0 || c.c.Prune.Method != config.LotteryPruning {
				return nil
			}
			events, err := rundir.ReadEvents(filepath.Join(c.dir, "whole"))
			if exit.CodeOf(err) == exit.NotYet { // before the first step
				return nil
			}
			if slices.ContainsFunc(events, func(e rundir.Event) bool { return e.Kind == "rewind" }) {
				c.rewound = n
			}
			return err
		})
		if code := exit.CodeOf(err); err == nil || code != exit.Usage && code != exit.NoDevice && code != exit.No && !strings.Contains(err.Error(), model.NotFinite) {
			runtest.Must(t, err)
			return c
		}
		refused = err
	}
	t.Fatal("no configuration is accepted; the last error: ", refused)
	return nil
}

// events reads the events of a run.
func (c *stoppedCase) events(t *testing.T, dir string) []rundir.Event {
	t.Helper()
	events, err := rundir.ReadEvents(filepath.Join(c.dir, dir))
	runtest.Must(t, err)
	return events
}

// errStopped is the reason of all stops.
var errStopped = &exit.Error{Code: exit.SaveAndStop, What: "stopped"}

// run trains or resumes in a directory. at is called before every batch with their number, from 0; it may stop the
// training.
func (c *stoppedCase) run(dir, resume string, at func(batch int) error) error {
	n := -1
	_, err := train.Run(context.Background(), train.Options{Config: c.c, RunDir: filepath.Join(c.dir, dir), Resume: resume, Version: "test", Stop: func() error { n++; return at(n) }})
	return err
}

// stopAt stops before a batch.
func stopAt(batch int) func(int) error {
	return func(n int) error {
		if n == batch {
			return errStopped
		}
		return nil
	}
}

// never stops nothing.
func never(int) error { return nil }

// crash copies a run directory as a crash would leave it.
func (c *stoppedCase) crash(from, to string) error {
	if err := os.CopyFS(filepath.Join(c.dir, to), os.DirFS(filepath.Join(c.dir, from))); err != nil {
		return err
	}
	return os.Remove(filepath.Join(c.dir, to, "run.lock")) // the process of a crash is gone
}

// disturb trains with the disturbance of the case and returns the directory of the finished run. Half of the runs that return
// to earlier weights are disturbed soon after it.
func (c *stoppedCase) disturb(t *testing.T, log func(format string, args ...any)) string {
	t.Helper()
	stopped := func(err error) {
		if !errors.Is(err, errStopped) {
			t.Fatalf("%v, want a stop", err)
		}
	}
	batches := c.batches
	first := c.r.IntN(batches)
	if near := c.rewound + c.r.IntN(4); c.rewound > 0 && near < batches && c.r.IntN(2) == 0 {
		first = near
	}
	log("batch %d of %d", first, batches)
	if c.rewound > 0 {
		log("(%d were rewound)", c.rewound)
	}
	finish := func(dir string) string {
		runtest.Must(t, c.run(dir, "auto", never))
		return dir
	}
	switch c.kind {
	case "stop":
		stopped(c.run("parts", "auto", stopAt(first)))
	case "two stops":
		stopped(c.run("parts", "auto", stopAt(first)))
		second := c.r.IntN(batches - first)
		log("and %d later", second)
		stopped(c.run("parts", "auto", stopAt(second)))
	case "double stop":
		stopped(c.run("parts", "auto", stopAt(first)))
		gap := min(c.r.IntN(2), batches-first-1)
		log("and %d later", gap)
		stopped(c.run("parts", "auto", stopAt(gap)))
	case "crash":
		runtest.Must(t, c.run("parts", "auto", func(n int) error {
			if n == first {
				return c.crash("parts", "crashed")
			}
			return nil
		}))
		return finish("crashed")
	case "older", "crash in the set-aside run":
		c.c.Train.Train.Checkpoint.Keep = 1000
		stopped(c.run("parts", "auto", stopAt(batches-1)))
		steps, err := ckpt.List(filepath.Join(c.dir, "parts", "checkpoints"))
		runtest.Must(t, err)
		step := steps[c.r.IntN(len(steps))]
		log("then from step %d of %v", step, steps)
		after := c.r.IntN(4)
		err = c.run("parts", fmt.Sprint(step), func(n int) error {
			if n != after {
				return nil
			}
			if c.kind == "older" {
				return errStopped
			}
			return c.crash("parts", "crashed")
		})
		if c.kind == "older" {
			if err != nil { // nil if fewer batches were left
				stopped(err)
			}
			break
		}
		runtest.Must(t, err)
		if _, err := os.Stat(filepath.Join(c.dir, "crashed")); err == nil {
			return finish("crashed")
		}
	}
	return finish("parts")
}

// lastSteps are the values of the step events of a run, by step, without those of abandoned branches.
func (c *stoppedCase) lastSteps(t *testing.T, dir string) map[uint64]string {
	t.Helper()
	out := map[uint64]string{}
	for _, e := range c.events(t, dir) {
		if e.Kind == "step" {
			loss, _ := e.Number("loss")
			rate, _ := e.Number("rate")
			norm, _ := e.Number("gradient_norm")
			out[e.Step] = fmt.Sprintf("epoch %d loss %v rate %v norm %v", e.Epoch, loss, rate, norm)
		}
	}
	return out
}

// checkStops compares a random training that was disturbed with the same one undisturbed: all files of the model, the
// scores, loss, rate and gradient of each step, and the last checkpoint.
func checkStops(t *testing.T, i int) {
	c := newStoppedCase(t, i)
	where := []string{}
	defer func() { t.Logf("%s %s: %s", c.kind, strings.Join(where, " "), strings.Join(c.set, " ")) }()
	parts := c.disturb(t, func(format string, args ...any) { where = append(where, fmt.Sprintf(format, args...)) })
	want, got := c.lastSteps(t, "whole"), c.lastSteps(t, parts)
	for _, step := range slices.Sorted(maps.Keys(want)) {
		if want[step] != got[step] {
			t.Fatalf("step %d: %s, undisturbed %s", step, got[step], want[step])
		}
	}
	for step := range got {
		if want[step] == "" {
			t.Errorf("step %d: undisturbed there is none", step)
		}
	}
	whole, parts := filepath.Join(c.dir, "whole"), filepath.Join(c.dir, parts)
	a, b := runtest.ModelFiles(t, whole), runtest.ModelFiles(t, parts)
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s of the model differs", name)
		}
	}
	scores, err := os.ReadFile(filepath.Join(whole, "scores.json"))
	runtest.Must(t, err)
	if again, err := os.ReadFile(filepath.Join(parts, "scores.json")); err != nil || !bytes.Equal(scores, again) {
		t.Errorf("scores.json differs: %v", err)
	}
	x, y := runtest.NewestCheckpoint(t, whole), runtest.NewestCheckpoint(t, parts)
	if x.Step != y.Step { // of a stop behind the last regular one
		return
	}
	if !bytes.Equal(x.State, y.State) || !bytes.Equal(x.Plan, y.Plan) {
		t.Errorf("position %s, plan %s\nundisturbed %s, %s", y.State, y.Plan, x.State, x.Plan)
	}
	if runtest.Digest(t, whole) != runtest.Digest(t, parts) {
		t.Error("the tensors of the last checkpoint differ")
	}
}

// A training that is stopped, crashes or continues from an older checkpoint ends with the bits of an undisturbed one. (200 random
// ones: TestLongStops.)
func TestStops(t *testing.T) {
	for _, i := range []int{0} {
		t.Run(fmt.Sprint(i), func(t *testing.T) { checkStops(t, i) })
	}
}
