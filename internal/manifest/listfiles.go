package manifest

import (
	"io/fs"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// InputFile is one file of an input.
type InputFile struct {
	Path string // relative to the folder; empty if the input is a file
	fs.FileInfo
}

// ListFiles lists the regular files in a folder and its subfolders, sorted by name;
// or the file itself. Symbolic links are skipped.
//
// Errors: those of the file system.
func ListFiles(path string) ([]InputFile, error) {
	st, err := filesystem.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return []InputFile{{"", st}}, nil
	}
	if path, err = filepath.EvalSymlinks(path); err != nil { // WalkDir does not follow links
		return nil, err
	}
	var out []InputFile
	err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		below, err := filepath.Rel(path, name)
		out = append(out, InputFile{below, st})
		return err
	})
	return out, err
}
