package nvrtc

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Cache stores compiled programs, and compiled plans of libraries, in a directory, one
// file each. Processes and machines can share it. Errors of reading and writing are
// ignored: they only cost time.
//
// The name of a file is the SHA-256 of everything that determines its content; for a
// program these are the version of the compiler, its options, the name of the source
// and the source. The file contains the line magic, the SHA-256 of the rest, and the
// rest.
type Cache struct {
	Dir string // "" stores nothing
	Max int    // number of files, the least recently used are removed; 0 means 1024
}

const (
	magic         = "ensemble kernel 1\n"
	suffix        = ".kernel"
	maxFiles      = 1024
	touchInterval = time.Hour // least time between updates of a file's modification time
)

// UserCache returns the cache in the user's cache directory. Without such a directory it
// stores nothing.
func UserCache() Cache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Cache{}
	}
	return Cache{Dir: filepath.Join(dir, "ensemble", "cuda")}
}

// Compile returns a stored program, or compiles and stores it.
//
// Errors: those of Compiler.Compile.
func (k Cache) Compile(c *Compiler, p device.Program, architecture int) ([]byte, error) {
	options, _, err := c.options(p, architecture)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", p.Name, err)
	}
	if k.Dir == "" {
		return c.Compile(p, architecture)
	}
	key := append([]string{c.Version(), p.Name, p.Source}, options...)
	if image, ok := k.Get(key...); ok {
		return image, nil
	}
	image, err := c.Compile(p, architecture)
	if err != nil {
		return nil, err
	}
	k.Put(image, key...)
	return image, nil
}

// Get returns what Put stored under a key; false if it is missing or damaged. Damage is
// found by the checksum in the file: machine code that was truncated would fail or
// compute wrong values.
func (k Cache) Get(key ...string) ([]byte, bool) {
	if k.Dir == "" {
		return nil, false
	}
	return read(k.file(key))
}

// Put stores data under a key, which must contain everything that determines the data. An
// error of writing is ignored: the next process compiles again.
func (k Cache) Put(image []byte, key ...string) {
	if k.Dir != "" {
		k.write(k.file(key), image)
	}
}

// file returns the file of a key. Each part is preceded by its length, so that two keys
// never give the same text.
func (k Cache) file(key []string) string {
	h := sha256.New()
	for _, part := range append([]string{magic}, key...) {
		fmt.Fprintf(h, "%d\n%s\n", len(part), part)
	}
	return filepath.Join(k.Dir, fmt.Sprintf("%x%s", h.Sum(nil), suffix))
}

// read returns the content of an undamaged file. A file in use gets a new modification
// time, by which write decides what to remove, once an hour at most.
func read(file string) ([]byte, bool) {
	text, err := filesystem.ReadFile(file)
	if err != nil {
		return nil, false
	}
	rest, ok := bytes.CutPrefix(text, []byte(magic))
	if !ok || len(rest) <= sha256.Size {
		return nil, false
	}
	image := rest[sha256.Size:]
	if sha256.Sum256(image) != [sha256.Size]byte(rest) {
		return nil, false
	}
	if info, err := filesystem.Stat(file); err == nil && time.Since(info.ModTime()) > touchInterval {
		now := time.Now()
		_ = os.Chtimes(file, now, now) // of a folder that others own
	}
	return image, true
}

// write stores an image if possible, and removes the least recently used files.
// Processes may write at the same time: the content of a name is the same for all.
func (k Cache) write(file string, image []byte) {
	if err := filesystem.MkdirAll(k.Dir, 0o755); err != nil {
		return
	}
	sum := sha256.Sum256(image)
	if atomicfile.WriteFile(file, slices.Concat([]byte(magic), sum[:], image)) != nil {
		return
	}
	entries, err := filesystem.ReadDir(k.Dir)
	if err != nil {
		return
	}
	type used struct {
		name string
		at   time.Time
	}
	var all []used
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), suffix) {
			all = append(all, used{e.Name(), info.ModTime()})
		}
	}
	most := k.Max
	if most == 0 {
		most = maxFiles
	}
	slices.SortFunc(all, func(a, b used) int { return b.at.Compare(a.at) })
	for _, u := range all[min(most, len(all)):] {
		_ = filesystem.Remove(filepath.Join(k.Dir, u.name)) // another process may have been faster
	}
}
