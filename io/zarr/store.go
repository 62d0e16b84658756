// Package zarr reads and writes Zarr stores of versions 2 and 3, in folders and zip
// archives, in plain Go: structure, chunks, compressors, filters and shards. What the
// arrays mean, package cf knows.
//
// Nothing from a store is a size until it was compared with the bytes that are there, or
// with a limit; names from a store never lead out of it. A chunk that is absent is not
// missing data but an error, unless the store is said to be sparse.
//
// Source: Zarr storage specification 2; Zarr core specification 3.0 with its codecs;
// xarray's encoding of dimensions (_ARRAY_DIMENSIONS).
package zarr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	"github.com/ensemble-weather/ensemble/io/cf"
)

// Names of the texts of a store.
const (
	arrayName2        = ".zarray"
	attributesName2   = ".zattrs"
	groupName2        = ".zgroup"
	consolidatedName2 = ".zmetadata"
	nodeName3         = "zarr.json"
)

// IsStore says whether a folder is a store, by what lies in it.
func IsStore(dir string) bool {
	for _, name := range []string{nodeName3, groupName2, arrayName2, consolidatedName2} {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// HasMetadataName says whether some bytes, as of the beginning of an archive, name a text of a store.
func HasMetadataName(head []byte) bool {
	return slices.ContainsFunc([]string{arrayName2, groupName2, consolidatedName2, nodeName3}, func(name string) bool { return bytes.Contains(head, []byte(name)) })
}

// Options of Open; the zero value is the default.
type Options struct {
	// Sparse takes chunks that are absent for missing values, in coordinates for the fill
	// value; by default they are an error.
	Sparse bool
}

// Store is an open store. Its methods may be called from several goroutines.
type Store struct {
	Arrays   []*Array
	Unused   []cf.Unused // arrays that cannot be used, and why; Number is not set
	Attrs    map[string]cf.Attr
	Warnings []string

	path          string
	sparse        bool
	storage       storage
	folder        os.FileInfo
	metadataTimes map[string]time.Time // metadata, and when it was written
	seen          map[string]bool      // arrays that are there, used or not
	consolidated  map[string]bool      // arrays of the consolidated metadata; nil without
	cache         *cache
}

// Open reads the metadata of a store, a folder or a zip archive.
//
// Errors: *exit.Error, 65 for metadata that contradict themselves or the arrays that are
// there, 66 for a store that is being written, 74 if reading fails.
func Open(name string, o Options) (*Store, error) {
	s := &Store{path: name, sparse: o.Sparse, Attrs: map[string]cf.Attr{}, metadataTimes: map[string]time.Time{}, seen: map[string]bool{}, cache: newCache()}
	st, err := os.Stat(name)
	if err == nil {
		s.folder = st
		if st.IsDir() {
			s.storage, err = openDirectory(name)
		} else {
			s.storage, err = openZip(name)
		}
	}
	if err != nil {
		return nil, s.storeError("Zarr store cannot be opened", "", err)
	}
	if err := s.walk("", 0); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.compareConsolidated(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the store.
func (s *Store) Close() error { return s.storage.close() }

// storeError is an error at a place of the store, with the code that its cause asks for.
func (s *Store) storeError(what, at string, err error) *exit.Error {
	place := s.path
	if at != "" {
		place += ", " + at
	}
	e := &exit.Error{Code: exit.BadData, What: what, At: place, Why: err.Error(), Fix: "fetch the store again", Err: err}
	var system *fs.PathError
	switch {
	case errors.Is(err, errChanged):
		return fingerprint.ChangedError(place, err)
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.Fix = exit.NotYet, "check its permissions"
	case errors.As(err, &system) && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(system.Err.Error(), "escapes"):
		e.Code, e.Fix = exit.IO, "check the file system"
	}
	return e
}

// readMetadata reads a metadata text; nil if it is not there.
func (s *Store) readMetadata(key string) ([]byte, error) {
	o, err := s.storage.open(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && o.size > maxMetadata {
		o.close()
		err = fmt.Errorf("%d bytes, more than %d", o.size, maxMetadata)
	}
	if err != nil {
		return nil, s.storeError("metadata cannot be read", key, err)
	}
	b, err := o.bytes()
	if err != nil {
		return nil, s.storeError("metadata cannot be read", key, err)
	}
	s.metadataTimes[key] = o.modified
	return b, nil
}

// walk looks through a group and the groups and arrays in it.
func (s *Store) walk(at string, depth int) error {
	if depth > maxDepth {
		return s.storeError("groups lie too deep", at, fmt.Errorf("more than %d in each other", maxDepth))
	}
	key := func(name string) string { return path.Join(at, name) }
	node, err := s.readMetadata(key(nodeName3))
	if err != nil {
		return err
	}
	if node != nil {
		more, err := s.readNode3(at, node)
		if err != nil || !more {
			return err
		}
		return s.walkChildren(at, depth)
	}
	array, err := s.readMetadata(key(arrayName2))
	if err != nil {
		return err
	}
	attrs, err := s.readMetadata(key(attributesName2))
	if err != nil {
		return err
	}
	if array != nil {
		a, err := parseArray2(at, array, attrs)
		return s.add(at, a, err)
	}
	group, err := s.readMetadata(key(groupName2))
	if err != nil {
		return err
	}
	if group == nil && at != "" {
		s.Unused = append(s.Unused, cf.Unused{Name: at, Reason: "the folder has no Zarr metadata"})
		return nil
	}
	if at == "" {
		if s.Attrs, err = parseAttributes(attrs); err != nil {
			return s.storeError("metadata make no sense", attributesName2, err)
		}
		if err := s.readConsolidated2(); err != nil {
			return err
		}
	}
	return s.walkChildren(at, depth)
}

// walkChildren walks what lies in a group.
func (s *Store) walkChildren(at string, depth int) error {
	_, prefixes, links, err := s.storage.list(at)
	if err != nil {
		return s.storeError("the store cannot be listed", at, err)
	}
	for _, name := range links {
		s.Unused = append(s.Unused, cf.Unused{Name: path.Join(at, name), Reason: "it is a link, which is not followed"})
	}
	for _, name := range prefixes {
		if strings.HasPrefix(name, ".") {
			continue // of the system, or a store that is being written
		}
		if err := s.walk(path.Join(at, name), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// readNode3 takes a zarr.json, and says whether it is that of a group.
func (s *Store) readNode3(at string, text []byte) (group bool, err error) {
	var m struct {
		Format       int             `json:"zarr_format"`
		Type         string          `json:"node_type"`
		Attributes   json.RawMessage `json:"attributes"`
		Consolidated *struct {
			Metadata map[string]struct {
				Type string `json:"node_type"`
			} `json:"metadata"`
		} `json:"consolidated_metadata"`
	}
	bad := func(err error) error { return s.storeError("metadata make no sense", path.Join(at, nodeName3), err) }
	if err := unmarshal(text, &m); err != nil {
		return false, bad(err)
	}
	switch m.Type {
	case "array":
		a, err := parseArray3(at, text)
		return false, s.add(at, a, err)
	case "group":
	default:
		return false, bad(fmt.Errorf("node_type is %q", m.Type))
	}
	if m.Format != 3 {
		return false, bad(fmt.Errorf("zarr_format is %d", m.Format))
	}
	if at == "" {
		if s.Attrs, err = parseAttributes(quoteNonFinite(m.Attributes)); err != nil {
			return false, bad(err)
		}
		if m.Consolidated != nil {
			s.consolidated = map[string]bool{}
			for name, node := range m.Consolidated.Metadata {
				if node.Type == "array" {
					s.consolidated[name] = true
				}
			}
		}
	}
	return true, nil
}

// readConsolidated2 reads which arrays the consolidated metadata of version 2 list.
func (s *Store) readConsolidated2() error {
	text, err := s.readMetadata(consolidatedName2)
	if text == nil || err != nil {
		return err
	}
	var m struct {
		Metadata map[string]json.RawMessage `json:"metadata"`
	}
	if err := unmarshal(text, &m); err != nil {
		return s.storeError("metadata make no sense", consolidatedName2, err)
	}
	s.consolidated = map[string]bool{}
	for key := range m.Metadata {
		if path.Base(key) == arrayName2 {
			s.consolidated[path.Dir(key)] = true
		}
	}
	return nil
}

// compareConsolidated: the metadata of the arrays themselves are what is read; the
// consolidated ones are a hint of what should be there.
func (s *Store) compareConsolidated() error {
	if s.consolidated == nil {
		return nil
	}
	var absent, more []string
	for name := range s.consolidated {
		if !s.seen[name] {
			absent = append(absent, fmt.Sprintf("%.100q", name))
		}
	}
	for _, a := range s.Arrays {
		if !s.consolidated[a.Path] {
			more = append(more, a.Path)
		}
	}
	slices.Sort(absent)
	if len(absent) > 0 {
		return s.storeError("arrays of the store are absent", strings.Join(absent[:min(3, len(absent))], ", "),
			fmt.Errorf("the consolidated metadata list %d arrays that are not there", len(absent)))
	}
	if len(more) > 0 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s: the consolidated metadata do not list %s: other readers will not see it", s.path, strings.Join(more, ", ")))
	}
	return nil
}

// add takes an array, or why it is not used.
func (s *Store) add(at string, a *Array, err error) error {
	var no *unusedError
	s.seen[at] = true
	name := at
	if name == "" {
		name = "the store itself"
	}
	switch {
	case errors.As(err, &no):
		s.Unused = append(s.Unused, cf.Unused{Name: name, Reason: no.reason})
		return nil
	case err != nil:
		return s.storeError("metadata make no sense", "array "+name, err)
	case at == "":
		s.Unused = append(s.Unused, cf.Unused{Name: name, Reason: "it is a single array, without coordinates"})
		return nil
	case len(s.Arrays) == maxArrays:
		return s.storeError("too many arrays", "", fmt.Errorf("more than %d", maxArrays))
	}
	s.Arrays = append(s.Arrays, a)
	return nil
}

// VerifyUnchanged verifies that the metadata are those that were read. Chunks are looked at when
// they are read.
//
// Errors: exit 66.
func (s *Store) VerifyUnchanged() error {
	now, err := os.Stat(s.path)
	if err == nil && !os.SameFile(now, s.folder) {
		err = errors.New("another store has its name now")
	}
	if err != nil {
		return s.storeError("", "", errors.Join(errChanged, err))
	}
	for key, stamp := range s.metadataTimes {
		o, err := s.storage.open(key)
		if err == nil {
			if o.close(); !o.modified.Equal(stamp) {
				err = errChanged
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = errChanged
		}
		if err != nil {
			return s.storeError("metadata cannot be read", key, err)
		}
	}
	return nil
}

// Header is the store as CF sees it: Vars are the Arrays, in their order.
func (s *Store) Header() *cf.Header {
	h := &cf.Header{Attrs: s.Attrs}
	at := map[string]int{} // group, name and length of a dimension → its position
	for _, a := range s.Arrays {
		v := a.cfVariable()
		for i, name := range a.Dims {
			v.Dims = append(v.Dims, dimension(h, at, v.Group, name, a.Shape[i]))
		}
		h.Vars = append(h.Vars, *v)
	}
	return h
}

// dimension finds or makes a dimension of a group. One with the same name and length in a
// group around is the same.
func dimension(h *cf.Header, at map[string]int, group, name string, length int64) int {
	key := func(group string) string { return fmt.Sprintf("%s\x00%s\x00%d", group, name, length) }
	for g := group; ; g = path.Dir(g) {
		if g == "." {
			g = ""
		}
		if p, ok := at[key(g)]; ok {
			return p
		}
		if g == "" {
			break
		}
	}
	at[key(group)] = len(h.Dims)
	h.Dims = append(h.Dims, cf.Dim{Name: name, Len: length, Group: group})
	return len(h.Dims) - 1
}
