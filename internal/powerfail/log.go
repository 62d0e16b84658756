// Package powerfail finds out what a program leaves on the disk if the power fails. A Recorder records the operations of
// a run on files. From the Log follow the states in which a disk may be found after a failure at any moment: every prefix
// of the operations, without any part of what was not synced, in any order that a file system may choose. A test writes
// such a state to a folder and runs the program there again. Only tests import this package.
//
// The rules are those of POSIX without the promises of single file systems:
//
//   - Data of a file are on the disk after a sync of that file. Before it any of them may be: none, the first ones, single
//     sectors of 512 or 4096 bytes, or zeros in their place with the new size.
//   - A name that was created, renamed, exchanged or removed is on the disk after a sync of its folder; for a rename of
//     the new folder. Before it any of these changes may be, each as a whole and after earlier changes of the same name.
//   - A sync of a file does not make its name durable, nor a rename the data of the file.
//
// Source: Pillai et al., All File Systems Are Not Created Equal, OSDI 2014; fsync(2) of Linux; SQLite, How SQLite Is
// Tested, section 3.3 (crash testing).
package powerfail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Kind is the kind of an operation.
type Kind string

// The operations that change what a disk holds, or make changes durable.
const (
	Create   Kind = "create"   // an empty file Path
	Mkdir    Kind = "mkdir"    // a folder Path
	Rename   Kind = "rename"   // Path becomes To, which is replaced
	Exchange Kind = "exchange" // Path and To swap their names
	Remove   Kind = "remove"   // the file or empty folder Path
	Write    Kind = "write"    // Data at Offset of file File
	Truncate Kind = "truncate" // file File to Offset bytes; more are zeros
	Sync     Kind = "sync"     // the data of file File
	SyncDir  Kind = "syncdir"  // the names in folder Path
)

// Op is one operation. Paths are relative to the recorded folder, with slashes; "." is the folder itself. File is the
// number that the file got when it was created, so that an open file keeps it when it is renamed or removed.
type Op struct {
	Kind   Kind   `json:"kind"`
	Path   string `json:"path,omitempty"`
	To     string `json:"to,omitempty"`
	File   int    `json:"file,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Data   []byte `json:"data,omitempty"`
}

// String returns the operation without its data.
func (o Op) String() string {
	switch o.Kind {
	case Rename, Exchange:
		return fmt.Sprintf("%s %s %s", o.Kind, o.Path, o.To)
	case Write:
		return fmt.Sprintf("write %d bytes at %d of file %d", len(o.Data), o.Offset, o.File)
	case Truncate:
		return fmt.Sprintf("truncate file %d to %d bytes", o.File, o.Offset)
	case Sync:
		return fmt.Sprintf("sync file %d", o.File)
	}
	return fmt.Sprintf("%s %s", o.Kind, o.Path)
}

// Log is a recorded run: the content of the folder before it, all of which is on the disk, and the operations in the
// order in which they were completed.
type Log struct {
	Before Tree `json:"before"`
	Ops    []Op `json:"ops"`
}

// Tree is the content of a folder: by path, relative to it and with slashes, the data of each file. Folders are paths that
// end with a slash, without data.
type Tree map[string][]byte

// ReadTree reads a folder. Links are an error, as the program makes none. A folder that does not exist is empty.
func ReadTree(dir string) (Tree, error) {
	t := Tree{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case d.IsDir():
			t[name+"/"] = nil
		case d.Type().IsRegular():
			t[name], err = os.ReadFile(path)
		default:
			err = fmt.Errorf("%s is neither a file nor a folder", path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return t, err
}

// WriteTo makes the folder have exactly this content. It may exist with another one.
func (t Tree) WriteTo(dir string) error {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o777)); err != nil {
		return err
	}
	for _, name := range t.names() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		var err error
		if strings.HasSuffix(name, "/") {
			err = os.Mkdir(path, 0o777)
		} else {
			err = os.WriteFile(path, t[name], 0o666)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// names returns the paths, folders before their content.
func (t Tree) names() []string {
	names := make([]string, 0, len(t))
	for name := range t {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
