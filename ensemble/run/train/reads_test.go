package train_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial"
)

// bytesRead returns the bytes that this process has read by system calls, from files and sockets.
func bytesRead(t *testing.T) (n float64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skipf("the system does not count reads: %v", err)
	}
	if _, err := fmt.Sscanf(string(text), "rchar: %f", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// trainCounted trains on ranks of this process and returns the bytes of its system calls, and the counts of its events: by phase
// (epochs are "epoch") and key.
func trainCounted(t *testing.T, ranks int, set []string) (bytes float64, counts map[string]map[string]float64) {
	t.Helper()
	runDir := filepath.Join(t.TempDir(), "run")
	options := func(int) train.Options {
		return train.Options{RunDir: runDir, Version: "test", Config: demotest.Config(t, demotest.Files(t), set...)}
	}
	before := bytesRead(t)
	var err error
	if ranks == 1 {
		_, err = train.Run(context.Background(), options(0))
	} else {
		err = traintest.TrainOnRanks(ranks, options)
	}
	if err != nil {
		t.Fatal(err)
	}
	bytes = bytesRead(t) - before
	events, err := rundir.ReadEvents(runDir)
	if err != nil {
		t.Fatal(err)
	}
	counts = map[string]map[string]float64{"all": {}}
	for _, e := range events {
		phase := e.Kind
		if e.Kind == "reads" {
			phase = fmt.Sprint(e.Values["phase"])
		} else if e.Kind != "epoch" {
			continue
		}
		if counts[phase] == nil {
			counts[phase] = map[string]float64{}
		}
		for key := range e.Values {
			if n, ok := e.Number(key); ok && (strings.HasSuffix(key, "_reads") || strings.HasSuffix(key, "_bytes")) {
				counts[phase][key] += n
				counts["all"][key] += n
			}
		}
	}
	return bytes, counts
}

// In all phases of a training from a store, ranks together read each sample once with room for all, and otherwise
// as few as one rank with the room of all. What the events count is what system calls read.
func TestStoreIsReadOnceByAllRanks(t *testing.T) {
	checkStoreReads(t, []int{1, 2}, []int64{20, 10})
}

// checkStoreReads trains on numbers of ranks, with room for numbers of samples on all together.
func checkStoreReads(t *testing.T, ranks []int, rooms []int64) {
	t.Helper()
	dir := samplestest.PrepareStore(t, demotest.Config(t, demotest.Files(t)), "f32")
	sample := runtest.InitBytes(t, dir)
	set := append(runtest.ShortTraining, "train.networks=1", "train.batch_size=4", "data.store="+dir)
	trainCounted(t, 2, append(set, "train.mesh=data:2")) // reads this program for its checksum
	for _, room := range rooms {
		var alone float64
		for _, ranks := range ranks {
			bytes, counts := trainCounted(t, ranks, append(set, fmt.Sprintf("data.memory=%dB", room/int64(ranks)*sample), fmt.Sprintf("train.mesh=data:%d", ranks)))
			files, counted := counts["all"]["file_system_reads"], counts["all"]["file_system_bytes"]+counts["all"]["peers_bytes"]
			t.Logf("%d ranks, room for %d of 20 samples: %v reads of files, %.0f bytes counted, %.0f by system calls", ranks, room, files, counted, bytes)
			if bytes < counted || bytes > 1.05*counted+2e6 { // weights and other outputs are read for their checksums
				t.Errorf("%d ranks, room for %d: %.0f bytes by system calls, %.0f counted", ranks, room, bytes, counted)
			}
			if ranks == 1 {
				alone = files
			}
			if room == 20 && (files != 20 || counts["prepare"]["file_system_reads"] != 20) || files > 1.05*alone+1 {
				t.Errorf("%d ranks, room for %d: %v reads of files, alone %v; by phase %v", ranks, room, files, alone, counts)
			}
			if ranks > 1 && counts["all"]["peers_reads"] == 0 {
				t.Errorf("%d ranks, room for %d: no sample from another rank", ranks, room)
			}
		}
	}
}

// Ranks that train from files read as many bytes together as one rank: values and metadata.
func TestFilesAreReadOnceByAllRanks(t *testing.T) { checkFileReads(t, "data:2 lat:2") }

// checkFileReads trains on meshes.
func checkFileReads(t *testing.T, meshes ...string) {
	t.Helper()
	set := append(runtest.ShortTraining, "train.networks=1")
	trainCounted(t, 2, append(set, "train.mesh=data:2")) // reads this program for its checksum
	alone, one := trainCounted(t, 1, set)
	for _, mesh := range meshes {
		m, err := spatial.ParseMesh(mesh)
		if err != nil {
			t.Fatal(err)
		}
		bytes, counts := trainCounted(t, m.Size(), append(set, "train.mesh="+mesh))
		t.Logf("%s: %.0f bytes, alone %.0f", mesh, bytes, alone)
		if bytes > 1.05*alone {
			t.Errorf("%s: %.0f bytes by system calls, alone %.0f", mesh, bytes, alone)
		}
		for _, key := range []string{"file_system_reads", "file_system_bytes"} {
			if got, want := counts["all"][key], one["all"][key]; got != want || want == 0 {
				t.Errorf("%s: %s %v, alone %v", mesh, key, got, want)
			}
		}
	}
}
