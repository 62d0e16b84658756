package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// TestMemoryOfARank: what is planned for a rank of four, of the network of base 32 on
// 2×352×704 points, beside what one rank alone needs: values, scratch, parameters,
// gradients and moments.
func TestMemoryOfARank(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in -short: compiles a large network")
	}
	k := BenchCase{Model: "unet3d", Base: 32, Crop: Crop{352, 704}, Batch: 1, Depth: 2, Precision: "float32", Threads: 1}
	g, err := k.graph(true)
	if err != nil {
		t.Fatal(err)
	}
	planned := func(p *engine.Plan, o optim.Options) (int64, error) {
		opt, err := optim.New(p.Store(), o)
		if err != nil {
			return 0, err
		}
		return p.MemoryBytes() + p.Store().Bytes() + opt.Bytes(), errors.Join(opt.Close(), p.Close())
	}
	alone, err := engine.Compile(g, k.Options(false))
	if err != nil {
		t.Skip("skipped: no device: ", err)
	}
	if most := alone.ArenaBytes() + alone.ScratchBytes()/4; alone.MemoryBytes() > most {
		t.Errorf("one rank: %d bytes of values and scratch, want %d at most", alone.MemoryBytes(), most)
	}
	one, err := planned(alone, optim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := spatial.Mesh{{Name: "lat", Size: 4}}
	for _, shared := range []bool{false, true} {
		ranks := make([]int64, m.Size())
		err := comm.Run(m.Size(), comm.Free, func(c *comm.Comm) error {
			var o optim.Options
			compile := spatial.Compile
			if shared {
				compile = spatial.CompileShared
			}
			p, err := compile(g, c, m, k.Options(false))
			if err != nil {
				return err
			}
			if beside := p.MemoryBytes() - p.ArenaBytes(); beside > 8<<20 {
				return fmt.Errorf("%d bytes of scratch beside an arena of %d", beside, p.ArenaBytes())
			}
			if shared {
				o.Ranks = p.Shards()
			}
			ranks[c.Rank()], err = planned(p.Plan, o)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		want := 0.38
		if shared {
			want = 0.30
		}
		if ratio := float64(slices.Max(ranks)) / float64(one); ratio > want {
			t.Errorf("optimiser shared %v: %v bytes on the ranks, %d on one alone: %.3f, want %.2f", shared, ranks, one, ratio, want)
		}
	}
}

// TestTrainInLessMemory: a training in the least memory ends with the weights of
// one without a bound; less is refused before the first step, with what to write.
func TestTrainInLessMemory(t *testing.T) {
	f := smallData(t)
	train := func(memory string) (string, error) {
		dir := filepath.Join(t.TempDir(), "run")
		_, err := Train(context.Background(), TrainOptions{Config: quick(t, f, "train.memory="+memory, "train.networks=1", "train.epochs=2", "model.stages=2"), RunDir: dir, Version: "test"})
		return dir, err
	}
	free, err := train("0")
	if err != nil {
		t.Fatal(err)
	}
	_, err = train("1B")
	var small *pass.TooSmall
	if exit.CodeOf(err) != exit.NoDevice || !errors.As(err, &small) {
		t.Fatalf("training in one byte: error %v", err)
	}
	if !strings.Contains(err.Error(), "at: train.memory") || !strings.Contains(err.Error(), fmt.Sprintf("set train.memory: %dMiB or more", ceilMiB(small.Smallest)>>20)) {
		t.Errorf("training in one byte: %v", err)
	}
	if _, err := train(fmt.Sprintf("%dB", small.Smallest-1)); exit.CodeOf(err) != exit.NoDevice {
		t.Errorf("one byte less than %d: error %v", small.Smallest, err)
	}
	tight, err := train(fmt.Sprintf("%dB", small.Smallest))
	if err != nil {
		t.Fatal(err)
	}
	want, got := modelFiles(t, free), modelFiles(t, tight)
	n := 0
	for name := range want {
		if strings.HasSuffix(name, ".safetensors") {
			n++
			if !bytes.Equal(got[name], want[name]) {
				t.Errorf("%s differs", name)
			}
		}
	}
	if n == 0 {
		t.Errorf("no weights among %d files", len(want))
	}
}

// TestPredictInLessMemory: a bound of the memory and one of the scratch change no bit
// of the products; less than the least is refused with what to write.
func TestPredictInLessMemory(t *testing.T) {
	runDir := filepath.Join(t.TempDir(), "run")
	f := smallData(t)
	_, err := Train(context.Background(), TrainOptions{Config: quick(t, f, "train.networks=2", "train.epochs=1", "model.stages=2"), RunDir: runDir, Version: "test"})
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	predict := func(memory, workspace int64) (string, error) {
		r, err := Predict(context.Background(), PredictOptions{RunDir: runDir, Input: f.GRIB2[19:], Out: t.TempDir(), Formats: []product.Format{product.GRIB2},
			MemoryBytes: memory, WorkspaceBytes: workspace, Version: "test"})
		if err != nil {
			return "", err
		}
		var all strings.Builder
		for _, path := range r.Outputs {
			if filepath.Ext(path) == ".json" {
				continue // has the time
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
		if all.Len() == 0 {
			t.Errorf("no fields in %q", r.Outputs)
		}
		return all.String(), nil
	}
	want, err := predict(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = predict(1, 0)
	var arena *pass.TooSmall
	if exit.CodeOf(err) != exit.NoDevice || !errors.As(err, &arena) || !strings.Contains(err.Error(), "at: --memory") ||
		!strings.Contains(err.Error(), fmt.Sprintf("give --memory %dMiB or more", ceilMiB(arena.Smallest)>>20)) {
		t.Fatalf("predicting in one byte: %v", err)
	}
	_, err = predict(0, 1)
	var scratch *pass.WorkspaceError
	if exit.CodeOf(err) != exit.Usage || !errors.As(err, &scratch) || !strings.Contains(err.Error(), "at: --workspace") ||
		!strings.Contains(err.Error(), fmt.Sprintf("give --workspace %dMiB or more", ceilMiB(scratch.Smallest)>>20)) {
		t.Fatalf("predicting with one byte of scratch: %v", err)
	}
	for _, least := range [][2]int64{{arena.Smallest, 0}, {0, scratch.Smallest}, {arena.Smallest, scratch.Smallest}} {
		if got, err := predict(least[0], least[1]); err != nil || got != want {
			t.Errorf("in %d bytes, %d of scratch: error %v, other products: %v", least[0], least[1], err, got != want)
		}
	}
	if _, err := predict(arena.Smallest-1, 0); exit.CodeOf(err) != exit.NoDevice {
		t.Errorf("one byte less than the least: %v", err)
	}
}
