package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A checkpoint stores the kernels that determine bits, and a resumed run uses these kernels.
func TestCheckpointKeepsChoices(t *testing.T) {
	c := demotest.Config(t, demotest.Files(t), "train.networks=1", "train.epochs=2")
	dir := filepath.Join(t.TempDir(), "run")
	stopped := &exit.Error{Code: exit.SaveAndStop, What: "stopped"}
	resume := func(steps int) map[string]string {
		_, err := Run(context.Background(), Options{Config: c, RunDir: dir, Resume: "auto", Version: "test", Stop: func() error {
			if steps--; steps < 0 {
				return stopped
			}
			return nil
		}})
		if !errors.Is(err, stopped) {
			t.Fatal(err)
		}
		var p planRecord
		if err := json.Unmarshal(runtest.NewestCheckpoint(t, dir).Plan, &p); err != nil {
			t.Fatal(err)
		}
		return p.Choices
	}
	chosen := resume(2)
	changed := map[string]string{}
	layouts, blocked := 0, 0
	for key, choice := range chosen {
		switch {
		case strings.HasPrefix(key, "layouts "): // everything plain
			layouts++
			blocked += strings.Count(choice, "b")
			changed[key] = strings.ReplaceAll(choice, "b", "p")
		case choice != "own":
			changed[key] = "own"
		}
	}
	if layouts != 2 || blocked == 0 {
		t.Fatalf("the checkpoint keeps the layouts of %d plans, want the training's and the validation's, with something blocked: %v", layouts, chosen)
	}
	rewrite := func(plan string) {
		last := runtest.NewestCheckpoint(t, dir)
		last.Plan = json.RawMessage(plan)
		if _, err := ckpt.Save(filepath.Join(dir, "checkpoints"), last.Meta, last.Tensors, nil); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(planRecord{changed})
	if err != nil {
		t.Fatal(err)
	}
	rewrite(string(text))
	resumed := resume(1)
	for key, before := range chosen {
		if want := cmp.Or(changed[key], before); resumed[key] != want {
			t.Errorf("%s: resumed as %s, the checkpoint says %s", key, resumed[key], want)
		}
	}
	rewrite(`{"choices": 7}`)
	if _, err := Run(context.Background(), Options{Config: c, RunDir: dir, Resume: "auto", Version: "test"}); exit.CodeOf(err) != exit.BadData {
		t.Errorf("choices that are none: %v", err)
	}
}

// TestTrainInLessWorkspace checks that a workspace limit changes no bits; less than the minimum is refused
// before the first step, with a remedy.
func TestTrainInLessWorkspace(t *testing.T) {
	train := func(workspace string) (string, error) {
		dir := filepath.Join(t.TempDir(), "run")
		_, err := Run(context.Background(), Options{Config: runtest.FiftySteps(t, "train.epochs=1", "train.workspace="+workspace), RunDir: dir, Version: "test"})
		return dir, err
	}
	free, err := train("0")
	if err != nil {
		t.Fatal(err)
	}
	_, err = train("1B")
	var small *pass.WorkspaceError
	if exit.CodeOf(err) != exit.Usage || !errors.As(err, &small) {
		t.Fatalf("training with one byte: error %v", err)
	}
	if !strings.Contains(err.Error(), "at: train.workspace") || !strings.Contains(err.Error(), fmt.Sprintf("set train.workspace: %dMiB or more", setup.CeilMiB(small.Smallest)>>20)) {
		t.Errorf("training with one byte: %v", err)
	}
	tight, err := train(fmt.Sprintf("%dMiB", setup.CeilMiB(small.Smallest)>>20))
	if err != nil {
		t.Fatal(err)
	}
	if runtest.Digest(t, free) != runtest.Digest(t, tight) {
		t.Error("the bound changes bits")
	}
}
