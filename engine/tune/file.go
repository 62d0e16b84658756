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
	"github.com/ensemble-weather/ensemble/internal/exit"
)

const (
	format = 1
	prefix = "timings-"
	suffix = ".json"

	maxKey     = 1024    // bytes
	maxEntries = 4096    // in a file
	maxBytes   = 8 << 20 // of a file
	maxFiles   = 32      // machines, as versions come and go

	lockFile = "timings.lock"
	lockWait = 10 * time.Second // far more than a save takes
)

// file is the content of a table's file.
type file struct {
	Format  int              `json:"format"`
	Machine Machine          `json:"machine"`
	Entries map[string]Entry `json:"entries"`
}

// load reads a file; one that is not there is empty.
func load(path string, m Machine) (map[string]Entry, error) {
	at, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !at.Mode().IsRegular() { // opening a pipe would wait for ever
		return nil, fmt.Errorf("it is no regular file but %v", at.Mode())
	}
	f, err := os.Open(path)
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
		return nil, fmt.Errorf("it was measured on another machine: %+v", got.Machine)
	}
	return got.Entries, nil
}

// parse reads the content of a file and checks every entry.
func parse(data []byte) (file, error) {
	if len(data) > maxBytes {
		return file{}, fmt.Errorf("it is larger than %d bytes", maxBytes)
	}
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return file{}, fmt.Errorf("it is damaged: %w", err)
	}
	if version.Format != format {
		return file{}, fmt.Errorf("it has format %d, this program writes %d", version.Format, format)
	}
	var got file
	if err := json.Unmarshal(data, &got); err != nil {
		return file{}, fmt.Errorf("it is damaged: %w", err)
	}
	if len(got.Entries) > maxEntries {
		return file{}, fmt.Errorf("it has %d entries, want at most %d", len(got.Entries), maxEntries)
	}
	for key, e := range got.Entries {
		if err := e.check(key); err != nil {
			return file{}, fmt.Errorf("it is damaged: %w", err)
		}
	}
	return got, nil
}

// encode writes the content of a file: as many entries as a file may hold, those
// measured last. It drops the others from all.
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

// update adds fresh entries to a file while no other process does, and gives all
// that are in it then. A file that cannot be read is given to lost and replaced.
func update(path string, m Machine, fresh map[string]Entry, lost func(error)) (map[string]Entry, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o777); err != nil {
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

// lock keeps other processes from updating files in dir until release. Where the
// file system has no locks it says so: files stay whole, but of two processes
// that save at once one may lose what it added.
func lock(dir string) (release func(), locked bool, err error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, false, exit.CreateError(path, err)
	}
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, true, nil // closing unlocks
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return func() { f.Close() }, false, nil
		case time.Since(start) > lockWait:
			f.Close()
			return nil, false, &exit.Error{Code: exit.CannotWrite, What: "the timing table is locked", At: path,
				Why: fmt.Sprintf("another process has kept it for %v", lockWait), Fix: "end that process, or choose another directory"}
		}
	}
}

// tidy removes what killed processes left of this table, and the tables of
// machines beyond maxFiles that were not written for longest. What it cannot
// remove does no harm.
func tidy(dir, keep string) {
	left, _ := filepath.Glob(filepath.Join(dir, "."+filepath.Base(keep)+".partial-*"))
	for _, path := range left {
		os.Remove(path)
	}
	type table struct {
		path    string
		written time.Time
	}
	var tables []table
	names, _ := filepath.Glob(filepath.Join(dir, prefix+"*"+suffix))
	for _, path := range names {
		if at, err := os.Lstat(path); err == nil && path != keep {
			tables = append(tables, table{path, at.ModTime()})
		}
	}
	slices.SortFunc(tables, func(a, b table) int { return b.written.Compare(a.written) })
	for _, t := range tables[min(maxFiles-1, len(tables)):] {
		os.Remove(t.path)
	}
}
