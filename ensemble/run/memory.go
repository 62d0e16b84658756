package run

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// namedMemory makes an error about too little memory name the key that bounds it,
// and the least value that will do.
func namedMemory(err error) error {
	var arena *pass.TooSmall
	var scratch *pass.WorkspaceError
	var e *exit.Error
	if !errors.As(err, &e) {
		return err
	}
	named := *e
	switch {
	case errors.As(err, &arena):
		named.At = "train.memory"
		named.Fix = fmt.Sprintf("set train.memory: %s or more, lower train.batch_size, or choose a smaller network", config.Bytes(ceilMiB(arena.Smallest)))
	case errors.As(err, &scratch):
		named.At = "train.workspace"
		named.Fix = fmt.Sprintf("set train.workspace: %s or more, or choose a smaller network", config.Bytes(ceilMiB(scratch.Smallest)))
	default:
		return err
	}
	return &named
}

// ceilMiB rounds up to a whole MiB.
func ceilMiB(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 << 20 }
