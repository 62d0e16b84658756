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
type bound struct{ key, fix string }

// The bounds of a training and those of a command.
var (
	trainMemory    = bound{"train.memory", "set train.memory: %s or more, lower train.batch_size, or choose a smaller network"}
	trainWorkspace = bound{"train.workspace", "set train.workspace: %s or more, or choose a smaller network"}
	flagMemory     = bound{"--memory", "give --memory %s or more, or none"}
	flagWorkspace  = bound{"--workspace", "give --workspace %s or more, or none"}
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
		named.At, named.Fix = memory.key, fmt.Sprintf(memory.fix, config.Bytes(ceilMiB(arena.Smallest)))
	case errors.As(err, &scratch):
		named.At, named.Fix = workspace.key, fmt.Sprintf(workspace.fix, config.Bytes(ceilMiB(scratch.Smallest)))
	default:
		return err
	}
	return &named
}

// ceilMiB rounds up to a whole MiB.
func ceilMiB(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 << 20 }
