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
// or the file itself. Symbolic links in a folder are skipped.
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
	return listBelow(nil, path, "")
}

// listBelow appends the regular files in a subfolder of root, and below it.
func listBelow(files []InputFile, root, folder string) ([]InputFile, error) {
	entries, err := filesystem.ReadDir(filepath.Join(root, folder))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := filepath.Join(folder, e.Name())
		switch {
		case e.IsDir():
			if files, err = listBelow(files, root, name); err != nil {
				return nil, err
			}
		case e.Type().IsRegular():
			st, err := filesystem.Lstat(filepath.Join(root, name))
			if err != nil {
				return nil, err
			}
			files = append(files, InputFile{name, st})
		}
	}
	return files, nil
}
