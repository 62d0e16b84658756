package fio

import (
	"errors"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	"github.com/ensemble-weather/ensemble/io/cf"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/unit"
	"github.com/ensemble-weather/ensemble/io/zarr"
)

// Index is the index of an Input, as processes of one job exchange it. It is a
// message between equal programs and no file format. Grids and kinds are stored once,
// because entries share their pointers.
type Index struct {
	Files    []IndexedFile
	Grids    []*ensemble.Grid
	Kinds    []IndexedKind
	Entries  []IndexedEntry
	Unused   []ensemble.Unused
	Messages int
	Warnings []string
	// NamingKeys, NamingSeen and NamingUsed are the sets of namingUse.
	NamingKeys, NamingSeen, NamingUsed map[string]bool
}

// IndexedFile is a file, with what reading its values needs.
type IndexedFile struct {
	Path     string
	Mark     fingerprint.File
	Format   string
	Sections []IndexedSections
	Slabs    []IndexedSlabs
	Metadata map[string][]byte // Metadata are the documents of a Zarr store.
}

// IndexedSections are the sections of a field in a message of several.
type IndexedSections struct {
	Message, Sub int
	Sections     grib.Sections
}

// IndexedSlabs are variableSlabs.
type IndexedSlabs struct {
	First int
	Slab  cf.Slab
	Shape []int64
}

// IndexedKind is a kind with its conversion to SI. Grid is a position in
// Index.Grids.
type IndexedKind struct {
	Kind       ensemble.Kind
	Grid       int
	Conversion unit.Conversion
}

// IndexedEntry is an entry. Kind and File are positions in Index.
type IndexedEntry struct {
	Key            ensemble.Key
	Kind, File     int
	Message, Sub   int
	Offset, Length int64
}

// Index returns the index of an input, from which OpenIndexed opens the same files
// without reading their metadata. The input must not have been opened with SkipBad or
// SkipFiles, whose damage is not part of it.
func (in *Input) Index() *Index {
	x := &Index{Unused: in.cat.Unused, Messages: in.cat.Messages, Warnings: in.cat.Warnings, NamingKeys: in.naming.keys, NamingSeen: in.naming.seen, NamingUsed: in.naming.used}
	files, grids, kinds := map[string]int{}, map[*ensemble.Grid]int{}, map[*ensemble.Kind]int{}
	for i, f := range in.files {
		files[f.path] = i
		s := IndexedFile{Path: f.path, Mark: f.mark, Format: f.format.name}
		for at, sections := range f.sections {
			s.Sections = append(s.Sections, IndexedSections{at.message, at.sub, *sections})
		}
		for _, v := range f.slabs {
			s.Slabs = append(s.Slabs, IndexedSlabs{v.first, v.slab, v.shape})
		}
		if f.zarr != nil {
			s.Metadata = f.zarr.Metadata()
		}
		x.Files = append(x.Files, s)
	}
	for _, e := range in.cat.Entries {
		kind, known := kinds[e.Kind]
		if !known {
			grid, has := grids[e.Grid]
			if !has {
				grid = len(x.Grids)
				grids[e.Grid], x.Grids = grid, append(x.Grids, e.Grid)
			}
			kind = len(x.Kinds)
			k := *e.Kind
			k.Grid = nil
			kinds[e.Kind], x.Kinds = kind, append(x.Kinds, IndexedKind{k, grid, in.kinds.conversions[e.Kind]})
		}
		x.Entries = append(x.Entries, IndexedEntry{e.Key, kind, files[e.File], e.Message, e.Sub, e.Offset, e.Length})
	}
	return x
}

// OpenIndexed opens the files of an index that another process of the same job made with
// Input.Index. It reads no metadata.
//
// Errors: exit 66 for a file that is absent, or differs in size or time of modification
// from the one that was indexed; 69 if decoding children cannot run.
func OpenIndexed(x *Index, o Options) (*Input, error) {
	in := &Input{opt: o, pool: o.Pool, byName: map[string]*file{}}
	in.naming.keys, in.naming.seen, in.naming.used = x.NamingKeys, x.NamingSeen, x.NamingUsed
	for _, s := range x.Files {
		f, err := openIndexedFile(&s, o)
		if err != nil {
			in.Close()
			return nil, err
		}
		in.files, in.byName[f.path] = append(in.files, f), f
	}
	if in.pool == nil {
		pool, err := decode.NewPool(o.Decode)
		if err != nil {
			in.Close()
			return nil, err
		}
		in.pool, in.ownPool = pool, true
	}
	if err := in.pool.Announce(in.Files()); err != nil {
		in.Close()
		return nil, err
	}
	kinds := make([]*ensemble.Kind, len(x.Kinds))
	for i, k := range x.Kinds {
		k.Kind.Grid = x.Grids[k.Grid]
		kinds[i] = in.kinds.intern(k.Kind, k.Conversion)
	}
	in.cat = ensemble.Catalogue{Unused: x.Unused, Messages: x.Messages, Warnings: x.Warnings}
	for _, e := range x.Entries {
		e.Key.Init = ensemble.InitAt(e.Key.Init.Time) // equal instants are equal values
		in.cat.Entries = append(in.cat.Entries, ensemble.Entry{Key: e.Key, Kind: kinds[e.Kind], File: x.Files[e.File].Path, Message: e.Message, Sub: e.Sub, Offset: e.Offset, Length: e.Length})
	}
	in.indexEntries()
	return in, nil
}

// openIndexedFile opens one file of an index.
func openIndexedFile(s *IndexedFile, o Options) (*file, error) {
	f := &file{path: s.Path, format: formatNamed(s.Format)}
	for _, p := range s.Sections {
		if f.sections == nil {
			f.sections = map[fieldPosition]*grib.Sections{}
		}
		f.sections[fieldPosition{p.Message, p.Sub}] = &p.Sections
	}
	for _, v := range s.Slabs {
		f.slabs = append(f.slabs, variableSlabs{v.First, v.Slab, v.Shape})
	}
	if s.Metadata != nil {
		var err error
		f.zarr, err = zarr.Open(s.Path, zarr.Options{Sparse: o.Sparse, Metadata: s.Metadata})
		return f, err
	}
	var err error
	if f.f, err = filesystem.Open(s.Path); err != nil {
		return nil, exit.ReadError(s.Path, err)
	}
	if f.mark, err = fingerprint.OfOpen(f.f, s.Mark.EndsSHA256); err == nil && (f.mark.Size != s.Mark.Size || !f.mark.Modified.Equal(s.Mark.Modified)) {
		err = errors.New("its size or time of modification differs from that on the rank that indexed it")
	}
	if err != nil {
		f.f.Close()
		return nil, &exit.Error{Code: exit.NotYet, What: "the input file is another one on this rank", At: s.Path, Why: err.Error(), Fix: "give all ranks the same files"}
	}
	f.size = f.mark.Size
	return f, nil
}

// formatNamed returns the format of a name in formats.
func formatNamed(name string) *format {
	i := slices.IndexFunc(formats, func(f format) bool { return f.name == name })
	return &formats[i]
}
