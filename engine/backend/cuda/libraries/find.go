package libraries

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// PathVariable names directories to search first, separated by colons: of the libraries
// themselves, of a CUDA toolkit, of a virtual environment or of its site-packages.
const PathVariable = "ENSEMBLE_CUDA_PATH"

// Find opens a library. It searches, in this order,
//
//   - the directories in $ENSEMBLE_CUDA_PATH, because the user chose them,
//   - where the dynamic loader searches,
//   - the CUDA toolkit in $CUDA_HOME, or /usr/local/cuda,
//   - the Python packages of $VIRTUAL_ENV, $CONDA_PREFIX, the user, the python3 on the
//     path, and the system.
//
// Of several files in a place the newest is used. Libraries that this one opens by name
// are opened first, so that they are found wherever they are. A second call returns the
// same library.
//
// Errors: *exit.Error (exit.NoDevice) that wraps dl.ErrNotFound, with the places
// searched and the loader's messages for files that exist but cannot be opened.
func Find(l Library) (*dl.Library, error) {
	for _, u := range l.dependencies {
		_, _ = Find(u) // if it is required, opening the library reports it
	}
	var refused []string
	try := func(folders []string) *dl.Library {
		for _, dir := range folders {
			for _, name := range l.files() {
				file := filepath.Join(dir, name)
				if _, err := os.Stat(file); err != nil {
					continue
				}
				lib, err := dl.Open(file)
				if err == nil {
					return lib
				}
				refused = append(refused, loaderSays(err)...)
			}
		}
		return nil
	}
	named, rest := l.folders(placesFromEnvironment())
	lib := try(named)
	if lib == nil {
		// One name at a time: the loader's message matters for a file that exists, not for
		// one that does not.
		for _, name := range l.files() {
			var err error
			if lib, err = dl.Open(name); err == nil {
				break
			}
			lib = nil
			for _, r := range loaderSays(err) {
				if !strings.Contains(r, "cannot open shared object file") || !strings.HasPrefix(r, name) {
					refused = append(refused, r)
				}
			}
		}
	}
	if lib == nil {
		lib = try(rest)
	}
	if lib == nil {
		return nil, l.missing(append(named, rest...), refused)
	}
	return lib, l.openCompanions(lib)
}

// loaderSays returns the messages of the dynamic loader.
func loaderSays(err error) []string {
	var missing *dl.NotFoundError
	if errors.As(err, &missing) {
		return missing.Reasons
	}
	return []string{err.Error()}
}

// openCompanions opens the files that must be in the directory of a library, of its own
// major version if their names have one.
//
// The library opens them by name when it is first used, too late for an error with a
// fix.
//
// Errors: exit 69 for a file that is missing or cannot be opened.
func (l Library) openCompanions(lib *dl.Library) error {
	if l.companions == "" {
		return nil
	}
	pattern := l.companions
	if stem, ok := strings.CutSuffix(pattern, "*"); ok {
		_, version, _ := strings.Cut(filepath.Base(lib.Path()), ".so.")
		major, _, _ := strings.Cut(version, ".")
		pattern = stem + major + "*"
	}
	var tried []string
	for _, dir := range []string{filepath.Dir(lib.Path()), realDir(lib.Path())} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err // an invalid pattern is a bug
		}
		for _, f := range files {
			if _, err := dl.Open(f); err != nil {
				return &exit.Error{Code: exit.NoDevice, What: "cannot use " + l.Name, At: f, Why: strings.Join(loaderSays(err), "; "), Fix: l.fix(), Err: err}
			}
		}
		if len(files) > 0 {
			return nil
		}
		tried = append(tried, dir)
	}
	return &exit.Error{Code: exit.NoDevice, What: "cannot use " + l.Name, At: lib.Path(),
		Why: fmt.Sprintf("no %s in its directory %s", pattern, strings.Join(slices.Compact(tried), " or ")),
		Fix: l.fix(), Err: dl.ErrNotFound}
}

// realDir returns the directory of a file after resolving links. The result of a path
// that does not exist is its directory.
func realDir(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return filepath.Dir(path)
}

// fix returns how to install the library.
func (l Library) fix() string {
	if l.install == "" {
		return "install the NVIDIA driver of this machine's GPU"
	}
	return fmt.Sprintf("pip install %s, or set %s to the directory of the library or of the environment that contains it", l.install, PathVariable)
}

// missing returns the error of Find. Messages of the loader about files that exist have
// precedence, since those name the cause.
func (l Library) missing(folders, refused []string) error {
	why := fmt.Sprintf("no %s where the loader looks", strings.Join(l.files(), " or "))
	if len(folders) > 0 {
		why += " or in " + strings.Join(folders, ", ")
	}
	if len(l.files()) < len(l.Files) {
		why += fmt.Sprintf("; the driver supports CUDA %d and nothing newer", driverCUDA.Load())
	}
	if len(refused) > 0 {
		why = strings.Join(slices.Compact(refused), "; ")
	}
	return &exit.Error{Code: exit.NoDevice, What: "cannot open " + l.Name, At: l.Files[0], Why: why, Fix: l.fix(), Err: dl.ErrNotFound}
}

// places are directories that may contain libraries.
type places struct {
	named    []string // named by the user
	toolkits []string
	prefixes []string // of Python installations, with lib/python3.x/site-packages below
}

// placesFromEnvironment reads the environment and the path. Python is not run: its
// prefix is the directory above that of the program.
func placesFromEnvironment() places {
	var p places
	for _, dir := range filepath.SplitList(os.Getenv(PathVariable)) {
		if dir != "" {
			p.named = append(p.named, dir)
		}
	}
	home := os.Getenv("CUDA_HOME")
	if home == "" {
		home = "/usr/local/cuda"
	}
	p.toolkits = []string{home}
	for _, v := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if dir := os.Getenv(v); dir != "" {
			p.prefixes = append(p.prefixes, dir)
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		p.prefixes = append(p.prefixes, filepath.Join(home, ".local"))
	}
	if python, err := exec.LookPath("python3"); err == nil {
		p.prefixes = append(p.prefixes, filepath.Dir(filepath.Dir(python)), filepath.Dir(realDir(python)))
	}
	p.prefixes = append(p.prefixes, "/usr/local", "/usr")
	return p
}

// folders returns the existing directories that may contain the library: those that the
// user named, and the others.
func (l Library) folders(p places) (named, rest []string) {
	for _, dir := range p.named {
		named = append(named, dir, filepath.Join(dir, "lib64"), filepath.Join(dir, "lib"))
		named = append(named, l.wheels(dir)...)
		named = append(named, l.wheels(filepath.Join(dir, "nvidia"))...)
		named = append(named, l.pythonFolders(dir)...)
	}
	for _, dir := range p.toolkits {
		rest = append(rest, filepath.Join(dir, "lib64"), filepath.Join(dir, "lib"))
	}
	for _, dir := range p.prefixes {
		if dir == os.Getenv("CONDA_PREFIX") {
			rest = append(rest, filepath.Join(dir, "lib"))
		}
		rest = append(rest, l.pythonFolders(dir)...)
	}
	return present(named), present(rest)
}

// pythonFolders returns the package directories of the Python versions of a prefix, the
// newest first.
func (l Library) pythonFolders(prefix string) []string {
	versions := glob(filepath.Join(prefix, "lib", "python3*"))
	slices.SortStableFunc(versions, func(a, b string) int { return minor(b) - minor(a) })
	var dirs []string
	for _, v := range versions {
		for _, packages := range []string{"site-packages", "dist-packages"} {
			dirs = append(dirs, l.wheels(filepath.Join(v, packages, "nvidia"))...)
		}
	}
	return dirs
}

// minor returns y of a directory python3.y.
func minor(dir string) int {
	_, text, _ := strings.Cut(filepath.Base(dir), ".")
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// wheels returns the directories of Python packages: CUDA 13 has one for all libraries,
// older versions one for each. nvidia is the directory of that name in site-packages.
func (l Library) wheels(nvidia string) []string {
	if l.wheel == "" {
		return nil
	}
	dirs := glob(filepath.Join(nvidia, "cu[0-9]*", "lib"))
	slices.Reverse(dirs)
	return append(dirs, filepath.Join(nvidia, l.wheel, "lib"))
}

// glob returns the files of a pattern in lexical order.
func glob(pattern string) []string {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil // a folder of the user with a bracket in its name
	}
	return found
}

// present returns the existing directories without duplicates. The order stays, since Find
// takes the first library.
func present(dirs []string) []string {
	var kept []string
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && !slices.Contains(kept, dir) {
			kept = append(kept, dir)
		}
	}
	return kept
}
