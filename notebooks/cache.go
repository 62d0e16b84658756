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

// keyDigits is the number of hexadecimal digits of a checksum in a name. The probability of a
// collision among n names is n²/2⁴⁹.
const keyDigits = 12

// contentKey returns the first keyDigits digits of the checksum of parts.
func contentKey(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s\n", len(p), p) // a hash takes every write
	}
	return hex.EncodeToString(h.Sum(nil))[:keyDigits]
}

// isUnchanged reports whether a file or a folder of a store still has the fingerprint m.
func isUnchanged(path string, m fingerprint.File) bool {
	if m.IsStatEqual(path) {
		return true
	}
	now, err := fingerprint.Of(path) // for a folder
	return err == nil && now.UnchangedSince(m)
}

// checksums returns the checksums of files. cacheDir is the folder of stored checksums, or empty.
// The stored checksums of unchanged files are used.
//
// Errors: errors of reading a file; 73 and 74 for the folder.
func checksums(files []string, cacheDir string) ([]string, error) {
	type sum struct {
		Mark   fingerprint.File
		SHA256 string
	}
	known := map[string]sum{}
	path := filepath.Join(cacheDir, "checksums.json")
	if cacheDir != "" {
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &known) != nil {
			known = map[string]sum{}
		}
	}
	out, changed := make([]string, len(files)), false
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
		known[f], changed = sum{mark, out[i]}, true
	}
	if cacheDir == "" || !changed {
		return out, nil
	}
	return out, writeJSON(path, known)
}

// writeJSON writes a value as a JSON file.
func writeJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFile(path, text)
}

// writeFile writes a file atomically and creates missing folders.
func writeFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return exit.CreateError(path, err)
	}
	return exit.CreateError(path, atomicfile.WriteFile(path, text))
}
