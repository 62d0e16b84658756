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
	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// State says what Open found.
type State int

// The states of a run directory that can be worked in.
const (
	Fresh    State = iota // empty until now
	Resuming              // begun, not finished, and Resume was asked for
	Complete              // finished, from the same inputs, config and version: nothing to do
)

// Options say how to treat what is there already. The zero value begins a run in an
// empty directory and refuses every other.
type Options struct {
	// Identity is the hash of all that decides the result: inputs, configuration,
	// version. A finished run with the same identity is Complete.
	Identity  string
	Resume    bool // go on with a run that was begun here
	Overwrite bool // remove a run that is here and begin again
}

// Dir is an open run directory. Close gives the lease back.
type Dir struct {
	Path    string
	events  *Events
	lease   *lease.Lease
	created bool // by Open
}

// files are what a run may hold; nothing else is ever removed.
var files = []string{manifest.Name, manifest.SumsName, "config.effective.yaml", "config.source", "environment.json", "events.jsonl",
	"tensorboard", "checkpoints", "model", "logs", "report", "scores.json", "scores.parquet", "dates.parquet"}

// markerFiles show that a directory is a run's.
var markerFiles = []string{manifest.Name, "config.effective.yaml", "environment.json", "events.jsonl"}

// Open makes or enters a run directory. When the state is Complete the returned Dir
// is nil and nothing is locked.
//
// Errors: 73 if another process writes here, if the directory holds something else,
// or a run and neither Resume nor Overwrite was asked for; 73 or 74 if it cannot be
// made.
func Open(path string, o Options) (*Dir, State, error) {
	_, missing := os.Stat(path)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, Fresh, exit.CreateError(path, err)
	}
	l, err := TakeLease(path)
	if err != nil {
		return nil, Fresh, err
	}
	d := &Dir{Path: path, lease: l, created: missing != nil}
	state, err := d.enter(o)
	if err != nil || state == Complete {
		return nil, state, errors.Join(err, d.Close())
	}
	if err := d.removeTemporary(); err != nil {
		return nil, state, errors.Join(err, d.Close())
	}
	d.events = newEvents(path)
	return d, state, nil
}

// removeTemporary removes what a process left that was killed while it wrote a file of the run. It is
// dead: this one has its lease.
func (d *Dir) removeTemporary() error {
	return exit.CreateError(d.Path, filepath.WalkDir(d.Path, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !atomicfile.IsTemporary(e.Name()) {
			return err
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	}))
}

// View is a run directory in which another process works: files have their paths, and
// events are dropped.
func View(path string) *Dir { return &Dir{Path: path} }

// enter decides what the content of the directory means, and clears it if asked.
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
		return Fresh, refuse("it holds "+names[0]+" and no run", "choose another --run-dir")
	}
	if o.Overwrite {
		return Fresh, d.clear()
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
		return Fresh, refuse("the finished run in it was made from other inputs, configuration or version",
			"choose another --run-dir, or give --overwrite always")
	}
	if !o.Resume {
		return Fresh, refuse("a run was begun in it and is not finished", "go on with --resume auto, or begin again with --overwrite always")
	}
	return Resuming, nil
}

// content lists what is in the directory but the lease.
func (d *Dir) content() ([]string, error) {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return nil, exit.CreateError(d.Path, err)
	}
	var names []string
	for _, e := range entries {
		if n := e.Name(); !IsLeaseFile(n) {
			names = append(names, n)
		}
	}
	return names, nil
}

// clear removes the files of a run, the manifest first, so that a clear that is
// interrupted leaves no finished run.
func (d *Dir) clear() error {
	for _, name := range files {
		if err := os.RemoveAll(filepath.Join(d.Path, name)); err != nil {
			return exit.CreateError(d.Path, err)
		}
	}
	return nil
}

// File is the path of a file in the run directory.
func (d *Dir) File(parts ...string) string {
	return filepath.Join(append([]string{d.Path}, parts...)...)
}

// Events is the run's log of events; nil, which drops them, in a View.
func (d *Dir) Events() *Events { return d.events }

// CheckLease says whether another process took the run directory over, as one may if
// this one was stopped for long. Poll it where a stop is polled.
func (d *Dir) CheckLease() error { return d.lease.CheckHeld() }

// Close closes the event files and gives the lease back. A directory that Open made
// and nothing was written to is removed. It may be called twice.
func (d *Dir) Close() error {
	var err error
	if d.events != nil {
		err = d.events.close()
		d.events = nil
	}
	if d.lease == nil {
		return err
	}
	err = errors.Join(err, d.lease.Release())
	if names, e := d.content(); e == nil && len(names) == 0 && d.created {
		os.Remove(d.Path) // somebody else may be using it already; then it stays
	}
	return err
}

// Source is a configuration file as it was read.
type Source struct {
	Path string
	Text []byte
}

// WriteConfig keeps the effective configuration and copies of its sources.
func (d *Dir) WriteConfig(effective []byte, sources []Source) error {
	if err := d.write("config.effective.yaml", effective); err != nil {
		return err
	}
	if len(sources) == 0 {
		return nil
	}
	if err := os.MkdirAll(d.File("config.source"), 0o755); err != nil {
		return exit.CreateError(d.File("config.source"), err)
	}
	for i, s := range sources {
		name := fmt.Sprintf("%02d-%s", i, filepath.Base(s.Path)) // two may have one name
		if err := d.write(filepath.Join("config.source", name), s.Text); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dir) write(name string, text []byte) error {
	return exit.CreateError(d.File(name), atomicfile.WriteFile(d.File(name), text))
}

// Environment is what environment.json says of the machine and the build.
type Environment struct {
	Version     string            `json:"version"`
	Go          string            `json:"go"`
	System      string            `json:"system"`
	Host        string            `json:"host"`
	CPUs        int               `json:"cpus"`
	Threads     int               `json:"threads"`
	Seed        int64             `json:"seed"`
	Determinism string            `json:"determinism"`         // "D0" to "D4"
	Device      *Device           `json:"device,omitempty"`    // nil: the processor
	Libraries   map[string]string `json:"libraries,omitempty"` // of the device, versions by name
	Variables   map[string]string `json:"variables,omitempty"`
	Start       time.Time         `json:"start"`
}

// Device is the GPU that a run computes on.
type Device struct {
	Name   string `json:"name"`
	ID     string `json:"id,omitempty"`     // by which the driver's tools know it
	Driver string `json:"driver,omitempty"` // version; "" if it cannot be asked
	CUDA   string `json:"cuda,omitempty"`   // the newest that the driver serves
}

// recordedVariables are the environment variables that change results or speed. No other is
// written down: the rest of an environment holds secrets.
var recordedVariables = []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "ONEDNN_MAX_CPU_ISA",
	"DNNL_MAX_CPU_ISA", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SOURCE_DATE_EPOCH"}

// WriteEnvironment fills in what the program can see by itself and keeps it. It may be repeated
// as more is known; Start is now where it is zero.
func (d *Dir) WriteEnvironment(e Environment) error {
	e.Go, e.System, e.CPUs = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU()
	if e.Start.IsZero() {
		e.Start = time.Now().UTC()
	}
	e.Host, _ = os.Hostname() // an unnamed host is no reason to stop
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
