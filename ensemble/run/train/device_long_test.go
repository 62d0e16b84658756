//go:build long && cgo && linux

package train

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestLongTrainInFloat16 checks that a float16 training with overflowing gradients skips steps, halving the
// loss scale each time, and continues. Stopped among these steps and resumed it ends with the same bits. Its
// model predicts in float32 on a processor, unless float16 is requested.
func TestLongTrainInFloat16(t *testing.T) {
	runtest.EmulatedGPU(t)
	opened := runtest.UseFloat16Backend(t)
	c := demotest.Config(t, demotest.Files(t), "train.device=cuda", "train.precision=f16", "train.networks=1", "train.epochs=2", "train.batch_size=2", "train.ema=0.9")
	train := func(dir string, steps int) {
		t.Helper()
		stopped := &exit.Error{Code: exit.SaveAndStop, What: "stopped"}
		_, err := Run(context.Background(), Options{Config: c, RunDir: dir, Resume: "auto", Version: "test", Stop: func() error {
			if steps--; steps < 0 {
				return stopped
			}
			return nil
		}})
		if err != nil && !errors.Is(err, stopped) {
			t.Fatal(err)
		}
	}
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	train(whole, 1)
	first := runtest.NewestCheckpoint(t, whole)
	var at position
	if err := json.Unmarshal(first.State, &at); err != nil || at.LossScale != (optim.LossScale{Scale: 0x1p16, GoodSteps: 1}) {
		t.Fatalf("behind the first step %+v, %v", at.LossScale, err)
	}
	at.LossScale.Scale = 0x1p30
	var err error
	if first.State, err = json.Marshal(at); err == nil {
		err = os.RemoveAll(first.Dir)
	}
	if err == nil {
		_, err = ckpt.Save(filepath.Join(whole, "checkpoints"), first.Meta, first.Tensors, nil)
	}
	if err == nil {
		err = os.CopyFS(parts, os.DirFS(whole))
	}
	if err != nil {
		t.Fatal(err)
	}
	train(whole, 1000)
	train(parts, 4)
	train(parts, 1000)
	if runtest.Digest(t, whole) != runtest.Digest(t, parts) {
		t.Error("a run that was stopped among skipped steps ends with other bits")
	}
	if !slices.ContainsFunc(*opened, func(b *runtest.Float16Backend) bool { return b.Stored }) {
		t.Error("no field was stored as float16")
	}
	if err := json.Unmarshal(runtest.NewestCheckpoint(t, whole).State, &at); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(whole, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	skipped, scale := 0, 0x1p30
	for line := range strings.Lines(string(text)) {
		var e struct {
			Kind           string
			Scale, Skipped float64
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Kind != "loss_scale" {
			continue
		}
		skipped++
		if scale /= 2; e.Scale != scale || e.Skipped != float64(skipped) {
			t.Errorf("event %s, want scale %g, skipped %d", line, scale, skipped)
		}
	}
	if skipped < 4 || skipped > 15 || strings.Count(string(text), `"kind":"step"`)+skipped != int(runtest.NewestCheckpoint(t, whole).Step) {
		t.Errorf("%d steps were skipped:\n%s", skipped, text)
	}
	for precision, want := range map[string]exit.Code{"": exit.OK, "f16": exit.NoDevice} {
		m, err := model.Load(filepath.Join(whole, "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		o := network.Options(1, "cpu")
		o.Precision = precision
		if err := m.Open(o); exit.CodeOf(err) != want {
			t.Errorf("opened on a processor in precision %q: %v", precision, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
