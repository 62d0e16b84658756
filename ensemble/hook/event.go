package hook

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Identification of the description of issued products. Fields may be added under the same schema.
const (
	eventType   = "ensemble.issued"
	eventSchema = "ensemble.issued/1"
)

// maxFiles is the largest number of files that an event lists; Zarr stores have one for each chunk. The manifest has all.
const maxFiles = 1000

// Event describes issued products, with the structure that Standard Webhooks recommends.
//
// Source: github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md 1.0.0, "Payload structure".
type Event struct {
	Type      string    `json:"type"`      // eventType
	Timestamp time.Time `json:"timestamp"` // end of the work on the products
	Data      Issued    `json:"data"`
}

// Issued is the data of an Event.
type Issued struct {
	Schema          string            `json:"schema"`             // eventSchema
	ID              string            `json:"id"`                 // of this delivery, equal in all attempts
	Replaces        string            `json:"replaces,omitempty"` // id of the products that were delivered before
	Name            string            `json:"name"`               // 2026010100
	Init            string            `json:"init"`               // RFC 3339
	Status          string            `json:"status"`             // "ok" or "degraded"
	Fallback        string            `json:"fallback,omitempty"` // method that replaces the network
	Version         string            `json:"version"`
	ModelChecksum   string            `json:"model_checksum"`
	MembersUsed     int               `json:"members_used"`
	MembersComplete int               `json:"members_complete"`
	MembersExpected int               `json:"members_expected"`
	MembersMissing  []ensemble.Member `json:"members_missing"`
	Warnings        []string          `json:"warnings"`
	Directory       string            `json:"directory"` // absolute
	Files           []manifest.File   `json:"files"`     // relative to Directory; the first maxFiles
	FilesCount      int               `json:"files_count"`
	Bytes           int64             `json:"bytes"`
	Manifest        manifest.File     `json:"manifest"` // which lists all files
}

// products are the published products of an initialisation.
type products struct {
	id        string // InitName-DIGITS of the SHA-256 of the manifest
	name      string // of the initialisation
	directory string
	manifest  *product.Manifest
	file      manifest.File // the manifest
}

// readProducts reads the manifest of an initialisation below out.
//
// Errors: fs.ErrNotExist if it has no finished products; those of reading.
func readProducts(out, name string) (*products, error) {
	dir := filepath.Join(out, name)
	path := filepath.Join(dir, manifest.Name)
	text, err := filesystem.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := product.ParseManifest(text, path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	digits := hex.EncodeToString(sum[:])
	return &products{name + "-" + digits[:32], name, dir, m, manifest.File{Path: manifest.Name, Size: int64(len(text)), SHA256: digits}}, nil
}

// issued describes the products; equal products have equal descriptions.
func (p *products) issued(replaces string) (Issued, error) {
	m := p.manifest
	d := Issued{Schema: eventSchema, ID: p.id, Replaces: replaces, Name: p.name, Init: m.Init, Status: m.Status, Fallback: m.Fallback, Version: m.Version, ModelChecksum: m.ModelChecksum,
		MembersUsed: len(m.MembersUsed), MembersComplete: m.MembersComplete, MembersExpected: m.MembersExpected, MembersMissing: []ensemble.Member{},
		Warnings: append([]string{}, m.Warnings...), Files: append([]manifest.File{}, m.Outputs[:min(len(m.Outputs), maxFiles)]...), FilesCount: len(m.Outputs), Manifest: p.file}
	for _, x := range m.MembersMissing {
		d.MembersMissing = append(d.MembersMissing, x.Member)
	}
	for _, f := range m.Outputs {
		d.Bytes += f.Size
	}
	var err error
	d.Directory, err = filesystem.Absolute("", p.directory)
	return d, err
}
