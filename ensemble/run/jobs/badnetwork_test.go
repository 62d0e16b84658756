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
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
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

// badNetwork is what happens to the connection between two ranks, in one direction or the other.
type badNetwork struct {
	faultnet.Faults
	toServer bool
}

// of returns the network.
func (b badNetwork) of(int) (toServer, toClient faultnet.Faults) {
	if b.toServer {
		return b.Faults, toClient
	}
	return toServer, b.Faults
}

// checkBadNetworks trains on two ranks through each network. A network that is late changes no bits. One that breaks ends both ranks with
// 71, and the training continues from there on a sound one, with the bits of an undisturbed training.
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
			r := failing(t, filepath.Join(t.TempDir(), "run"), "train.stall_timeout=4s")
			codes, out := trainThrough(t, r, b.of)
			if b.Then != faultnet.None {
				if codes != [2]exit.Code{exit.RankLost, exit.RankLost} {
					t.Errorf("want 71 of both ranks: %s", out)
				}
				if _, err := rundir.ReadManifest(r.RunDir); err == nil {
					t.Error("a manifest of a training that did not end")
				}
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

// TestTrainingOnBadNetwork: a training whose ranks are connected by a network that is late, is cut, or is silent in one direction.
func TestTrainingOnBadNetwork(t *testing.T) {
	checkBadNetworks(t, []badNetwork{
		{faultnet.Faults{Delay: 2 * time.Millisecond}, true},
		{faultnet.Faults{From: 3_000, Then: faultnet.Cut}, true},
		{faultnet.Faults{From: 300_000, Then: faultnet.Cut}, false},
		{faultnet.Faults{From: 100_000, Then: faultnet.Drop}, true},
	})
}
