package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// CheckWritable reports whether files can be made in a folder, or in the nearest one above it that exists, so that a command
// finds out before it computes. It opens a file without a name, which leaves nothing behind, also if the process is killed. Where
// a file system has no such files, only permissions are checked.
//
// Errors: those of opening and closing, which exit.CreateError gives a code.
func CheckWritable(dir string) error {
	at := filepath.Clean(dir)
	for {
		_, err := filesystem.Stat(at)
		if up := filepath.Dir(at); errors.Is(err, fs.ErrNotExist) && up != at {
			at = up
			continue
		}
		break
	}
	f, err := filesystem.OpenFile(at, os.O_WRONLY|unnamed, 0o600)
	if err == nil {
		return f.Close()
	}
	for _, no := range []error{unix.EOPNOTSUPP, unix.EISDIR, unix.EINVAL} { // systems that check permissions first, and have no such files
		if errors.Is(err, no) {
			return nil
		}
	}
	return err
}
