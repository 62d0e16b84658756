package rundir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

const (
	manifestFile = "manifest.json"
	sumsFile     = "SHA256SUMS"
)

// FileSum names a file with its size and SHA-256.
type FileSum struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Manifest is what a finished run or a set of products says of itself.
type Manifest struct {
	Schema       int       `json:"schema"`
	Status       string    `json:"status"` // "ok" or "degraded"
	Command      string    `json:"command"`
	Version      string    `json:"version"`
	Identity     string    `json:"identity"`
	ConfigSHA256 string    `json:"config_sha256,omitempty"`
	ModelSHA256  string    `json:"model_sha256,omitempty"`
	Start        time.Time `json:"start"`
	End          time.Time `json:"end"`
	Inputs       []FileSum `json:"inputs"`
	Outputs      []FileSum `json:"outputs"`
	Warnings     []string  `json:"warnings"`
	// Details holds what only this kind of run has: members used, determinism
	// level, last step.
	Details map[string]any `json:"details,omitempty"`
}

// Sum measures files. Paths stay as they are given.
func Sum(paths ...string) ([]FileSum, error) {
	sums := make([]FileSum, 0, len(paths))
	for _, path := range paths {
		s, err := sumFile(path)
		if err != nil {
			return nil, exit.Read(path, err)
		}
		sums = append(sums, s)
	}
	return sums, nil
}

func sumFile(path string) (FileSum, error) {
	f, err := os.Open(path)
	if err != nil {
		return FileSum{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return FileSum{path, n, hex.EncodeToString(h.Sum(nil))}, err
}

// Identity is one hash of all that decides a result: the version, the configuration
// and the inputs, wherever these lie.
func Identity(version, configSHA256 string, inputs []FileSum) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", version, configSHA256)
	sums := make([]string, len(inputs))
	for i, s := range inputs {
		sums[i] = s.SHA256
	}
	slices.Sort(sums) // the order in which files are named decides nothing
	for _, s := range sums {
		fmt.Fprintln(h, s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// WriteManifest measures the outputs, which are named relative to dir, and writes
// SHA256SUMS and then, last of all, manifest.json.
func WriteManifest(dir string, m Manifest, outputs []string) error {
	m.Schema = 1
	m.Outputs = nil
	slices.Sort(outputs)
	var sums bytes.Buffer
	for _, name := range outputs {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("output %q does not lie in %s", name, dir)
		}
		s, err := sumFile(filepath.Join(dir, name))
		if err != nil {
			return exit.Create(filepath.Join(dir, name), err)
		}
		s.Path = filepath.ToSlash(name)
		m.Outputs = append(m.Outputs, s)
		fmt.Fprintf(&sums, "%s  %s\n", s.SHA256, s.Path)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{sumsFile, sums.Bytes()}, {manifestFile, append(text, '\n')}} {
		path := filepath.Join(dir, f.name)
		if err := atomicfile.WriteFile(path, f.text); err != nil {
			return exit.Create(path, err)
		}
	}
	return nil
}

// ReadManifest reads the manifest of a directory.
//
// Errors: os.ErrNotExist if there is none; 65 if it is damaged.
func ReadManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, manifestFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, exit.Read(path, err)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil || m.Schema != 1 {
		return nil, &exit.Error{Code: exit.BadData, What: "the manifest is damaged", At: path, Why: fmt.Sprintf("schema %d: %v", m.Schema, err),
			Fix: "run again with --overwrite always", Err: err}
	}
	for _, o := range m.Outputs {
		if !filepath.IsLocal(filepath.FromSlash(o.Path)) || strings.ContainsRune(o.Path, 0) {
			return nil, &exit.Error{Code: exit.BadData, What: "the manifest names a file outside its directory", At: path,
				Why: fmt.Sprintf("%q", o.Path), Fix: "run again with --overwrite always"}
		}
	}
	return &m, nil
}

// Verify compares the outputs with their checksums.
//
// Errors: 65 naming the first file that differs or is gone.
func (m *Manifest) Verify(dir string) error {
	for _, o := range m.Outputs {
		path := filepath.Join(dir, filepath.FromSlash(o.Path))
		bad := func(why string) error {
			return &exit.Error{Code: exit.BadData, What: "an output of the finished run was changed", At: path, Why: why,
				Fix: "restore it, or run again with --overwrite always"}
		}
		s, err := sumFile(path)
		switch {
		case err != nil:
			return bad(err.Error())
		case s.Size != o.Size:
			return bad(fmt.Sprintf("%d bytes, the manifest says %d", s.Size, o.Size))
		case s.SHA256 != o.SHA256:
			return bad("its SHA-256 differs from the manifest's")
		}
	}
	return nil
}
