// Package dirglob finds files below a directory by pattern. The directory itself is no pattern: users have names with
// brackets.
package dirglob

import (
	"io/fs"
	"os"
	"path/filepath"
)

// In returns the paths of the files below dir that match a pattern of fs.Glob, with dir, in lexical order; none if dir
// does not exist.
//
// Errors: path.ErrBadPattern.
func In(dir, pattern string) ([]string, error) {
	found, err := fs.Glob(os.DirFS(dir), filepath.ToSlash(pattern))
	for i, name := range found {
		found[i] = filepath.Join(dir, filepath.FromSlash(name))
	}
	return found, err
}
