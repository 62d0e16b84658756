package input

import (
	"github.com/ensemble-weather/ensemble/ensemble/config"
	fio "github.com/ensemble-weather/ensemble/io"
)

// UnrelatedFile is what lies in a folder of input files and is none.
type UnrelatedFile = fio.IgnoredFile

// ListFiles lists the input files that names, patterns and folders stand for, and what in the folders is no
// input. key says in errors where they were given.
//
// Errors: those of fio.List.
func ListFiles(key string, names []string) (files []string, aside []UnrelatedFile, err error) {
	return fio.List(key, names)
}

// ConfigFiles is Files for a key of a configuration.
func ConfigFiles(key string, patterns []config.Path) ([]string, error) {
	files, _, err := fio.List(key, pathStrings(patterns))
	return files, err
}

func pathStrings(paths []config.Path) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = string(p)
	}
	return out
}

// ArgumentFiles are the files that arguments of a command stand for. What is not there stays as it is: who opens
// all of them names all that is wrong.
func ArgumentFiles(names []string) (files []string, aside []UnrelatedFile, err error) {
	for _, name := range names {
		one, left, err := fio.List("the command line", []string{name})
		if len(one) == 0 && len(left) == 0 && err != nil && !fio.HasMeta(name) && !fio.IsFolder(name) {
			one, err = []string{name}, nil
		}
		files, aside = append(files, one...), append(aside, left...)
		if err != nil {
			return nil, aside, err
		}
	}
	return files, aside, nil
}
