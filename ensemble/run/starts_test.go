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

	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/store"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// cheap makes trainings short: most of their time goes to baselines, which a spread head has
// not.
var cheap = slices.Clip([]string{"train.epochs=2", "model.head=spread", "train.loss.kind=mse", "model.base=1"})

// sameModels compares the files of two models.
func sameModels(t *testing.T, what string, want, got map[string][]byte) {
	t.Helper()
	for name, text := range want {
		if !bytes.Equal(got[name], text) {
			t.Errorf("%s: %s differs", what, name)
		}
	}
}

// epochs are the events of epochs of a run.
func epochs(t *testing.T, runDir string) []rundir.Event {
	t.Helper()
	all, err := rundir.ReadEvents(runDir)
	if err != nil {
		t.Fatal(err)
	}
	var out []rundir.Event
	for _, e := range all {
		if e.Kind == "epoch" {
			out = append(out, e)
		}
	}
	return out
}

// startBytes is the memory of a start of the configurations that quick makes of a store.
func startBytes(t *testing.T, dir string) int64 {
	t.Helper()
	s, err := store.Open(context.Background(), dir, store.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Select(store.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	return 4 * r.Values()
}

// TestTrainingReadsAhead: where starts are kept, how many are read ahead, and stops in
// mid-epoch change no bit of a training; one that has room for all starts reads the store
// once, before its first step.
func TestTrainingReadsAhead(t *testing.T) {
	f := smallData(t)
	dir := prepared(t, quick(t, f), "f32")
	n := startBytes(t, dir)
	config := append(cheap, "data.store="+dir, "train.batch_size=3")
	whole := resumesToTheSameBits(t, quick(t, f, append(config, "data.memory=1B", "data.prefetch=2")...), 3, 7)
	want := modelFiles(t, whole)
	for _, c := range []struct {
		name         string
		set          []string
		reads, cache func(reads float64) bool // of an epoch
	}{
		{"in memory", nil, func(n float64) bool { return n == 0 }, func(n float64) bool { return n == 0 }},
		{"in memory and on disk", []string{fmt.Sprintf("data.memory=%dB", 6*n), "data.disk_cache.folder=" + t.TempDir(), fmt.Sprintf("data.disk_cache.size=%dB", 6*n), "data.prefetch=1", "data.direct=true"},
			func(n float64) bool { return n > 0 && n < 10 }, func(n float64) bool { return n > 0 }},
	} {
		runDir := filepath.Join(t.TempDir(), "run")
		r, err := Train(context.Background(), TrainOptions{Config: quick(t, f, append(config, c.set...)...), RunDir: runDir, Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		sameModels(t, c.name, want, modelFiles(t, runDir))
		for _, e := range epochs(t, runDir) {
			store, _ := e.Number("file_system_reads")
			cache, _ := e.Number("disk_cache_reads")
			if _, ok := e.Number("input_waited_s"); !ok || len(e.Values) < 12 {
				t.Errorf("%s: an epoch has %v", c.name, e.Values)
			}
			if e.Epoch == 2 && !(c.reads(store) && c.cache(cache)) {
				t.Errorf("%s: %v reads from the store, %v from the disk cache in an epoch", c.name, store, cache)
			}
		}
		if in := r.Input; c.set == nil && (in.FileSystem.Reads != 20 || in.Share <= 0 || in.Share >= 1) {
			t.Errorf("%s: %+v, want each of 20 starts read once", c.name, in)
		}
	}
}

// overwrite changes a file that is being read.
func overwrite(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	return errors.Join(err, f.Close())
}

// TestStoreDamagedWhileTraining: a training that meets a damaged start names it, and keeps
// all that was done before: with the start restored it ends as one that was never disturbed.
func TestStoreDamagedWhileTraining(t *testing.T) {
	f := smallData(t)
	dir := prepared(t, quick(t, f), "f32")
	set := append(cheap, "data.store="+dir, "train.networks=1", "data.memory=1B")
	whole := filepath.Join(t.TempDir(), "whole")
	if _, err := Train(context.Background(), TrainOptions{Config: quick(t, f, set...), RunDir: whole, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	shard := filepath.Join(dir, "shards", "00000.bin")
	text, err := os.ReadFile(shard)
	if err != nil {
		t.Fatal(err)
	}
	for _, mesh := range []string{"auto", "data:2 lat:2"} {
		runDir := filepath.Join(t.TempDir(), "run")
		c := quick(t, f, append(set, "train.mesh="+mesh)...)
		steps := 0
		o := TrainOptions{Config: c, RunDir: runDir, Version: "test", Stop: func() error {
			if steps++; steps == 2 {
				if err := overwrite(shard, bytes.Repeat([]byte{1}, len(text))); err != nil {
					t.Error(err)
				}
			}
			return nil
		}}
		_, err := Train(context.Background(), o)
		var e *exit.Error
		if !errors.As(err, &e) || e.Code != exit.BadData || !strings.Contains(e.At, "00000.bin") || !strings.Contains(e.Why, "checksum") {
			t.Fatalf("mesh %q: %v, want exit 65 that names the shard", mesh, err)
		}
		if err := overwrite(shard, text); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(runDir, "checkpoints", "LATEST")); err != nil {
			t.Errorf("mesh %q: no checkpoint: %v", mesh, err)
		}
		if mesh != "auto" {
			continue // the bits of a mesh are others
		}
		if _, err := Train(context.Background(), TrainOptions{Config: c, RunDir: runDir, Version: "test", Resume: "auto"}); err != nil {
			t.Fatal(err)
		}
		sameModels(t, "resumed", modelFiles(t, whole), modelFiles(t, runDir))
	}
}

// TestRanksReadAhead: ranks that share batches and fields train from a store with the bits
// of files, whether or not they take starts from each other; where they do, they read the store
// much less.
func TestRanksReadAhead(t *testing.T) {
	f := smallData(t)
	dir := prepared(t, quick(t, f), "f32")
	set := append(cheap, "train.networks=1", "train.batch_size=3", "train.mesh=data:2 lat:2")
	var made []map[string][]byte
	var inputs [3][4]TrainInput
	for i, more := range [][]string{nil, {"data.store=" + dir, "data.memory=1B"}, {"data.store=" + dir, fmt.Sprintf("data.memory=%dB", 7*startBytes(t, dir)), "data.peers=always"}} {
		runDir := filepath.Join(t.TempDir(), "run")
		err := comm.Run(4, comm.Free, func(c *comm.Comm) error {
			r, err := trainAs(context.Background(), TrainOptions{RunDir: runDir, Version: "test", Config: quick(t, f, append(set, more...)...)}, team.New(c))
			if err == nil {
				inputs[i][c.Rank()] = r.Input
				if len(r.Warnings) > 0 {
					err = fmt.Errorf("warnings %q", r.Warnings)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, modelFiles(t, runDir))
	}
	sameModels(t, "store", made[0], made[1])
	sameModels(t, "peers", made[0], made[2])
	var peers, reads [3]int64
	for i, in := range inputs {
		for _, x := range in {
			peers[i], reads[i] = peers[i]+x.Peers.Reads, reads[i]+x.FileSystem.Reads
		}
	}
	// Each row of the mesh reads each of 20 starts at least once, and without memory far more often.
	if peers[1] > 0 || peers[2] == 0 || reads[2] < 2*20 || reads[2] > 2*20+10 || reads[2] > reads[1]/2 {
		t.Errorf("%d starts from peers, %d from the store", peers, reads)
	}
}
