package filesystem

import (
	"os"
	"path/filepath"
	"strings"
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

// Absolute returns the absolute path of a path that is relative to folder dir; "" is the working directory. ".." at its beginning leads above the
// target of a folder that was reached by a link, as for the kernel; filepath.Abs would lead above the link.
//
// Errors: those of os.Getwd.
func Absolute(dir, path string) (string, error) {
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	if above := filepath.Clean(path); above == ".." || strings.HasPrefix(above, "../") {
		if real, err := RealPath(dir); err == nil {
			dir = real
		}
	}
	return filepath.Abs(filepath.Join(dir, path))
}
