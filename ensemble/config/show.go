package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// text is an effective value as YAML text; "" without a value.
func (e *Loaded) text(path string) string {
	v := e.values[path]
	if v == nil {
		return ""
	}
	return e.schema.Leaf(path).Text(v)
}

// YAML is the effective configuration: every key that has a value, in schema order. Loading it
// gives the same configuration.
func (e *Loaded) YAML() []byte {
	return e.schema.YAML(func(l *schema.Leaf) (text, comment string) { return l.Text(e.values[l.Path]), "" })
}

// YAMLBelow is YAML with lists of files and the sample store relative to a folder that they are below, and without the cache of indexes, so
// that it names no directory of this machine.
func (e *Loaded) YAMLBelow(folder string) []byte {
	return e.schema.YAML(func(l *schema.Leaf) (text, comment string) {
		v := e.values[l.Path]
		if files, ok := v.([]Path); ok {
			below := make([]Path, len(files))
			for i, f := range files {
				below[i] = f.Below(folder)
			}
			v = below
		}
		switch l.Path {
		case "data.store":
			if dir, ok := v.(Path); ok {
				v = dir.Below(folder)
			}
		case "data.index_cache":
			v = nil
		}
		return l.Text(v), ""
	})
}

// Show writes the effective configuration as YAML; with origin, every value has a comment with its
// source.
func (e *Loaded) Show(w io.Writer, origin bool) error {
	text := e.YAML()
	if origin {
		text = e.schema.YAML(func(l *schema.Leaf) (text, comment string) {
			return l.Text(e.values[l.Path]), e.origins[l.Path].String()
		})
	}
	_, err := w.Write(text)
	return err
}

// Setting is an effective value with its origin.
type Setting struct {
	Value  string `json:"value"` // as YAML text
	Origin string `json:"origin"`
}

// Values returns all keys that have a value.
func (e *Loaded) Values() map[string]Setting {
	out := map[string]Setting{}
	for _, l := range e.schema.Leaves() {
		if text := l.Text(e.values[l.Path]); text != "" {
			out[l.Path] = Setting{text, e.origins[l.Path].String()}
		}
	}
	return out
}

// Hash is the SHA-256 of the YAML text of the effective configuration.
func (e *Loaded) Hash() string {
	sum := sha256.Sum256(e.YAML())
	return hex.EncodeToString(sum[:])
}

// Identity is the SHA-256 of all keys that can change results, without Neutral keys. Runs that
// differ only in threads or checkpoints have the same identity.
func (e *Loaded) Identity() string {
	h := sha256.New()
	for _, l := range e.schema.Leaves() {
		if !l.OutsideIdentity {
			fmt.Fprintf(h, "%s: %s\n", l.Path, e.text(l.Path)) // writes to a hash do not fail
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ResumeIdentity is the SHA-256 of all keys that may not change when a run is resumed. The checkpoints of a run have the same one.
func (e *Loaded) ResumeIdentity() string {
	h := sha256.New()
	for _, l := range e.schema.Leaves() {
		if !l.MayChangeOnResume {
			fmt.Fprintf(h, "%s: %s\n", l.Path, e.text(l.Path)) // writes to a hash do not fail
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Change is a key whose value changed between two configurations.
type Change struct {
	Key         string
	Before, Now string // as YAML text; "not set" without a value
}

// CheckResume compares the configuration with the effective configuration that a run started with
// (began, YAML). Keys marked Resume may differ, and those that can change results are returned. A
// key that the run did not record had its default.
//
// Errors: exit 64 with one fault for each other key that differs, with both values; exit 65 if
// began cannot be parsed.
func (e *Loaded) CheckResume(began []byte) ([]Change, error) {
	old := e.schema.ReadText("config.effective.yaml", "/", began)
	if len(old.Values) == 0 {
		return nil, &exit.Error{Code: exit.BadData, What: "cannot read the effective configuration of the run", Fix: "start a new run directory", Err: JoinFaults(old.Faults)}
	}
	if len(old.Faults) > 0 {
		return nil, JoinFaults(old.Faults)
	}
	var faults []*exit.Error
	var changes []Change
	for _, l := range e.schema.Leaves() {
		v, ok := old.Values[l.Path]
		if !ok {
			v = l.Unset
		}
		switch before, now := l.Text(v), e.text(l.Path); {
		case now == before:
		case l.MayChangeOnResume:
			if !l.OutsideIdentity {
				changes = append(changes, Change{l.Path, orNotSet(before), orNotSet(now)})
			}
		default:
			faults = append(faults, e.Fault(l.Path, fmt.Sprintf("%s changed since the run began", l.Path),
				fmt.Sprintf("it was %s and is %s", orNotSet(before), orNotSet(now)), "restore it, or start a new run directory"))
		}
	}
	return changes, JoinFaults(faults)
}

// orNotSet is s, or "not set".
func orNotSet(s string) string {
	if s == "" {
		return "not set"
	}
	return s
}
