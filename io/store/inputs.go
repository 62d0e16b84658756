package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// InputChecksum is the checksum of an input file, with the marks that show whether
// the file has changed.
type InputChecksum struct {
	Path   string           `json:"path"`
	SHA256 string           `json:"sha256"`
	Mark   fingerprint.File `json:"mark"`
}

// inputList is the content of inputs.json, sealed by manifest.SealedJSON.
type inputList struct {
	Checksum string          `json:"checksum"`
	Files    []InputChecksum `json:"files"`
}

// ReadInputChecksums returns the input checksums of the last Write into a
// directory, by path. An absent list is empty, so that all files are read.
//
// Errors: 65 for a list that is damaged; those of exit.ReadError.
func ReadInputChecksums(dir string) (map[string]InputChecksum, error) {
	path := filepath.Join(dir, inputsName)
	text, err := filesystem.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	var list inputList
	if err := decodeSealed(text, path, &list, "remove the file: all input files are read again then, or start over with --overwrite always"); err != nil {
		return nil, err
	}
	out := map[string]InputChecksum{}
	for _, k := range list.Files {
		out[k.Path] = k
	}
	return out, nil
}

// decodeSealed decodes a sealed document of a store.
//
// Errors: 65 if it is no JSON of this kind, or has another checksum than it states.
func decodeSealed(text []byte, path string, v any, fix string) error {
	err := manifest.CheckSeal(text)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return &exit.Error{Code: exit.BadData, What: "a file of the store is damaged", At: path, Why: err.Error(), Fix: fix, Err: err}
	}
	return nil
}
