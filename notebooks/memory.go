package notebooks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// keyDigits are those of a content's checksum that stand in a name: two contents in a
// folder share one with a probability of n²/2⁴⁹.
const keyDigits = 12

// key is the name of a content.
func key(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s\n", len(p), p) // a hash takes every write
	}
	return hex.EncodeToString(h.Sum(nil))[:keyDigits]
}

// seen is what a file looked like without reading it.
type seen struct {
	Size    int64
	Changed time.Time
}

// look gives what a file, or a folder as stores are, looks like.
func look(path string) (seen, error) {
	st, err := os.Stat(path)
	if err != nil {
		return seen{}, exit.Read(path, err)
	}
	s := seen{st.Size(), st.ModTime().UTC()}
	if !st.IsDir() {
		return s, nil
	}
	parts, err := manifest.Parts(path)
	if err != nil {
		return seen{}, exit.Read(path, err)
	}
	for _, p := range parts {
		inner, err := look(filepath.Join(path, p.Path))
		if err != nil {
			return seen{}, err
		}
		s.Size += inner.Size
		if inner.Changed.After(s.Changed) {
			s.Changed = inner.Changed
		}
	}
	return s, nil
}

// stamp names files by what they look like.
func stamp(files []string) string {
	parts := make([]string, 0, 2*len(files))
	for _, f := range files {
		s, err := look(f)
		parts = append(parts, f, fmt.Sprint(s.Size, s.Changed.UnixNano(), err))
	}
	return key(parts...)
}

// content gives the checksums of files. With a memory, those of files that look as they
// did are taken from there.
//
// Errors: those of reading a file; 73 and 74 of the memory.
func content(files []string, memory string) ([]string, error) {
	type sum struct {
		seen
		SHA256 string
	}
	known := map[string]sum{}
	path := filepath.Join(memory, "checksums.json")
	if memory != "" {
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &known) != nil {
			known = map[string]sum{}
		}
	}
	out, learned := make([]string, len(files)), false
	for i, f := range files {
		now, err := look(f)
		if err != nil {
			return nil, err
		}
		if k, ok := known[f]; ok && k.Size == now.Size && k.Changed.Equal(now.Changed) {
			out[i] = k.SHA256
			continue
		}
		sums, err := manifest.Sum(f)
		if err != nil {
			return nil, err
		}
		out[i] = sums[0].SHA256
		known[f], learned = sum{now, out[i]}, true
	}
	if memory == "" || !learned {
		return out, nil
	}
	return out, writeJSON(path, known)
}

// writeJSON keeps something for later cells.
func writeJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFile(path, text)
}

// writeFile writes a file whole, and the folders that are missing.
func writeFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return exit.Create(path, err)
	}
	return exit.Create(path, atomicfile.WriteFile(path, text))
}
