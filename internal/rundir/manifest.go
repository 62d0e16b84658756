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
// the directory, and publishes SHA256SUMS and then manifest.json.
//
// Errors: those of manifest.SumBelow, manifest.Write and Publish.
func (d *Dir) WriteManifest(m Manifest, outputs []string) error {
	var err error
	if m.Outputs, err = manifest.SumBelow(d.Path, outputs); err != nil {
		return err
	}
	m.Schema = manifestSchema
	return d.Publish(func() error { return manifest.Write(d.Path, &m) })
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
