package fio

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"time"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/columnfile"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/io/grib"
)

// cachedIndex is the content of a cache file for a GRIB file: its index, and the marks
// that show whether the file has changed. It is a cache and no format of exchange: a
// file that cannot be read is written anew.
type cachedIndex struct {
	Size    int64           `json:"size"`
	Written time.Time       `json:"written"`
	Ends    string          `json:"ends"` // digest of the first and last bytes
	Index   grib.SavedIndex `json:"index"`
}

// cacheSchema changes with the content and meaning of cachedIndex, grib.SavedIndex
// and their columns.
const cacheSchema = "ensemble.gribindex/4"

// maxCacheFile bounds the size of a cache file, which is read into memory.
const maxCacheFile = 4 << 30

// cachePath returns the cache file of an input file. It depends on the path only, so a
// new version of the file replaces the old index. 128 bits of the digest make collisions
// of paths impossible in practice; a collision would be found by size, time and digest.
func cachePath(folder, path string) (string, error) {
	abs, err := filesystem.Absolute("", path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(abs))
	return filepath.Join(folder, hex.EncodeToString(sum[:16])+".gribindex"), nil
}

// gribIndex returns the index of a GRIB file, from the cache if that is valid, else from
// scan. A new index is cached. Errors of the cache are ignored. An index with faults is
// not cached, so that each run reports the damage of the file as it is.
func (in *Input) gribIndex(scan func() (*grib.Index, error), f *file) (*grib.Index, error) {
	folder := in.opt.Cache
	if folder == "" {
		return scan()
	}
	name, err := cachePath(folder, f.path)
	if err != nil {
		return scan()
	}
	if idx := in.loadIndex(name, f); idx != nil {
		return idx, nil
	}
	idx, err := scan()
	if err == nil && len(idx.Faults) == 0 {
		saveIndex(name, f, idx)
	}
	return idx, err
}

// loadIndex reads a cached index; nil if there is none for this file. Size, time of
// modification and digest of the ends must agree. Restore then
// compares the first message of each grid with the file.
func (in *Input) loadIndex(name string, f *file) *grib.Index {
	if st, err := filesystem.Stat(name); err != nil || !st.Mode().IsRegular() || st.Size() > maxCacheFile {
		return nil
	}
	text, err := filesystem.ReadFile(name)
	if err != nil {
		return nil
	}
	var k cachedIndex
	columns, err := columnfile.Decode(text, cacheSchema, &k)
	if err != nil || k.Size != f.size || !k.Written.Equal(f.mark.Modified) || k.Ends != f.mark.EndsSHA256 {
		return nil
	}
	idx, err := k.Index.Index(columns)
	if err != nil || in.grids.Restore(f.f, f.size, idx) != nil {
		return nil
	}
	return idx
}

// saveIndex writes an index to the cache. The file replaces an older one atomically;
// concurrent runs write the same content.
func saveIndex(name string, f *file, idx *grib.Index) {
	if err := filesystem.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return
	}
	head, columns := idx.Save()
	text, err := columnfile.Encode(cacheSchema, cachedIndex{f.size, f.mark.Modified, f.mark.EndsSHA256, head}, columns)
	if err == nil {
		_ = atomicfile.WriteFile(name, text) // without a writable cache the file is scanned again
	}
}
