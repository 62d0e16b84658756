// Package mpitest starts ranks of a test binary with MPI launchers, and over TCP.
package mpitest

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Launchers are those of Open MPI and MPICH, with the names of Debian if both are
// installed.
var Launchers = []string{"mpirun.openmpi", "mpirun.mpich"}

// TCP is a launcher for jobs over TCP, with the arguments of the others.
const TCP = "tcprun"

//go:embed tcprun.sh
var tcprun []byte

// Main is the TestMain of a package whose test binary is also a rank: with the environment variable set, its value
// selects what asRank runs, and the process ends with the exit code of its error.
func Main(m *testing.M, variable string, asRank func(what string) error) {
	what := os.Getenv(variable)
	if what == "" {
		os.Exit(m.Run())
	}
	err := asRank(what)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(int(exit.CodeOf(err)))
}

// IsKilled reports whether the exit code of a launcher may be that of a rank that the launcher killed, while another one
// failed: MPICH returns the number of the signal.
func IsKilled(launcher string, code int) bool {
	return strings.HasSuffix(launcher, "mpich") && slices.Contains([]syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGKILL}, syscall.Signal(code))
}

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
// ranks, and a folder for sockets: launchers of Open MPI that start and end at the same
// time fail on the folder that they share by default.
func Command(ctx context.Context, t testing.TB, path string, n int, env ...string) *exec.Cmd {
	t.Helper()
	sockets, err := os.MkdirTemp("", "mpi") // with a short path, as those of sockets are bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	cmd := exec.CommandContext(ctx, path, "-n", strconv.Itoa(n), os.Args[0])
	cmd.Env = append(append(os.Environ(), "GOMAXPROCS=2", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_mpi_yield_when_idle=1", "OMPI_MCA_hwloc_base_binding_policy=none", "OMPI_MCA_orte_tmpdir_base="+sockets), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}
