package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Part is one file of an input.
type Part struct {
	Path string // below the folder; empty for a file by itself
	Size int64

	written int64 // nanoseconds since 1970
}

// Parts lists the regular files in a folder and the folders in it, by name, links left
// out; or a file by itself.
//
// Errors: those of the file system.
func Parts(path string) ([]Part, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return []Part{{Size: st.Size(), written: st.ModTime().UnixNano()}}, nil
	}
	if path, err = filepath.EvalSymlinks(path); err != nil { // the walk follows none
		return nil, err
	}
	var out []Part
	err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		below, err := filepath.Rel(path, name)
		out = append(out, Part{below, st.Size(), st.ModTime().UnixNano()})
		return err
	})
	return out, err
}

// Stamp tells whether a file or folder was changed, without reading it: two are equal if
// the same files have the same sizes and were last written at the same times.
type Stamp string

// StampOf is the stamp of a file or folder.
//
// Errors: those of the file system.
func StampOf(path string) (Stamp, error) {
	parts, err := Parts(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%q %d %d\n", p.Path, p.Size, p.written)
	}
	return Stamp(hex.EncodeToString(h.Sum(nil))), nil
}
