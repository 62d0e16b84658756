package train_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// twoCheckpoints stops a training of four epochs in the third and returns its directory and its last two checkpoints.
func twoCheckpoints(t *testing.T, options func(dir string) train.Options) (dir, last, previous string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	o, batches := options(dir), 0
	perEpoch := len(runtest.Losses(t, traintest.Train(t, o.Config))) / o.Config.Train.Train.Epochs
	stopped := errors.New("stopped")
	o.Stop = func() error {
		if batches++; batches > 2*perEpoch {
			return stopped
		}
		return nil
	}
	if _, err := train.Run(context.Background(), o); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "checkpoints")
	steps, err := ckpt.List(root)
	if err != nil || len(steps) < 2 {
		t.Fatalf("checkpoints of steps %v, %v", steps, err)
	}
	at := func(i int) string { return filepath.Join(root, ckpt.Name(steps[len(steps)-i])) }
	return dir, at(1), at(2)
}

// TestFault26: a training whose last checkpoint lacks a part, or has one of another step or a damaged one, continues from the one
// before it, with a warning, to the bits of an undisturbed training. Without any whole checkpoint it refuses.
func TestFault26(t *testing.T) {
	f := demotest.Files(t)
	options := func(dir string) train.Options {
		return train.Options{Config: demotest.Config(t, f, "train.networks=1", "train.epochs=4"), RunDir: dir, Version: "test", Resume: "auto"}
	}
	whole := traintest.Train(t, options("").Config)
	stopped, last, previous := twoCheckpoints(t, options)
	for fault, change := range map[string]func(last, previous string) error{
		"missing part": func(last, _ string) error { return os.Remove(filepath.Join(last, "rank-0000.st")) },
		"part of another step": func(last, previous string) error {
			raw, err := os.ReadFile(filepath.Join(previous, "rank-0000.st"))
			if err != nil {
				return err
			}
			return runtest.Overwrite(filepath.Join(last, "rank-0000.st"), raw)
		},
		"damaged part": func(last, _ string) error { return runtest.FlipLastByte(filepath.Join(last, "rank-0000.st")) },
	} {
		t.Run(fault, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			runtest.Must(t, os.CopyFS(dir, os.DirFS(stopped)))
			in := func(path string) string { return filepath.Join(dir, "checkpoints", filepath.Base(path)) }
			runtest.Must(t, change(in(last), in(previous)))
			r, err := train.Run(context.Background(), options(dir))
			runtest.Must(t, err)
			if want := "checkpoint " + filepath.Base(last) + " is skipped"; !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, want) }) {
				t.Errorf("warnings %q, want %q", r.Warnings, want)
			}
			if runtest.Digest(t, dir) != runtest.Digest(t, whole) {
				t.Error("the training ends with other weights")
			}
		})
	}
	runtest.Must(t, runtest.FlipLastByte(filepath.Join(last, "rank-0000.st")))
	steps, err := ckpt.List(filepath.Dir(last))
	runtest.Must(t, err)
	for _, step := range steps {
		if dir := filepath.Join(filepath.Dir(last), ckpt.Name(step)); dir != last {
			runtest.Must(t, os.RemoveAll(dir))
		}
	}
	if _, err := train.Run(context.Background(), options(stopped)); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "rank-0000.st, tensor ") {
		t.Errorf("no whole checkpoint: %v, want exit 65 with the tensor", err)
	}
}

// TestFault32: a step whose loss or gradient is not finite is not applied. The error has the step and its initialisations, on
// ranks all stop at this step, and the last checkpoint remains.
func TestFault32(t *testing.T) {
	f := demotest.Files(t)
	stopped := &exit.Error{Code: exit.SaveAndStop, What: "stopped"}
	for _, ranks := range []int{1, 2} {
		dir := filepath.Join(t.TempDir(), "run")
		run := func(batches int) error {
			return traintest.TrainOnRanks(ranks, func(int) train.Options {
				left := batches
				return train.Options{RunDir: dir, Version: "test", Resume: "auto", Config: demotest.Config(t, f, "train.networks=1", "train.optimizer=sgd", "train.clip=0",
					"train.learning_rate=1e30", fmt.Sprintf("train.mesh=data:%d", ranks)), Stop: func() error {
					if left--; left < 0 {
						return stopped
					}
					return nil
				}}
			})
		}
		if err := run(1); exit.CodeOf(err) != exit.SaveAndStop { // the first step leaves finite weights
			t.Fatal(err)
		}
		before := runtest.Digest(t, dir)
		err := run(1 << 30)
		text := fmt.Sprint(err)
		if exit.CodeOf(err) != exit.No || strings.Count(text, "is not finite at step 2\n") != strings.Count(text, "is not finite") || !regexp.MustCompile(`initialisations \[2001-\d\d-\d\dT00:00Z `).MatchString(text) {
			t.Errorf("%d ranks: %v, want exit 1 with step 2 and its initialisations", ranks, err)
		}
		if steps, err := ckpt.List(filepath.Join(dir, "checkpoints")); err != nil || !slices.Equal(steps, []uint64{1}) || runtest.Digest(t, dir) != before {
			t.Errorf("%d ranks: checkpoints of steps %v, %v; want that of step 1, unchanged", ranks, steps, err)
		}
	}
}
