package filesystem

import (
	"os"
	"path/filepath"
)

// RealPath returns the absolute path of an existing file or folder without symbolic links. In a working directory that was reached by a link
// filepath.Abs has this link, and cleans a path before the links in it are followed.
//
// Errors: those of os.Getwd and filepath.EvalSymlinks.
func RealPath(path string) (string, error) {
	if !filepath.IsAbs(path) {
		working, err := os.Getwd()
		if err != nil {
			return "", err
		}
		path = working + string(filepath.Separator) + path
	}
	return filepath.EvalSymlinks(path)
}
