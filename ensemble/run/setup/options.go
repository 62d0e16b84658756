package setup

import (
	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
)

// SeedOf is the seed of one network of a training.
func SeedOf(c config.Training, network int) uint64 { return uint64(c.Seed) + 1000003*uint64(network) }

// Inference are the settings of predictions that the engine uses.
type Inference struct {
	Threads           int    // 0: all cores
	Device            string // "cpu", "cuda" or "auto"
	Timings           Timings
	Precision         string // one of config.Precisions
	Memory, Workspace int64  // bytes; 0: no limit
}

// Options returns the engine options.
func (i Inference) Options() engine.Options {
	e := network.Options(i.Threads, i.Device)
	e.Timings, e.Log, e.Precision = i.Timings.Open(i.Threads), i.Timings.Log, i.Precision
	e.Memory.Limit, e.Workspace = i.Memory, i.Workspace
	return e
}

// EngineOptions returns the engine options of all plans of a training.
func EngineOptions(c config.Training, table *tune.Table) engine.Options {
	o := network.Options(c.Threads, c.Device)
	o.Memory.Limit, o.Memory.OffloadFolder, o.Workspace, o.Timings = int64(c.Memory), string(c.OffloadFolder), int64(c.Workspace), table
	o.Without = c.WithoutPasses
	return o
}
