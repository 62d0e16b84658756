package fio

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/nearest"
	"github.com/ensemble-weather/ensemble/io/zarr"
)

// IgnoredFile is a file in an input directory that is not an input. Why is a clause such as "it
// is hidden", for a report.
type IgnoredFile struct {
	Path string `json:"file"`
	Why  string `json:"why"`
}

// Listing expands names, patterns and directories to files and stores. A second
// call reads only files that have changed. The zero value is ready for use by one
// goroutine.
type Listing struct {
	// Suffix selects the files of a directory by suffix, for formats other than
	// those of this package; "" selects the formats of this package.
	Suffix string

	cache map[string]cachedCheck // by path, results of files whose names do not show their format
	seen  map[string]bool        // paths in cache that this call has visited
}

// cachedCheck is the result of reading the head of a file. It is valid while size, time
// and inode stay. A service lists its directories every few seconds, and a file system
// over a network makes each opening of a file slow.
type cachedCheck struct {
	size    int64
	written time.Time
	inode   os.FileInfo
	why     string // why the file is not an input; "" if it is
}

// List calls List of a new Listing. key names the configuration of the patterns in
// errors.
//
// Errors: those of Listing.List.
func List(key string, patterns []string) (files []string, ignored []IgnoredFile, err error) {
	var l Listing
	return l.List(key, patterns)
}

// List returns the files that patterns match, each once, sorted within its pattern.
// A pattern is a name, or has the wildcards *, ? and [] of a shell, which do not
// match a leading dot. A directory that is not a store stands for the files and
// stores in it, but not for those in subdirectories: files with the suffix of a
// format, and files that begin as one. ignored lists everything else: hidden and
// partly copied files, indexes, markers, texts, directories.
//
// Errors: 64 for an invalid pattern; together with the files of the other patterns
// 66 if a pattern matches no file, and 66 (without permission, fs.ErrPermission) or
// 74 if a file or directory cannot be read, which comes before a missing one.
func (l *Listing) List(key string, patterns []string) (files []string, ignored []IgnoredFile, err error) {
	l.seen = map[string]bool{}
	listed := map[string]bool{}
	for _, p := range patterns {
		found, more, perr := l.expand(key, p)
		var e *exit.Error
		switch {
		case perr == nil:
		case !errors.As(perr, &e) || e.Code == exit.Usage:
			return nil, nil, perr
		case err == nil || IsUnreadable(perr) && !IsUnreadable(err):
			err = perr
		}
		ignored = append(ignored, more...)
		for _, f := range found {
			if !listed[f] {
				listed[f] = true
				files = append(files, f)
			}
		}
	}
	for path := range l.cache {
		if !l.seen[path] {
			delete(l.cache, path)
		}
	}
	return files, ignored, err
}

// similarPath returns the path that one without a file was probably meant to be: the only ending of input files in the
// folder of a pattern, or the nearest name in the nearest folder; "" without one. It corrects the first folder that
// does not exist, then the next, so that a fix can be pasted even if several names are misspelt.
func similarPath(path string) string {
	dir, base := filepath.Split(filepath.Clean(path))
	if dir = filepath.Clean(dir); dir != "." && !IsFolder(dir) && !HasMeta(dir) {
		near := similarPath(dir)
		if near == "" {
			return ""
		}
		other := filepath.Join(near, base)
		if found, err := filepath.Glob(other); err == nil && len(found) > 0 {
			return other
		}
		return similarPath(other)
	}
	entries, err := filesystem.ReadDir(dir)
	if err != nil {
		return ""
	}
	var names, endings []string
	for _, e := range entries {
		names = append(names, e.Name())
		if ext := filepath.Ext(e.Name()); !e.IsDir() && hasDataSuffix(e.Name()) && !slices.Contains(endings, ext) {
			endings = append(endings, ext)
		}
	}
	switch near := nearest.Find(base, names); {
	case !HasMeta(base) && near != "":
		return filepath.Join(dir, near)
	case HasMeta(base) && len(endings) == 1:
		return filepath.Join(dir, "*"+endings[0])
	}
	return ""
}

// expand lists the files of one pattern. A name that exists is taken as it is, even if
// it has wildcards. Errors are those of List; with exit 66 the other results are empty
// or only ignored.
func (l *Listing) expand(key, pattern string) (files []string, ignored []IgnoredFile, err error) {
	absent := func(why string) error {
		e := &exit.Error{Code: exit.NotYet, What: "no such file", At: pattern, Why: why, Fix: "correct the path, or wait until the file exists"}
		if near := similarPath(pattern); near != "" {
			e.Fix = "did you mean `" + near + "`?"
		}
		return e
	}
	named := []string{pattern}
	_, serr := filesystem.Lstat(pattern)
	isPattern := serr != nil && HasMeta(pattern)
	switch {
	case serr != nil && !isPattern && isAbsent(serr):
		return nil, nil, absent("given by " + key)
	case serr != nil && !isPattern:
		return nil, nil, unreadable(pattern, serr)
	}
	if isPattern {
		if named, err = filepath.Glob(pattern); err != nil {
			return nil, nil, &exit.Error{Code: exit.Usage, What: "not a valid file pattern", At: pattern, Why: err.Error(), Fix: "correct " + key, Err: err}
		}
		named = slices.DeleteFunc(named, func(name string) bool { return matchesHidden(pattern, name) })
	}
	var folders []string
	for _, name := range named {
		if isPattern && hasDataSuffix(name) || !IsFolder(name) || zarr.IsStore(name) { // avoids a stat of each of many files
			files = append(files, name)
			continue
		}
		folders = append(folders, name)
		in, more, err := l.listFolder(name)
		if err != nil {
			return nil, nil, err
		}
		files, ignored = append(files, in...), append(ignored, more...)
	}
	switch {
	case len(files) > 0:
		return files, ignored, nil
	case len(folders) > 0:
		fix := "wait until files have arrived, or give the directory that has them"
		if slices.ContainsFunc(ignored, func(a IgnoredFile) bool { return a.Why == reasonFolder }) {
			fix = "give its subdirectories by a pattern, \"" + filepath.Join(pattern, "*") + "\", or wait until files have arrived"
		}
		return nil, ignored, &exit.Error{Code: exit.NotYet, What: "no input in the directory", At: pattern, Why: describeIgnored(key, ignored), Fix: fix}
	}
	why := "given by " + key
	if d := patternRoot(pattern); d != "" {
		f, err := filesystem.Open(d)
		switch {
		case err == nil:
			f.Close()
		case isAbsent(err):
			why += ", and its directory cannot be opened: " + err.Error()
		default:
			return nil, nil, unreadableFolder(d, err) // filepath.Glob ignores it
		}
	}
	return nil, nil, absent(why)
}

// isAbsent reports whether an error of the file system shows that a path does not exist. Any other error leaves that open.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG)
}

// IsUnreadable reports whether an error of Listing.List is that of input that exists, or may exist, and cannot be read.
func IsUnreadable(err error) bool {
	return exit.CodeOf(err) == exit.IO || errors.Is(err, fs.ErrPermission)
}

// reasonFolder is the reason for ignoring a directory in a directory.
const reasonFolder = "it is a directory"

// describeIgnored describes why a directory has no input. The first three are named. It is
// the reason of an error, so it has no sentence.
func describeIgnored(key string, ignored []IgnoredFile) string {
	if len(ignored) == 0 {
		return "given by " + key + "; it is empty"
	}
	text := fmt.Sprintf("given by %s; %d ignored: ", key, len(ignored))
	for i, a := range ignored[:min(len(ignored), 3)] {
		if i > 0 {
			text += "; "
		}
		text += filepath.Base(a.Path) + " (" + a.Why + ")"
	}
	if len(ignored) > 3 {
		text += "; …"
	}
	return text
}

// HasMeta reports whether a name is a pattern. The characters are those of path.Match;
// without them filepath.Glob would only test existence.
func HasMeta(name string) bool { return strings.ContainsAny(name, `*?[\`) }

// patternRoot returns the directory of a pattern before its first element with a
// wildcard; "" for the current directory.
func patternRoot(pattern string) string {
	for HasMeta(pattern) {
		next := filepath.Dir(pattern)
		if next == pattern || next == "." {
			return ""
		}
		pattern = next
	}
	return pattern
}

// matchesHidden reports whether a wildcard matched a leading dot, which it does not in a
// shell. Programs give hidden names to files that they are still copying. Elements are
// compared from the end, since Clean may shorten the beginning of both.
//
// Source: POSIX.1-2017, Shell & Utilities, section 2.13.3.
func matchesHidden(pattern, name string) bool {
	separator := string(filepath.Separator)
	p, n := strings.Split(filepath.Clean(pattern), separator), strings.Split(filepath.Clean(name), separator)
	for i := 1; i <= min(len(p), len(n)); i++ {
		if want, is := p[len(p)-i], n[len(n)-i]; strings.HasPrefix(is, ".") && !strings.HasPrefix(want, ".") {
			return true
		}
	}
	return false
}

// hasDataSuffix reports whether a name has the suffix of a format. Such files are
// input whatever they contain, so that an empty or damaged file is reported.
func hasDataSuffix(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(formats, func(f format) bool {
		return slices.ContainsFunc(f.suffixes, func(e string) bool { return strings.HasSuffix(name, e) })
	})
}

// IsFolder reports whether a path is a directory. It follows symbolic links.
func IsFolder(path string) bool {
	st, err := filesystem.Stat(path)
	return err == nil && st.IsDir()
}

// listFolder returns the input files of a directory by name, and the ignored ones.
//
// Errors: exit 66 without permission, exit 74 else; none if the directory was removed.
func (l *Listing) listFolder(dir string) (files []string, ignored []IgnoredFile, err error) {
	entries, err := filesystem.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil // removed in the meantime
	}
	if err != nil {
		return nil, nil, unreadableFolder(dir, err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch why, is := l.classify(path, e); {
		case is:
			files = append(files, path)
		case why != "":
			ignored = append(ignored, IgnoredFile{path, why})
		}
	}
	return files, ignored, nil
}

// unreadableFolder returns the error for a directory that cannot be read.
func unreadableFolder(path string, err error) error {
	e := unreadable(path, err)
	var known *exit.Error
	if errors.As(e, &known) {
		known.What = "input directory cannot be read"
	}
	return e
}

// partialSuffixes lists suffixes of files that programs are still copying or
// writing.
var partialSuffixes = []string{".part", ".partial", ".tmp", ".temp", ".filepart", ".crdownload", ".download", ".incomplete", ".swp", "~"}

// classify reports whether a directory entry is input, or why not; neither for an entry
// that no longer exists. Rules that need only the name come first: a directory may have
// a million files, and a stat of each is slow on a network file system.
func (l *Listing) classify(path string, e fs.DirEntry) (why string, is bool) {
	name := e.Name()
	if strings.HasPrefix(name, ".") {
		return "it is hidden", false
	}
	for _, ending := range partialSuffixes {
		if strings.HasSuffix(strings.ToLower(name), ending) {
			return "its name marks an incomplete file", false
		}
	}
	kind := e.Type()
	if kind&fs.ModeSymlink != 0 {
		st, err := filesystem.Stat(path)
		if err != nil { // its target may appear later; reading reports the error
			return "it is a broken symbolic link", hasDataSuffix(name)
		}
		kind = st.Mode().Type()
	}
	switch {
	case kind.IsDir() && zarr.IsStore(path):
		return "", true
	case kind.IsDir():
		return reasonFolder, false
	case kind != 0:
		return "it is not a regular file (" + kind.String() + ")", false
	case l.Suffix != "" && !strings.HasSuffix(name, l.Suffix):
		return "its name does not end with " + l.Suffix, false
	case l.Suffix != "", hasDataSuffix(name):
		return "", true
	}
	return l.checkHead(path)
}

// checkHead classifies a file by its first bytes. The result is cached while size, time
// and inode are those of the last call. A file that is still growing changes its size,
// and is read again.
func (l *Listing) checkHead(path string) (why string, is bool) {
	st, err := filesystem.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	if err != nil {
		return err.Error(), false
	}
	l.seen[path] = true
	if c, ok := l.cache[path]; ok && c.size == st.Size() && c.written.Equal(st.ModTime()) && os.SameFile(c.inode, st) {
		return c.why, c.why == ""
	}
	head, err := readHead(path, st.Size())
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	if err != nil {
		return err.Error(), false // it may be readable next time
	}
	if l.cache == nil {
		l.cache = map[string]cachedCheck{}
	}
	c := cachedCheck{st.Size(), st.ModTime(), st, headProblem(head)}
	l.cache[path] = c
	return c.why, c.why == ""
}

// readHead reads the head of a file. It is shorter than headSize for a shorter file.
// size is that of the last stat; a file may have been truncated since.
func readHead(path string, size int64) ([]byte, error) {
	f, err := filesystem.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, min(headSize, size))
	n, err := f.ReadAt(head, 0)
	if n < len(head) && n > 0 { // truncated in the meantime
		err = nil
	}
	return head[:n], err
}

// headProblem returns the reason why a file with this head is not an input, "" if
// it is. The word GRIB alone does not decide, because texts and indexes contain it.
func headProblem(head []byte) string {
	switch {
	case len(head) == 0:
		return "it is empty"
	case isNetCDF(head), isGRIBMessage(head):
		return ""
	case isZip(head):
		if zarr.HasMetadataName(head) {
			return ""
		}
		return "it is a zip archive, but not a Zarr store"
	}
	if foreignFormatOf(head) != nil {
		return describeForeign(head)
	}
	for rest := head; len(rest) > 0; rest = rest[1:] {
		next := bytes.Index(rest, []byte("GRIB"))
		if next < 0 {
			break
		}
		if rest = rest[next:]; isGRIBMessage(rest) {
			return ""
		}
	}
	return describeForeign(head)
}

// isGRIBMessage distinguishes the beginning of a GRIB message from text with that
// word, by the edition in octet 8.
func isGRIBMessage(b []byte) bool {
	return len(b) >= 8 && bytes.HasPrefix(b, []byte("GRIB")) && (b[7] == 1 || b[7] == 2)
}
