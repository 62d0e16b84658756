package rundir

import "github.com/ensemble-weather/ensemble/internal/manifest"

// manifestSchema identifies the format of a Manifest. Within one schema fields are
// only added.
const manifestSchema = "ensemble.run/1"

// Manifest describes a finished run.
type Manifest struct {
	manifest.Record
	Command  string `json:"command"`
	Identity string `json:"identity"` // Options.Identity
	// Details of this kind of run, such as members used, determinism level, last
	// step.
	Details map[string]any `json:"details,omitempty"`
}

// WriteManifest computes the checksums of the outputs, whose names are relative to
// dir, and writes SHA256SUMS and then manifest.json.
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
