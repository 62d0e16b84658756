package tune

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/dirglob"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// The format number and the limits of a file.
const (
	format = 1
	prefix = "timings-"
	suffix = ".json"

	maxKey     = 1024    // bytes
	maxEntries = 4096    // entries of a file
	maxBytes   = 8 << 20 // size of a file
	maxFiles   = 32      // tables of different machines and versions

	lockFile = "timings.lock"
	lockWait = 10 * time.Second // a save takes milliseconds
)

// file is the content of a table's file, as JSON. The machine is stored to detect
// collisions of the hash in the file name.
type file struct {
	Format  int              `json:"format"`
	Machine Machine          `json:"machine"`
	Entries map[string]Entry `json:"entries"`
}

// load reads a file. A missing file is empty.
//
// Errors: a file that is no regular file, is damaged, or belongs to another machine.
func load(path string, m Machine) (map[string]Entry, error) {
	at, err := filesystem.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !at.Mode().IsRegular() { // opening a pipe would block
		return nil, fmt.Errorf("not a regular file: %v", at.Mode())
	}
	f, err := filesystem.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, err
	}
	got, err := parse(data)
	if err != nil {
		return nil, err
	}
	if got.Machine.digest() != m.digest() {
		return nil, fmt.Errorf("timings of another machine: %+v", got.Machine)
	}
	return got.Entries, nil
}

// parse decodes a file and checks every entry.
func parse(data []byte) (file, error) {
	if len(data) > maxBytes {
		return file{}, fmt.Errorf("file is larger than %d bytes", maxBytes)
	}
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return file{}, fmt.Errorf("it is damaged: %w", err)
	}
	if version.Format != format {
		return file{}, fmt.Errorf("format %d, want %d", version.Format, format)
	}
	var got file
	if err := json.Unmarshal(data, &got); err != nil {
		return file{}, fmt.Errorf("it is damaged: %w", err)
	}
	if len(got.Entries) > maxEntries {
		return file{}, fmt.Errorf("%d entries, want at most %d", len(got.Entries), maxEntries)
	}
	for key, e := range got.Entries {
		if err := e.check(key); err != nil {
			return file{}, fmt.Errorf("it is damaged: %w", err)
		}
	}
	return got, nil
}

// encode encodes a file. If there are more than maxEntries, it drops those measured
// first, also from all; then it halves their number until the file has at most
// maxBytes.
func encode(m Machine, all map[string]Entry) ([]byte, error) {
	for keep := maxEntries; ; keep = len(all) / 2 {
		keys := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
			return cmp.Or(cmp.Compare(all[b].Measured, all[a].Measured), cmp.Compare(a, b))
		})
		for _, key := range keys[min(keep, len(keys)):] {
			delete(all, key)
		}
		var b bytes.Buffer
		w := json.NewEncoder(&b)
		w.SetEscapeHTML(false)
		w.SetIndent("", " ")
		if err := w.Encode(file{format, m, all}); err != nil || b.Len() <= maxBytes || len(all) == 0 {
			return b.Bytes(), err
		}
	}
}

// update adds new entries to a file under a lock, and returns all entries of the file.
// A file that cannot be read is passed to lost and replaced.
func update(path string, m Machine, fresh map[string]Entry, lost func(error)) (map[string]Entry, error) {
	dir := filepath.Dir(path)
	if err := filesystem.MkdirAll(dir, 0o777); err != nil {
		return nil, exit.CreateError(dir, err)
	}
	release, locked, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	all, err := load(path, m)
	if err != nil {
		lost(err)
	}
	if all == nil {
		all = map[string]Entry{}
	}
	maps.Copy(all, fresh)
	data, err := encode(m, all)
	if err != nil {
		return nil, exit.CreateError(path, err)
	}
	if err := atomicfile.WriteFile(path, data); err != nil {
		return nil, exit.CreateError(path, err)
	}
	if locked {
		tidy(dir, path)
	}
	return all, nil
}

// lock prevents other processes from updating files in dir until release. locked is
// false if the file system has no locks: then files stay whole, but one of two
// processes that save at the same time may lose its entries.
//
// Errors: *exit.Error if another process holds the lock for longer than lockWait.
func lock(dir string) (release func(), locked bool, err error) {
	path := filepath.Join(dir, lockFile)
	f, err := filesystem.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, false, exit.CreateError(path, err)
	}
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err := filesystem.Flock(f, unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, true, nil // closing unlocks
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return func() { f.Close() }, false, nil
		case time.Since(start) > lockWait:
			f.Close()
			return nil, false, &exit.Error{Code: exit.CannotWrite, What: "the timing table is locked", At: path,
				Why: fmt.Sprintf("another process has held the lock for %v", lockWait), Fix: "end that process, or choose another directory"}
		}
	}
}

// tidy removes temporary files of killed processes, and the least recently written
// tables beyond maxFiles. It ignores errors.
func tidy(dir, keep string) {
	left, _ := dirglob.In(dir, "."+filepath.Base(keep)+".partial-*")
	for _, path := range left {
		filesystem.Remove(path)
	}
	type table struct {
		path    string
		written time.Time
	}
	var tables []table
	names, _ := dirglob.In(dir, prefix+"*"+suffix)
	for _, path := range names {
		if at, err := filesystem.Lstat(path); err == nil && path != keep {
			tables = append(tables, table{path, at.ModTime()})
		}
	}
	slices.SortFunc(tables, func(a, b table) int { return b.written.Compare(a.written) })
	for _, t := range tables[min(maxFiles-1, len(tables)):] {
		filesystem.Remove(t.path)
	}
}
