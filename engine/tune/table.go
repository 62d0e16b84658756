package tune

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ensemble-weather/ensemble/internal/cpuinfo"
)

// Machine is what times depend on, other than the kernel.
type Machine struct {
	CPU       string   `json:"cpu"`                 // model, as the system names it
	Arch      string   `json:"arch"`                // GOARCH
	Features  []string `json:"features,omitempty"`  // instruction sets that kernels care about
	Threads   int      `json:"threads"`             // of the device
	Libraries []string `json:"libraries,omitempty"` // names with versions
	Kernels   string   `json:"kernels"`             // version of the program's own kernels
}

// ThisMachine describes this machine.
func ThisMachine(threads int, kernels string, libraries ...string) Machine {
	i := cpuinfo.Read()
	return Machine{CPU: strings.ToValidUTF8(i.Model, "?"), Arch: i.Arch, Features: i.Features, Threads: threads, Libraries: libraries, Kernels: kernels}
}

// digest tells machines apart in file names. The format takes part, so that
// programs of different formats do not overwrite each other's files.
func (m Machine) digest() string {
	text, err := json.Marshal(file{Format: format, Machine: m})
	if err != nil {
		panic(fmt.Sprintf("tune: a machine of texts cannot be written: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Entry is what was measured of one kernel.
type Entry struct {
	// Choice names the candidate that is used; empty if none was chosen, as for
	// the pieces that a workspace is divided into.
	Choice     string   `json:"choice,omitempty"`
	Candidates []Timing `json:"candidates"` // best first
	// Measured is the time of Record in seconds since 1970. It decides which
	// entries go when there are too many, and nothing else.
	Measured int64 `json:"measured"`
}

// Timing is what was measured of one candidate. Times are the least of all runs:
// what disturbs a run only ever adds to it.
type Timing struct {
	Name  string        `json:"name"`
	CPU   time.Duration `json:"cpu_ns"`  // processor time of all threads
	Wall  time.Duration `json:"wall_ns"` // time that passed
	Runs  int           `json:"runs"`
	Bytes int64         `json:"bytes,omitempty"` // workspace
}

// check tells what is wrong with an entry.
func (e Entry) check(key string) error {
	if key == "" || len(key) > maxKey || !utf8.ValidString(key) {
		return fmt.Errorf("a key of %d bytes, want 1 to %d of UTF-8", len(key), maxKey)
	}
	if len(e.Candidates) == 0 {
		return fmt.Errorf("%s: no candidates", key)
	}
	names := map[string]bool{"": true}
	for _, c := range e.Candidates {
		if names[c.Name] || !utf8.ValidString(c.Name) {
			return fmt.Errorf("%s: the name %q is empty, there twice or no UTF-8", key, c.Name)
		}
		names[c.Name] = true
		if c.CPU < 0 || c.Wall < 0 || c.Runs < 1 || c.Bytes < 0 {
			return fmt.Errorf("%s: %s: %d and %d ns in %d runs, %d bytes", key, c.Name, int64(c.CPU), int64(c.Wall), c.Runs, c.Bytes)
		}
	}
	if !names[e.Choice] {
		return fmt.Errorf("%s: the choice %q is not a candidate", key, e.Choice)
	}
	return nil
}

// Table is the timing table of one machine. Goroutines may share it, and
// processes its file.
type Table struct {
	machine Machine
	path    string // empty: nothing is kept
	log     *slog.Logger

	mu      sync.Mutex
	entries map[string]Entry // what Lookup finds; nil: nothing is remembered
	unsaved map[string]Entry // what was recorded since the last Save
	damaged bool             // the file must be written anew, whatever was recorded
}

// Open reads the table of a machine from dir, or if that is empty from the
// folder "ensemble" of the user's cache directory. Whatever prevents it is
// logged, and the table begins empty. A nil log is silent.
func Open(dir string, m Machine, log *slog.Logger) *Table {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &Table{machine: m, log: log, entries: map[string]Entry{}, unsaved: map[string]Entry{}}
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			log.Warn("timings are not kept: there is no cache directory", "error", err)
			return t
		}
		dir = filepath.Join(cache, "ensemble")
	}
	t.path = filepath.Join(dir, prefix+m.digest()+suffix)
	known, err := load(t.path, m)
	if err != nil {
		t.damaged = true
		log.Warn("the timing table is ignored and will be written anew", "file", t.path, "error", err)
	}
	maps.Copy(t.entries, known)
	return t
}

// Path is the file of the table; empty if there is none.
func (t *Table) Path() string {
	if t == nil {
		return ""
	}
	return t.path
}

// Lookup finds what is known of a kernel. An entry that was found once stays as
// it was for the life of the table, unless it is recorded anew.
func (t *Table) Lookup(key string) (Entry, bool) {
	if t == nil {
		return Entry{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.entries[key]
	e.Candidates = slices.Clone(e.Candidates)
	return e, ok
}

// All gives every entry by its key, in the order of the keys.
func (t *Table) All() iter.Seq2[string, Entry] {
	return func(yield func(string, Entry) bool) {
		if t == nil {
			return
		}
		t.mu.Lock()
		entries := maps.Clone(t.entries)
		t.mu.Unlock()
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			if !yield(key, entries[key]) {
				return
			}
		}
	}
}

// Record puts an entry in, in place of an older one; e.Measured is set. An entry
// that no table may hold (no candidates, a choice that is none of them, negative
// times) is logged and left out.
func (t *Table) Record(key string, e Entry) {
	if t == nil || t.entries == nil {
		return
	}
	if err := e.check(key); err != nil {
		t.log.Warn("a timing is not kept", "error", err)
		return
	}
	e.Candidates = slices.Clone(e.Candidates)
	e.Measured = time.Now().Unix()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entries[key], t.unsaved[key] = e, e
}

// Save adds what was recorded to the file, whole or not at all. Entries that
// other processes added in the meantime stay, and are found by Lookup from now
// on; of the same kernel the entry that is saved last stays in the file. The
// least recently measured entries go when there are more than 4096, or 8 MiB.
//
// Errors: *exit.Error if the file cannot be written or another process keeps it
// locked; the table remains usable, and a program that can work without logs it
// and goes on.
func (t *Table) Save() error {
	if t == nil || t.path == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.unsaved) == 0 && !t.damaged {
		return nil
	}
	all, err := update(t.path, t.machine, t.unsaved, func(err error) {
		if !t.damaged { // otherwise Open said so
			t.log.Warn("the timing table is written anew", "file", t.path, "error", err)
		}
	})
	if err != nil {
		return err
	}
	for key, e := range all {
		if _, known := t.entries[key]; !known {
			t.entries[key] = e
		}
	}
	t.unsaved, t.damaged = map[string]Entry{}, false
	return nil
}

// String lists the table for people, sorted by key.
func (t *Table) String() string {
	var b strings.Builder
	for key, e := range t.All() {
		fmt.Fprintf(&b, "%s: %s\n", key, e.Choice)
		for _, c := range e.Candidates {
			fmt.Fprintf(&b, "  %s: %v, on the wall %v, %d runs\n", c.Name, c.CPU, c.Wall, c.Runs)
		}
	}
	return b.String()
}
