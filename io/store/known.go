package store

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/filemark"
)

// Known is the checksum of an input file, with what tells that the file is still the same.
type Known struct {
	Path   string        `json:"path"`
	SHA256 string        `json:"sha256"`
	Mark   filemark.Mark `json:"mark"`
}

// ReadKnown gives what the last Write into a folder knew of its input, by path. A list that
// is not there or damaged is empty: all is read again.
func ReadKnown(dir string) map[string]Known {
	out := map[string]Known{}
	text, err := os.ReadFile(filepath.Join(dir, inputsName))
	var list []Known
	if err != nil || json.Unmarshal(text, &list) != nil {
		return out
	}
	for _, k := range list {
		out[k.Path] = k
	}
	return out
}
