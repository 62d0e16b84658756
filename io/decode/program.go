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

// ProgramEnv names the child program where it does not lie beside ours.
const ProgramEnv = "ENSEMBLE_DECODE"

// FindProgram gives the path of the child program: $ENSEMBLE_DECODE, else the
// file beside the running executable, else the one on PATH.
//
// Errors: exit 69 if there is none.
func FindProgram() (string, error) {
	if p := os.Getenv(ProgramEnv); p != "" {
		if st, err := os.Stat(p); err != nil || st.IsDir() {
			return "", &exit.Error{Code: exit.NoDevice, What: "the decoding program is not there", At: p,
				Why: "$" + ProgramEnv + " names it", Fix: "correct or unset " + ProgramEnv, Err: err}
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
		At: "beside " + self, Why: "GRIB and NetCDF are read and written by it",
		Fix: "put it beside ensemble (make build makes both), or set " + ProgramEnv}
}
