package run

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// writeJSON writes a value as a file of JSON for people and programs, whole or not at all.
//
// Errors: those of exit.Create.
func writeJSON(path string, x any) error {
	text, err := json.MarshalIndent(x, "", " ")
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return exit.Create(path, atomicfile.WriteFile(path, append(text, '\n')))
}
