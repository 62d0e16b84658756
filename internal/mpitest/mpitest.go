// Package mpitest starts ranks of a test binary under the launchers of MPI.
package mpitest

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// Launchers are those of Open MPI and MPICH, as Debian names them where both are there.
var Launchers = []string{"mpirun.openmpi", "mpirun.mpich"}

// Path is where a launcher is; a test is skipped without it.
func Path(t *testing.T, launcher string) string {
	t.Helper()
	path, err := exec.LookPath(launcher)
	if err != nil {
		t.Skipf("skipped: %v; install the packages openmpi-bin and mpich", err)
	}
	return path
}

// Command is n ranks of this test binary, with the variables env added to those of the
// test. More ranks than cores may run, and root may start them. The launcher has a
// process group of its own: its signals reach its own ranks only.
func Command(ctx context.Context, path string, n int, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, "-n", strconv.Itoa(n), os.Args[0])
	cmd.Env = append(append(os.Environ(), "GOMAXPROCS=2", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_mpi_yield_when_idle=1", "OMPI_MCA_hwloc_base_binding_policy=none"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}
