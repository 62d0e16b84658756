package train_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// windowed are the overrides of a short training with windows in its first two epochs.
var windowed = []string{"train.networks=1", "train.epochs=3", "train.sizes=mixed", "train.whole_epochs=0.3"}

// A training whose only size is the whole field has the bits of one without the key.
func TestOnlyWholeFields(t *testing.T) {
	f := demotest.Files(t)
	var got [2]string
	for i, set := range [][]string{nil, {"train.sizes=mixed", "train.whole_epochs=1"}} {
		dir := filepath.Join(t.TempDir(), "run")
		r, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, append(set, "train.networks=1", "train.epochs=1")...), RunDir: dir, Version: "test"})
		if err != nil || r.StepCost != 1 || strings.Contains(fmt.Sprint(r.Sections()), "train.sizes") {
			t.Fatalf("%+v, error %v: windows in a training of whole fields", r, err)
		}
		got[i] = runtest.Digest(t, dir)
	}
	if got[0] != got[1] {
		t.Error("whole fields only: other bits than without train.sizes")
	}
}

// A training with windows that is stopped within an epoch and resumed ends with the same bits, and predicts whole fields.
func TestResumeWithWindows(t *testing.T) {
	f := demotest.Files(t)
	stopped := &exit.Error{Code: exit.SaveAndStop, What: "stopped"}
	var got [2]map[string][]byte
	for i, left := range []int{1 << 30, 3} {
		dir := filepath.Join(t.TempDir(), "run")
		o := train.Options{Config: demotest.Config(t, f, append(windowed, "train.ema=0.5", "train.accumulate=2", "train.batch_size=2")...), RunDir: dir, Version: "test", Resume: "auto", Stop: func() error {
			if left--; left < 0 {
				return stopped
			}
			return nil
		}}
		r, err := train.Run(context.Background(), o)
		if errors.Is(err, stopped) != (i == 1) {
			t.Fatal(err)
		}
		if i == 1 {
			left = 1 << 30
			r, err = train.Run(context.Background(), o)
		}
		if err != nil || r.Scores == nil {
			t.Fatalf("scores %v, error %v", r, err)
		}
		if text := fmt.Sprint(r.Sections()); !(r.StepCost > 0) || r.StepCost == 1 || !strings.Contains(text, "train.sizes: a step took") {
			t.Errorf("a step of windows and whole fields took %g of one of whole fields; the answer is %s", r.StepCost, text)
		}
		got[i] = runtest.ModelFiles(t, dir)
	}
	if !maps.EqualFunc(got[0], got[1], bytes.Equal) {
		t.Error("resumed with windows: other bits")
	}
}

// Ranks that divide the batch see the same windows as one rank: the losses are the same but for rounding.
func TestWindowsOnDataRanks(t *testing.T) {
	f := demotest.Files(t)
	var got [2][]float64
	for i, mesh := range []string{"auto", "data:2"} {
		got[i] = runtest.Losses(t, traintest.Train(t, demotest.Config(t, f, append(windowed, "model.dropout=0", "train.mesh="+mesh)...)))
	}
	if len(got[0]) == 0 || len(got[0]) != len(got[1]) {
		t.Fatalf("%d and %d losses", len(got[0]), len(got[1]))
	}
	for k, want := range got[0] {
		if d := math.Abs(got[1][k] - want); !(d < 1e-4*math.Abs(want)) {
			t.Errorf("step %d: loss %v on two ranks, %v on one", k+1, got[1][k], want)
		}
	}
}

// What windows do not support is refused before the first step, with a fix.
func TestWindowsRefused(t *testing.T) {
	f := demotest.Files(t)
	for set, fix := range map[string]string{
		"train.sizes=[1000]":                 "write ",
		"train.sizes=mixed train.mesh=lat:2": "set train.mesh: data:2",
	} {
		_, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, strings.Fields(set)...), RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"})
		if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), fix) {
			t.Errorf("%s: %v, want a fix with %q", set, err, fix)
		}
	}
}
