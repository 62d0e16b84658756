package product

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// manifestSchema names the meaning of the fields of a Manifest. Fields are only
// added as long as it stays.
const manifestSchema = "ensemble.product/1"

// Manifest says what a cycle's folder holds and from what it was made. It is
// written last: without it the cycle is not published.
type Manifest struct {
	manifest.Record
	Init            string            `json:"init"` // init, RFC 3339
	MembersUsed     []ensemble.Member `json:"members_used"`
	MembersExpected int               `json:"members_expected"`
	MembersMissing  []MissingMember   `json:"members_missing"`
	ControlPolicy   string            `json:"control_policy"`
	SpreadDDOF      int               `json:"spread_ddof"`
	Formats         []Format          `json:"formats"`
	Profile         string            `json:"nc_profile"`
	Longitude       string            `json:"longitude"`
	Quantise        int               `json:"quantise"` // bits of packed values, 0 for none
	Grid            string            `json:"grid"`
	Fields          []string          `json:"fields"`               // variable, level, lead and statistic of each
	Coupling        string            `json:"coupling,omitempty"`   // how calibrated members are made
	LeadsRead       string            `json:"leads_read,omitempty"` // where the network read fewer than it was trained with
	Stations        string            `json:"stations,omitempty"`   // how many, and what tells them from others
	Fallback        string            `json:"fallback,omitempty"`   // what forecasts in place of the network
	Drift           *InputDrift       `json:"input_drift,omitempty"`
}

// InputDrift is the field of the input that is least like those of the training, where a model knows them.
type InputDrift struct {
	Distance    float64 `json:"distance"`     // in standard deviations of the training's starts
	Field       string  `json:"field"`        // "level of t at 850hPa, 48h"
	BeyondLimit int     `json:"beyond_limit"` // fields beyond the limit
}

// ParseManifest reads the text of a manifest, which lies at path.
//
// Errors: those of manifest.Parse.
func ParseManifest(text []byte, path string) (*Manifest, error) {
	var m Manifest
	if err := manifest.Parse(text, path, manifestSchema, &m); err != nil {
		return nil, err
	}
	return &m, nil
}

// MissingMember is a member that was expected and not used.
type MissingMember struct {
	Member ensemble.Member `json:"member"`
	Reason string          `json:"reason"`
}

// ReadManifest reads the manifest of a cycle's folder.
//
// Errors: those of manifest.Read.
func ReadManifest(dir string) (*Manifest, error) {
	var m Manifest
	if err := manifest.Read(dir, manifestSchema, &m); err != nil {
		return nil, err
	}
	return &m, nil
}

// TopLevelOutputs are the outputs as they lie in the folder itself: files, and folders of which the
// manifest lists every file.
func (m *Manifest) TopLevelOutputs() []string {
	var out []string
	for _, f := range m.Outputs {
		if top, _, _ := strings.Cut(f.Path, "/"); filepath.IsLocal(top) && !slices.Contains(out, top) {
			out = append(out, top)
		}
	}
	return out
}

// hasSameSource says whether two manifests are of the same inputs, model, config and
// version, so that the same outputs would come out.
func (m *Manifest) hasSameSource(o *Manifest) bool { return m.differences(o) == nil }

// differences says in words what two manifests are not both made from.
func (m *Manifest) differences(o *Manifest) (words []string) {
	for _, x := range []struct {
		same bool
		word string
	}{
		{m.Init == o.Init, "another cycle"},
		{m.ModelChecksum == o.ModelChecksum, "another model"},
		{m.ConfigChecksum == o.ConfigChecksum, "another config of the training"},
		{m.Version == o.Version, "another version of the program"},
		{slices.Equal(m.MembersUsed, o.MembersUsed), "other members"},
		{slices.Equal(manifest.Checksums(m.Inputs), manifest.Checksums(o.Inputs)), "other inputs"},
	} {
		if !x.same {
			words = append(words, x.word)
		}
	}
	return words
}

// supersedes says whether a set takes the place of a degraded one of the same cycle, model,
// config and version: it is whole, or of more members, which came later.
func (m *Manifest) supersedes(o *Manifest) bool {
	if o.Status != manifest.Degraded || m.Init != o.Init || m.ModelChecksum != o.ModelChecksum || m.ConfigChecksum != o.ConfigChecksum || m.Version != o.Version {
		return false
	}
	if o.Fallback != "" && m.hasSameSource(o) { // whatever made the network doubtful, its product is asked for by OverwriteAlways
		return false
	}
	more := len(m.MembersUsed) - len(o.MembersUsed)
	return more > 0 || more == 0 && (m.Status == manifest.OK || len(m.MembersMissing) < len(o.MembersMissing))
}

// includes says whether the files of a manifest are all those that another is of, with the
// same fields written in the same way.
func (m *Manifest) includes(o *Manifest) bool {
	return m.Profile == o.Profile && m.Longitude == o.Longitude && m.Quantise == o.Quantise && m.Grid == o.Grid && m.Stations == o.Stations && m.Coupling == o.Coupling && m.LeadsRead == o.LeadsRead &&
		slices.Equal(m.Fields, o.Fields) &&
		!slices.ContainsFunc(o.Formats, func(f Format) bool { return !slices.Contains(m.Formats, f) })
}

// Overwrite says when a published cycle may be replaced.
type Overwrite string

// The policies.
const (
	OverwriteSame   Overwrite = "" // if it was made from the same inputs, model and config
	OverwriteNever  Overwrite = "never"
	OverwriteAlways Overwrite = "always"
)

// ErrOtherModel is wrapped where products are there that another model made, or another version of the program.
var ErrOtherModel = errors.New("products of another model, config or version")

// FindPublished looks for a finished cycle in dir before work on it begins. want
// needs what a cycle is made from: cycle, inputs, members used, model, config
// and version; and of which fields, in what formats and for which readers.
//
// It returns the manifest if the very same products are already there and whole:
// then there is nothing to do. It returns nil if they are to be made, also in the place
// of degraded ones that lack more members.
//
// Errors: exit 73 if other products are there and may not be replaced.
func FindPublished(dir string, want *Manifest, policy Overwrite) (*Manifest, error) {
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
	refuse := func(why string) *exit.Error {
		return &exit.Error{Code: exit.CannotWrite, What: "products of this cycle are already there", At: dir, Why: why,
			Fix: "write to another folder, or allow it with --overwrite always"}
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, exit.CreateError(filepath.Dir(dir), syscall.ENOTDIR)
	}
	if err != nil {
		return nil, refuse("their manifest cannot be read")
	}
	if policy == OverwriteSame && want.supersedes(got) {
		return nil, nil
	}
	if other := got.differences(want); other != nil {
		e := refuse("they were made from " + strings.Join(other, ", "))
		if got.ModelChecksum != want.ModelChecksum || got.ConfigChecksum != want.ConfigChecksum || got.Version != want.Version {
			e.Err = ErrOtherModel
		}
		return nil, e
	}
	if err := got.Verify(dir); err == nil && got.includes(want) {
		return got, nil
	} else if err == nil && policy == OverwriteNever {
		return nil, refuse("they are of other fields, in other formats, or written for other readers")
	} else if policy == OverwriteNever {
		return nil, refuse(err.Error())
	}
	return nil, nil
}
