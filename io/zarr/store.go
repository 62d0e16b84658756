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
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	"github.com/ensemble-weather/ensemble/io/cf"
)

// Names of the metadata documents of a store: version 2 .zarray, .zattrs, .zgroup
// and .zmetadata (consolidated), version 3 zarr.json.
const (
	arrayName2        = ".zarray"
	attributesName2   = ".zattrs"
	groupName2        = ".zgroup"
	consolidatedName2 = ".zmetadata"
	nodeName3         = "zarr.json"
)

// IsStore reports whether a directory is a store, by its metadata documents.
func IsStore(dir string) bool {
	for _, name := range []string{nodeName3, groupName2, arrayName2, consolidatedName2} {
		if st, err := filesystem.Stat(filepath.Join(dir, name)); err == nil && st.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// HasMetadataName reports whether the head of a zip archive contains the name of a
// metadata document.
func HasMetadataName(head []byte) bool {
	return slices.ContainsFunc([]string{arrayName2, groupName2, consolidatedName2, nodeName3}, func(name string) bool { return bytes.Contains(head, []byte(name)) })
}

// Options configures Open. The zero value is the default.
type Options struct {
	// Sparse reads absent chunks as the fill value in version 3 and in coordinates,
	// and as missing values in version 2, where xarray marks these by the fill value.
	// By default they are an error.
	Sparse bool
	// Metadata are the documents of a store that another process opened
	// (Store.Metadata). They are not read again.
	Metadata map[string][]byte
}

// Store is an open store. Its methods may be called from several goroutines.
type Store struct {
	// Arrays holds the usable arrays in the order of their paths.
	Arrays []*Array
	// Unused lists the arrays that cannot be used, with the reason. Number is not
	// set.
	Unused []cf.Unused
	// Attrs holds the attributes of the root group.
	Attrs map[string]cf.Attr
	// Warnings lists inconsistencies that do not affect the values.
	Warnings []string

	path    string
	sparse  bool
	storage storage
	// folder is the identity of the directory or file when the store was opened.
	// VerifyUnchanged compares it.
	folder os.FileInfo
	// metadataTimes holds the modification times of the metadata that were read, by
	// key.
	metadataTimes map[string]time.Time
	// metadata holds the documents that were read, known those of Options.Metadata.
	metadata, known map[string][]byte
	// seen holds the paths of all arrays, used or not.
	seen map[string]bool
	// consolidated holds the arrays in the consolidated metadata; nil without them.
	consolidated map[string]bool
	cache        *cache
}

// Open reads the metadata of a store in a directory or a zip archive.
//
// Errors: *exit.Error: 65 for metadata that contradict themselves or the existing
// arrays, 66 for a store that is being written, 74 if reading fails.
func Open(name string, o Options) (*Store, error) {
	// The storage is chosen by the type of the path: archives are regular files.
	s := &Store{path: name, sparse: o.Sparse, Attrs: map[string]cf.Attr{}, metadataTimes: map[string]time.Time{}, metadata: map[string][]byte{}, known: o.Metadata, seen: map[string]bool{}, cache: newCache()}
	st, err := filesystem.Stat(name)
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
	// A directory is a store by its metadata; an archive may contain anything.
	if len(s.metadataTimes) == 0 {
		s.Close()
		return nil, &exit.Error{Code: exit.BadData, What: "not a Zarr store", At: name, Why: "it is a zip archive without Zarr metadata at its root", Fix: fmt.Sprintf("unpack it (`unzip '%s'`) and give the files in it", name)}
	}
	if err := s.compareConsolidated(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the store.
func (s *Store) Close() error { return s.storage.close() }

// storeError returns an error at a place of the store, with the exit code for its
// cause.
func (s *Store) storeError(what, at string, err error) *exit.Error {
	place := s.path
	if at != "" {
		place += ", " + at
	}
	e := &exit.Error{Code: exit.BadData, What: what, At: place, Why: err.Error(), Fix: "fetch the store again", Err: err}
	// An error of the operating system has another exit code than damage, because
	// fetching the store again does not help. os.Root reports a link out of the
	// directory as "escapes", which is damage.
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

// readMetadata reads a metadata document; nil if it does not exist.
func (s *Store) readMetadata(key string) ([]byte, error) {
	o, err := s.storage.open(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && o.size > maxMetadata {
		o.close()
		err = fmt.Errorf("%d bytes exceed the limit of %d", o.size, maxMetadata)
	}
	if err != nil {
		return nil, s.storeError("metadata cannot be read", key, err)
	}
	b, known := s.known[key]
	if known && int64(len(b)) == o.size {
		o.close()
	} else if b, err = o.bytes(); err != nil {
		return nil, s.storeError("metadata cannot be read", key, err)
	}
	s.metadataTimes[key], s.metadata[key] = o.modified, b
	return b, nil
}

// Metadata returns the documents that Open read, by key.
func (s *Store) Metadata() map[string][]byte { return s.metadata }

// walk reads a group, and the groups and arrays in it. A zarr.json has precedence
// over documents of version 2.
func (s *Store) walk(at string, depth int) error {
	if depth > maxDepth {
		return s.storeError("groups are nested too deeply", at, fmt.Errorf("more than %d levels", maxDepth))
	}
	key := func(name string) string { return path.Join(at, name) }
	node, err := s.readMetadata(key(nodeName3))
	if err != nil {
		return err
	}
	if node != nil {
		// A store has one version, but a group may contain documents of both after
		// a conversion. The newer one counts.
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
	// A directory without metadata inside a store. The root may lack .zgroup.
	if group == nil && at != "" {
		s.Unused = append(s.Unused, cf.Unused{Name: at, Reason: "the folder has no Zarr metadata"})
		return nil
	}
	if at == "" {
		if s.Attrs, err = parseAttributes(attrs); err != nil {
			return s.storeError("metadata are invalid", attributesName2, err)
		}
		if err := s.readConsolidated2(); err != nil {
			return err
		}
	}
	return s.walkChildren(at, depth)
}

// walkChildren walks the members of a group.
func (s *Store) walkChildren(at string, depth int) error {
	_, prefixes, links, err := s.storage.list(at)
	if err != nil {
		return s.storeError("the store cannot be listed", at, err)
	}
	for _, name := range links {
		s.Unused = append(s.Unused, cf.Unused{Name: path.Join(at, name), Reason: "it is a symbolic link, which is not followed"})
	}
	for _, name := range prefixes {
		// Temporary directories of writers begin with a dot.
		if strings.HasPrefix(name, ".") {
			continue // files of the system, or a store that is being written
		}
		if err := s.walk(path.Join(at, name), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// readNode3 parses a zarr.json and reports whether it describes a group.
//
// Source: Zarr core specification 3.0, metadata.
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
	bad := func(err error) error { return s.storeError("metadata are invalid", path.Join(at, nodeName3), err) }
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
		// zarr-python writes consolidated metadata of version 3 into the root
		// zarr.json. The specification does not define them.
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

// readConsolidated2 reads the names of the arrays in .zmetadata.
func (s *Store) readConsolidated2() error {
	text, err := s.readMetadata(consolidatedName2)
	if text == nil || err != nil {
		return err
	}
	var m struct {
		Metadata map[string]json.RawMessage `json:"metadata"`
	}
	if err := unmarshal(text, &m); err != nil {
		return s.storeError("metadata are invalid", consolidatedName2, err)
	}
	s.consolidated = map[string]bool{}
	for key := range m.Metadata {
		// Keys of .zmetadata are those of the documents, such as t2m/.zarray.
		if path.Base(key) == arrayName2 {
			s.consolidated[path.Dir(key)] = true
		}
	}
	return nil
}

// compareConsolidated compares the arrays with the consolidated metadata. The
// metadata of the arrays themselves are used; the consolidated copy only shows
// which arrays should exist.
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
	// A listed array that does not exist was lost. An array that is not listed was
	// added without an update of the consolidated metadata.
	if len(absent) > 0 {
		return s.storeError("arrays of the store are absent", strings.Join(absent[:min(3, len(absent))], ", "),
			fmt.Errorf("the consolidated metadata list %d arrays that do not exist", len(absent)))
	}
	if len(more) > 0 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s: the consolidated metadata do not list %s, so other readers ignore it", s.path, strings.Join(more, ", ")))
	}
	return nil
}

// add registers an array, or the reason why it is not used.
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
		return s.storeError("metadata are invalid", "array "+name, err)
	case at == "":
		s.Unused = append(s.Unused, cf.Unused{Name: name, Reason: "it is a single array without coordinates"})
		return nil
	case len(s.Arrays) == maxArrays:
		return s.storeError("too many arrays", "", fmt.Errorf("the limit is %d", maxArrays))
	}
	s.Arrays = append(s.Arrays, a)
	return nil
}

// VerifyUnchanged verifies that the metadata have not changed since they were read.
// Chunks are verified when they are read.
//
// Errors: exit 66 if they have changed.
func (s *Store) VerifyUnchanged() error {
	now, err := filesystem.Stat(s.path)
	if err == nil && !os.SameFile(now, s.folder) {
		err = errors.New("it was replaced by another store")
	}
	if err != nil {
		return s.storeError("", "", errors.Join(errChanged, err))
	}
	// A document that was removed counts as modified.
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

// Header returns the store as a CF header. Vars are the Arrays, in the same order.
func (s *Store) Header() *cf.Header {
	h := &cf.Header{Attrs: s.Attrs}
	at := map[string]int{} // group, name and length of a dimension → position in h.Dims
	for _, a := range s.Arrays {
		v := a.cfVariable()
		for i, name := range a.Dims {
			v.Dims = append(v.Dims, dimension(h, at, v.Group, name, a.Shape[i]))
		}
		h.Vars = append(h.Vars, *v)
	}
	return h
}

// dimension finds or adds a dimension of a group. Dimensions with the same name and
// length in a parent group are the same.
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
