package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// State is the state of a run directory that Open found.
type State int

// States of a run directory that can be used.
const (
	Fresh    State = iota // was empty
	Resuming              // started, not finished, and Options.Resume is set
	// finished with the same inputs, configuration and version: nothing to do
	Complete
)

// Options select how to treat existing content. The zero value starts a run in an
// empty directory and refuses any other.
type Options struct {
	// Identity is the hash of everything that determines the result: inputs,
	// configuration, version. A finished run with the same identity is Complete.
	Identity  string
	Resume    bool // continue an unfinished run
	Overwrite bool // replace an existing run; it comes back if the new one ends without a checkpoint
	// Continue is the fix with which another run goes on from a finished one, for the error about it; "" if none can.
	Continue string
}

// Dir is an open run directory. Close releases the lease.
type Dir struct {
	Path     string
	events   *Events
	lease    *lease.Lease
	created  bool // Open created the directory
	replaces bool // Open has set another run aside
}

// files lists the possible entries of a run directory; nothing else is ever
// removed.
var files = []string{manifest.Name, manifest.SumsName, "config.effective.yaml", "config.source", "environment.json", EventsFile,
	"tensorboard", "checkpoints", "model", "logs", "report", "scores.json", "scores.parquet", "dates.parquet"}

// markerFiles lists files that identify a run directory.
var markerFiles = []string{manifest.Name, "config.effective.yaml", "environment.json", EventsFile}

// Open creates or opens a run directory. If the state is Complete, the returned Dir
// is nil and no lease is held.
//
// Errors: exit 73 if another process writes to it, if it contains something else,
// or if it contains a run and the options do not allow to use it; 73 or 74 if it
// cannot be created.
func Open(path string, o Options) (*Dir, State, error) {
	_, missing := filesystem.Stat(path)
	if err := atomicfile.MkdirAll(path, 0o755); err != nil {
		return nil, Fresh, exit.CreateError(path, err)
	}
	l, err := TakeLease(path)
	if err != nil {
		return nil, Fresh, err
	}
	d := &Dir{Path: path, lease: l, created: missing != nil}
	// What a killed process left must not count as content. That process is dead, as this one holds the lease.
	err = d.Publish(func() error {
		if err := atomicfile.RemoveTemporary(path, files...); err != nil {
			return exit.CreateError(path, err)
		}
		return exit.CreateError(path, d.settle())
	})
	if err != nil {
		return nil, Fresh, errors.Join(err, d.Close())
	}
	state, err := d.enter(o)
	if err != nil || state == Complete {
		return nil, state, errors.Join(err, d.Close())
	}
	if err := d.Publish(d.removeTemporary); err != nil {
		return nil, state, errors.Join(err, d.Close())
	}
	d.events = newEvents(d)
	return d, state, nil
}

// removeTemporary removes temporary files of a killed process. The process is dead,
// as this one holds the lease.
func (d *Dir) removeTemporary() error {
	return exit.CreateError(d.Path, filepath.WalkDir(d.Path, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !atomicfile.IsTemporary(e.Name()) {
			return err
		}
		if err := filesystem.RemoveAll(path); err != nil {
			return err
		}
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	}))
}

// View returns a run directory that another process writes to: paths are available,
// and events are dropped.
func View(path string) *Dir { return &Dir{Path: path} }

// enter determines the state of the directory, and sets its run aside if requested. A directory
// without a file that identifies a run is refused with all options, so that --overwrite
// cannot delete other data.
//
// Cost: the checksums of all outputs for a finished run.
func (d *Dir) enter(o Options) (State, error) {
	names, err := d.content()
	if err != nil {
		return Fresh, err
	}
	if len(names) == 0 {
		return Fresh, nil
	}
	refuse := func(why, fix string) error {
		return &exit.Error{Code: exit.CannotWrite, What: "the run directory is not empty", At: d.Path, Why: why, Fix: fix}
	}
	if !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(markerFiles, n) }) {
		return Fresh, refuse("it contains "+names[0]+" but no run", "choose another --run-dir")
	}
	if o.Overwrite {
		return Fresh, d.Publish(func() error { return exit.CreateError(d.Path, d.setAside()) })
	}
	m, err := ReadManifest(d.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return Fresh, err
	case m.Identity == o.Identity:
		if err := m.Verify(d.Path); err != nil {
			return Fresh, err
		}
		return Complete, nil
	default:
		return Fresh, refuse("it contains a finished run with other inputs, configuration or version",
			"choose another --run-dir, or use --overwrite always"+o.Continue)
	}
	if !o.Resume {
		return Fresh, refuse("it contains an unfinished run", "continue with --resume auto, or start again with --overwrite always")
	}
	return Resuming, nil
}

// content lists the entries of the directory without the lease and a run that was set aside.
func (d *Dir) content() ([]string, error) {
	entries, err := filesystem.ReadDir(d.Path)
	if err != nil {
		return nil, exit.CreateError(d.Path, err)
	}
	var names []string
	for _, e := range entries {
		if n := e.Name(); !IsLeaseFile(n) && n != replacedDir {
			names = append(names, n)
		}
	}
	return names, nil
}

// clear removes the files of a run: the manifest first, so that an interrupted clear does
// not leave a run that looks finished, and the files that identify a run last, so that it
// does not leave a directory that is none. Each group is gone from the disk before the
// next, also after a power failure.
func (d *Dir) clear() error {
	isMarker := func(name string) bool { return slices.Contains(markerFiles, name) }
	for _, group := range [][]string{{manifest.Name}, slices.DeleteFunc(slices.Clone(files), isMarker), markerFiles} {
		if err := d.remove(group); err != nil {
			return err
		}
	}
	return filesystem.SyncDir(d.Path)
}

// remove removes files and folders. It gives them names of temporary ones first, so that
// no folder remains in part.
func (d *Dir) remove(names []string) error {
	gone, err := atomicfile.TempDir(d.Path, ".checkpoints.partial-")
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := filesystem.Rename(d.File(name), filepath.Join(gone, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := errors.Join(filesystem.SyncDir(gone), filesystem.SyncDir(d.Path)); err != nil {
		return err
	}
	return filesystem.RemoveAll(gone)
}

// File returns the path of a file in the run directory.
func (d *Dir) File(parts ...string) string {
	return filepath.Join(append([]string{d.Path}, parts...)...)
}

// Events returns the event log of the run; nil, which drops events, in a View.
func (d *Dir) Events() *Events { return d.events }

// Publish calls f, which replaces or removes files of the run, while no other process can take the directory over: a process
// that was suspended for long may have lost it. f should only rename and write little, and must not call Publish. In a View it
// is called at once.
//
// Errors: those of f; exit 73 wrapping lease.ErrHeld if another process has the directory. f was not called then.
func (d *Dir) Publish(f func() error) error { return d.lease.Guard(f) }

// Close closes the event files and releases the lease. If Open has set another run aside, that one
// is removed if the new one has a checkpoint or is finished, and comes back otherwise. Close removes a
// directory that Open created and that is empty. It may be called twice.
func (d *Dir) Close() error {
	var err error
	if d.events != nil {
		err = exit.CreateError(d.File(EventsFile), d.events.close())
		d.events = nil
	}
	if d.lease == nil {
		return err
	}
	if d.replaces {
		d.replaces = false
		if e := d.Publish(d.settle); !errors.Is(e, lease.ErrHeld) { // else the owner settles
			err = errors.Join(err, exit.CreateError(d.Path, e))
		}
	}
	err = errors.Join(err, d.lease.Release())
	if names, e := d.content(); e == nil && len(names) == 0 && d.created {
		filesystem.Remove(d.Path) // fails if another process uses it already
	}
	return err
}

// Source is a configuration file and its content.
type Source struct {
	Path string
	Text []byte
}

// WriteConfig writes the resolved configuration and copies of its source files.
//
// Errors: exit 73 or 74.
func (d *Dir) WriteConfig(effective []byte, sources []Source) error {
	if err := d.write("config.effective.yaml", effective); err != nil {
		return err
	}
	if len(sources) == 0 {
		return nil
	}
	if err := atomicfile.MkdirAll(d.File("config.source"), 0o755); err != nil {
		return exit.CreateError(d.File("config.source"), err)
	}
	for i, s := range sources {
		name := fmt.Sprintf("%02d-%s", i, filepath.Base(s.Path)) // two files may have the same name
		if err := d.write(filepath.Join("config.source", name), s.Text); err != nil {
			return err
		}
	}
	return nil
}

// write publishes a file of the run directory.
func (d *Dir) write(name string, text []byte) error {
	return d.Publish(func() error { return exit.CreateError(d.File(name), atomicfile.WriteFile(d.File(name), text)) })
}

// Environment is the content of environment.json: the machine and the build.
type Environment struct {
	Version     string            `json:"version"`
	Go          string            `json:"go"`
	System      string            `json:"system"`
	Host        string            `json:"host"`
	CPUs        int               `json:"cpus"`
	Threads     int               `json:"threads"`
	Seed        int64             `json:"seed"`
	Determinism string            `json:"determinism"`         // level "D0" to "D4"
	Device      *Device           `json:"device,omitempty"`    // nil for the processor
	Libraries   map[string]string `json:"libraries,omitempty"` // versions of the device's libraries, by name
	Variables   map[string]string `json:"variables,omitempty"`
	Start       time.Time         `json:"start"` // start of the process
}

// Device is the GPU that a run uses.
type Device struct {
	Name   string `json:"name"`
	ID     string `json:"id,omitempty"`     // UUID, as the driver's tools show it
	Driver string `json:"driver,omitempty"` // version; "" if unknown
	CUDA   string `json:"cuda,omitempty"`   // newest version that the driver supports
}

// recordedVariables lists the environment variables that change results or speed.
// Others are not recorded, as they may contain secrets.
var recordedVariables = []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "ONEDNN_MAX_CPU_ISA",
	"DNNL_MAX_CPU_ISA", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SOURCE_DATE_EPOCH"}

// WriteEnvironment completes e with the values of this process and writes
// environment.json. It may be called again when more is known. A zero Start is set
// to now.
//
// Errors: exit 73 or 74.
func (d *Dir) WriteEnvironment(e Environment) error {
	e.Go, e.System, e.CPUs = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU()
	if e.Start.IsZero() {
		e.Start = time.Now().UTC()
	}
	e.Host, _ = os.Hostname() // the host name is informative
	e.Variables = map[string]string{}
	for _, name := range recordedVariables {
		if v, ok := os.LookupEnv(name); ok {
			e.Variables[name] = v
		}
	}
	text, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	return d.write("environment.json", append(text, '\n'))
}

// CheckWritable reports a folder in which a command will write, and cannot, before it reads its input.
//
// Errors: exit 73 and 74, as those of writing.
func CheckWritable(dir string) error {
	return exit.CreateError(dir, atomicfile.CheckWritable(dir))
}
