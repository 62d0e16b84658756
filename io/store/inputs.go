package store

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/fingerprint"
)

// InputChecksum is the checksum of an input file, with what tells that the file is still the same.
type InputChecksum struct {
	Path   string           `json:"path"`
	SHA256 string           `json:"sha256"`
	Mark   fingerprint.File `json:"mark"`
}

// ReadInputChecksums gives what the last Write into a folder knew of its input, by path. A list that
// is not there or damaged is empty: all is read again.
func ReadInputChecksums(dir string) map[string]InputChecksum {
	out := map[string]InputChecksum{}
	text, err := os.ReadFile(filepath.Join(dir, inputsName))
	var list []InputChecksum
	if err != nil || json.Unmarshal(text, &list) != nil {
		return out
	}
	for _, k := range list {
		out[k.Path] = k
	}
	return out
}
