package product

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// The files that say which others belong to a cycle.
const (
	ManifestName = "manifest.json"
	SumsName     = "SHA256SUMS"
)

// manifestSchema names the meaning of the fields of a Manifest. Fields are only
// added as long as it stays.
const manifestSchema = "ensemble.product/1"

// The states of a published cycle.
const (
	StatusOK       = "ok"
	StatusDegraded = "degraded" // fewer members than expected, as the policy allows
)

// Manifest says what a cycle's folder holds and from what it was made. It is
// written last: without it the cycle is not published.
type Manifest struct {
	Schema          string            `json:"schema"`
	Status          string            `json:"status"` // ok, degraded
	Cycle           string            `json:"cycle"`  // init, RFC 3339
	MembersUsed     []ensemble.Member `json:"members_used"`
	MembersExpected int               `json:"members_expected"`
	MembersMissing  []MissingMember   `json:"members_missing"`
	ControlPolicy   string            `json:"control_policy"`
	SpreadDDOF      int               `json:"spread_ddof"`
	Inputs          []FileSum         `json:"inputs"`
	Outputs         []FileSum         `json:"outputs"`
	ModelChecksum   string            `json:"model_checksum"`
	ConfigChecksum  string            `json:"config_checksum"`
	Version         string            `json:"version"`
	Started         time.Time         `json:"started"`
	Ended           time.Time         `json:"ended"`
	Warnings        []string          `json:"warnings"`
}

// MissingMember is a member that was expected and not used.
type MissingMember struct {
	Member ensemble.Member `json:"member"`
	Reason string          `json:"reason"`
}

// SumFile identifies the file at path, under the name it gets in records.
func SumFile(path, name string) (FileSum, error) {
	f, err := os.Open(path)
	if err != nil {
		return FileSum{}, fmt.Errorf("checksum: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return FileSum{}, fmt.Errorf("checksum of %s: %w", path, err)
	}
	return FileSum{Name: name, Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}

// ReadManifest reads the manifest of a cycle's folder.
//
// Errors: fs.ErrNotExist if there is none; exit 65 if it is not one.
func ReadManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, ManifestName)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(b, &m); err == nil && m.Schema == manifestSchema {
		return &m, nil
	}
	return nil, &exit.Error{Code: exit.BadData, What: "not a manifest of products", At: path,
		Why: fmt.Sprintf("it is no JSON object with schema %q", manifestSchema), Fix: "remove it, or write to another folder", Err: err}
}

// Verify compares the outputs in dir with the manifest.
//
// Errors: exit 65 naming the first file that is missing or differs.
func (m *Manifest) Verify(dir string) error {
	for _, want := range m.Outputs {
		path := filepath.Join(dir, want.Name)
		got, err := SumFile(path, want.Name)
		why := ""
		if err != nil {
			why = err.Error()
		} else if got != want {
			why = fmt.Sprintf("%d bytes with SHA-256 %s, the manifest has %d with %s", got.Size, got.SHA256, want.Size, want.SHA256)
		}
		if why != "" {
			return &exit.Error{Code: exit.BadData, What: "a published file is not what the manifest says", At: path, Why: why,
				Fix: "make the products again", Err: err}
		}
	}
	return nil
}

// madeFrom says whether two manifests are of the same inputs, model, config and
// version, so that the same outputs would come out.
func (m *Manifest) madeFrom(o *Manifest) bool {
	return m.Cycle == o.Cycle && m.ModelChecksum == o.ModelChecksum && m.ConfigChecksum == o.ConfigChecksum &&
		m.Version == o.Version && slices.Equal(m.MembersUsed, o.MembersUsed) && sameContent(m.Inputs, o.Inputs)
}

// sameContent compares files by content alone: a copy elsewhere is the same
// input.
func sameContent(a, b []FileSum) bool {
	sums := func(files []FileSum) []string {
		var s []string
		for _, f := range files {
			s = append(s, f.SHA256)
		}
		slices.Sort(s)
		return s
	}
	return slices.Equal(sums(a), sums(b))
}

// writeRecords writes SHA256SUMS, for `sha256sum -c`, and then the manifest.
func (m *Manifest) writeRecords(dir string) error {
	var sums bytes.Buffer
	for _, f := range m.Outputs {
		fmt.Fprintf(&sums, "%s  %s\n", f.SHA256, f.Name)
	}
	if err := atomicfile.WriteFile(filepath.Join(dir, SumsName), sums.Bytes()); err != nil {
		return err
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(filepath.Join(dir, ManifestName), append(b, '\n'))
}

// Overwrite says when a published cycle may be replaced.
type Overwrite string

// The policies.
const (
	OverwriteSame   Overwrite = "" // if it was made from the same inputs, model and config
	OverwriteNever  Overwrite = "never"
	OverwriteAlways Overwrite = "always"
)

// Published looks for a finished cycle in dir before work on it begins. want
// needs what a cycle is made from: cycle, inputs, members used, model, config
// and version.
//
// It returns the manifest if the very same products are already there and whole:
// then there is nothing to do. It returns nil if they are to be made.
//
// Errors: exit 73 if other products are there and may not be replaced.
func Published(dir string, want *Manifest, policy Overwrite) (*Manifest, error) {
	if policy == "same" {
		policy = OverwriteSame
	}
	got, err := ReadManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing, or what a killed run left: not published
	}
	if policy == OverwriteAlways {
		return nil, nil
	}
	refuse := func(why string) error {
		return &exit.Error{Code: exit.CannotWrite, What: "products of this cycle are already there", At: dir, Why: why,
			Fix: "write to another folder, or allow it with --overwrite always"}
	}
	if err != nil {
		return nil, refuse("their manifest cannot be read")
	}
	if !got.madeFrom(want) {
		return nil, refuse("they were made from other inputs, another model, config or version")
	}
	if err := got.Verify(dir); err == nil {
		return got, nil
	} else if policy == OverwriteNever {
		return nil, refuse(err.Error())
	}
	return nil, nil
}
