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

// Machine is everything but the kernel that timings depend on.
type Machine struct {
	CPU       string   `json:"cpu"`                 // model, as the operating system names it
	Arch      string   `json:"arch"`                // GOARCH
	Features  []string `json:"features,omitempty"`  // instruction sets that kernels use
	Threads   int      `json:"threads"`             // threads of the device
	Libraries []string `json:"libraries,omitempty"` // names with versions
	Kernels   string   `json:"kernels"`             // version of our own kernels
}

// ThisMachine describes the machine on which the program runs.
func ThisMachine(threads int, kernels string, libraries ...string) Machine {
	i := cpuinfo.Read()
	return Machine{CPU: strings.ToValidUTF8(i.Model, "?"), Arch: i.Arch, Features: i.Features, Threads: threads, Libraries: libraries, Kernels: kernels}
}

// digest is the hash in the file name. It includes the format number, so that programs
// with different formats do not overwrite each other's files.
func (m Machine) digest() string {
	text, err := json.Marshal(file{Format: format, Machine: m})
	if err != nil {
		panic(fmt.Sprintf("tune: encode Machine: %v", err)) // it has only strings and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Entry holds the timings of one kernel.
type Entry struct {
	// Choice is the name of the candidate to use; "" if none was chosen.
	Choice     string   `json:"choice,omitempty"`
	Candidates []Timing `json:"candidates"` // best first
	// Skipped are candidates that were not timed, since they are expected to be slower.
	Skipped []Expectation `json:"skipped,omitempty"`
	// Measured is the time of Record in seconds since 1970. It decides which entries are
	// dropped when there are too many.
	Measured int64 `json:"measured"`
}

// Timing holds the times of one candidate, each the least of all runs: disturbances
// only add to a time.
type Timing struct {
	Name  string        `json:"name"`
	CPU   time.Duration `json:"cpu_ns"`  // processor time of all threads
	Wall  time.Duration `json:"wall_ns"` // wall-clock time
	Runs  int           `json:"runs"`
	Bytes int64         `json:"bytes,omitempty"` // workspace
}

// Expectation is the expected time of a candidate that was not timed.
type Expectation struct {
	Name string        `json:"name"`
	CPU  time.Duration `json:"cpu_ns"` // processor time of all threads
}

// Timed reports whether a candidate was timed.
func (e Entry) Timed(name string) bool {
	return slices.ContainsFunc(e.Candidates, func(c Timing) bool { return c.Name == name })
}

// CPUOf returns the processor time of a candidate, the expected one if it was skipped;
// known is false if it has neither.
func (e Entry) CPUOf(name string) (t time.Duration, known bool) {
	if i := slices.IndexFunc(e.Candidates, func(c Timing) bool { return c.Name == name }); i >= 0 {
		return e.Candidates[i].CPU, true
	}
	if i := slices.IndexFunc(e.Skipped, func(c Expectation) bool { return c.Name == name }); i >= 0 {
		return e.Skipped[i].CPU, true
	}
	return 0, false
}

// check reports what is invalid in an entry.
func (e Entry) check(key string) error {
	if key == "" || len(key) > maxKey || !utf8.ValidString(key) {
		return fmt.Errorf("key of %d bytes, want 1 to %d bytes of UTF-8", len(key), maxKey)
	}
	if len(e.Candidates) == 0 {
		return fmt.Errorf("%s: no candidates", key)
	}
	names := map[string]bool{"": true}
	for _, c := range e.Candidates {
		if names[c.Name] || !utf8.ValidString(c.Name) {
			return fmt.Errorf("%s: name %q is empty, repeated or not UTF-8", key, c.Name)
		}
		names[c.Name] = true
		if c.CPU < 0 || c.Wall < 0 || c.Runs < 1 || c.Bytes < 0 {
			return fmt.Errorf("%s: %s: %d and %d ns in %d runs, %d bytes", key, c.Name, int64(c.CPU), int64(c.Wall), c.Runs, c.Bytes)
		}
	}
	if !names[e.Choice] {
		return fmt.Errorf("%s: choice %q is not a candidate", key, e.Choice)
	}
	for _, c := range e.Skipped {
		if names[c.Name] || !utf8.ValidString(c.Name) || c.CPU < 0 {
			return fmt.Errorf("%s: skipped %q, %d ns: the name is empty, repeated or not UTF-8, or the time negative", key, c.Name, int64(c.CPU))
		}
		names[c.Name] = true
	}
	return nil
}

// Table is the timing table of one machine. It is safe for concurrent use, and
// processes can share its file.
type Table struct {
	machine Machine
	path    string // "" if nothing is saved
	log     *slog.Logger
	rounds  int // least number of rounds in which every candidate is timed; 0: not every one is

	mu      sync.Mutex
	entries map[string]Entry // entries that Lookup finds; nil if nothing is stored
	unsaved map[string]Entry // entries recorded since the last Save
	damaged bool             // the file must be rewritten even without new entries
}

// Open reads the table of a machine from dir, or from "ensemble" in the user's cache
// directory if dir is "". Errors are logged, and the table starts empty. A nil log
// discards messages.
func Open(dir string, m Machine, log *slog.Logger) *Table {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &Table{machine: m, log: log, entries: map[string]Entry{}, unsaved: map[string]Entry{}}
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			log.Warn("timings are not saved: the user has no cache directory", "error", err)
			return t
		}
		dir = filepath.Join(cache, "ensemble")
	}
	t.path = filepath.Join(dir, prefix+m.digest()+suffix)
	known, err := load(t.path, m)
	if err != nil {
		t.damaged = true
		log.Warn("the timing table is ignored and will be rewritten", "file", t.path, "error", err)
	}
	maps.Copy(t.entries, known)
	return t
}

// TimeAll makes benchmarks of kernels that the table does not know time all candidates, also
// those that are expected to be slow, in at least the given number of rounds.
func (t *Table) TimeAll(rounds int) { t.rounds = rounds }

// Options completes the options of a benchmark for the table: candidates that are expected to
// be slow are skipped, or with TimeAll all run, whatever Budget is.
func (t *Table) Options(o BenchmarkOptions) BenchmarkOptions {
	o.Error, o.KindError = Fitted().Error, Fitted().KindError
	if t != nil && t.rounds > 0 {
		o.Error, o.Budget, o.MinRounds = 0, 0, t.rounds
	}
	return o
}

// Path returns the file of the table; "" if there is none.
func (t *Table) Path() string {
	if t == nil {
		return ""
	}
	return t.path
}

// Lookup returns the entry of a kernel. The entry does not change during the life of
// the table unless it is recorded again.
func (t *Table) Lookup(key string) (Entry, bool) {
	if t == nil {
		return Entry{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.entries[key]
	e.Candidates, e.Skipped = slices.Clone(e.Candidates), slices.Clone(e.Skipped)
	return e, ok
}

// All iterates over the entries in the order of their keys.
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

// Record stores an entry and sets its Measured. An invalid entry (no candidates, a
// choice that is not a candidate, negative times) is logged and ignored.
func (t *Table) Record(key string, e Entry) {
	if t == nil || t.entries == nil {
		return
	}
	if err := e.check(key); err != nil {
		t.log.Warn("an invalid timing is ignored", "error", err)
		return
	}
	e.Candidates, e.Skipped = slices.Clone(e.Candidates), slices.Clone(e.Skipped)
	e.Measured = time.Now().Unix()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entries[key], t.unsaved[key] = e, e
}

// Save adds the recorded entries to the file, atomically. Entries that other processes
// have added stay, and Lookup finds them from then on. Of entries for the same kernel
// the last saved one stays. If there are more than 4096 entries or 8 MiB, the least
// recently measured ones are dropped.
//
// Errors: *exit.Error if the file cannot be written or another process holds its lock.
// The table remains usable; programs log the error and continue.
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
		if !t.damaged { // otherwise Open has logged it
			t.log.Warn("the timing table is rewritten", "file", t.path, "error", err)
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

// String returns the table as text, sorted by key.
func (t *Table) String() string {
	var b strings.Builder
	for key, e := range t.All() {
		fmt.Fprintf(&b, "%s: %s\n", key, e.Choice)
		for _, c := range e.Candidates {
			fmt.Fprintf(&b, "  %s: %v, wall-clock %v, %d runs\n", c.Name, c.CPU, c.Wall, c.Runs)
		}
		for _, c := range e.Skipped {
			fmt.Fprintf(&b, "  %s: skipped, expected %v\n", c.Name, c.CPU)
		}
	}
	return b.String()
}
