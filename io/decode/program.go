package decode

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// ProgramName is the name of the child program.
const ProgramName = "ensemble-decode"

// ProgramEnv is the environment variable with the path of the child program, if it
// is not in the folder of the executable.
const ProgramEnv = "ENSEMBLE_DECODE"

// FindProgram returns the path of the child program: $ENSEMBLE_DECODE, the file in
// the folder of the running executable, or the program in PATH, in this order.
//
// The folder of the executable precedes PATH, so that a program finds the child of its
// own version if several are installed. A link to the executable is followed, since
// installations link /usr/local/bin/ensemble to their folder.
//
// Errors: exit 69 if none exists.
func FindProgram() (string, error) {
	if p := os.Getenv(ProgramEnv); p != "" {
		if st, err := os.Stat(p); err != nil || st.IsDir() {
			return "", &exit.Error{Code: exit.NoDevice, What: "the decoding program does not exist", At: p,
				Why: "$" + ProgramEnv + " is set to this path", Fix: "correct or unset " + ProgramEnv, Err: err}
		}
		return p, nil
	}
	self, err := os.Executable()
	if err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			p := filepath.Join(filepath.Dir(self), ProgramName)
			if st, err := os.Stat(p); err == nil && !st.IsDir() {
				return p, nil
			}
		}
	}
	if p, err := exec.LookPath(ProgramName); err == nil {
		return p, nil
	} else if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
		return "", &exit.Error{Code: exit.NoDevice, What: "the decoding program cannot be started", At: p, Why: err.Error(),
			Fix: "set " + ProgramEnv + " to its path"}
	}
	return "", &exit.Error{Code: exit.NoDevice, What: "the decoding program " + ProgramName + " is not installed",
		At: filepath.Dir(self), Why: "it reads and writes GRIB and NetCDF",
		Fix: "install it in the same folder as ensemble (make build makes both), or set " + ProgramEnv}
}
