package setup

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
)

// Timings is where measured times of kernels are kept between runs. They decide how kernels divide their work
// among threads, which affects speed and no bits. The zero value keeps none: nothing is measured, and a
// default division is used.
type Timings struct {
	Dir string       // folder of the tables
	Log *slog.Logger // problems with a table, which are not errors, and messages of the compiler; nil is silent
}

// UserTimings keeps the times in the folder "ensemble" of the user's cache directory; without one, nowhere.
func UserTimings(log *slog.Logger) Timings {
	t := Timings{Log: log}
	cache, err := os.UserCacheDir()
	if err == nil {
		t.Dir = filepath.Join(cache, "ensemble")
	} else if log != nil {
		log.Debug("times of kernels are not kept", "error", err)
	}
	return t
}

// Open reads the table for a number of threads, 0 for all; nil without a folder.
func (t Timings) Open(threads int) *tune.Table {
	if t.Dir == "" {
		return nil
	}
	return tune.Open(t.Dir, cpu.Machine(network.Threads(threads)), t.Log)
}

// Save writes the table. A failure is only logged.
func (t Timings) Save(table *tune.Table) {
	if err := table.Save(); err != nil && t.Log != nil {
		t.Log.Warn("times of kernels are not kept", "error", err)
	}
}
