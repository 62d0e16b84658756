// Package sandbox takes rights from a process that parses untrusted bytes with libraries in C: afterwards it can read the
// folders that it needs, and neither write a file, nor start a program, nor reach the network or other processes, even if damaged
// input makes it execute foreign code.
//
// Linux only. Landlock (kernel 5.13) restricts files, seccomp (3.17) system calls; what the kernel lacks is left out, and State reports it.
// Sources: Documentation/userspace-api/landlock.rst and seccomp_filter.rst of the Linux kernel.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock"
	abi "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// State is what restricts the process.
type State struct {
	Landlock int  `json:"landlock"` // version of the kernel's interface; 0: files are not restricted
	Seccomp  bool `json:"seccomp"`
}

// String lists what restricts the process.
func (s State) String() string {
	var on []string
	if s.Landlock > 0 {
		on = append(on, fmt.Sprintf("Landlock %d", s.Landlock))
	}
	if s.Seccomp {
		on = append(on, "seccomp")
	}
	if on == nil {
		return "none"
	}
	return strings.Join(on, ", ")
}

// Enter closes inherited descriptors from first on and restricts the process, all its threads, and what they start: of all files only those
// below read, and those that the libraries of the process need, can be opened, and only for reading. Paths of read that do not exist are ignored. Descriptors that are open keep their rights.
//
// Call it once, before the first untrusted byte.
// Errors: a path of read that cannot be examined; a kernel that has an interface and refuses to use it.
func Enter(first int, read []string) (State, error) {
	if err := closeInherited(first); err != nil {
		return State{}, err
	}
	s := State{}
	if v, err := abi.LandlockGetABIVersion(); err == nil {
		s.Landlock = v
	}
	files, folders, err := existing(append(libraryPaths(), read...))
	if err != nil {
		return State{}, err
	}
	if err := landlock.V6.BestEffort().Restrict(landlock.RODirs(folders...), landlock.ROFiles(files...)); err != nil {
		return State{}, fmt.Errorf("restrict files: %w", err)
	}
	if s.Seccomp, err = filterCalls(); err != nil {
		return State{}, fmt.Errorf("restrict system calls: %w", err)
	}
	return s, nil
}

// existing divides paths into files and folders, without those that do not exist or cannot be reached.
func existing(paths []string) (files, folders []string, err error) {
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		st, err := os.Stat(p)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		case err != nil:
			return nil, nil, err
		case st.IsDir():
			folders = append(folders, p)
		default:
			files = append(files, p)
		}
	}
	return files, folders, nil
}

// libraryVariables are variables whose elements are folders that libraries read later: definitions and samples of ecCodes,
// filters of HDF5, and shared objects.
var libraryVariables = []string{"ECCODES_DEFINITION_PATH", "ECCODES_SAMPLES_PATH", "ECCODES_EXTRA_DEFINITION_PATH", "GRIB_DEFINITION_PATH", "GRIB_SAMPLES_PATH",
	"HDF5_PLUGIN_PATH", "LD_LIBRARY_PATH"}

// libraryPaths lists what libraries of the process open after its start: the folders of all shared objects and what lies beside them, such as
// ../share/eccodes, what the dynamic linker reads to load filters of HDF5, and the folders of libraryVariables.
func libraryPaths() []string {
	paths := []string{"/usr/lib", "/usr/local/lib", "/usr/local/hdf5/lib/plugin", "/usr/share/eccodes", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo",
		"/proc/self", "/dev/null", "/dev/urandom", "/sys/devices/system/cpu"}
	maps, _ := os.ReadFile("/proc/self/maps") // without it only the folders above
	for line := range strings.Lines(string(maps)) {
		if i := strings.IndexByte(line, '/'); i >= 0 {
			object := strings.TrimSpace(line[i:])
			if strings.Contains(filepath.Base(object), ".so") {
				folder := filepath.Dir(object)
				paths = append(paths, folder, filepath.Join(folder, "..", "share", "eccodes"), filepath.Join(folder, "..", "..", "share", "eccodes"))
			}
		}
	}
	for _, name := range libraryVariables {
		for _, p := range filepath.SplitList(os.Getenv(name)) {
			if p != "" {
				paths = append(paths, p)
			}
		}
	}
	return paths
}
