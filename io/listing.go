package fio

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/zarr"
)

// IgnoredFile is what lies in a folder of input files and is none.
type IgnoredFile struct {
	Path string `json:"file"`
	Why  string `json:"why"`
}

// Listing finds the files and stores that names, patterns and folders stand for. Asked again, it
// looks only into files that have changed. The zero value is ready; it is for one goroutine.
type Listing struct {
	// Suffix is that of the files that a folder stands for, where they are none of the formats here.
	Suffix string

	cache map[string]cachedCheck // by path, of files whose names do not say what they are
	seen  map[string]bool        // of known, in this look
}

// cachedCheck is what the first bytes of a file say, as long as it has this size and time.
type cachedCheck struct {
	size    int64
	written time.Time
	inode   os.FileInfo
	why     string // it is no input; "" if it is
}

// List is the first look of a Listing. key says in errors where the patterns were given.
//
// Errors: those of Listing.List.
func List(key string, patterns []string) (files []string, aside []IgnoredFile, err error) {
	var l Listing
	return l.List(key, patterns)
}

// List lists the files that patterns stand for, each once, sorted within its pattern. A pattern
// is a name, or has *, ? and [] as in a shell, where they stand for no dot that a name begins
// with. A folder that is no store stands for the files and stores in it, not for those in folders
// below: what is named as GRIB, NetCDF or Zarr, and any other file that begins as one of them.
// The rest is in aside: hidden and half copied files, indexes, marks, texts, folders.
//
// Errors: exit 66 if a pattern stands for no file, with the files of the others; 64 if it is no valid
// pattern; 66 or 74 for a folder that cannot be read.
func (l *Listing) List(key string, patterns []string) (files []string, aside []IgnoredFile, err error) {
	l.seen = map[string]bool{}
	there := map[string]bool{}
	for _, p := range patterns {
		found, left, perr := l.expand(key, p)
		var e *exit.Error
		if perr != nil && (!errors.As(perr, &e) || e.Code != exit.NotYet) {
			return nil, nil, perr
		}
		err = cmp.Or(err, perr)
		aside = append(aside, left...)
		for _, f := range found {
			if !there[f] {
				there[f] = true
				files = append(files, f)
			}
		}
	}
	for path := range l.cache {
		if !l.seen[path] {
			delete(l.cache, path)
		}
	}
	return files, aside, err
}

// expand lists what one pattern stands for.
func (l *Listing) expand(key, pattern string) (files []string, aside []IgnoredFile, err error) {
	absent := func(why string) error {
		return &exit.Error{Code: exit.NotYet, What: "no such file", At: pattern, Why: why, Fix: "correct the path, or wait until the file is there"}
	}
	named := []string{pattern}
	_, serr := os.Lstat(pattern)
	isPattern := serr != nil && HasMeta(pattern)
	if serr != nil && !isPattern {
		return nil, nil, absent("named by " + key)
	}
	if isPattern {
		if named, err = filepath.Glob(pattern); err != nil {
			return nil, nil, &exit.Error{Code: exit.Usage, What: "not a valid file pattern", At: pattern, Why: err.Error(), Fix: "correct " + key, Err: err}
		}
		named = slices.DeleteFunc(named, func(name string) bool { return matchesHidden(pattern, name) })
	}
	var folders []string
	for _, name := range named {
		if isPattern && hasDataSuffix(name) || !IsFolder(name) || zarr.IsStore(name) { // no look at each of many files
			files = append(files, name)
			continue
		}
		folders = append(folders, name)
		in, left, err := l.listFolder(name)
		if err != nil {
			return nil, nil, err
		}
		files, aside = append(files, in...), append(aside, left...)
	}
	switch {
	case len(files) > 0:
		return files, aside, nil
	case len(folders) > 0:
		fix := "wait until files have arrived, or name the folder that has them"
		if slices.ContainsFunc(aside, func(a IgnoredFile) bool { return a.Why == reasonFolder }) {
			fix = "name the folders in it by a pattern, \"" + filepath.Join(pattern, "*") + "\", or wait until files have arrived"
		}
		return nil, aside, &exit.Error{Code: exit.NotYet, What: "there is no input in the folder", At: pattern, Why: describeIgnored(key, aside), Fix: fix}
	}
	why := "named by " + key
	if d := patternRoot(pattern); d != "" {
		if f, err := os.Open(d); err != nil {
			why += ", and its folder cannot be opened: " + err.Error()
		} else {
			f.Close()
		}
	}
	return nil, nil, absent(why)
}

// reasonFolder says why a folder in a folder is left aside.
const reasonFolder = "it is a folder"

// describeIgnored says why a folder stands for nothing.
func describeIgnored(key string, aside []IgnoredFile) string {
	if len(aside) == 0 {
		return "named by " + key + "; it is empty"
	}
	text := fmt.Sprintf("named by %s; left aside, %d in all: ", key, len(aside))
	for i, a := range aside[:min(len(aside), 3)] {
		if i > 0 {
			text += "; "
		}
		text += filepath.Base(a.Path) + " (" + a.Why + ")"
	}
	if len(aside) > 3 {
		text += "; …"
	}
	return text
}

// HasMeta tells a pattern from a plain name.
func HasMeta(name string) bool { return strings.ContainsAny(name, `*?[\`) }

// patternRoot is the folder of a pattern before its first part that is none by itself; "" for this one.
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

// matchesHidden tells names in which a wildcard stands for a dot at the beginning, which shells have not:
// so are files named that are not to be seen, such as copies under way.
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

// hasDataSuffix tells names of files that are input whatever they begin with, so that one that is empty or
// damaged is not passed over.
func hasDataSuffix(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(formats, func(f format) bool {
		return slices.ContainsFunc(f.suffixes, func(e string) bool { return strings.HasSuffix(name, e) })
	})
}

// IsFolder says whether there is a folder of a name, links followed.
func IsFolder(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// listFolder lists what is input in a folder, by name, and what is not.
func (l *Listing) listFolder(dir string) (files []string, aside []IgnoredFile, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil // removed since it was found
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
			aside = append(aside, IgnoredFile{path, why})
		}
	}
	return files, aside, nil
}

func unreadableFolder(path string, err error) error {
	e := unreadable(path, err)
	var known *exit.Error
	if errors.As(e, &known) {
		known.What = "input folder cannot be read"
	}
	return e
}

// partialSuffixes are endings that programs give files while they copy or write them.
var partialSuffixes = []string{".part", ".partial", ".tmp", ".temp", ".filepart", ".crdownload", ".download", ".incomplete", ".swp", "~"}

// classify says whether something in a folder is input, or why not; neither for what is gone by now.
func (l *Listing) classify(path string, e fs.DirEntry) (why string, is bool) {
	name := e.Name()
	if strings.HasPrefix(name, ".") {
		return "it is hidden", false
	}
	for _, ending := range partialSuffixes {
		if strings.HasSuffix(strings.ToLower(name), ending) {
			return "by its name it is not complete", false
		}
	}
	kind := e.Type()
	if kind&fs.ModeSymlink != 0 {
		st, err := os.Stat(path)
		if err != nil { // its file may come; who reads it says what is wrong
			return "it leads to nothing", hasDataSuffix(name)
		}
		kind = st.Mode().Type()
	}
	switch {
	case kind.IsDir() && zarr.IsStore(path):
		return "", true
	case kind.IsDir():
		return reasonFolder, false
	case kind != 0:
		return "it is no regular file but " + kind.String(), false
	case l.Suffix != "" && !strings.HasSuffix(name, l.Suffix):
		return "its name does not end with " + l.Suffix, false
	case l.Suffix != "", hasDataSuffix(name):
		return "", true
	}
	return l.checkHead(path)
}

// checkHead judges a file by its first bytes.
func (l *Listing) checkHead(path string) (why string, is bool) {
	st, err := os.Stat(path)
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
		return err.Error(), false // it may be readable at the next look
	}
	if l.cache == nil {
		l.cache = map[string]cachedCheck{}
	}
	c := cachedCheck{st.Size(), st.ModTime(), st, headProblem(head)}
	l.cache[path] = c
	return c.why, c.why == ""
}

// readHead reads the bytes of a file by which formats are told apart.
func readHead(path string, size int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, min(headSize, size))
	n, err := f.ReadAt(head, 0)
	if n < len(head) && n > 0 { // cut meanwhile
		err = nil
	}
	return head[:n], err
}

// headProblem says why a file with this head is not taken for input, "" if it is. The mark of GRIB alone is not
// enough here: texts and indexes have it too.
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
		return "it is a zip archive and no Zarr store"
	}
	if guessFormat(head) != "" {
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

// isGRIBMessage tells the beginning of a GRIB message from a text with that word.
func isGRIBMessage(b []byte) bool {
	return len(b) >= 8 && bytes.HasPrefix(b, []byte("GRIB")) && (b[7] == 1 || b[7] == 2)
}
