package input

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
)

// UnrelatedFile is a file in an input folder that is not input.
type UnrelatedFile = fio.IgnoredFile

// ListFiles lists the input files that names, patterns and folders match, and files in folders that are not
// input. key names the source of the names in errors.
//
// Errors: those of fio.List.
func ListFiles(key string, names []string) (files []string, unrelated []UnrelatedFile, err error) {
	return fio.List(key, names)
}

// ConfigFiles is Files for a configuration key.
func ConfigFiles(key string, patterns []config.Path) ([]string, error) {
	files, _, err := fio.List(key, pathStrings(patterns))
	var e *exit.Error
	if errors.As(err, &e) {
		if m := meantPath.FindStringSubmatch(e.Fix); m != nil {
			paths := pathStrings(patterns)
			for i, p := range paths {
				if p == e.At {
					p = m[1]
				}
				paths[i] = config.Quote(p)
			}
			sections := strings.Split(key, ".")
			last := len(sections) - 1
			named := *e
			named.Fix += fmt.Sprintf(" under `%s:` write `%s: [%s]`", strings.Join(sections[:last], ":` and `"), sections[last], strings.Join(paths, ", "))
			return files, &named
		}
	}
	return files, err
}

// meantPath matches the fix that is another path.
var meantPath = regexp.MustCompile("^did you mean `([^`]+)`\\?$")

// pathStrings converts paths to strings.
func pathStrings(paths []config.Path) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = string(p)
	}
	return out
}

// ArgumentFiles lists the files that command arguments match. Names without a file are kept: opening all of them
// reports all errors.
func ArgumentFiles(names []string) (files []string, unrelated []UnrelatedFile, err error) {
	for _, name := range names {
		one, left, err := fio.List("the command line", []string{name})
		if len(one) == 0 && len(left) == 0 && err != nil && !fio.HasMeta(name) && !fio.IsFolder(name) {
			one, err = []string{name}, nil
		}
		files, unrelated = append(files, one...), append(unrelated, left...)
		if err != nil {
			return nil, unrelated, err
		}
	}
	return files, unrelated, nil
}
