package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/internal/cpuinfo"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// machine is where the measurements are made.
type machine struct {
	Version  string             `json:"version"`
	Revision string             `json:"revision,omitempty"` // of the sources
	Go       string             `json:"go"`
	Time     string             `json:"time"`
	Host     string             `json:"kernel,omitempty"` // of the system
	CPU      string             `json:"cpu"`
	Cores    int                `json:"cores"`
	GPUs     *cuda.Inventory    `json:"gpus"`
	NoGPUs   string             `json:"no_gpus,omitempty"`
	Device   *device.Properties `json:"device"` // that the engine opens
	NoDevice string             `json:"no_device,omitempty"`
	Found    []found            `json:"libraries"`
}

// found is a library or the reason why there is none.
type found struct {
	Name string `json:"name"`
	Path string `json:"path,omitempty"`
	Why  string `json:"why,omitempty"`
}

// info says what the machine is; without a device it says why, and fails.
func info(_ context.Context, c *config) (any, error) {
	cpu := cpuinfo.Read()
	m := &machine{Version: version.String(), Go: runtime.Version(), Time: time.Now().UTC().Format(time.RFC3339), CPU: cpu.Model, Cores: cpu.Cores}
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				m.Revision = s.Value
			}
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Host = string(text[:len(text)-1])
	}
	var err error
	if m.GPUs, err = cuda.Inspect(); err != nil {
		m.NoGPUs = err.Error()
	}
	for _, l := range append([]libraries.Library{libraries.Driver}, libraries.Optional()...) {
		f := found{Name: l.Name}
		if lib, err := libraries.Find(l); err != nil {
			f.Why = err.Error()
		} else {
			f.Path = lib.Path()
		}
		m.Found = append(m.Found, f)
	}
	dev, err := open(c)
	if err != nil {
		m.NoDevice = err.Error()
		return m, err
	}
	defer dev.Close()
	if d, ok := dev.(interface{ Device() device.Device }); ok {
		p := d.Device().Properties()
		m.Device = &p
	}
	return m, nil
}
