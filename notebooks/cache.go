package notebooks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// keyDigits are those of a content's checksum that stand in a name: two contents in a
// folder share one with a probability of n²/2⁴⁹.
const keyDigits = 12

// contentKey is the name of a content.
func contentKey(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s\n", len(p), p) // a hash takes every write
	}
	return hex.EncodeToString(h.Sum(nil))[:keyDigits]
}

// isUnchanged says that a file, or a folder as stores are, is as it was marked.
func isUnchanged(path string, m fingerprint.File) bool {
	if m.IsStatEqual(path) {
		return true
	}
	now, err := fingerprint.Of(path) // a folder's
	return err == nil && now.UnchangedSince(m)
}

// checksums gives the checksums of files. With a memory, those of files that are as they
// were are taken from there.
//
// Errors: those of reading a file; 73 and 74 of the memory.
func checksums(files []string, memory string) ([]string, error) {
	type sum struct {
		Mark   fingerprint.File
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
		if k, ok := known[f]; ok && isUnchanged(f, k.Mark) {
			out[i] = k.SHA256
			continue
		}
		mark, err := fingerprint.Of(f)
		if err != nil {
			return nil, exit.ReadError(f, err)
		}
		sums, err := manifest.Sum(f)
		if err != nil {
			return nil, err
		}
		out[i] = sums[0].SHA256
		known[f], learned = sum{mark, out[i]}, true
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
		return exit.CreateError(path, err)
	}
	return exit.CreateError(path, atomicfile.WriteFile(path, text))
}
