//go:build long && cgo && linux

package train

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/emulated"
)

// Ranks with one GPU each, which exchange halos and gradients directly, train the network of ranks on
// processors up to rounding, and their events report the transport.
func TestLongTrainOnDevices(t *testing.T) {
	runtest.EmulatedGPU(t)
	before := spatial.DeviceTransports
	t.Cleanup(func() { spatial.DeviceTransports = before })
	spatial.DeviceTransports = append(slices.Clone(before), spatial.DeviceTransport{Name: "emulated", Open: func(_ *comm.Comm, dev backend.Backend) (spatial.Devices, string, error) {
		d, why := emulated.NewDevices(dev)
		if d == nil {
			return nil, why, nil
		}
		return d, "", nil
	}})
	data := demotest.Files(t)
	weights := map[string]model.Weights{}
	for device, event := range map[string]string{"cpu": "", "cuda": `"links":"emulated"`} {
		dir := filepath.Join(t.TempDir(), device)
		if _, err := Run(context.Background(), Options{RunDir: dir, Version: "test", Config: demotest.Config(t, data,
			"train.device="+device, "train.mesh=lat:2", "train.networks=1", "train.epochs=1", "train.clip=1")}); err != nil {
			t.Fatal(err)
		}
		m, err := model.Load(filepath.Join(dir, "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		weights[device] = m.Networks[0]
		events, err := os.ReadFile(filepath.Join(dir, "events.jsonl"))
		if err != nil || !strings.Contains(string(events), event) {
			t.Errorf("on %s: %v, events lack %s", device, err, event)
		}
	}
	for k, want := range weights["cpu"] {
		got := weights["cuda"][k].Data.([]float32)
		for i, v := range want.Data.([]float32) {
			if math.Abs(float64(got[i]-v)) > 1e-3 {
				t.Fatalf("%s[%d]: %v on GPUs, %v on processors", want.Name, i, got[i], v)
			}
		}
	}
}
