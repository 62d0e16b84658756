package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/table"
)

// maxMetaBytes bounds store.json, so that another file is not read completely.
const maxMetaBytes = 256 << 20

// OpenOptions configures Open. The zero value verifies all checksums.
type OpenOptions struct {
	// NoVerify skips the checksums of values. Checksums of band headers are always
	// verified, because the layout depends on them.
	NoVerify bool
	// Direct reads values with O_DIRECT if the file system supports it. This saves
	// a copy and keeps the page cache free.
	Direct bool
	// Metadata are the files of ReadMetadata, as another process read them; nil reads
	// them.
	Metadata map[string][]byte
}

// ReadMetadata reads the files of a store that Open needs. Open reports the error of a file
// that is absent here.
func ReadMetadata(dir string) map[string][]byte {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	s, files := &Store{root: root}, map[string][]byte{}
	for _, name := range []string{metaName, indexName} {
		if text, err := s.readSmall(name); err == nil {
			files[name] = text
		}
	}
	return files
}

// Store is an open store. It may be used by several goroutines.
type Store struct {
	*Meta
	*layout
	dir string
	// root confines all accesses to the directory; links out of it are not
	// followed.
	root *os.Root
	opt  OpenOptions
	// heads holds the CRC-32C of each band header, by initialisation and band.
	heads []uint32
	// buffer recycles read buffers, *[]byte.
	buffer sync.Pool
}

// IsStore reports whether a directory holds a store.
func IsStore(dir string) bool {
	s, err := filesystem.Stat(filepath.Join(dir, metaName))
	return err == nil && s.Mode().IsRegular()
}

// Open opens a store. It reads metadata and index, but no values.
//
// Errors: 66 for an absent or unfinished store; 65 for a damaged store or one with
// a newer format; 74 if reading fails.
func Open(ctx context.Context, dir string, o OpenOptions) (*Store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, exit.ReadError(dir, err)
	}
	s := &Store{dir: dir, root: root, opt: o}
	if err := s.open(ctx); err != nil {
		root.Close()
		return nil, err
	}
	return s, nil
}

// open reads metadata and index and checks the sizes of the shards.
func (s *Store) open(ctx context.Context) error {
	text, err := s.readSmall(metaName)
	if err != nil {
		// store.json is written last. A journal without it belongs to an unfinished
		// store.
		if _, begun := s.root.Stat(journalDir); begun == nil && errors.Is(err, fs.ErrNotExist) {
			return &exit.Error{Code: exit.NotYet, What: "the store is not finished", At: s.dir, Why: "it has no " + metaName,
				Fix: "wait, or run the command that creates it again"}
		}
		return exit.ReadError(filepath.Join(s.dir, metaName), err)
	}
	if s.Meta, err = readMeta(s.dir, text); err != nil {
		return err
	}
	if s.layout, err = s.Meta.layout(); err != nil {
		return err
	}
	rows, err := s.readIndex(ctx)
	if err != nil {
		return err
	}
	if s.heads, err = s.checkIndex(rows); err != nil {
		return s.damaged(indexName, err.Error())
	}
	// Sizes are checked at once, checksums when values are read.
	for _, f := range s.Shards {
		st, err := s.root.Stat(filepath.FromSlash(f.Path))
		if err != nil {
			return s.unreadable(f.Path, err)
		}
		if st.Size() != f.Size {
			return s.damaged(f.Path, fmt.Sprintf("%d bytes, want %d", st.Size(), f.Size))
		}
	}
	return nil
}

// Dir returns the directory of the store.
func (s *Store) Dir() string { return s.dir }

// Close closes the store.
func (s *Store) Close() error { return s.root.Close() }

// readSmall reads a complete file of the store, up to maxMetaBytes.
func (s *Store) readSmall(name string) ([]byte, error) {
	if text, known := s.opt.Metadata[name]; known {
		return text, nil
	}
	f, err := filesystem.OpenIn(s.root, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMetaBytes+1))
	if err == nil && len(text) > maxMetaBytes {
		err = fmt.Errorf("it exceeds the limit of %d bytes", maxMetaBytes)
	}
	return text, err
}

// readMeta decodes the store.json of a directory.
func readMeta(dir string, text []byte) (*Meta, error) {
	return decodeMeta(text, filepath.Join(dir, metaName))
}

// readIndex reads the rows of the index after verifying its checksum in Meta.
func (s *Store) readIndex(ctx context.Context) ([]Row, error) {
	text, err := s.readSmall(indexName)
	if err != nil {
		return nil, s.unreadable(indexName, err)
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != s.Index.SHA256 {
		return nil, s.damaged(indexName, "its SHA-256 differs from that in "+metaName)
	}
	return table.Decode[Row](ctx, filepath.Join(s.dir, indexName), text)
}

// checkIndex compares the rows with the layout and returns the checksums of the
// band headers.
func (s *Store) checkIndex(rows []Row) ([]uint32, error) {
	if len(rows) != s.inits*s.bands {
		return nil, fmt.Errorf("%d rows, want %d", len(rows), s.inits*s.bands)
	}
	heads := make([]uint32, len(rows))
	for n, r := range rows {
		i, b := n/s.bands, n%s.bands
		shard, at := s.locate(i)
		lo, hi := s.rows(b)
		// All columns but the checksum and the number of missing values follow from
		// the layout.
		want := Row{Init: s.InitTimes[i].UTC(), Band: b, FirstRow: lo, Rows: hi - lo, Shard: shard, Offset: at + s.bandOffset(b), Length: s.bandBytes(b), Head: r.Head, Missing: r.Missing}
		if !r.Init.Equal(want.Init) {
			return nil, fmt.Errorf("row %d has the init %s, want %s", n, r.Init, want.Init)
		}
		if r.Init = want.Init; r != want {
			return nil, fmt.Errorf("row %d is %+v, want %+v", n, r, want)
		}
		heads[n] = uint32(r.Head)
	}
	return heads, nil
}

// damaged returns the error for a damaged file of the store.
func (s *Store) damaged(name, why string) error {
	return &exit.Error{Code: exit.BadData, What: "the store is damaged", At: filepath.Join(s.dir, name), Why: why,
		Fix: "restore the file, or remove the store and prepare it again"}
}

// unreadable returns the error for a file that cannot be read.
func (s *Store) unreadable(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return s.damaged(name, "the file is missing")
	}
	return exit.ReadError(filepath.Join(s.dir, name), err)
}

// Read reads an initialisation: its forecast, and its analyses in the order of
// their leads.
//
// Memory: the result, and a buffer of 8 MiB and one part of a band.
// Errors: those of Select and SelectionReader.Read.
// Cost: it reads complete rows of the bands that overlap the window.
func (s *Store) Read(ctx context.Context, init ensemble.Init, sel Selection) (*ensemble.Forecast, []*ensemble.Analysis, error) {
	r, err := s.Select(sel)
	if err != nil {
		return nil, nil, err
	}
	x, err := r.Read(ctx, init, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	return x.Forecast, x.Analyses, nil
}

// Verify reads the complete store and compares all checksums.
//
// Errors: as Read.
func (s *Store) Verify(ctx context.Context) error {
	for _, want := range s.Shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := filesystem.OpenIn(s.root, filepath.FromSlash(want.Path), os.O_RDONLY, 0)
		if err != nil {
			return s.unreadable(want.Path, err)
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return exit.ReadError(filepath.Join(s.dir, want.Path), err)
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != want.SHA256 {
			return s.damaged(want.Path, "its SHA-256 differs from that in "+metaName)
		}
	}
	return nil
}

// Files returns store.json and the files whose checksums it holds.
func (s *Store) Files() ([]manifest.File, error) {
	f, err := manifest.Sum(filepath.Join(s.dir, metaName))
	return append(f, append([]manifest.File{s.Index}, s.Shards...)...), err
}
