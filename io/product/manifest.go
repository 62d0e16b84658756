package product

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// manifestSchema identifies the meaning of the fields of a Manifest. Fields may be
// added under the same schema.
const manifestSchema = "ensemble.product/1"

// Manifest describes the content of the directory of an initialisation and its
// sources. It is written last: without it the initialisation is not published.
type Manifest struct {
	manifest.Record
	Init            string            `json:"init"` // init, RFC 3339
	MembersUsed     []ensemble.Member `json:"members_used"`
	MembersComplete int               `json:"members_complete"` // in the input, used or not
	MembersExpected int               `json:"members_expected"` // of a complete input
	MembersMissing  []MissingMember   `json:"members_missing"`
	ControlPolicy   string            `json:"control_policy"`
	SpreadDDOF      int               `json:"spread_ddof"`
	Formats         []Format          `json:"formats"`
	Profile         string            `json:"nc_profile"`
	Longitude       string            `json:"longitude"`
	Quantise        int               `json:"quantise"` // bits of packed values; 0 for float32
	Grid            string            `json:"grid"`
	Fields          []string          `json:"fields"`               // variable, level, lead and statistic of each field
	Coupling        string            `json:"coupling,omitempty"`   // method that makes calibrated members
	LeadsRead       string            `json:"leads_read,omitempty"` // leads that the network read, if fewer than in training
	Stations        string            `json:"stations,omitempty"`   // number and checksum of the stations
	Fallback        string            `json:"fallback,omitempty"`   // fallback forecast; empty for the network
	Drift           *InputDrift       `json:"input_drift,omitempty"`
	Departures      []Departure       `json:"departures,omitempty"` // the largest of mean, spread and full ensemble's spread
}

// Departure is the field of a forecast that is farthest from its ensemble, at its
// worst point.
type Departure struct {
	Field    string  `json:"field"`    // "mean of t at 850hPa"
	Distance float64 `json:"distance"` // from the members' mean; of a spread from 0
	Reach    float64 `json:"reach"`    // largest distance in training, or spread of the members where it is larger
	Ratio    float64 `json:"ratio"`    // distance / reach
}

// InputDrift is the field of the input with the largest distance from those of
// training, if the model has their statistics.
type InputDrift struct {
	Distance    float64 `json:"distance"`     // in standard deviations over the initialisations of training
	Field       string  `json:"field"`        // "level of t at 850hPa, 48h"
	BeyondLimit int     `json:"beyond_limit"` // number of fields beyond the limit
}

// ParseManifest parses a manifest. path appears in errors.
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

// Contents returns the kinds of the fields and their leads, each once and ascending.
func (m *Manifest) Contents() (kinds []Kind, leads []ensemble.Lead) {
	for _, f := range m.Fields { // "t 850hPa 48h quantile 0.1", as Publication.Manifest writes it
		words := strings.Fields(f)
		if len(words) < 4 {
			continue
		}
		lead, err := time.ParseDuration(words[2])
		if err != nil {
			continue
		}
		kinds, leads = append(kinds, Kind(words[3])), append(leads, ensemble.Lead(lead))
	}
	slices.Sort(kinds)
	slices.Sort(leads)
	return slices.Compact(kinds), slices.Compact(leads)
}

// TopLevelOutputs returns the outputs at the top level of the directory: files, and
// directories whose files the manifest lists.
func (m *Manifest) TopLevelOutputs() []string {
	var out []string
	for _, f := range m.Outputs {
		if top, _, _ := strings.Cut(f.Path, "/"); filepath.IsLocal(top) && !slices.Contains(out, top) {
			out = append(out, top)
		}
	}
	return out
}

// hasSameSource reports whether two manifests have the same inputs, model,
// configuration and version, so that outputs would be the same.
func (m *Manifest) hasSameSource(o *Manifest) bool { return m.differences(o) == nil }

// source is a property of the sources of a product.
type source struct {
	other string // words for another value
	model bool   // of the model or the program, not of the input
	value string
}

// sources returns the sources of a product. Fields and formats are not sources:
// includes compares them.
func (m *Manifest) sources() []source {
	return []source{
		{"another initialisation", false, m.Init},
		{"another model", true, m.ModelChecksum},
		{"another training configuration", true, m.ConfigChecksum},
		{"another version of the program", true, m.Version},
		{"other members", false, ensemble.MemberRanges(m.MembersUsed)},
		{"other inputs", false, strings.Join(manifest.Checksums(m.Inputs), " ")},
	}
}

// SourceID returns a hash of the sources of a product. Products of the same sources
// have the same values.
func (m *Manifest) SourceID() string {
	h := sha256.New()
	for _, s := range m.sources() {
		fmt.Fprintf(h, "%q\n", s.value)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// differences returns the sources of m that differ from those of o; nil means equal.
func (m *Manifest) differences(o *Manifest) (other []source) {
	theirs := o.sources()
	for i, s := range m.sources() {
		if s.value != theirs[i].value {
			other = append(other, s)
		}
	}
	return other
}

// otherSource describes how wanted products differ from the existing ones of m; nil if
// they have the same source.
func (m *Manifest) otherSource(want *Manifest) *OtherSource {
	differences := m.differences(want)
	if differences == nil {
		return nil
	}
	e := &OtherSource{Wanted: want.SourceID(), Inputs: changedFiles(m.Inputs, want.Inputs)}
	for _, s := range differences {
		e.Model = e.Model || s.model
		e.Differences = append(e.Differences, s.other)
	}
	return e
}

// maxChangedFiles is the largest number of files that changedFiles names.
const maxChangedFiles = 3

// changedFiles states how the files of two inputs differ, such as "b.grib2 changed,
// c.grib2 added"; "" if they have the same contents.
func changedFiles(before, after []manifest.File) string {
	if slices.Equal(manifest.Checksums(before), manifest.Checksums(after)) {
		return ""
	}
	sums := func(files []manifest.File) map[string]string {
		out := map[string]string{}
		for _, f := range files { // files of different folders may have one name
			out[f.Path] += f.SHA256
		}
		return out
	}
	old, now := sums(before), sums(after)
	var words []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(old)), slices.Collect(maps.Keys(now)))))) {
		switch {
		case old[name] == now[name]:
		case old[name] == "":
			words = append(words, name+" added")
		case now[name] == "":
			words = append(words, name+" removed")
		default:
			words = append(words, name+" changed")
		}
	}
	text := strings.Join(words[:min(len(words), maxChangedFiles)], ", ")
	if more := len(words) - maxChangedFiles; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// supersedes reports whether a product replaces a degraded one of the same
// initialisation, model, configuration and version: it is complete, or has more members.
// Inputs may differ, since members that arrived later are other inputs.
func (m *Manifest) supersedes(o *Manifest) bool {
	if o.Status != manifest.Degraded || m.Init != o.Init || m.ModelChecksum != o.ModelChecksum || m.ConfigChecksum != o.ConfigChecksum || m.Version != o.Version {
		return false
	}
	if o.Fallback != "" && m.hasSameSource(o) { // a fallback forecast from the same sources stays, unless OverwriteAlways requests another
		return false
	}
	more := len(m.MembersUsed) - len(o.MembersUsed)
	return more > 0 || more == 0 && (m.Status == manifest.OK || len(m.MembersMissing) < len(o.MembersMissing))
}

// includes reports whether a product has the same fields in the same form and at
// least the same formats as another.
func (m *Manifest) includes(o *Manifest) bool {
	return m.Profile == o.Profile && m.Longitude == o.Longitude && m.Quantise == o.Quantise && m.Grid == o.Grid && m.Stations == o.Stations && m.Coupling == o.Coupling && m.LeadsRead == o.LeadsRead &&
		slices.Equal(m.Fields, o.Fields) &&
		!slices.ContainsFunc(o.Formats, func(f Format) bool { return !slices.Contains(m.Formats, f) })
}

// Overwrite is the policy for replacing a published initialisation.
type Overwrite string

// The policies.
const (
	OverwriteSame   Overwrite = "" // if inputs, model and configuration are the same
	OverwriteNever  Overwrite = "never"
	OverwriteAlways Overwrite = "always"
)

// OtherSource is wrapped by the error for existing products that were made from other
// sources than the wanted ones, and are not replaced.
type OtherSource struct {
	Differences []string // such as "another model", "other inputs"
	Model       bool     // model, training configuration or version differ
	Inputs      string   // how the input differs, such as "b.grib2 changed"; "" if it does not
	Wanted      string   // Manifest.SourceID of the wanted products
}

// Error implements error.
func (e *OtherSource) Error() string {
	text := "they have " + strings.Join(e.Differences, ", ")
	if e.Inputs != "" {
		text += ": " + e.Inputs
	}
	return text
}

// FindPublished looks for a published initialisation in dir before work on it
// begins. want needs initialisation, inputs, members, model, configuration,
// version, fields, formats and profile. Products of the source accepted, a
// Manifest.SourceID, replace others whatever the policy.
//
// It returns the manifest if the same products exist completely, so that nothing is
// to be done. It returns nil if they are to be made, also to replace degraded ones
// with fewer members.
//
// Errors: exit 73 if other products exist and may not be replaced; it wraps an
// OtherSource if their sources differ.
// Cost: the checksums of all files, if the same products exist.
func FindPublished(dir string, want *Manifest, policy Overwrite, accepted string) (*Manifest, error) {
	if policy == "same" {
		policy = OverwriteSame
	}
	got, err := ReadManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing, or files of a killed run: not published
	}
	if policy == OverwriteAlways {
		return nil, nil
	}
	refuse := func(why string) *exit.Error {
		return &exit.Error{Code: exit.CannotWrite, What: "products of this initialisation already exist", At: dir, Why: why,
			Fix: "write to another directory, or set --overwrite always"}
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
	if other := got.otherSource(want); other != nil {
		if accepted == other.Wanted {
			return nil, nil
		}
		e := refuse(other.Error())
		e.Err = other
		return nil, e
	}
	if err := got.Verify(dir); err == nil && got.includes(want) {
		return got, nil
	} else if err == nil && policy == OverwriteNever {
		return nil, refuse("they have other fields, formats or profiles")
	} else if policy == OverwriteNever {
		return nil, refuse(err.Error())
	}
	return nil, nil
}
