//go:build cgo && linux

package train_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// failing is a GPU that is lost at its n-th wait for enqueued work: that call and all later ones fail, as those of a GPU that has
// fallen off the bus or has an uncorrectable error of its memory.
type failing struct {
	*emulate.LazyDevice
	waits *int
	at    int
}

func (f failing) lost() error {
	if f.at > 0 && *f.waits >= f.at {
		return fmt.Errorf("%w: uncorrectable ECC error", device.ErrLost)
	}
	return nil
}

func (f failing) Wait() error {
	*f.waits++
	if err := f.lost(); err != nil {
		return err
	}
	return f.LazyDevice.Wait()
}

func (f failing) Copy(dst, src device.Pointer, bytes int64) error {
	if err := f.lost(); err != nil {
		return err
	}
	return f.LazyDevice.Copy(dst, src, bytes)
}

// TestFault40: a GPU that is lost at any moment ends a training with exit code 69. Nothing is saved from its memory: all checkpoints
// are those of an undisturbed training, which continues on another GPU.
func TestFault40(t *testing.T) {
	f := demotest.Files(t)
	waits, at := 0, 0
	runtest.UseDevice(t, 1<<28, func(d *emulate.LazyDevice) device.Device { return failing{d, &waits, at} })
	run := func(dir string) error {
		_, err := train.Run(context.Background(), train.Options{RunDir: dir, Version: "test", Resume: "auto", Config: demotest.Config(t, f, runtest.FirstInits(f, 7),
			"train.device=cuda", "train.networks=1", "train.epochs=1", "train.batch_size=1", "train.checkpoint.every=1 step", "train.checkpoint.keep=100", "data.levels=[850hPa]", "data.leads=[48h]", "model.base=1")})
		return err
	}
	digests := func(dir string) map[uint64]string {
		out := map[uint64]string{}
		root := filepath.Join(dir, "checkpoints")
		steps, err := ckpt.List(root)
		runtest.Must(t, err)
		for _, step := range steps {
			c, err := ckpt.Load(filepath.Join(root, ckpt.Name(step)))
			runtest.Must(t, err)
			out[step] = fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, c.Tensors)))
		}
		return out
	}
	whole := filepath.Join(t.TempDir(), "whole")
	runtest.Must(t, run(whole))
	want, all, r := digests(whole), waits, rand.New(rand.NewPCG(40, 0))
	dir := filepath.Join(t.TempDir(), "run")
	for half := range 2 {
		runtest.Must(t, os.RemoveAll(dir))
		waits, at = 0, 1+half*all/2+r.IntN(all/2)
		err := run(dir)
		if exit.CodeOf(err) != exit.NoDevice || !errors.Is(err, device.ErrLost) || !strings.Contains(err.Error(), "the GPU is lost") || !strings.Contains(err.Error(), "ECC") {
			t.Errorf("lost at wait %d of %d: %v, want exit 69", at, all, err)
		}
		for step, digest := range digests(dir) {
			if digest != want[step] {
				t.Errorf("lost at wait %d of %d: the checkpoint of step %d differs from that of an undisturbed training", at, all, step)
			}
		}
	}
	if n := len(digests(dir)); n == 0 || n == len(want) {
		t.Fatalf("%d of %d checkpoints before the loss at wait %d of %d, want one in mid-training", n, len(want), at, all)
	}
	at = 0
	runtest.Must(t, run(dir))
	if got := digests(dir); !maps.Equal(got, want) {
		t.Errorf("checkpoints of steps %v, undisturbed %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// TestFault34: a GPU with too little memory is refused before the first step, with the memory that is there and the least that
// suffices.
func TestFault34(t *testing.T) {
	f := demotest.Files(t)
	runtest.UseDevice(t, 1<<16, func(d *emulate.LazyDevice) device.Device { return d })
	_, err := train.Run(context.Background(), train.Options{RunDir: filepath.Join(t.TempDir(), "run"), Version: "test", Config: demotest.Config(t, f, runtest.FirstInits(f, 11), "train.device=cuda", "train.networks=1", "train.epochs=1", "train.batch_size=2")})
	if exit.CodeOf(err) != exit.NoDevice || !regexp.MustCompile(`the plan needs at least [0-9.]+ MiB .* 0.[0-9] MiB are available`).MatchString(fmt.Sprint(err)) {
		t.Errorf("%v, want exit 69 with both sizes", err)
	}
}
