// Package manifest writes and reads the manifest of a finished directory, such as a
// run or a published forecast. manifest.json, written last, holds the checksums of
// inputs and outputs. SHA256SUMS holds those of the outputs for sha256sum -c.
//
// A document embeds Record and adds the fields of its kind.
package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	slashed "path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// File names.
const (
	Name     = "manifest.json"
	SumsName = "SHA256SUMS"
)

// Values of Record.Status.
const (
	OK       = "ok"
	Degraded = "degraded" // made from incomplete input, as the policy allows
)

// File identifies a file by its content.
type File struct {
	Path   string `json:"path"` // for outputs relative to the manifest's directory, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // lower-case hexadecimal
}

// Record holds the fields of all manifests.
type Record struct {
	Schema         string    `json:"schema"`   // name and version of the document's format
	Checksum       string    `json:"checksum"` // of the document, which Write sets (SealedJSON)
	Status         string    `json:"status"`   // OK or Degraded
	Version        string    `json:"version"`
	ConfigChecksum string    `json:"config_checksum"` // "sha256:…"
	ModelChecksum  string    `json:"model_checksum"`  // "sha256:…"
	Start          time.Time `json:"start"`
	End            time.Time `json:"end"`
	Inputs         []File    `json:"inputs"`
	Outputs        []File    `json:"outputs"`
	Warnings       []string  `json:"warnings"`
}

// record implements Document.
func (r *Record) record() *Record { return r }

// Document is a pointer to a struct that embeds Record.
type Document interface{ record() *Record }

// Sum returns the checksums of input files, with the given paths.
func Sum(paths ...string) ([]File, error) {
	files := make([]File, 0, len(paths))
	for _, path := range paths {
		f, err := SumFile(path)
		if err != nil {
			return nil, exit.ReadError(path, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// SumBelow returns the checksums of outputs, whose names are relative to dir,
// sorted by name.
//
// Errors: a name outside dir; those of reading the files.
func SumBelow(dir string, names []string) ([]File, error) {
	files := make([]File, 0, len(names))
	for _, name := range slices.Sorted(slices.Values(names)) {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("output %q is outside %s", name, dir)
		}
		f, err := SumFile(filepath.Join(dir, name))
		if err != nil {
			return nil, exit.CreateError(filepath.Join(dir, name), err)
		}
		f.Path = filepath.ToSlash(name)
		files = append(files, f)
	}
	return files, nil
}

// SumFile returns the checksum of a file. The checksum of a folder is that of a
// list like SHA256SUMS of all files in it.
//
// Errors: those of reading, which contain the path.
func SumFile(path string) (File, error) {
	parts, err := ListFiles(path)
	if err != nil {
		return File{}, err
	}
	of := make([]File, len(parts))
	for i, p := range parts {
		if of[i], err = sumRegular(filepath.Join(path, p.Path)); err != nil {
			return File{}, err
		}
	}
	return JoinFiles(path, parts, of), nil
}

// JoinFiles returns the checksum of an input from those of its files, which are in the order of ListFiles.
func JoinFiles(path string, parts []InputFile, of []File) File {
	if len(parts) == 1 && parts[0].Path == "" {
		return File{path, of[0].Size, of[0].SHA256}
	}
	whole, h := File{Path: path}, sha256.New()
	for i, p := range parts {
		whole.Size += of[i].Size
		fmt.Fprintf(h, "%s  %s\n", of[i].SHA256, filepath.ToSlash(p.Path))
	}
	whole.SHA256 = hex.EncodeToString(h.Sum(nil))
	return whole
}

// sumRegular returns the checksum of a regular file.
func sumRegular(path string) (File, error) {
	f, err := filesystem.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return File{path, n, hex.EncodeToString(h.Sum(nil))}, err
}

// Checksums returns the checksums of files in ascending order. Two lists of files
// are the same input if these are equal, whatever their paths and order.
func Checksums(files []File) []string {
	sums := make([]string, len(files))
	for i, f := range files {
		sums[i] = f.SHA256
	}
	slices.Sort(sums)
	return sums
}

// Identity returns a hash of everything that determines a result: version,
// configuration and contents of the inputs.
func Identity(version, configChecksum string, inputs []File) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", version, configChecksum)
	for _, s := range Checksums(inputs) {
		fmt.Fprintln(h, s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Write writes SHA256SUMS of the outputs and then manifest.json. Nil lists of the
// record are written as empty lists.
func Write(dir string, d Document) error {
	r := d.record()
	r.Inputs, r.Outputs = append([]File{}, r.Inputs...), append([]File{}, r.Outputs...)
	r.Warnings = append([]string{}, r.Warnings...)
	text, err := SealedJSON(d, &r.Checksum, "  ")
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{SumsName, Sums(r.Outputs)}, {Name, text}} {
		path := filepath.Join(dir, f.name)
		if err := atomicfile.WriteFile(path, f.text); err != nil {
			return exit.CreateError(path, err)
		}
	}
	return nil
}

// Sums returns the content of SHA256SUMS.
func Sums(outputs []File) []byte {
	var sums bytes.Buffer
	for _, f := range outputs {
		fmt.Fprintf(&sums, "%s  %s\n", f.SHA256, f.Path)
	}
	return sums.Bytes()
}

// Read reads the manifest of a directory.
//
// Errors: os.ErrNotExist if there is none; exit 65 if it is damaged, has another
// schema or names outputs outside the directory; 74 if reading fails.
func Read(dir, schema string, d Document) error {
	path := filepath.Join(dir, Name)
	text, err := filesystem.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err != nil {
		return exit.ReadError(path, err)
	}
	return Parse(text, path, schema, d)
}

// Parse parses a manifest; path is used in errors.
//
// Errors: exit 65, as Read.
func Parse(text []byte, path, schema string, d Document) error {
	bad := func(what, why string, err error) error {
		return &exit.Error{Code: exit.BadData, What: what, At: path, Why: why,
			Fix: "remove it, write to another directory, or run again with --overwrite always", Err: err}
	}
	if err := json.Unmarshal(text, d); err != nil {
		return bad("the manifest is damaged", err.Error(), err)
	}
	r := d.record()
	if r.Schema != schema {
		return bad("the manifest has another schema", fmt.Sprintf("schema %q, want %q", r.Schema, schema), nil)
	}
	for _, f := range r.Outputs {
		if !filepath.IsLocal(filepath.FromSlash(f.Path)) || strings.ContainsRune(f.Path, 0) || slashed.Clean(f.Path) != f.Path || f.Path == "." {
			return bad("the manifest names a file outside its directory", fmt.Sprintf("%q", f.Path), nil)
		}
		if _, err := hex.DecodeString(f.SHA256); err != nil || f.Size < 0 {
			return bad("the manifest is damaged", fmt.Sprintf("%s has %d bytes and the SHA-256 %q", f.Path, f.Size, f.SHA256), err)
		}
	}
	if err := CheckSeal(text); err != nil {
		return bad("the manifest is damaged", err.Error(), err)
	}
	return nil
}

// Verify compares the outputs in dir with their checksums.
//
// Errors: exit 65 with the first file that is missing or differs.
func (r *Record) Verify(dir string) error {
	for _, want := range r.Outputs {
		path := filepath.Join(dir, filepath.FromSlash(want.Path))
		got, err := SumFile(path)
		why := ""
		switch {
		case err != nil:
			why = err.Error()
		case got.Size != want.Size:
			why = fmt.Sprintf("it has %d bytes, the manifest states %d", got.Size, want.Size)
		case got.SHA256 != want.SHA256:
			why = "its SHA-256 differs from the manifest's"
		default:
			continue
		}
		return &exit.Error{Code: exit.BadData, What: "a file differs from the manifest", At: path, Why: why,
			Fix: "restore it, or run again with --overwrite always", Err: err}
	}
	return nil
}
