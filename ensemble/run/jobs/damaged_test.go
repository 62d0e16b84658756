package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
)

// schemaValues lists the values of every key of a training that a random configuration draws from: the words of the
// JSON Schema, true and false, and the example. Keys of files, sizes, splits and hardware are left out.
func schemaValues(t *testing.T) (keys []string, values map[string][]string) {
	t.Helper()
	text, err := config.TrainSchema.JSONSchema()
	runtest.Must(t, err)
	type node struct {
		Properties map[string]*node `json:"properties"`
		Enum       []any            `json:"enum"`
		Type       string           `json:"type"`
		Items      *node            `json:"items"`
	}
	var root node
	runtest.Must(t, json.Unmarshal(text, &root))
	values = map[string][]string{}
	for _, k := range config.TrainSchema.Keys {
		if strings.Contains(k.Path, "[]") || slices.ContainsFunc(fixedKeys, func(p string) bool { return strings.HasPrefix(k.Path, p) }) {
			continue
		}
		at := &root
		for _, part := range strings.Split(k.Path, ".") {
			at = at.Properties[part]
		}
		var words []string
		enum, list := at.Enum, false
		if at.Items != nil {
			enum, list = at.Items.Enum, true
		}
		for _, w := range enum {
			if word := fmt.Sprint(w); list {
				words = append(words, "["+word+"]")
			} else {
				words = append(words, word)
			}
		}
		if at.Type == "boolean" {
			words = []string{"true", "false"}
		}
		if enum == nil && k.Example != "" {
			words = append(words, k.Example)
		}
		keys, values[k.Path] = append(keys, k.Path), words
	}
	return keys, values
}

// fixedKeys are prefixes of the keys that a random configuration does not change.
var fixedKeys = []string{"version", "data.forecasts", "data.analyses", "data.store", "data.memory", "data.prefetch", "data.direct_io", "data.disk_cache", "data.peers", "data.index_cache",
	"data.allow", "data.grid", "data.members.use", "data.members.full", "data.members.control", "data.leads", "data.target", "data.levels", "data.variables", "data.split", "model.base", "model.stages",
	"model.pretrained", "model.channels_from", "train.epochs", "train.checkpoint", "train.device", "train.threads", "train.memory", "train.workspace", "train.mesh", "train.machine",
	"train.stall", "train.shard", "teacher", "climate", "train.networks", "train.stages", "train.early_stop", "data.auxiliary.variables", "data.auxiliary.files", "data.members.filename", "data.members.centres"}

// bundles are assignments that need each other, or values that the schema permits and that a network may not survive.
var bundles = [][]string{
	{"model.head=spread", "train.loss.kind=l1"}, {"model.head=spread", "train.loss.kind=mse", "model.kind=resnet2d_simple", "data.features=[spread, first]", "data.variables=[2t]"},
	{"model.head=members", "model.members=encoder", "train.loss.kind=crps_members"}, {"model.head=members", "model.members=encoder"},
	{"prune.method=magnitude", "prune.target=0.5"}, {"prune.method=set", "prune.target=0.7"}, {"prune.method=rigl", "prune.target=0.5"}, {"prune.method=lottery", "prune.target=0.5", "train.epochs=4"},
	{"prune.method=movement", "prune.target=0.5", "train.ema=0.9"}, {"prune.method=early_bird", "prune.target=0.3"},
	{"train.learning_rate=1"}, {"train.learning_rate=30", "train.clip=0", "train.optimizer=sgd"}, {"train.learning_rate=3", "train.precision=bf16"}, {"train.warmup=100000"}, {"train.batch_size=100"},
	{"train.ema=0.999"}, {"train.ema=3 steps", "train.epochs=5"}, {"train.ema=2 epochs", "train.networks=2"}, {"model.family=histogram", "train.loss.kind=cross_entropy"}, {"model.family=bernstein", "train.loss.kind=pinball"},
}

// randomConfig draws a configuration: keys of the schema with values of the schema. What the configuration refuses is
// drawn again; the refusal must be that of a wrong configuration.
func randomConfig(t *testing.T, r *rand.Rand, text string) (c *config.TrainConfig, set []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "train.yaml")
	runtest.Must(t, os.WriteFile(path, []byte(text), 0o644))
	load := func(set []string) *config.TrainConfig {
		c, err := config.LoadTrain(config.Sources{Files: []string{path}, Set: set})
		if err == nil {
			return c
		}
		if exit.CodeOf(err) != exit.Usage {
			t.Fatalf("%q: %v", set, err)
		}
		return nil
	}
	keys, values := schemaValues(t)
	favourites := []string{"model.kind", "model.head", "model.family", "model.distribution", "train.loss.kind", "train.optimizer", "train.schedule", "train.ema", "train.precision", "prune.method", "data.standardise"}
	c = load(nil)
	if b := bundles[r.IntN(len(bundles))]; r.IntN(3) > 0 {
		if drawn := load(b); drawn != nil {
			c, set = drawn, b
		}
	}
	for tries, wanted := 0, len(set)+1+r.IntN(5); len(set) < wanted && tries < 200; tries++ {
		key := keys[r.IntN(len(keys))]
		if tries%2 == 0 {
			key = favourites[r.IntN(len(favourites))]
		}
		words := values[key]
		if len(words) == 0 {
			continue
		}
		next := append(slices.Clone(set), key+"="+words[r.IntN(len(words))])
		// A second key often has to follow the first, such as the loss of a head.
		if other := favourites[r.IntN(len(favourites))]; r.IntN(2) == 0 && len(values[other]) > 0 {
			next = append(next, other+"="+values[other][r.IntN(len(values[other]))])
		}
		if drawn := load(next); drawn != nil {
			c, set = drawn, withoutRepeats(next)
		}
	}
	return c, set
}

// withoutRepeats leaves out assignments that a later one replaces.
func withoutRepeats(set []string) (out []string) {
	for i, s := range set {
		key, _, _ := strings.Cut(s, "=")
		if !slices.ContainsFunc(set[i+1:], func(later string) bool { return strings.HasPrefix(later, key+"=") }) {
			out = append(out, s)
		}
	}
	return out
}

// outcome is how a training and its prediction ended.
type outcome struct {
	seed                  uint64
	damage                string
	set                   []string
	trained, predicted    error
	published, fallenBack int
	largest               float64 // distance of a published mean from its ensemble, in units of the bound
	seconds               float64
}

// String is the outcome in a line.
func (o outcome) String() string {
	end := func(err error) string {
		if err == nil {
			return "done"
		}
		var e *exit.Error
		if errors.As(err, &e) {
			return fmt.Sprintf("%d %s (%s)", exit.CodeOf(err), e.What, strings.ReplaceAll(e.Why, "\n", "; "))
		}
		return err.Error()
	}
	text := fmt.Sprintf("seed %d, %s, %v: training %s", o.seed, o.damage, o.set, end(o.trained))
	if o.trained == nil {
		text += fmt.Sprintf("; prediction %s, %d published, %d by the fallback, at most %.2f of the bound", end(o.predicted), o.published, o.fallenBack, o.largest)
	}
	return text
}

// damagedParts are the initialisations that are damaged: of the archive, or only of the forecasts that are predicted
// later.
var damagedParts = []struct {
	name       string
	first, end int
	later      bool
}{{"training", 0, 16, false}, {"validation", 16, 20, false}, {"all", 0, archiveInits, false}, {"forecasts", 20, archiveInits, true}, {"forecasts", 0, archiveInits, true}}

// trainOnDamage trains a random configuration on an archive with random damage, predicts all its initialisations, and
// checks the law: the end is a finished model, or an error with one of the exit codes of data and configurations that
// states what to do; no published mean is farther from its ensemble than the bound, or not finite.
func trainOnDamage(t *testing.T, seed uint64, limit time.Duration) (o outcome) {
	t.Helper()
	testdecoder.Path(t)
	r := rand.New(rand.NewPCG(seed, 0x6461))
	x := newArchive(r, r.IntN(2) == 0)
	kind := damages[r.IntN(len(damages))]
	part := r.IntN(len(damagedParts))
	of := damagedParts[part]
	dir := t.TempDir()
	o = outcome{seed: seed, damage: kind.name + " in " + of.name}
	if x.own {
		o.damage += " of an own variable"
	}
	if of.later {
		x.write(t, dir)
	}
	kind.do(x, r, of.first, of.end)
	input := dir
	if of.later {
		input = t.TempDir()
	}
	x.write(t, input)
	c, set := randomConfig(t, r, x.config(dir))
	o.set = set
	runDir, out := filepath.Join(dir, "run"), filepath.Join(dir, "products")
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	o.trained = withoutPanic(func() error {
		_, err := train.Run(ctx, train.Options{Config: c, RunDir: runDir, Version: "test"})
		return err
	})
	if o.trained == nil {
		o.predicted = withoutPanic(func() error {
			p := predict.Options{RunDir: runDir, Input: []string{filepath.Join(input, "fc.zarr")}, Out: out, Formats: []product.Format{product.NetCDF}, Version: "test", Command: "test", Threads: 1}
			if x.own && !slices.Contains(set, "model.head=spread") { // its range is unknown, and so are its quantiles
				p.Publish.Products = []string{"mean", "spread"}
			}
			if r.IntN(2) == 0 {
				p.Policy.Bound.OnExcess, p.Policy.Fallback = predict.ActionFallBack, []string{"emos", "raw"}
			}
			res, err := predict.Run(ctx, p)
			if res != nil {
				o.fallenBack = res.Degraded
			}
			return err
		})
		x.checkPublished(t, &o, runDir, out)
	}
	o.seconds = time.Since(begun).Seconds()
	for _, err := range []error{o.trained, o.predicted} {
		checkEnd(t, o, err)
	}
	return o
}

// withoutPanic returns a panic as an error.
func withoutPanic(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &exit.Error{Code: exit.Bug, What: fmt.Sprintf("panic: %v", p), Why: string(debug.Stack())}
		}
	}()
	return f()
}

// checkEnd checks an error: one of the exit codes of data, configurations, devices and losses, with a remedy.
func checkEnd(t *testing.T, o outcome, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var e *exit.Error
	codes := []exit.Code{exit.No, exit.Usage, exit.BadData, exit.NotYet}
	if slices.ContainsFunc(o.set, func(s string) bool { return strings.HasPrefix(s, "train.precision=") }) {
		codes = append(codes, exit.NoDevice)
	}
	if !slices.Contains(codes, exit.CodeOf(err)) || !errors.As(err, &e) || e.Fix == "" {
		t.Errorf("%s\n%v", o, err)
	}
}

// checkPublished checks all published means against the members of the archive and the bound of the model.
func (x *archive) checkPublished(t *testing.T, o *outcome, runDir, out string) {
	t.Helper()
	m, _, err := model.LoadDescription(filepath.Join(runDir, "model"))
	runtest.Must(t, err)
	files, err := filepath.Glob(filepath.Join(out, "[0-9]*", "*.nc"))
	runtest.Must(t, err)
	o.published = len(files)
	if len(files) == 0 || m.Task.LargestError == nil {
		return
	}
	in, err := fio.Open(context.Background(), files, fio.Options{})
	runtest.Must(t, err)
	defer in.Close()
	for _, e := range in.Catalogue().Select(func(e ensemble.Entry) bool { return e.Product == ensemble.EnsembleMean }) {
		f, err := in.ReadOne(context.Background(), e)
		runtest.Must(t, err)
		init := int(e.Init.Sub(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)).Hours()) / (7 * 24)
		for p, v := range f.Values {
			mean, std := x.ensembleMean(init, len(m.Task.UsedMembers), p)
			bound := model.DefaultReach * max(m.Task.LargestError[0], std)
			// Mean and members are float32.
			d := math.Abs(float64(v)-mean) - 1e-6*math.Abs(mean)
			if mean == mean && !(d <= bound) {
				t.Errorf("%s\ninitialisation %s, point %d: a mean of %g is published, that of the members is %g; the bound is %g", o, e.Init, p, v, mean, bound)
				return
			}
			if mean == mean {
				o.largest = max(o.largest, d/bound)
			}
		}
	}
}

// A few of the trainings of TestLongTrainingsOnDamage, of those that take least time.
func TestTrainingsOnDamage(t *testing.T) {
	for _, seed := range []uint64{2, 9, 18} {
		t.Log(trainOnDamage(t, seed, time.Minute))
	}
}
