package train_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// The mesh is chosen for the configured machine; ranks whose memory holds no shard of the network are
// refused.
func TestMachineOfTraining(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machine.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nrank: {gflops: 10, gb_s: 10, memory: 64KiB}\nnetwork: {latency_us: 1, gb_s: 1}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := demotest.Config(t, demotest.Files(t), "train.machine="+file)
	if m := setup.MachineOf(c); m.FLOPs != 1e10 || m.Memory != 64<<10 || m.InterNode.Alpha != cluster.Microsecond {
		t.Errorf("the machine is %+v", m)
	}
	err := traintest.TrainOnRanks(2, func(int) train.Options {
		return train.Options{RunDir: filepath.Join(t.TempDir(), "run"), Version: "test", Config: c}
	})
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "fits into memory") {
		t.Errorf("ranks of 64 KiB: %v", err)
	}
}
