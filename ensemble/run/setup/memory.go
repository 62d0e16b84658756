package setup

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// PeakMiB is the largest resident memory of this process so far. It is read from
// VmHWM: what getrusage gives begins with the peak of the parent.
func PeakMiB() (float64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, exit.ReadError("/proc/self/status", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no VmHWM")
}

// MemoryLimit is how a person sets a bound of the memory: its key or flag, and what to do
// if it is too small, with the place of the least value that will do.
type MemoryLimit struct {
	key, fix string
	parts    int64 // that share it
}

// ForParts is the same bound of a process of several parts.
func (b MemoryLimit) ForParts(parts int) MemoryLimit {
	b.parts = int64(parts)
	return b
}

// minimum names it with the least value of one part that will do.
func (b MemoryLimit) minimum(bytes int64) (at, fix string) {
	return b.key, fmt.Sprintf(b.fix, config.Bytes(CeilMiB(b.parts*bytes)))
}

// The bounds of a training and those of a command.
var (
	TrainMemory    = MemoryLimit{"train.memory", "set train.memory: %s or more, lower train.batch_size, or choose a smaller network", 1}
	TrainWorkspace = MemoryLimit{"train.workspace", "set train.workspace: %s or more, or choose a smaller network", 1}
	FlagMemory     = MemoryLimit{"--memory", "give --memory %s or more, or none", 1}
	FlagWorkspace  = MemoryLimit{"--workspace", "give --workspace %s or more, or none", 1}
)

// NameMemoryLimit makes an error about too little memory name the bound that was set,
// and the least value that will do.
func NameMemoryLimit(err error, memory, workspace MemoryLimit) error {
	var arena *pass.MemoryLimitError
	var scratch *pass.WorkspaceError
	var e *exit.Error
	if !errors.As(err, &e) {
		return err
	}
	named := *e
	switch {
	case errors.As(err, &arena):
		named.At, named.Fix = memory.minimum(arena.Smallest)
	case errors.As(err, &scratch):
		named.At, named.Fix = workspace.minimum(scratch.Smallest)
	default:
		return err
	}
	return &named
}

// CeilMiB rounds up to a whole MiB.
func CeilMiB(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 << 20 }
