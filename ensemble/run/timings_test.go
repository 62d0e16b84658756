package run

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// digest sums the weights of the last checkpoint of a run.
func digest(t *testing.T, runDir string) string {
	t.Helper()
	c := newest(t, runDir)
	text, err := os.ReadFile(filepath.Join(c.Dir, "rank-0000.st"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// fifty is a training of 50 steps of a network whose convolutions are large enough
// for their cuts to be timed.
func fifty(t *testing.T, set ...string) *config.TrainConfig {
	f := smallData(t)
	return quick(t, f, append([]string{firstOf(f, 14), "model.base=32", "train.networks=1", "train.epochs=5", "train.batch_size=1", "train.threads=2"}, set...)...)
}

// Determinism of level D1 with measured cuts of kernels: see checkTimedRuns.
func TestTimedRunsGiveTheSameBits(t *testing.T) {
	checkTimedRuns(t, fifty(t))
}

// checkTimedRuns takes a training of 50 steps: two runs, one without timings and one
// that measures, end with the same bits, and so does one that is stopped at step 25
// and resumed after the table of timings was deleted. It gives the digest.
func checkTimedRuns(t *testing.T, c *config.TrainConfig) string {
	t.Helper()
	train := func(dir string, timings Timings, stop func() error) error {
		_, err := Train(context.Background(), TrainOptions{Config: c, RunDir: dir, Resume: "auto", Version: "test", Timings: timings, Stop: stop})
		return err
	}
	plain, timed, parts := filepath.Join(t.TempDir(), "plain"), filepath.Join(t.TempDir(), "timed"), filepath.Join(t.TempDir(), "parts")
	if err := train(plain, Timings{}, nil); err != nil {
		t.Fatal(err)
	}
	cache := Timings{Dir: t.TempDir()}
	if err := train(timed, cache, nil); err != nil {
		t.Fatal(err)
	}
	if newest(t, plain).Step != 50 {
		t.Fatalf("%d steps, want 50", newest(t, plain).Step)
	}
	table := func() string {
		files, err := filepath.Glob(filepath.Join(cache.Dir, "timings-*.json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("tables of timings: %q, %v", files, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil || strings.Count(string(text), `"wino forward`) == 0 || strings.Count(string(text), `"wino filter`) == 0 {
			t.Fatalf("nothing was timed (%v):\n%s", err, text)
		}
		return files[0]
	}
	table()
	stopped := &exit.Error{Code: exit.SaveAndStop, What: "stopped"}
	left := 25
	if err := train(parts, cache, func() error {
		if left--; left < 0 {
			return stopped
		}
		return nil
	}); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	if step := newest(t, parts).Step; step != 25 {
		t.Fatalf("stopped at step %d, want 25", step)
	}
	if err := os.Remove(table()); err != nil {
		t.Fatal(err)
	}
	if err := train(parts, cache, nil); err != nil {
		t.Fatal(err)
	}
	table() // measured anew
	want := digest(t, plain)
	for name, dir := range map[string]string{"a run that measures": timed, "a run resumed without its table": parts} {
		if got := digest(t, dir); got != want {
			t.Errorf("%s ends with %s, want %s", name, got, want)
		}
	}
	return want
}

// A checkpoint keeps the kernels that decide bits, and a resumed run takes those it
// names, not those that it would choose.
func TestCheckpointKeepsChoices(t *testing.T) {
	c := quick(t, smallData(t), "train.networks=1", "train.epochs=2")
	dir := filepath.Join(t.TempDir(), "run")
	stopped := &exit.Error{Code: exit.SaveAndStop, What: "stopped"}
	resume := func(steps int) map[string]string {
		_, err := Train(context.Background(), TrainOptions{Config: c, RunDir: dir, Resume: "auto", Version: "test", Stop: func() error {
			if steps--; steps < 0 {
				return stopped
			}
			return nil
		}})
		if !errors.Is(err, stopped) {
			t.Fatal(err)
		}
		var p planRecord
		if err := json.Unmarshal(newest(t, dir).Plan, &p); err != nil {
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
		last := newest(t, dir)
		last.Plan = json.RawMessage(plan)
		if _, err := ckpt.Save(filepath.Join(dir, "checkpoints"), last.Meta, last.Tensors); err != nil {
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
	if _, err := Train(context.Background(), TrainOptions{Config: c, RunDir: dir, Resume: "auto", Version: "test"}); exit.CodeOf(err) != exit.BadData {
		t.Errorf("choices that are none: %v", err)
	}
}

// TestTrainInLessWorkspace: the scratch of kernels is bounded, with the same bits;
// less than the least is refused before the first step, with what to write.
func TestTrainInLessWorkspace(t *testing.T) {
	train := func(workspace string) (string, error) {
		dir := filepath.Join(t.TempDir(), "run")
		_, err := Train(context.Background(), TrainOptions{Config: fifty(t, "train.epochs=1", "train.workspace="+workspace), RunDir: dir, Version: "test"})
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
	if !strings.Contains(err.Error(), "at: train.workspace") || !strings.Contains(err.Error(), fmt.Sprintf("set train.workspace: %dMiB or more", ceilMiB(small.Smallest)>>20)) {
		t.Errorf("training with one byte: %v", err)
	}
	tight, err := train(fmt.Sprintf("%dMiB", ceilMiB(small.Smallest)>>20))
	if err != nil {
		t.Fatal(err)
	}
	if digest(t, free) != digest(t, tight) {
		t.Error("the bound changes bits")
	}
}
