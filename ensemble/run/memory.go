package run

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// bound is how a person sets a bound of the memory: its key or flag, and what to do
// if it is too small, with the place of the least value that will do.
type bound struct {
	key, fix string
	parts    int64 // that share it
}

// of is the same bound of a process of several parts.
func (b bound) of(parts int) bound {
	b.parts = int64(parts)
	return b
}

// least names it with the least value of one part that will do.
func (b bound) least(bytes int64) (at, fix string) {
	return b.key, fmt.Sprintf(b.fix, config.Bytes(ceilMiB(b.parts*bytes)))
}

// The bounds of a training and those of a command.
var (
	trainMemory    = bound{"train.memory", "set train.memory: %s or more, lower train.batch_size, or choose a smaller network", 1}
	trainWorkspace = bound{"train.workspace", "set train.workspace: %s or more, or choose a smaller network", 1}
	flagMemory     = bound{"--memory", "give --memory %s or more, or none", 1}
	flagWorkspace  = bound{"--workspace", "give --workspace %s or more, or none", 1}
)

// namedMemory makes an error about too little memory name the bound that was set,
// and the least value that will do.
func namedMemory(err error, memory, workspace bound) error {
	var arena *pass.TooSmall
	var scratch *pass.WorkspaceError
	var e *exit.Error
	if !errors.As(err, &e) {
		return err
	}
	named := *e
	switch {
	case errors.As(err, &arena):
		named.At, named.Fix = memory.least(arena.Smallest)
	case errors.As(err, &scratch):
		named.At, named.Fix = workspace.least(scratch.Smallest)
	default:
		return err
	}
	return &named
}

// ceilMiB rounds up to a whole MiB.
func ceilMiB(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 << 20 }
