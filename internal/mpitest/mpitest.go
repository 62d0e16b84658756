// Package mpitest starts ranks of a test binary with MPI launchers, and over TCP.
package mpitest

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Launchers are those of Open MPI and MPICH, with the names of Debian if both are
// installed.
var Launchers = []string{"mpirun.openmpi", "mpirun.mpich"}

// TCP is a launcher for jobs over TCP, with the arguments of the others.
const TCP = "tcprun"

//go:embed tcprun.sh
var tcprun []byte

// Path returns the path of a launcher; without it the test is skipped.
func Path(t testing.TB, launcher string) string {
	t.Helper()
	if launcher == TCP {
		path := filepath.Join(t.TempDir(), TCP)
		if err := os.WriteFile(path, tcprun, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path, err := exec.LookPath(launcher)
	if err != nil {
		t.Skipf("skipped: %v; install the packages openmpi-bin and mpich", err)
	}
	return path
}

// Command returns the command that starts n ranks of this test binary, with the
// additional environment variables env. It allows more ranks than cores, and root.
// The launcher gets a process group of its own, so that its signals reach only its
// ranks.
func Command(ctx context.Context, path string, n int, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, "-n", strconv.Itoa(n), os.Args[0])
	cmd.Env = append(append(os.Environ(), "GOMAXPROCS=2", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_mpi_yield_when_idle=1", "OMPI_MCA_hwloc_base_binding_policy=none"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}
