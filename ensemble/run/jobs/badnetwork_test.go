package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultnet"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// trainTime is the time after which ranks are killed that have not ended.
const trainTime = 3 * time.Minute

// trainThrough trains on two processes, of which rank 1 reaches rank 0 through a network, and returns their exit codes and output.
func trainThrough(t *testing.T, r rankTraining, network faultnet.Network) (codes [2]exit.Code, out string) {
	t.Helper()
	r.PIDs = t.TempDir()
	text, err := json.Marshal(job{Train: &r})
	runtest.Must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	runtest.Must(t, err)
	at := l.Addr().String()
	runtest.Must(t, l.Close())
	proxy, err := faultnet.New(at, 41, network)
	runtest.Must(t, err)
	defer proxy.Close()
	ctx, cancel := context.WithTimeout(context.Background(), trainTime)
	defer cancel()
	var all sync.WaitGroup
	var outs [2]bytes.Buffer
	for rank, coordinator := range []string{at, proxy.Address().String()} {
		all.Go(func() {
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), jobVariable+"="+string(text), "GOMAXPROCS=1", "ENSEMBLE_RANKS=2", fmt.Sprintf("ENSEMBLE_RANK=%d", rank), "ENSEMBLE_COORDINATOR="+coordinator)
			cmd.Stdout, cmd.Stderr = &outs[rank], &outs[rank]
			_ = cmd.Run() // its exit code is compared
			codes[rank] = exit.Code(cmd.ProcessState.ExitCode())
		})
	}
	all.Wait()
	return codes, fmt.Sprintf("exit codes %d\n%s%s", codes, &outs[0], &outs[1])
}

// badNetwork is what happens to the connection between two ranks, in one direction or the other. Of the 12.4 MB that the training sends to rank
// 0 and the 10.2 MB from there, the first 5.0 and 2.8 MB are samples; each of the 24 steps sends 0.3 MB. Every fourth step ends with a
// checkpoint, the eighth at 7.5 and 5.3 MB.
type badNetwork struct {
	faultnet.Faults
	toServer   bool
	checkpoint uint64 // step of the last one when the network breaks; 0 for none
}

// of returns the network.
func (b badNetwork) of(int) (toServer, toClient faultnet.Faults) {
	if b.toServer {
		return b.Faults, toClient
	}
	return toServer, b.Faults
}

// checkBadNetworks trains on two ranks through each network. A network that is late changes no bits. One that breaks ends both ranks with
// 71, within the stall timeout if it is silent and else at once, and the training continues from there on a sound one, with the bits of an
// undisturbed training.
func checkBadNetworks(t *testing.T, networks []badNetwork) {
	whole := filepath.Join(t.TempDir(), "whole")
	r := failing(t, whole)
	runtest.Must(t, traintest.TrainOnRanks(2, func(int) train.Options {
		c, err := config.LoadTrain(config.Sources{Files: []string{r.Config}, Set: r.Set})
		runtest.Must(t, err)
		return train.Options{Config: c, RunDir: whole, Version: "test"}
	}))
	want := runtest.Digest(t, whole)
	for _, b := range networks {
		t.Run(fmt.Sprintf("fault %d after %d bytes, to rank 0 %t", b.Then, b.From, b.toServer), func(t *testing.T) {
			t.Parallel() // mostly waiting
			stall := "train.stall_timeout=4s"
			if b.Then == faultnet.Cut || b.Then == faultnet.Flip { // noticed at once
				stall = "train.stall_timeout=10m"
			}
			r := failing(t, filepath.Join(t.TempDir(), "run"), stall)
			codes, out := trainThrough(t, r, b.of)
			if b.Then != faultnet.None {
				if codes != [2]exit.Code{exit.RankLost, exit.RankLost} {
					t.Fatalf("want 71 of both ranks, -1 is one that had not ended after %v: %s", trainTime, out)
				}
				if damaged := strings.Contains(out, "damaged on its way"); damaged != (b.Then == faultnet.Flip) {
					t.Errorf("damage is reported: %t: %s", damaged, out)
				}
				if _, err := rundir.ReadManifest(r.RunDir); err == nil {
					t.Error("a manifest of a training that did not end")
				}
				if step := lastCheckpoint(r.RunDir); step != b.checkpoint {
					t.Errorf("the last checkpoint is that of step %d, want %d", step, b.checkpoint)
				}
				r.Set = append(r.Set, "train.stall_timeout=10m")
				codes, out = trainThrough(t, r, func(int) (toServer, toClient faultnet.Faults) { return })
			}
			if codes != [2]exit.Code{} {
				t.Fatal(out)
			}
			if runtest.Digest(t, r.RunDir) != want {
				t.Error("other bits than those of an undisturbed training")
			}
			_, err := rundir.ReadManifest(r.RunDir)
			runtest.Must(t, err)
		})
	}
}

// lastCheckpoint returns the step of the last checkpoint of a run; 0 if it has none.
func lastCheckpoint(dir string) (step uint64) {
	events, err := rundir.ReadEvents(dir)
	if err != nil {
		return 0 // the training has not begun
	}
	for _, e := range events {
		if e.Kind == "checkpoint" {
			step = e.Step
		}
	}
	return step
}

// TestTrainingOnBadNetwork: a training whose ranks are connected by a network that is late, is cut, or is silent in one direction, while samples
// are sent and between steps.
func TestTrainingOnBadNetwork(t *testing.T) {
	checkBadNetworks(t, []badNetwork{
		{faultnet.Faults{Delay: 2 * time.Millisecond}, true, 0},
		{faultnet.Faults{From: 3_000, Then: faultnet.Cut}, true, 0},
		{faultnet.Faults{From: 6_300_000, Then: faultnet.Cut}, false, 8},
		{faultnet.Faults{From: 8_200_000, Then: faultnet.Drop}, true, 8},
	})
}

// TestFault37Damaged: a training in which one bit of a message between the ranks is flipped.
func TestFault37Damaged(t *testing.T) {
	checkBadNetworks(t, []badNetwork{
		{faultnet.Faults{From: 4_000_000, Then: faultnet.Flip}, true, 0},
		{faultnet.Faults{From: 6_000_000, Then: faultnet.Flip}, false, 8},
	})
}
