package store

import (
	"encoding/json"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
)

// InputChecksum is the checksum of an input file, with the marks that show whether
// the file has changed.
type InputChecksum struct {
	Path   string           `json:"path"`
	SHA256 string           `json:"sha256"`
	Mark   fingerprint.File `json:"mark"`
}

// ReadInputChecksums returns the input checksums of the last Write into a
// directory, by path. An absent or damaged list is empty, so that all files are
// read again.
func ReadInputChecksums(dir string) map[string]InputChecksum {
	out := map[string]InputChecksum{}
	text, err := filesystem.ReadFile(filepath.Join(dir, inputsName))
	var list []InputChecksum
	if err != nil || json.Unmarshal(text, &list) != nil {
		return out
	}
	for _, k := range list {
		out[k.Path] = k
	}
	return out
}
