package fio

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"time"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/columnfile"
	"github.com/ensemble-weather/ensemble/io/grib"
)

// cachedIndex is what is kept of a GRIB file between two openings, if Options.Cache names a folder:
// all that was read of its headers, with what tells whether the file is still the same.
type cachedIndex struct {
	Size    int64           `json:"size"`
	Written time.Time       `json:"written"`
	Ends    string          `json:"ends"` // digest of the first and the last bytes
	Index   grib.SavedIndex `json:"index"`
}

// cacheSchema changes with every change of what kept or grib.SavedIndex and its columns hold or mean.
const cacheSchema = "ensemble.gribindex/3"

// maxCacheFile bounds what is read of a cache.
const maxCacheFile = 4 << 30

// cachePath is the place of a file's index in the cache: by its path, so that a new file
// replaces the index of the one before.
func cachePath(folder, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(abs))
	return filepath.Join(folder, hex.EncodeToString(sum[:16])+".gribindex"), nil
}

// gribIndex gives the index of a GRIB file: the one that is kept, if it is of this file, else
// what the file says, which is kept then. Nothing that is wrong with the cache is an error.
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

// loadIndex reads a kept index, nil if there is none of this file.
func (in *Input) loadIndex(name string, f *file) *grib.Index {
	if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() || st.Size() > maxCacheFile {
		return nil
	}
	text, err := os.ReadFile(name)
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

// saveIndex writes an index into the cache, if that works.
func saveIndex(name string, f *file, idx *grib.Index) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return
	}
	head, columns := idx.Save()
	text, err := columnfile.Encode(cacheSchema, cachedIndex{f.size, f.mark.Modified, f.mark.EndsSHA256, head}, columns)
	if err == nil {
		_ = atomicfile.WriteFile(name, text) // a cache that is full or read-only is none
	}
}
