package train_test

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// kfacTraining are overrides of a training by K-FAC that computes factors in every third step, in both forms.
var kfacTraining = []string{"train.optimizer=kfac", "train.kfac.refresh=3", "train.kfac.decay=0.5", "train.kfac.damping=0.1", "train.kfac.max_side=120", "train.networks=1", "train.epochs=3"}

// A run by K-FAC that is stopped anywhere, also between two computations of factors and within an accumulated step, ends with
// the bits of an uninterrupted one.
func TestKFACResumes(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f, append(slices.Clone(kfacTraining), "train.ema=0.7", "train.batch_size=2", "train.accumulate=3", "train.kfac.adaptive=true")...)
	whole := traintest.CheckResume(t, c, 4, 3, 8)
	at := runtest.CheckpointTensors(runtest.NewestCheckpoint(t, whole))
	count := map[string]int{}
	for name := range at {
		if of, ok := strings.CutPrefix(name, "curvature."); ok {
			kind, _, _ := strings.Cut(of, ".")
			count[kind]++
		}
	}
	if count["factor_rows"] < 3 || count["factor_rows"] != count["factor_columns"] || count["last"] != 2*count["factor_rows"] || count["before"] != count["last"] {
		t.Errorf("the checkpoint has factors %v", count)
	}
}

// On ranks K-FAC takes the steps of a single rank within rounding: its factors are sums over all positions and samples.
// A checkpoint of some ranks continues on others.
func TestKFACOnRanks(t *testing.T) {
	f := demotest.Files(t)
	dirs := t.TempDir()
	options := func(name, mesh string) train.Options {
		return train.Options{RunDir: filepath.Join(dirs, name), Version: "test", Resume: "auto",
			Config: demotest.Config(t, f, append(slices.Clone(kfacTraining), "train.mesh="+mesh)...)}
	}
	alone := options("alone", "auto")
	if _, err := train.Run(context.Background(), alone); err != nil {
		t.Fatal(err)
	}
	want := runtest.Losses(t, alone.RunDir)
	check := func(name string) {
		t.Helper()
		got := runtest.Losses(t, filepath.Join(dirs, name))
		for i := range want {
			if !(math.Abs(got[i]-want[i]) <= 1e-3*math.Abs(want[i])) {
				t.Fatalf("%s, step %d: loss %v, on one rank %v", name, i+1, got[i], want[i])
			}
		}
	}
	for _, name := range []string{"first", "second"} {
		if err := traintest.TrainOnRanks(4, func(int) train.Options { return options(name, "data:2 lon:2") }); err != nil {
			t.Fatal(err)
		}
		check(name)
	}
	if runtest.Digest(t, filepath.Join(dirs, "first")) != runtest.Digest(t, filepath.Join(dirs, "second")) {
		t.Error("two runs on 4 ranks differ")
	}
	for part, mesh := range []string{"lat:2", "data:2"} {
		err := traintest.TrainOnRanks(2, func(int) train.Options {
			o, steps := options("moved", mesh), 0
			o.Stop = func() error {
				if steps++; part == 0 && steps == 6 {
					return &exit.Error{Code: exit.SaveAndStop, What: "stop requested"}
				}
				return nil
			}
			return o
		})
		if code := exit.CodeOf(err); part == 0 && code != exit.SaveAndStop || part == 1 && err != nil {
			t.Fatalf("part %d: %v", part+1, err)
		}
	}
	check("moved")
}

// The rules sgd and lars take bounded steps too, and a largest side that no layer fits is refused before the first step, with the key.
func TestKFACRules(t *testing.T) {
	f := demotest.Files(t)
	for _, rule := range [][]string{{"train.kfac.rule=sgd"}, {"train.kfac.rule=lars", "train.trust_coefficient=0.02", "train.learning_rate=0.2"}} {
		c := demotest.Config(t, f, slices.Concat(kfacTraining, []string{"train.learning_rate=0.05", "train.schedule=constant", "train.epochs=4", "model.dropout=0"}, rule)...)
		losses := runtest.Losses(t, traintest.Train(t, c))
		if most := slices.Max(losses); len(losses) != 16 || !(most < 1) { // 0.57 at the beginning
			t.Errorf("rule %s: losses %v", rule, losses)
		}
	}
	c := demotest.Config(t, f, append(slices.Clone(kfacTraining), "train.kfac.max_side=1")...)
	_, err := train.Run(context.Background(), train.Options{Config: c, RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"})
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "train.kfac.max_side") {
		t.Errorf("a largest side of 1: %v", err)
	}
}
