package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// TestStoreDamagedWhileTraining checks that a training names a damaged sample and keeps its progress: after
// the sample is restored, it ends like an undisturbed one.
func TestStoreDamagedWhileTraining(t *testing.T) {
	f := demotest.Files(t)
	dir := samplestest.PrepareStore(t, demotest.Config(t, f), "f32")
	set := append(runtest.ShortTraining, "data.store="+dir, "train.networks=1", "data.memory=1B")
	whole := filepath.Join(t.TempDir(), "whole")
	if _, err := Run(context.Background(), Options{Config: demotest.Config(t, f, set...), RunDir: whole, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	shard := filepath.Join(dir, "shards", "00000.bin")
	text, err := os.ReadFile(shard)
	if err != nil {
		t.Fatal(err)
	}
	for _, mesh := range []string{"auto", "data:2 lat:2"} {
		runDir := filepath.Join(t.TempDir(), "run")
		c := demotest.Config(t, f, append(set, "train.mesh="+mesh)...)
		steps := 0
		o := Options{Config: c, RunDir: runDir, Version: "test", Stop: func() error {
			if steps++; steps == 2 {
				if err := runtest.Overwrite(shard, bytes.Repeat([]byte{1}, len(text))); err != nil {
					t.Error(err)
				}
			}
			return nil
		}}
		_, err := Run(context.Background(), o)
		var e *exit.Error
		if !errors.As(err, &e) || e.Code != exit.BadData || !strings.Contains(e.At, "00000.bin") || !strings.Contains(e.Why, "checksum") {
			t.Fatalf("mesh %q: %v, want exit 65 that names the shard", mesh, err)
		}
		if err := runtest.Overwrite(shard, text); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(runDir, "checkpoints", "LATEST")); err != nil {
			t.Errorf("mesh %q: no checkpoint: %v", mesh, err)
		}
		if mesh != "auto" {
			continue // the bits of a mesh are others
		}
		if _, err := Run(context.Background(), Options{Config: c, RunDir: runDir, Version: "test", Resume: "auto"}); err != nil {
			t.Fatal(err)
		}
		runtest.SameModels(t, "resumed", runtest.ModelFiles(t, whole), runtest.ModelFiles(t, runDir))
	}
}

// TestRanksPrefetch checks that ranks on a mesh train from a store with the bits of files, with and without
// exchange of samples; with exchange they read the store much less.
func TestRanksPrefetch(t *testing.T) {
	f := demotest.Files(t)
	dir := samplestest.PrepareStore(t, demotest.Config(t, f), "f32")
	set := append(runtest.ShortTraining, "train.networks=1", "train.batch_size=3", "train.mesh=data:2 lat:2")
	var made []map[string][]byte
	var inputs [3]samples.InputTiming
	for i, more := range [][]string{nil, {"data.store=" + dir, "data.memory=1B", "data.peers=never"}, {"data.store=" + dir, fmt.Sprintf("data.memory=%dB", 7*runtest.InitBytes(t, dir)), "data.peers=always"}} {
		runDir := filepath.Join(t.TempDir(), "run")
		err := comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
			r, err := RunRank(context.Background(), Options{RunDir: runDir, Version: "test", Config: demotest.Config(t, f, append(set, more...)...)}, team.New(c))
			if err == nil {
				if c.Rank() == 0 { // the counts are those of all ranks
					inputs[i] = r.Input
				}
				if len(r.Warnings) > 0 {
					err = fmt.Errorf("warnings %q", r.Warnings)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, runtest.ModelFiles(t, runDir))
	}
	runtest.SameModels(t, "store", made[0], made[1])
	runtest.SameModels(t, "peers", made[0], made[2])
	// Each row of the mesh reads its part of each of 20 samples once, and without memory and peers far more often.
	files, alone, together := inputs[0], inputs[1], inputs[2]
	if alone.Peers.Reads > 0 || together.Peers.Reads == 0 || together.FileSystem.Reads != 2*20 || alone.FileSystem.Reads < 4*together.FileSystem.Reads || files.Memory.Reads == 0 {
		t.Errorf("files %+v, store %+v, with peers %+v", files, alone, together)
	}
}
