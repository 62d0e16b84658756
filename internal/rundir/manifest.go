package rundir

import "github.com/ensemble-weather/ensemble/internal/manifest"

// manifestSchema names the meaning of the fields of a Manifest. Fields are only
// added as long as it stays.
const manifestSchema = "ensemble.run/1"

// Manifest is what a finished run says of itself.
type Manifest struct {
	manifest.Record
	Command  string `json:"command"`
	Identity string `json:"identity"` // Options.Identity
	// Details holds what only this kind of run has: members used, determinism
	// level, last step.
	Details map[string]any `json:"details,omitempty"`
}

// WriteManifest measures the outputs, which are named relative to dir, and writes
// SHA256SUMS and then, last of all, manifest.json.
//
// Errors: those of manifest.SumBelow and manifest.Write.
func WriteManifest(dir string, m Manifest, outputs []string) error {
	var err error
	if m.Outputs, err = manifest.SumBelow(dir, outputs); err != nil {
		return err
	}
	m.Schema = manifestSchema
	return manifest.Write(dir, &m)
}

// ReadManifest reads the manifest of a directory.
//
// Errors: those of manifest.Read.
func ReadManifest(dir string) (*Manifest, error) {
	var m Manifest
	if err := manifest.Read(dir, manifestSchema, &m); err != nil {
		return nil, err
	}
	return &m, nil
}
