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

// ProgramBytes is the memory of a process beside samples, values of steps, and indexes: program and libraries.
const ProgramBytes = 67 << 20

// compiledBytes is the memory of a compiled step beside its values and parameters: kernels, stacks of threads, garbage of the compiler.
const compiledBytes = 13 << 20

// StepMemory is the expected peak memory of a process that only runs a step, whose values, workspace, parameters and state need some bytes.
func StepMemory(bytes int64) int64 { return ProgramBytes + compiledBytes + bytes }

// PeakMiB is the peak resident memory of this process in MiB. It is read from VmHWM, as getrusage includes
// the peak of the parent process.
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

// MemoryLimit is a user-settable memory limit: its key or flag, and the remedy if it is too small, with a verb for
// the least sufficient value.
type MemoryLimit struct {
	key, fix string
	ranks    int64 // ranks that share the limit
}

// ForRanks returns the limit for a process that hosts several ranks.
func (b MemoryLimit) ForRanks(ranks int) MemoryLimit {
	b.ranks = int64(ranks)
	return b
}

// minimum returns key and remedy with the least sufficient value of one rank.
func (b MemoryLimit) minimum(bytes int64) (at, fix string) {
	return b.key, fmt.Sprintf(b.fix, config.Bytes(CeilMiB(b.ranks*bytes)))
}

// Memory limits of a training and of commands.
var (
	TrainMemory    = MemoryLimit{"train.memory", "set train.memory: %s or more, lower train.batch_size, or choose a smaller network", 1}
	TrainWorkspace = MemoryLimit{"train.workspace", "set train.workspace: %s or more, or choose a smaller network", 1}
	FlagMemory     = MemoryLimit{"--memory", "give --memory %s or more, or remove it", 1}
	FlagWorkspace  = MemoryLimit{"--workspace", "give --workspace %s or more, or remove it", 1}
)

// NameMemoryLimit adds the user's key or flag, and the least sufficient value, to an error about memory.
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

// CeilMiB rounds bytes up to whole MiB.
func CeilMiB(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 << 20 }
