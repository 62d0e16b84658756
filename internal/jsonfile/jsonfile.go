// Package jsonfile writes indented JSON files.
package jsonfile

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Write writes a value as indented JSON, one field per line, atomically.
func Write(path string, x any) error {
	text, err := json.MarshalIndent(x, "", " ")
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return exit.CreateError(path, atomicfile.WriteFile(path, append(text, '\n')))
}
